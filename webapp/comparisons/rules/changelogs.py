"""Whether a range of a table's history has a changelog, decided before any job starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webapp.accounts.rules.sight import RowSight
from webapp.catalog.rules.iceberg import Snapshot
from webapp.catalog.rules.metadata import comes_from
from webapp.core.errors import Conflict, InvalidInput


def check_range(snapshots: Sequence[Snapshot], *, start: int | None, end: int | None) -> None:
    """Refuse a range that is no line of history.

    Raises:
        Conflict: an end has expired, or the start is not an ancestor of the end.

    """
    snapshot_ids = {snapshot["snapshot-id"] for snapshot in snapshots}
    for number in (start, end):
        if number is not None and number not in snapshot_ids:
            message = f"The changes of this range are no longer known: snapshot {number} has expired."
            raise Conflict(message, code="expired", snapshot=str(number))
    if start is not None and not comes_from(snapshots, end, start):
        message = f"Snapshot {start} is not an ancestor of snapshot {end}."
        raise Conflict(message, code="not_an_ancestor", start=str(start), end=str(end))


def check_keys(keys: Sequence[str] | None, fields: Sequence[Mapping[str, Any]]) -> None:
    """Refuse identifier columns that the schema at the end of the range does not have; `d.a` is a field of a struct.

    Raises:
        InvalidInput: a column is not there, or none is named.

    """
    if keys is None:
        return
    if not keys:
        message = "Name at least one identifier column, or leave keys out for net changes."
        raise InvalidInput(message, code="no_columns", errors={"keys": [message]})
    fields_by_name = _index_fields(fields)
    missing = [key for key in keys if key not in fields_by_name]
    if missing:
        names = ", ".join(field["name"] for field in fields) or "none"
        why = _explain_missing(missing[0], fields_by_name)
        message = f"Identifier column {missing[0]!r} does not exist; there are {names}.{why and ' '}{why}"
        raise InvalidInput(message, code="no_such_column", errors={"keys": [message]})


def check_seen(names: Iterable[str], sight: RowSight, *, field: str) -> None:
    """Refuse to look rows up by columns that are hidden from the reader: what is found would say what is in them.

    Raises:
        InvalidInput: a column is hidden.

    """
    hidden = sight.pick_hidden(names)
    if hidden:
        message = f"The values of {hidden[0]} are hidden from you: its repository calls them sensitive."
        raise InvalidInput(message, code="hidden_column", errors={field: [message]})


def _index_fields(fields: Sequence[Mapping[str, Any]], outer: str = "") -> dict[str, list[str]]:
    """Return the names of columns and of the fields of structs with dots between, each with the fields inside it."""
    index: dict[str, list[str]] = {}
    for field in fields:
        name, inner = f"{outer}{field['name']}", _list_parts(field)
        index |= {name: [part["name"] for part in inner], **_index_fields(inner, f"{name}.")}
    return index


def _list_parts(field: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    is_struct = isinstance(field["type"], dict) and field["type"]["type"] == "struct"
    return field["type"]["fields"] if is_struct else ()


def _explain_missing(key: str, names: Mapping[str, Sequence[str]]) -> str:
    """Say where a name leaves the columns that there are."""
    outer = max((name for name in names if key.startswith(f"{name}.")), key=len, default="")
    if not outer:
        return ""
    if names[outer]:
        return f"The fields of {outer} are {', '.join(names[outer])}."
    return f"A name cannot go through {outer}, which is no struct."
