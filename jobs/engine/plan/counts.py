"""How many rows a table has: what its newest snapshot says, counted where delete files make that too many."""

from __future__ import annotations

from pyiceberg.table import Table

from jobs.engine.read.metadata import find_head


def count_rows(table: Table) -> int:
    """Return the rows at the head, without those that delete files took away."""
    snapshot = find_head(table.metadata)
    if snapshot is None:
        return 0
    summary = snapshot.summary or {}
    records, deletes = summary.get("total-records"), summary.get("total-delete-files")
    if records is not None and deletes is not None and not int(deletes):
        return int(records)
    return _count_live(table, snapshot.snapshot_id)


def _count_live(table: Table, snapshot_id: int) -> int:
    # most jobs never come here, and need not wait for the import
    import duckdb

    from jobs.engine.plan.planner import plan_step
    from jobs.engine.read.metadata import describe_table
    from jobs.engine.read.scan import Scanner

    metadata = describe_table(table)
    schema = metadata.schemas[table.schema().schema_id]
    files = plan_step(table.io, metadata, schema, before=None, after=snapshot_id).came
    with duckdb.connect(config={"memory_limit": "1GB", "threads": "2"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        scanner = Scanner(connection, metadata, table.io.properties)
        scanner.load_positions("dead", files)
        rows = connection.execute(f"SELECT count(*) FROM ({scanner.live_rows(files, [], dead='dead')})").fetchall()
    return int(rows[0][0])
