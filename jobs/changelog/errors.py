"""The messages of changelogs, each once; classes and words are those that users of the API know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.engine.read.paths import list_instead


class ChangelogError(Exception):
    """`apply_changelog` refused; shown as plain `Exception`, as documented."""


def duplicate_rows(keys: Sequence[str]) -> ValueError:
    """Say that a key that changed has more than one row at the start or the end of the range."""
    return ValueError(f"Duplicate rows found for identifier columns {list(keys)!r} in changelog view.")


def unknown_column(key: str, paths: Mapping[str, tuple[Any, ...]]) -> ValueError:
    """Say that an identifier column does not exist; `paths` are those that do."""
    return ValueError(f"Identifier column {key!r} does not exist; {list_instead(key, paths)}")


def no_list(keys: object) -> ValueError:
    """Say that identifier columns are no list of names: a text would count as its letters."""
    return ValueError(f'Identifier columns are a list of names, such as ["id"], not {keys!r}.')


def no_columns() -> ValueError:
    """Say that the list of identifier columns is empty."""
    return ValueError("Name at least one identifier column.")


def expired(snapshot_id: int) -> ValueError:
    """Say that an end of the range is no longer there."""
    return ValueError(
        f"The changes of this range are no longer known: snapshot {snapshot_id} has expired. Without start= and end=, a "
        "forced build begins from nothing."
    )


def no_ancestor(start: int, end: int) -> ValueError:
    """Say that the range is not a line of history."""
    return ValueError(f"Snapshot {start} is not an ancestor of snapshot {end}.")


def duplicate_changes(keys: Sequence[str]) -> Exception:
    """Say that there is more than one change to apply for a key."""
    return Exception(
        f"apply_changelog failed: duplicate keys detected in changelog dataframe for identifier columns {list(keys)!r}"
    )


def several_rows(keys: Sequence[str]) -> Exception:
    """Say that a key of the changelog has several rows in the destination."""
    return Exception(f"apply_changelog failed: multiple rows in destination table match key {list(keys)!r}")


def other_keys(keys: Sequence[str], original: Sequence[str]) -> Exception:
    """Say that a changelog is applied by other keys than it was made with: rows that changed in them would stay."""
    return cannot_apply(
        f"the changelog was made with identifier columns {list(original)!r}, not {list(keys)!r}: give the same to both"
    )


def keys_of_none_read(keys: Sequence[str], read: Sequence[Sequence[str]]) -> Exception:
    """Say that changes are applied by other keys than those of any changelog that the job has read."""
    names = " or ".join(dict.fromkeys(repr(list(columns)) for columns in read))
    return cannot_apply(
        f"the changelog that this job has read was made with identifier columns {names}, not {list(keys)!r}: give the "
        "same to both; to make changes by other keys of it, read the changelog without keys"
    )


def cannot_apply(why: str) -> Exception:
    """Give any other reason."""
    return Exception(f"apply_changelog failed: {why}")
