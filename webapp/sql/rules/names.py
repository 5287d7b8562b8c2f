"""What a name of a table in a text of SQL means: a dataset's path, or the last part of one in the repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def is_path(name: str) -> bool:
    """Return whether a name is a dataset's path."""
    return name.startswith("/")


def list_called(name: str, paths: Iterable[str]) -> list[str]:
    """Return those of a repository's datasets that a short name may mean; SQL does not know upper case from lower."""
    return sorted(path for path in paths if path.rsplit("/", 1)[1].lower() == name.lower())


def explain_unknown(name: str) -> str:
    """Say of a name that it is no table for who asks, whether or not there is one that they may not read."""
    if is_path(name):
        return f"There is no dataset {name}, or you may not read it."
    hint = 'Name a dataset by its path in double quotes, such as "/nyc/delays/daily".'
    return f"There is no table {name} in this repository, or you may not read it. {hint}"


def explain_ambiguous(name: str, paths: Sequence[str]) -> str:
    """Say that a short name means several datasets."""
    named = ", ".join(f'"{path}"' for path in paths)
    return f"{name} may be {named}: write the path in double quotes."
