"""The folder that a finished diff leaves: what is in it, and how it is written so that nobody sees half of it.

`rows.parquet`     one line per changed row, in key order: `n` counted from 1, `change` (inserted, deleted, updated),
                   `copies` (more than 1 only in net mode), `changed` (indexes of the columns whose values differ),
                   `k<i>` the key value by which rows were matched, `b<i>` and `a<i>` the value before and after of the
                   column with that index in schema.json. A column that a side lacks is NULL there.
`schema.json`      both ends' schema, partition spec and sort order in Iceberg's JSON, the matched columns, and `inside`:
                   those parts of the key that are fields inside a struct column.
`statistics.json`  per column and side; see jobs.engine.measure.statistics.
`summary.json`     the counts; written last, so its presence means that the artifact is whole.
`first/`           the same for the first rows by key alone (all, where they are few), whole long before the rest is:
                   rows.parquet, schema.json, and summary.json with the counts of the whole diff.
`numbers/`         lists of numbers of rows, by what pages asked for; the web's own (webapp/comparisons/diffs/numbers.py).
`progress.json`    rewritten while the diff runs: phase, and counts as soon as they are known.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.engine.plan.columns import Pair
from jobs.engine.read.fields import describe, duckdb_type
from jobs.whole_files import write_whole

if TYPE_CHECKING:
    from jobs.engine.plan.planner import DiffPlan, End
    from jobs.engine.read.fields import Field
    from jobs.protocol import SideRef

VERSION = 1
ROWS, SCHEMA, STATISTICS, SUMMARY, PROGRESS = (
    "rows.parquet",
    "schema.json",
    "statistics.json",
    "summary.json",
    "progress.json",
)
CHANGE_TYPE = "ENUM('deleted', 'inserted', 'updated')"
"""A byte a row, in the order of the words."""
FIRST, FIRST_ROWS = "first", 200
ROW_GROUP = 8_192
"""A page in another order than by key reads a group for each of its rows, and so must be small."""


@dataclass
class ProgressReporter:
    """Tells whoever waits how far the diff is."""

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    _phase: tuple[str, float] | None = None

    def enter(self, phase: str, **facts: Any) -> None:
        """Begin a phase; `facts` are added to what readers see."""
        now = time.monotonic()
        if self._phase is not None:
            name, since = self._phase
            self.timings[name] = round(self.timings.get(name, 0.0) + now - since, 4)
        self._phase = (phase, now)
        self.facts.update(facts)
        write_json(self.folder / PROGRESS, {"phase": phase, **self.facts})


def write_json(path: Path, content: Any) -> None:
    """Write so that a reader sees all of it or what was there before."""
    write_whole(path, json.dumps(content, separators=(",", ":"), default=str))


def describe_schema(plan: DiffPlan, before: SideRef | None, after: SideRef | None) -> dict[str, Any]:
    """Return the content of schema.json."""
    return {
        "version": VERSION,
        "before": _describe_end(plan.before, before),
        "after": _describe_end(plan.after, after),
        "columns": [_describe_pair(pair) for pair in plan.pairs],
        "inside": [_describe_inner(pair) for pair in plan.rules.key_pairs if pair.outer is not None],
    }


def _describe_end(end: End, ref: SideRef | None) -> dict[str, Any] | None:
    if end.metadata is None or end.schema is None or ref is None:
        return None
    spec_id = ref.spec_id if ref.spec_id is not None else end.metadata.default_spec_id
    order_id = ref.order_id if ref.order_id is not None else end.metadata.default_order_id
    return {
        "snapshot_id": end.snapshot_id,
        "schema": end.metadata.raw_schemas[end.schema.id],
        "partition_spec": end.metadata.specs.get(spec_id),
        "sort_order": end.metadata.orders.get(order_id),
    }


def _describe_pair(pair: Pair) -> dict[str, Any]:
    return {
        "index": pair.index,
        "name": pair.name,
        "before": _describe_field(pair.before),
        "after": _describe_field(pair.after),
        "key": pair.is_key,
        "ignored": pair.is_ignored,
        "compared": pair.compared,
        "unreadable": pair.unreadable,
    }


def _describe_inner(pair: Pair) -> dict[str, Any]:
    """Describe a field inside a struct column, by the way that leads to it at each end."""
    ends = (("before", pair.before, pair.path("b")), ("after", pair.after, pair.path("a")))
    ends_of_pair = {
        end: None if field is None else {"path": path, "type": describe(field.type)} for end, field, path in ends
    }
    return {"index": pair.column.index, "name": pair.name, **ends_of_pair}


def _describe_field(field: Field | None) -> dict[str, Any] | None:
    return None if field is None else {"id": field.id, "name": field.name, "type": describe(field.type)}


def stored_columns(pairs: tuple[Pair, ...]) -> list[tuple[str, str]]:
    """Return the value columns of rows.parquet with their DuckDB types."""
    columns = []
    for pair in pairs:
        for prefix, side in (("b", pair.before), ("a", pair.after)):
            type_ = duckdb_type(side.type) if side is not None else None
            if type_ is not None and not pair.unreadable:
                columns.append((f"{prefix}{pair.index}", type_))
    return columns
