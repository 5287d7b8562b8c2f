"""Names of branches and datasets: one grammar for Git, dataset branches, Iceberg and URLs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from webapp.core.characters import UNSEEN, code_point
from webapp.core.errors import BadRequest, InvalidInput

MASTER = "master"
BRANCH_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@=-]{0,199}", re.ASCII)
PART_PATTERN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
GIT_FORBIDDEN = ("..", "//", "@{", "/.", ".lock/")
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that no name has, most of them invisible."""
REF_FOLDERS = frozenset({"refs", "heads", "tags", "remotes"})


_SCRIPTS = (
    frozenset({"LATIN", "HIRAGANA", "KATAKANA", "CJK"}),
    frozenset({"LATIN", "HANGUL", "CJK"}),
    frozenset({"LATIN", "BOPOMOFO", "CJK"}),
)
"""Scripts that people write together; of all others a name has one, as in the highly restrictive level of UTS 39."""
_NO_SCRIPT = frozenset({"MODIFIER", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "MASU"})


def find_disguise(name: str) -> str | None:
    """Return why a name could be taken for another one, as a sentence; None if it cannot.

    Used for names of users, groups, status checks and branches: a rule or a reader trusts the thing by its name.
    """
    for character in name:
        category = unicodedata.category(character)
        if category in _UNSEEN or UNSEEN.match(character) or (character.isspace() and character != " "):
            return f"A name has no invisible characters, such as {code_point(character)} in {name!a}."
        if category[0] in "LN" and unicodedata.normalize("NFKC", character) != character:
            return f"A name has plain letters and digits only: {character!r} ({code_point(character)}) looks like another one."
    if name != name.strip() or "  " in name:
        return "A name neither begins nor ends with a space, nor has two in a row."
    if not unicodedata.is_normalized("NFC", name):
        return f"{name!a} has letters in two parts: write it in Unicode's normal form NFC."
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in name if letter.isalpha()} - _NO_SCRIPT
    if len(scripts) > 1 and not any(scripts <= together for together in _SCRIPTS):
        mixed = ", ".join(sorted(script.capitalize() for script in scripts))
        return f"{name!a} mixes letters of several scripts ({mixed}): some of them look alike."
    return None


def check_is_no_disguise(name: str, *, field: str) -> None:
    """Refuse a name that could be taken for another one.

    Raises:
        InvalidInput: it says why.

    """
    problem = find_disguise(name)
    if problem:
        raise InvalidInput(problem, code="disguised_name", errors={field: [problem]})


def find_branch_problem(name: str) -> str | None:
    """Say what is wrong with a branch name, as a sentence; None when nothing is."""
    if not name:
        return "A branch name may not be empty."
    if name.lower() == "main":
        return "main is Iceberg's name of the branch master; a branch cannot be called main."
    if problem := find_disguise(name):
        return problem
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
