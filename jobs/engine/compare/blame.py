"""Which transactions changed the row of one key, newest first.

Each step compares a transaction with what it stands on. Only the files that differ between the two are looked at, of
them only those whose bounds can hold the key, and of them only the rows with the key; so a step costs what its
transaction wrote near that key. A row that was only carried over or rewritten with equal values is no change.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq

from jobs.engine.errors import ExpiredSnapshotError, InvalidRulesError
from jobs.engine.plan.columns import comparable, part
from jobs.engine.plan.planner import plan_diff
from jobs.engine.read.bounds import Range, may_overlap, ordered_sql
from jobs.engine.read.fields import Primitive, describe, duckdb_type, literal, quote
from jobs.engine.read.paths import field_parts, list_instead, list_paths
from jobs.engine.read.scan import ScanColumn, Scanner
from jobs.engine.write.artifact import PROGRESS, SUMMARY, write_json

if TYPE_CHECKING:
    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.planner import DiffPlan
    from jobs.engine.read.bounds import Bound
    from jobs.engine.read.fields import Field
    from jobs.protocol import BlameRequest, BlameStep

MOST_ROWS = 50
"""Rows of one key that are kept of each side: a key that is none may have any number."""


@dataclass
class Blame:
    """One walk back through a dataset's history."""

    request: BlameRequest
    key_ids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Key column, or field inside one → field ids from the column down, fixed where the walk begins: older schemas may
    call them otherwise."""
    files_read: int = 0
    _known_bounds: dict[Field, Bound | None] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Look at the steps until they or the time are over; returns the summary."""
        folder, deadline = Path(self.request.folder), time.monotonic() + self.request.time_limit_s
        found: list[dict[str, Any]] = []
        following, ended, looked_at = None, "", 0
        for step in self.request.steps:
            if looked_at and time.monotonic() > deadline:
                following = step.transaction
                break
            try:
                change = self._look(step, folder, len(found))
            except ExpiredSnapshotError:
                ended = "expired"
                break
            looked_at += 1
            found += [change] if change is not None else []
            write_json(folder / PROGRESS, {"phase": "looking", "steps": looked_at, "changes": len(found)})
        summary = {
            "changes": found,
            "looked_at": looked_at,
            "next": following,
            "ended": ended,
            "files_read": self.files_read,
        }
        write_json(folder / SUMMARY, summary)
        return summary

    def _look(self, step: BlameStep, folder: Path, number: int) -> dict[str, Any] | None:
        plan = plan_diff(
            before=step.before, after=step.after, ignore=self.request.ignore, io_properties=self.request.io
        )
        if not self.key_ids:
            self._fix_key(plan)
        plan = self._prune(plan)
        if plan.is_empty:
            return None
        self.files_read += plan.files
        with self._connect() as connection:
            return _Step(self, connection, plan, folder, number).compare(step.transaction)

    def _prune(self, plan: DiffPlan) -> DiffPlan:
        """Leave the files that can hold the key; most transactions leave none, and cost nothing more."""
        before, after = (self._bounds(plan, side) for side in ("before", "after"))
        return replace(
            plan,
            left=tuple(file for file in plan.left if may_overlap(file.data, before)),
            came=tuple(file for file in plan.came if may_overlap(file.data, after)),
            shifted=tuple(file for file in plan.shifted if may_overlap(file.before.data, before)),
        )

    def _bounds(self, plan: DiffPlan, side: str) -> list[Range]:
        """What bounds are compared with, for the key columns of a side whose bounds have an order."""
        found = ((column, self._find_bound(column, value)) for _, column, value in self.keys(plan, side))
        return [Range(column, bound, bound) for column, bound in found if bound is not None]

    def _find_bound(self, column: Field, value: str | None) -> Bound | None:
        if column not in self._known_bounds:
            sql = None if value is None else ordered_sql(column, typed(column, value))
            bound = self._ask(sql) if sql else None
            self._known_bounds[column] = bound if isinstance(bound, int | bytes) else None
        return self._known_bounds[column]

    def _ask(self, sql: str) -> Any:
        with self._connect() as connection:
            return connection.execute(f"SELECT {sql}").fetchall()[0][0]

    def keys(self, plan: DiffPlan, side: str) -> list[tuple[str, Field, str | None]]:
        """SQL of the values of the key that a side has, their fields, and what is looked for."""
        columns = columns_of(plan, side)
        found = ((name, _value(columns, ids)) for name, ids in self.key_ids.items())
        return [(*value, self.request.key[name]) for name, value in found if value is not None]

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config=self._config())
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def _config(self) -> dict[str, str | bool | int | float | list[str]]:
        return {
            "memory_limit": f"{self.request.memory_bytes // 2**20}MiB",
            "threads": "2",
            "temp_directory": str(Path(self.request.folder) / ".spill"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }

    def _fix_key(self, plan: DiffPlan) -> None:
        """Learn the fields of the key from the newest schema, and refuse what cannot be its value."""
        fields = plan.after.schema.fields if plan.after.schema is not None else ()
        paths = list_paths(fields, field_parts)
        for name, value in self.request.key.items():
            if name not in paths:
                raise InvalidRulesError(f"Key column {name!r} does not exist; {list_instead(name, paths)}")
            found = paths[name][-1]
            if not isinstance(found.type, Primitive) or duckdb_type(paths[name][0].type) is None:
                raise InvalidRulesError(f"Column {name!r} is a {describe(found.type)}, which cannot be looked up.")
            if value is not None and self._ask(f"{typed(found, value)} IS NULL"):
                raise InvalidRulesError(f"{value!r} is no {describe(found.type)}, which column {name!r} holds.")
            self.key_ids[name] = tuple(outer.id for outer in paths[name])


@dataclass
class _Step:
    """One transaction against what it stands on, in one connection."""

    blame: Blame
    connection: duckdb.DuckDBPyConnection
    plan: DiffPlan
    folder: Path
    number: int

    def compare(self, transaction: str) -> dict[str, Any] | None:
        """Store both sides' rows of the key where they differ."""
        for side in ("before", "after"):
            self._load(side)
        pairs = [pair for pair in self.plan.pairs if pair.compared]
        self._cancel(pairs)
        counts = [self._one(f"SELECT count(*) FROM {side}_net") for side in ("before", "after")]
        if not any(counts):
            return None
        for side in ("before", "after"):
            self._store(side)
        return {
            "transaction": transaction,
            "change": "updated" if all(counts) else "inserted" if counts[1] else "deleted",
            "before": counts[0],
            "after": counts[1],
            "changed": self._changed(pairs) if counts == [1, 1] else [],
        }

    def _one(self, sql: str) -> int:
        # all of it: a result that is not read to its end blocks the connection
        return int(self.connection.execute(sql).fetchall()[0][0])

    def _load(self, side: str) -> None:
        """Make `<side>_key`: the rows of the key among those that may have left or come."""
        end = getattr(self.plan, side)
        keys = self.blame.keys(self.plan, side)
        if end.metadata is None or len(keys) < len(self.blame.request.key):
            self.connection.execute(f"CREATE TEMP TABLE {side}_key AS SELECT 1 AS nothing WHERE false")
            return
        scanner = Scanner(self.connection, end.metadata, self.blame.request.io)
        files, shifted = (self.plan.left if side == "before" else self.plan.came), self.plan.shifted
        for name in ("before", "after"):
            mine = files if name == side else ()
            scanner.load_positions(f"dead_{name}", [*mine, *(getattr(file, name) for file in shifted)])
        columns = columns_of(self.plan, side)
        parts = [scanner.live_rows(files, columns, dead=f"dead_{side}")]
        if shifted:
            parts.append(scanner.moved_rows(shifted, columns, gone=side == "before"))
        tests = [_matches(there, found, value) for there, found, value in keys]
        self.connection.execute(
            f"CREATE TEMP TABLE {side}_key AS SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {' AND '.join(tests)}"
        )

    def _cancel(self, pairs: list[Pair]) -> None:
        """Make `before_net` and `after_net`: what is left once each row has taken an equal one of the other side away."""
        loaded = [self._one(f"SELECT count(*) FROM {side}_key") for side in ("before", "after")]
        values = [
            comparable(pair.before.type, pair.after.type, f"b{pair.index}", f"a{pair.index}")
            for pair in pairs
            if pair.before is not None and pair.after is not None
        ]
        if not all(loaded) or not values:
            for side in ("before", "after"):
                self.connection.execute(f"CREATE TEMP VIEW {side}_net AS SELECT * FROM {side}_key")
            return
        for side, mine in zip(("before", "after"), zip(*values, strict=True), strict=True):
            self.connection.execute(
                f"CREATE TEMP TABLE {side}_copies AS SELECT *, row_number() OVER (PARTITION BY {', '.join(mine)}) AS copy "
                f"FROM {side}_key"
            )
        same = " AND ".join(f"{left} IS NOT DISTINCT FROM {right}" for left, right in values)
        for side, other in (("before", "after"), ("after", "before")):
            self.connection.execute(
                f"CREATE TEMP TABLE {side}_net AS SELECT * FROM {side}_copies m WHERE NOT EXISTS "
                f"(SELECT 1 FROM {other}_copies o WHERE o.copy = m.copy AND {same})"
            )

    def _changed(self, pairs: list[Pair]) -> list[str]:
        """Columns whose values differ between the one row before and the one after."""
        found = []
        for pair in pairs:
            if pair.before is None or pair.after is None:
                continue
            left, right = comparable(pair.before.type, pair.after.type, f"b{pair.index}", f"a{pair.index}")
            if self._one(f"SELECT count(*) FROM before_net, after_net WHERE {left} IS DISTINCT FROM {right}"):
                found.append(pair.name)
        return found

    def _store(self, side: str) -> None:
        """Write the rows of a side under its own names."""
        names = ", ".join(f"{column.alias} AS {quote(column.field.name)}" for column in columns_of(self.plan, side))
        if not self._one(f"SELECT count(*) FROM {side}_net"):
            return
        rows = self.connection.sql(f"SELECT {names} FROM {side}_net LIMIT {MOST_ROWS}").to_arrow_table()
        pq.write_table(rows, self.folder / f"{self.number}-{side}.parquet")


def columns_of(plan: DiffPlan, side: str) -> list[ScanColumn]:
    """The readable columns of a side, `b<i>` or `a<i>`."""
    return [
        ScanColumn(f"{side[0]}{pair.index}", found)
        for pair in plan.pairs
        if (found := getattr(pair, side)) is not None and not pair.unreadable
    ]


def typed(column: Field, value: str) -> str:
    """SQL of a text as a value of a column; NULL where it is none."""
    type_ = duckdb_type(column.type) or "VARCHAR"
    if type_ == "VARCHAR":
        return literal(value)
    return f"try(from_base64({literal(value)}))" if type_ == "BLOB" else f"TRY_CAST({literal(value)} AS {type_})"


def _value(columns: list[ScanColumn], ids: tuple[int, ...]) -> tuple[str, Field] | None:
    """SQL of a column, or of a field inside one, and what it is; None where a side does not have it."""
    column = next((column for column in columns if column.field.id == ids[0]), None)
    if column is None:
        return None
    found, value = column.field, column.alias
    for field_id in ids[1:]:
        inner = next((inner for inner in field_parts(found) if inner.id == field_id), None)
        if inner is None:
            return None
        found, value = inner, part(value, inner)
    return value, found


def _matches(there: str, column: Field, value: str | None) -> str:
    return f"{there} IS NULL" if value is None else f"{there} = {typed(column, value)}"
