"""URL and X-PLTR-Branch → what a request is about. Both are decoded once, here, from what was sent.

The raw path is needed: a decoded one no longer tells `a%2Fb` from `a/b`. And the header decides whose data is read, so
anything about it that is not plain is refused: empty, repeated, or not a legal name is a 400 and never "no branch".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

from webapp.catalog.rules.branch_properties import MAIN_REF, MASTER
from webapp.catalog.rules.errors import Malformed
from webapp.core.names import PART_PATTERN, find_branch_problem

BRANCH_HEADER = "x-pltr-branch"
SEPARATOR = "\x1f"
QUALIFIER = "branch_"
MAX_NAME = 255
# Branches of jobs, open transactions and reviews; people's branches never start with an underscore.
INTERNAL_BRANCH = re.compile(r"_[A-Za-z0-9._/+@=-]{1,199}", re.ASCII)
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Levels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table, or a view, as a request names it, and the branch it is to be seen on (None without the header)."""

    namespace: Levels
    name: str
    branch: str | None = None

    @property
    def table(self) -> str:
        """`nyc.delays.daily`, for messages and the layers above."""
        return ".".join((*self.namespace, self.name))

    @property
    def path(self) -> str:
        """The dataset path; parts that no dataset can have are percent-encoded and so match no dataset."""
        return "/" + "/".join(quote(part, safe="") for part in (*self.namespace, self.name))

    @property
    def is_dataset(self) -> bool:
        """Whether the table's name is one that a dataset can have: only then is the dotted form unambiguous."""
        return all(PART_PATTERN.fullmatch(part) for part in (*self.namespace, self.name))

    def qualified(self) -> "TableRef | None":
        """Return `db.table` on branch x, when the request with a header is for `db.table.branch_x`."""
        if self.branch is None or not self.name.startswith(QUALIFIER) or len(self.namespace) < 2:
            return None
        named = self.name.removeprefix(QUALIFIER)
        branch = self.branch if named == MAIN_REF else named
        if branch not in (self.branch, MASTER) and find_branch_problem(branch) is not None:
            return None
        return TableRef(self.namespace[:-1], self.namespace[-1], branch)


def table_ref(table: str, branch: str | None = None) -> TableRef:
    """Return the reference of a dataset's table, from its dotted name."""
    *levels, name = table.split(".")
    return TableRef(tuple(levels), name, branch)


def read_branch(values: Sequence[str]) -> str | None:
    """Return the branch that a request is for; None stands for master and for no header alike."""
    if not values:
        return None
    if len(values) > 1:
        message = "X-PLTR-Branch was sent more than once"
        raise Malformed(message)
    name = values[0]
    if name in (MASTER, MAIN_REF):
        return None
    if INTERNAL_BRANCH.fullmatch(name):
        return name
    problem = find_branch_problem(name)
    if name.lower() == MASTER:
        problem = f"names are unique without case, {name} would be taken for {MASTER}"
    if problem is not None:
        message = f"X-PLTR-Branch is not a branch name: {problem}"
        raise Malformed(message)
    return name


def is_internal(branch: str) -> bool:
    """Return whether a branch belongs to a job, an open transaction or a review."""
    return branch.startswith("_")


def split_path(raw_path: str) -> tuple[str, ...]:
    """Split a raw path into its segments, each decoded once."""
    return tuple(_decode(segment) for segment in raw_path.strip("/").split("/"))


def read_namespaces(text: str) -> tuple[Levels, ...]:
    """Read the namespaces that a decoded path segment may mean, the likeliest first.

    A client may be configured to separate levels by a point, which a level may contain, too.
    """
    levels = check_levels(text.split(SEPARATOR))
    parts = text.split(".")
    return (levels, tuple(parts)) if len(levels) == 1 and len(parts) > 1 and all(parts) else (levels,)


def read_parents(text: str) -> tuple[Levels, ...]:
    """Read the namespaces that a query parameter may mean, the likeliest first.

    Some clients encode each level before the whole is encoded as a parameter, some even the separator; others do not.
    """
    literal = check_levels(text.split(SEPARATOR))
    decoded = check_levels(_decode(part) for part in re.split("\x1f|%1f", text, flags=re.IGNORECASE))
    is_plain = SEPARATOR in text or "%1f" not in text.lower()
    readings = [literal, decoded] if is_plain else [decoded, literal]
    return tuple(dict.fromkeys([*readings, *read_namespaces(text)]))


def check_levels(levels: Iterable[object]) -> Levels:
    """Check that namespace levels can be stored."""
    checked = tuple(check_name(level, what="namespace") for level in levels)
    if not checked:
        message = "Invalid namespace: it has no levels"
        raise Malformed(message)
    return checked


def check_name(name: object, *, what: str) -> str:
    """Check that a name can be stored: not empty, no control characters, of bounded length."""
    if not isinstance(name, str) or not name or len(name) > MAX_NAME or CONTROL.search(name):
        message = f"Invalid {what} name: {name!r}"
        raise Malformed(message)
    return name


def read_identifier(body: object) -> TableRef:
    """Read the table or view that a request body names."""
    if not isinstance(body, dict) or not isinstance(body.get("namespace"), list):
        message = "Cannot parse table identifier: expected namespace and name"
        raise Malformed(message)
    return TableRef(check_levels(body["namespace"]), check_name(body.get("name"), what="table"))


def _decode(segment: str) -> str:
    # Java's clients write a space as "+"; every client writes a plus as %2B.
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError as error:
        message = "Cannot decode path: not UTF-8"
        raise Malformed(message) from error
