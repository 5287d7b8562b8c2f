"""Changelogs: the rows that changed in a range of snapshots, and applying them elsewhere.

Modules:
    plan: what a changelog has to read: the range of history, and the sides of each step.
    ranges: which snapshots a changelog is about, and the number of each.
    rows: rows at a snapshot, and those in which two snapshots may differ.
    keys: the key of a changelog.
    net: which rows came and went between two snapshots, and in which of them.
    identifier: the net changes of each key, as one update, insert or delete.
    spark: what `identifier` and `net` do, by Spark.
    marks: with which keys a changelog was made, in the metadata of its columns.
    apply: a changelog applied to a table by key, as one snapshot or none.
    merge: what `apply` does, as one MERGE of Spark.
    errors: the messages of changelogs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.table import Table

from jobs.changelog import identifier, net
from jobs.changelog.apply import apply_changelog
from jobs.changelog.marks import make_marks, mark_schema
from jobs.changelog.plan import ORDINAL, TYPE, ChangelogPlan, Images, plan_changelog
from jobs.changelog.rows import ChangelogSource, connect, listed

__all__ = ["ChangelogPlan", "apply_changelog", "compute_changelog", "plan_changelog", "read_changelog"]


def read_changelog(
    table: Table, *, keys: Sequence[str] | None, start: int | None, end: int | None, images: Images = "first"
) -> pa.Table:
    """Return the changes after snapshot `start` (None: from nothing) up to `end` (None: the branch's head).

    With keys by identifier, without as net changes; see `IcebergInput.changelog_arrow`.
    """
    return compute_changelog(plan_changelog(table, keys=keys, start=start, end=end, images=images))


def compute_changelog(plan: ChangelogPlan) -> pa.Table:
    """Compute a changelog here, in bounded memory with spill."""
    names, keys = plan.names, plan.keys
    if not names:
        return pa.table({TYPE: pa.array([], pa.string()), ORDINAL: pa.array([], pa.int32())})
    with connect() as connection:
        source = ChangelogSource(connection, plan.table)
        net.collect_events(connection, source, plan.steps, names)
        if keys is None or plan.images == "first":
            net.make_net(connection, names)
        if keys is not None:
            identifier.check_unique(connection, source, keys, (plan.start, plan.until))
            if plan.images == "latest":
                identifier.check_before_last(connection, source, keys, plan.until)
                identifier.latest(connection, keys, names)
            else:
                identifier.first_and_last(connection, keys, names)
        relation = "net" if keys is None else "by_key"
        # the row that came before the one that left, for whoever keeps the first of those with the highest ordinal
        order = "ORDER BY changelog__ordinal, changelog__change DESC" if keys is None else ""
        query = f"SELECT {listed(names)}, changelog__change AS {TYPE}, CAST(changelog__ordinal AS INTEGER) AS {ORDINAL} FROM {relation}"
        rows = connection.sql(f"{query} {order}").to_arrow_table()
    fields = [*plan.table.schema().as_arrow(), pa.field(TYPE, pa.string()), pa.field(ORDINAL, pa.int32())]
    return rows.cast(mark_schema(pa.schema(fields), make_marks(keys)))
