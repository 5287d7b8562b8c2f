"""The embedded executor: one plan in, one artifact out, in bounded memory with spill."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.compare.changes import Changes
from jobs.engine.compare.decoded import check_decoded
from jobs.engine.compare.lineage import count_versions
from jobs.engine.errors import DiskLimitError, MemoryLimitError, UnreadableTableError
from jobs.engine.measure import statistics
from jobs.engine.plan.planner import plan_diff
from jobs.engine.plan.router import Decision
from jobs.engine.plan.rules import check_tolerance, filter_columns, read_filter
from jobs.engine.read.fields import Primitive, holds, literal
from jobs.engine.write import artifact
from jobs.protocol import DiffRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.engine.plan.columns import Pair

    Reduce = Callable[["Embedded"], Decision]

_LARGE_BYTES = 256 * 2**20
"""Compressed bytes to compare, from which on counts by row ids are there seconds before the compared ones."""
_SORT_COLUMNS = 32
_MIB_OF_A_COLUMN = 2
"""Buffers of both images of a column, however few rows there are: beyond the first hundred they have memory of their own."""
_FEW_COLUMNS = 100
_MOST_MIB = 2048
_FEW_VALUES = 500_000
"""Stored values that are written in some hundredths of a second."""


@dataclass
class Embedded(Changes):
    """One diff in one DuckDB connection."""

    reduce: Reduce | None = None
    """Decides who compares, and has the rows reduced where that is not this process."""
    decision: Decision = field(default_factory=lambda: Decision("embedded", ""))

    def run(self) -> dict[str, Any]:
        """Compute and store the diff; returns the summary."""
        self.progress.enter("planning")
        request = self.request
        check_tolerance(request.tolerance)
        self.filter = read_filter(request.row_filter)
        self.plan = plan_diff(
            before=request.before,
            after=request.after,
            key=request.key or (),
            ignore=request.ignore,
            filtered=filter_columns(self.filter),
            io_properties=request.io,
        )
        artifact.write_json(
            self.folder / artifact.SCHEMA,
            artifact.describe_schema(self.plan, self.key_pairs, request.before, request.after),
        )
        self.progress.enter(
            "comparing",
            files=self.plan.files,
            bytes=self.plan.bytes,
            rows=self.plan.rows,
            executor="embedded",
        )
        self._make_room_for_columns()
        check_decoded(self, with_rows=self.reduce is None)
        if self.plan.bytes >= _LARGE_BYTES:
            self.progress.enter("comparing", by_row_ids=count_versions(self))
        if self.reduce is not None:
            self.decision = self.reduce(self)
            self.progress.enter("comparing", executor=self.decision.executor)
            if self.decision.executor == "embedded":
                check_decoded(self, with_rows=True)
        self._create_views()
        mode, trouble = self._compare()
        summary = self._summary(mode, trouble)
        self.progress.enter("writing", summary=summary)
        self._write_artifact(mode, summary)
        self.progress.enter("statistics")
        artifact.write_json(self.folder / artifact.STATISTICS, statistics.collect(self, summary))
        self.progress.enter("ready")
        summary["timings_s"] = self.progress.timings
        artifact.write_json(self.folder / artifact.SUMMARY, summary)
        return summary

    def _make_room_for_columns(self) -> None:
        usual = self.request.memory_bytes // 2**20
        wide = min(usual + (len(self.plan.pairs) - _FEW_COLUMNS) * _MIB_OF_A_COLUMN, _MOST_MIB)
        if wide > usual:
            self.connection.execute(f"SET memory_limit = '{wide}MiB'")

    def _summary(self, mode: str, trouble: dict[str, Any] | None) -> dict[str, Any]:
        inserted, deleted, updated, distinct = self.one(
            "SELECT coalesce(sum(copies) FILTER (change = 'inserted'), 0)::BIGINT, "
            "coalesce(sum(copies) FILTER (change = 'deleted'), 0)::BIGINT, "
            "count(*) FILTER (change = 'updated'), count(*) FROM changes"
        )
        same = self._shared_live_rows()
        before, after = (self.compared.get(side, 0) + same for side in ("b", "a"))
        unchanged = before - deleted - updated
        if unchanged != after - inserted - updated or unchanged < 0:
            raise UnreadableTableError(
                f"The counts do not add up ({before} rows before, {after} after, {inserted} inserted, {deleted} "
                f"deleted, {updated} updated): a file of the table does not hold what its manifest says."
            )
        matches = self._column_matches(mode, unchanged + updated)
        return {
            "version": artifact.VERSION,
            "mode": mode,
            "key": [pair.name for pair in self.key_pairs] if mode == "identifier" else None,
            "key_trouble": trouble,
            "inserted": inserted,
            "deleted": deleted,
            "updated": updated,
            "unchanged": unchanged,
            "before_rows": before,
            "after_rows": after,
            "cells_changed": sum(column["changed"] for column in matches if column["changed"] is not None),
            "columns": matches,
            "stored_rows": min(distinct, self.request.row_limit),
            "is_complete": distinct <= self.request.row_limit,
            "warnings": self.warnings,
            "row_filter": self.request.row_filter,
            "ignored": [pair.name for pair in self.plan.pairs if pair.is_ignored],
            "executor": self.decision.executor,
            "executor_reason": self.decision.reason,
            "files_read": self.plan.files,
            "bytes_read": self.plan.bytes,
            "rows_read": sum(self.compared.values()),
            "manifests_read": self.plan.manifests_read,
            "manifests_shared": self.plan.manifests_shared,
        }

    def _shared_live_rows(self) -> int:
        """Rows that both ends have in the same files."""
        if self.reduced is not None:
            return self.reduced.counted.shared
        if self.filter is None and not self.plan.shared_has_deletes and not self.plan.shifted:
            return self.plan.shared_records
        counted = None if self.filter is not None else self.count_untouched()
        return int(self.one(f"SELECT count(*) FROM ({self.untouched('b', [])})")[0]) if counted is None else counted

    def _column_matches(self, mode: str, common: int) -> list[dict[str, Any]]:
        """Per column how many of the common rows have another value."""
        compared = {pair.index for pair in self.value_pairs} if mode == "identifier" else set()
        counts: dict[int, int] = {}
        if compared:
            tests = [f"count(*) FILTER ({self.differs(pair)})" for pair in self.value_pairs]
            row = self.one(f"SELECT {', '.join(tests)} FROM changes WHERE change = 'updated'")
            counts = dict(zip((pair.index for pair in self.value_pairs), row, strict=True))
        return [
            {
                "index": pair.index,
                "name": pair.name,
                "changed": counts.get(pair.index),
                "match_rate": 1 - counts[pair.index] / common if pair.index in counts and common else None,
            }
            for pair in self.plan.pairs
        ]

    def _write_artifact(self, mode: str, summary: dict[str, Any]) -> None:
        """Store the changed rows, and before them the first by key as an artifact of their own.

        That one is readable while the whole is sorted and written. Few rows are written as fast as the first of them,
        and once.
        """
        first, rows = self.folder / artifact.FIRST, summary["stored_rows"]
        first.mkdir()
        first.chmod(0o777)  # whoever owns the artifact removes it, and need not be the user of this process
        is_small = rows * len(artifact.stored_columns(self.plan.pairs)) <= _FEW_VALUES
        shown = rows if is_small else min(artifact.FIRST_ROWS, rows)
        self._write_rows(mode, first, shown, summary["columns"])
        shutil.copyfile(self.folder / artifact.SCHEMA, first / artifact.SCHEMA)
        artifact.write_json(first / artifact.SUMMARY, {**summary, "stored_rows": shown})
        if is_small:
            (self.folder / artifact.ROWS).hardlink_to(first / artifact.ROWS)
        else:
            self._write_rows(mode, self.folder, rows, summary["columns"])

    def _write_rows(self, mode: str, folder: Path, rows: int, matches: list[dict[str, Any]]) -> None:
        """Store the first so many changed rows by key."""
        pairs = self.plan.pairs
        stored = ", ".join(name for name, _ in artifact.stored_columns(pairs))
        keys = self.key_pairs if mode == "identifier" else []
        matched = ", ".join(f"{artifact.match_value(pair)} AS k{i}" for i, pair in enumerate(keys))
        differing = {match["index"] for match in matches if match["changed"]}
        tests = [
            f"CASE WHEN {self.differs(pair)} THEN {pair.index} END"
            for pair in self.value_pairs
            if pair.index in differing
        ]
        changed = (
            f"CASE WHEN change = 'updated' THEN list_filter([{', '.join(tests)}], lambda x: x IS NOT NULL) ELSE [] END"
            if tests
            else "[]"
        )
        chosen = "".join(f", {part}" for part in (matched, stored) if part)
        # what is made of a row is made when its place is known: few are among the first, and sorted rows stay narrow
        packed, unpacked = self._pack(matches)
        ordered = f"SELECT change, copies{packed} FROM changes ORDER BY {self._order(mode)} LIMIT {rows}"
        target = folder / f".{artifact.ROWS}"
        self.connection.execute("SET preserve_insertion_order = true")
        self.connection.execute(
            f"COPY (SELECT row_number() OVER () AS n, change, copies, CAST({changed} AS SMALLINT[]) AS changed{chosen} "
            f"FROM (SELECT change, copies{unpacked} FROM ({ordered}))) "
            f"TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, "
            f"ROW_GROUP_SIZE {artifact.ROW_GROUP})"
        )
        self.connection.execute("SET preserve_insertion_order = false")
        target.replace(folder / artifact.ROWS)

    def _pack(self, matches: list[dict[str, Any]]) -> tuple[str, str]:
        """SQL of the stored values to sort, in which those that both ends share are there once, and of all out of them."""
        shared = {
            f"{side}{pair.index}"
            for pair in self.unchanged_pairs(matches)
            # two zeros are equal and not the same
            if pair.before is not None and not holds(pair.before.type, Primitive, "float", "double")
            for side in "ba"
        }
        packed, unpacked = [], []
        for name, _ in artifact.stored_columns(self.plan.pairs):
            if name not in shared:
                packed.append(name)
                unpacked.append(name)
                continue
            index = name[1:]
            if name[0] == "b":
                packed.append(f"CASE WHEN change = 'deleted' THEN b{index} ELSE a{index} END AS v{index}")
            lacking = "inserted" if name[0] == "b" else "deleted"
            unpacked.append(f"CASE WHEN change <> '{lacking}' THEN v{index} END AS {name}")
        return "".join(f", {part}" for part in packed), "".join(f", {part}" for part in unpacked)

    def unchanged_pairs(self, matches: list[dict[str, Any]]) -> list[Pair]:
        """The columns of one type that have equal values at both ends of every row that both have."""
        differing = {match["index"] for match in matches if match["changed"]}
        return [
            pair
            for pair in self.plan.pairs
            if pair.compared and pair.index not in differing and pair.is_one_type and not self.tolerance(pair)
        ]

    def _order(self, mode: str) -> str:
        """By key, which no two rows share; without one by its columns that exist, the compared ones, and the change."""
        if mode == "identifier":
            chosen, rest = self.key_pairs, []
        else:
            first = [pair for pair in self.key_pairs if not pair.unreadable]
            others = [pair for pair in self.plan.pairs if not pair.unreadable and pair not in first]
            chosen = [*first, *sorted(others, key=lambda pair: not pair.compared)][:_SORT_COLUMNS]
            rest = ["change"]
        return ", ".join([*(f"{artifact.match_value(pair)} NULLS LAST" for pair in chosen), *rest])


def _read_limit(connection: duckdb.DuckDBPyConnection) -> str:
    row = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    return str(row[0]).replace(".0 ", " ") if row else ""


def run_diff(request: DiffRequest, *, on_connect: Any = None, reduce: Reduce | None = None) -> dict[str, Any]:
    """Make the artifact of one diff.

    `on_connect` gets the connection, to interrupt it from another thread, and None before it is closed. `reduce` may
    have another executor find the rows that differ; without it this process reads all of them.
    """
    folder = Path(request.folder)
    spill = folder / ".spill"
    progress = artifact.ProgressReporter(folder)
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{request.memory_bytes // 2**20}MiB",
            "threads": str(request.threads),
            "temp_directory": str(spill),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        },
    )
    try:
        connection.execute("SET TimeZone = 'UTC'")
        if on_connect is not None:
            on_connect(connection)
        return Embedded(request, folder, progress, connection, reduce=reduce).run()
    except duckdb.OutOfMemoryException as error:
        if "max_temp_directory_size" in str(error) or "No space left" in str(error):
            raise DiskLimitError("There is no room left on the disk to compare these rows.") from error
        raise MemoryLimitError(
            f"Comparing {progress.known.get('rows', 'these')} rows does not fit into {_read_limit(connection)} of memory."
        ) from error
    except duckdb.IOException as error:
        if "No space left" in str(error):
            raise DiskLimitError("There is no room left on the disk to compare these rows.") from error
        raise UnreadableTableError(f"A file of the table cannot be read: {error}") from error
    except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raise UnreadableTableError(f"A file of the table does not fit its schema: {error}") from error
    finally:
        if on_connect is not None:
            on_connect(None)
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)
