"""Changelogs: the rows that changed in a range of snapshots, and applying them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pyiceberg.table import Table

from jobs.changelog import identifier, net
from jobs.changelog.apply import apply_changelog
from jobs.changelog.rows import Source, connect, listed

__all__ = ["apply_changelog", "read_changelog"]


def read_changelog(
    table: Table,
    *,
    keys: Sequence[str] | None,
    start: int | None,
    end: int | None,
    images: Literal["first", "latest"] = "first",
) -> pa.Table:
    """Return the changes after snapshot `start` (None: from nothing) up to `end` (None: the branch's head).

    With keys by identifier, without as net changes; see `IcebergInput.changelog_arrow`.
    """
    if images not in ("first", "latest"):
        message = f"images is 'first' or 'latest', not {images!r}"
        raise ValueError(message)
    schema = table.schema()
    names = [field.name for field in schema.fields]
    if keys is not None:
        identifier.check_keys(list(keys), names)
    if not names:
        return pa.table({net.TYPE: pa.array([], pa.string()), net.ORDINAL: pa.array([], pa.int32())})
    head = table.current_snapshot()
    until = end if end is not None else (head.snapshot_id if head else None)
    snapshots = [] if until is None else net.list_range(table, start, until)
    with connect() as connection:
        source = Source(connection, table)
        net.collect_events(connection, table, source, start, snapshots)
        if keys is None or images == "first":
            net.make_net(connection, names)
        if keys is not None:
            identifier.check_unique(connection, source, keys, (start, until))
            (identifier.latest if images == "latest" else identifier.first_and_last)(connection, keys, names)
        relation = "net" if keys is None else "told"
        # the row that came before the one that left, for whoever keeps the first of those with the highest ordinal
        order = "ORDER BY __ordinal, __change DESC" if keys is None else ""
        query = f"SELECT {listed(names)}, __change AS {net.TYPE}, CAST(__ordinal AS INTEGER) AS {net.ORDINAL} FROM {relation}"
        found = connection.sql(f"{query} {order}").to_arrow_table()
    fields = [*schema.as_arrow(), pa.field(net.TYPE, pa.string()), pa.field(net.ORDINAL, pa.int32())]
    return found.cast(pa.schema(fields))
