"""Names of branches and datasets: one grammar for Git, dataset branches, Iceberg and URLs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from webapp.core.errors import BadRequest, InvalidInput

MASTER = "master"
BRANCH_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@=-]{0,199}", re.ASCII)
PART_PATTERN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
GIT_FORBIDDEN = ("..", "//", "@{", "/.", ".lock/")
REF_FOLDERS = frozenset({"refs", "heads", "tags", "remotes"})


def find_branch_problem(name: str) -> str | None:
    """Say what is wrong with a branch name, as a sentence; None when nothing is."""
    if not name:
        return "A branch name may not be empty."
    if name.lower() == "main":
        return "main is Iceberg's name of the branch master; a branch cannot be called main."
    if len(name) > 200:
        return f"A branch name has at most 200 characters, this one has {len(name)}."
    if not BRANCH_PATTERN.fullmatch(name):
        return f"{name!r} is no legal branch name: letters, digits and . _ / + @ = - only, a letter or digit first."
    if name.endswith(("/", ".", ".lock")) or any(bad in name for bad in GIT_FORBIDDEN):
        return f"{name!r} is not legal for Git: no '..', '//', '@{{', no part that starts with '.' or ends in '.lock'."
    return None


def check_branch_name(name: str) -> str:
    """Return the name if people may use it for a branch.

    Raises:
        InvalidInput: it may not be used; the message says why.

    """
    problem = find_branch_problem(name)
    if problem:
        raise InvalidInput(problem, code="branch_name", errors={"name": [problem]})
    return name


def find_ref_problem(name: str) -> str | None:
    """Say why Git and people would take a branch's name for the path of another ref; None when they would not."""
    if name.split("/", 1)[0].lower() not in REF_FOLDERS:
        return None
    return (
        f"{name!r} means something else to Git: refs/, heads/, tags/ and remotes/ begin the path of a ref, "
        "as heads/master is that of master. Choose another name for a branch."
    )


def check_is_no_ref(name: str) -> None:
    """Refuse the name of a new branch that would be taken for another ref; a branch that is there keeps its name.

    Raises:
        BadRequest: for REST, pages and catalog alike; clients do not send it again.

    """
    problem = find_ref_problem(name)
    if problem:
        raise BadRequest(problem, code="branch_name", errors={"name": [problem]})


def check_spelling(name: str, spellings: Iterable[str]) -> None:
    """Refuse a second spelling of a branch that is there: names are unique without case.

    Readers of it would be shown what another branch falls back to, and its first write could never be taken.

    Raises:
        BadRequest: for readers and writers alike; clients do not send it again.

    """
    other = next((other for other in spellings if other != name and other.lower() == name.lower()), None)
    if other is not None:
        message = f"There is a branch {other}, and names are unique without case: write {other}, not {name}."
        raise BadRequest(message, code="branch_spelling", errors={"branch": [message]})


def is_dataset_path(path: str) -> bool:
    """Return whether `split_dataset_path` would split it."""
    parts = path.split("/")
    return len(parts) > 2 and not parts[0] and all(map(PART_PATTERN.fullmatch, parts[1:]))


def split_dataset_path(path: str) -> tuple[str, ...]:
    """Split /nyc/delays/daily into ("nyc", "delays", "daily").

    Raises:
        InvalidInput: not a dataset path.

    """
    parts = tuple(path.split("/"))[1:]
    if not path.startswith("/") or len(parts) < 2 or not all(PART_PATTERN.fullmatch(part) for part in parts):
        raise InvalidInput(
            f"{path!r} is no dataset path: two or more parts of letters, digits, _ and -, such as /nyc/delays/daily.",
            code="dataset_path",
            errors={"path": ["Write it as /folder/name."]},
        )
    return parts


def table_name(path: str) -> str:
    """Return nyc.delays.daily of /nyc/delays/daily."""
    return ".".join(split_dataset_path(path))


def dataset_path(namespace: Sequence[str], table: str) -> str:
    """Return /nyc/delays/daily of namespace (nyc, delays) and table daily."""
    return "/" + "/".join([*namespace, table])


def folder_of(path: str) -> str:
    """Return the top folder of a dataset path, which decides whose rights hold: nyc of /nyc/delays/daily."""
    return split_dataset_path(path)[0]
