"""Whether a range of a table's history has a changelog, decided before any job starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webapp.core.errors import Conflict, InvalidInput

Snapshots = Mapping[int, Mapping[str, Any]]


def index_snapshots(metadata: Mapping[str, Any]) -> Snapshots:
    """Return a table's snapshots by id."""
    return {int(one["snapshot-id"]): one for one in metadata.get("snapshots") or ()}


def check_range(snapshots: Snapshots, *, start: int | None, end: int | None) -> None:
    """Refuse a range that is no line of history.

    Raises:
        Conflict: an end has expired, or the start is not an ancestor of the end.

    """
    for one in (start, end):
        if one is not None and one not in snapshots:
            message = f"Snapshot {one} has expired, so the changes since then cannot be told."
            raise Conflict(message, code="expired", snapshot=str(one))
    if start is not None and start not in list_ancestors(snapshots, end):
        message = f"Snapshot {start} is not an ancestor of snapshot {end}."
        raise Conflict(message, code="not_an_ancestor", start=str(start), end=str(end))


def list_ancestors(snapshots: Snapshots, head: int | None) -> list[int]:
    """Return a snapshot and those it stands on, newest first, as far as they are known."""
    line: list[int] = []
    while head is not None and head in snapshots:
        line.append(head)
        head = snapshots[head].get("parent-snapshot-id")
    return line


def check_keys(keys: Sequence[str] | None, names: Iterable[str]) -> None:
    """Refuse identifier columns that the end of the range does not have.

    Raises:
        InvalidInput: a column is not there, or none is named.

    """
    if keys is None:
        return
    names = list(names)
    if not keys:
        message = "Name at least one identifier column, or none at all for net changes."
        raise InvalidInput(message, code="no_columns", errors={"keys": [message]})
    missing = [key for key in keys if key not in names]
    if missing:
        message = f"Identifier column {missing[0]!r} does not exist; there are {', '.join(names) or 'none'}."
        raise InvalidInput(message, code="no_such_column", errors={"keys": [message]})
