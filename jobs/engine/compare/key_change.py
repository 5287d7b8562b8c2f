"""How one transaction changed the rows of one key: both ends' rows that no equal one of the other end takes away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from jobs.engine.compare.file_rows import NAMES
from jobs.engine.plan.columns import comparable, scan_columns
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import quote
from jobs.engine.read.scan import Scanner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import duckdb

    from jobs.engine.compare.row_key import RowKey
    from jobs.engine.plan.planner import DiffPlan

MOST_ROWS = 50
"""Rows of one key that are kept of each side: a key that is none may have any number."""


@dataclass(frozen=True)
class KeyChange:
    """The rows of a key that differ between two ends, in the tables `before_net` and `after_net`."""

    connection: duckdb.DuckDBPyConnection
    plan: DiffPlan

    def describe(self) -> dict[str, Any] | None:
        """Say what happened to the rows; None where nothing did."""
        before, after = (self._count(f"{name}_net") for name in NAMES.values())
        if not before and not after:
            return None
        return {
            "change": "updated" if before and after else "inserted" if after else "deleted",
            "before": before,
            "after": after,
            "changed": self._changed_columns() if before == after == 1 else [],
        }

    def store(self, folder: Path, number: int) -> None:
        """Write the rows of each end under that end's names."""
        for side, name in NAMES.items():
            if not self._count(f"{name}_net"):
                continue
            columns = scan_columns(self.plan.pairs, side)
            names = ", ".join(f"{column.alias} AS {quote(column.field.name)}" for column in columns)
            rows = self.connection.sql(f"SELECT {names} FROM {name}_net LIMIT {MOST_ROWS}").to_arrow_table()
            pq.write_table(rows, folder / f"{number}-{name}.parquet")

    def _count(self, rows: str) -> int:
        return int(first_row(self.connection, f"SELECT count(*) FROM {rows}")[0])

    def _changed_columns(self) -> list[str]:
        """List the columns whose values differ between the one row before and the one after."""
        return [
            name
            for name, (before, after) in _compared_values(self.plan).items()
            if self._count(f"before_net, after_net WHERE {before} IS DISTINCT FROM {after}")
        ]


def find_key_change(
    connection: duckdb.DuckDBPyConnection, plan: DiffPlan, key: RowKey, io_properties: Mapping[str, str]
) -> KeyChange:
    """Read the rows of a key among those that may have left or come, and cancel those that are equal."""
    for side in NAMES:
        _load_rows(connection, plan, key, side, io_properties)
    _cancel_equal(connection, list(_compared_values(plan).values()))
    return KeyChange(connection, plan)


def _compared_values(plan: DiffPlan) -> dict[str, tuple[str, str]]:
    """Return SQL of the values of both ends, by the name of the column."""
    return {
        pair.name: comparable(pair.before.type, pair.after.type, f"b{pair.index}", f"a{pair.index}")
        for pair in plan.pairs
        if pair.compared and pair.before is not None and pair.after is not None
    }


def _load_rows(
    connection: duckdb.DuckDBPyConnection, plan: DiffPlan, key: RowKey, side: str, io_properties: Mapping[str, str]
) -> None:
    """Make `before_key` or `after_key`."""
    name, parts, metadata = NAMES[side], key.parts(plan, side), plan.end(side).metadata
    if metadata is None or len(parts) < len(key.values):
        connection.execute(f"CREATE TEMP TABLE {name}_key AS SELECT 1 AS nothing WHERE false")
        return
    scanner, files = Scanner(connection, metadata, io_properties), plan.own_files(side)
    for end, end_name in NAMES.items():
        own = files if end == side else ()
        scanner.load_positions(f"dead_{end_name}", [*own, *(getattr(file, end_name) for file in plan.shifted)])
    columns = scan_columns(plan.pairs, side)
    rows = [scanner.live_rows(files, columns, dead=f"dead_{name}")]
    if plan.shifted:
        rows.append(scanner.moved_rows(plan.shifted, columns, gone=side == "b"))
    matches = " AND ".join(part.matches for part in parts)
    connection.execute(f"CREATE TEMP TABLE {name}_key AS SELECT * FROM ({' UNION ALL '.join(rows)}) WHERE {matches}")


def _cancel_equal(connection: duckdb.DuckDBPyConnection, values: list[tuple[str, str]]) -> None:
    """Make `before_net` and `after_net`: what is left once each row has taken an equal one of the other side away."""
    loaded = [first_row(connection, f"SELECT count(*) FROM {name}_key")[0] for name in NAMES.values()]
    if not all(loaded) or not values:
        for name in NAMES.values():
            connection.execute(f"CREATE TEMP VIEW {name}_net AS SELECT * FROM {name}_key")
        return
    for name, own in zip(NAMES.values(), zip(*values, strict=True), strict=True):
        number = f"row_number() OVER (PARTITION BY {', '.join(own)})"
        connection.execute(f"CREATE TEMP TABLE {name}_copies AS SELECT *, {number} AS copy FROM {name}_key")
    same = " AND ".join(f"{before} IS NOT DISTINCT FROM {after}" for before, after in values)
    for name, opposite in (("before", "after"), ("after", "before")):
        connection.execute(
            f"CREATE TEMP TABLE {name}_net AS SELECT * FROM {name}_copies own WHERE NOT EXISTS "
            f"(SELECT 1 FROM {opposite}_copies other WHERE other.copy = own.copy AND {same})"
        )
