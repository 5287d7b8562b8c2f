"""The rows of both ends as this process reads them from files, as SQL of one DuckDB connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jobs.engine.plan.columns import scan_columns
from jobs.engine.read.bounds import may_overlap
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import duckdb_type
from jobs.engine.read.scan import Scanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import duckdb

    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.planner import DiffPlan
    from jobs.engine.read.bounds import Range, Values
    from jobs.engine.read.live_files import LiveFile
    from jobs.engine.read.scan import ScanColumn

NAMES = {"b": "before", "a": "after"}
"""What the ends are called in names of tables and in summaries; their columns begin with the letter."""
_DEAD = {side: f"dead_{name}" for side, name in NAMES.items()}


@dataclass(frozen=True)
class FileRows:
    """The files of one diff, read in one connection; each is opened when its rows are first asked for."""

    connection: duckdb.DuckDBPyConnection
    plan: DiffPlan
    io_properties: Mapping[str, str]
    scanners: dict[str, Scanner] = field(default_factory=dict)
    """Readers by the location of the metadata: both ends share one when they share that."""

    def scanner(self, side: str) -> Scanner | None:
        """Return the reader of one end's files; None where there is no such end."""
        metadata = self.plan.end(side).metadata
        if metadata is None:
            return None
        if metadata.location not in self.scanners:
            self.scanners[metadata.location] = Scanner(self.connection, metadata, self.io_properties)
        return self.scanners[metadata.location]

    @cached_property
    def dead(self) -> Mapping[str, str]:
        """The tables of the deleted positions of the files that the plan names, by end."""
        for side, table in _DEAD.items():
            scanner = self.scanner(side)
            if scanner is not None:
                scanner.load_positions(table, self.plan.files_to_compare(side))
        return _DEAD

    @cached_property
    def to_compare(self) -> Mapping[str, str]:
        """The views of the rows that one end has in the files that the plan names and the other may not have, by end."""
        dead = self.dead
        return {side: self._view_rows(side, dead[side]) for side in NAMES}

    def _view_rows(self, side: str, dead: str) -> str:
        plan, name, scanner = self.plan, NAMES[side], self.scanner(side)
        view = f"{name}_files"
        if scanner is None:
            self.connection.execute(f"CREATE TEMP VIEW {view} AS SELECT 1 AS nothing WHERE false")
            return view
        columns, files = scan_columns(plan.pairs, side), plan.own_files(side)
        parts = [scanner.live_rows(files, columns, dead=dead)] if files else []
        if plan.shifted:
            # few rows of large files: found once, asked for often
            moved = scanner.moved_rows(plan.shifted, columns, gone=side == "b")
            self.connection.execute(f"CREATE TEMP TABLE {name}_moved AS {moved}")
            parts.append(f"SELECT * FROM {name}_moved")
        rows = " UNION ALL ".join(parts) or scanner.live_rows((), columns, dead=dead)
        self.connection.execute(f"CREATE TEMP VIEW {view} AS {plan.rules.choose(rows, side)}")
        return view

    def of_files(self, side: str, files: Sequence[LiveFile]) -> str:
        """Select those of the rows to compare that stand in some of the files that only one end lists."""
        scanner = self.scanner(side)
        assert scanner is not None  # noqa: S101 - an end that lists files has metadata
        rows = scanner.live_rows(files, scan_columns(self.plan.pairs, side), dead=self.dead[side])
        return self.plan.rules.choose(rows, side)

    def whole(self, side: str, pairs: Iterable[Pair]) -> str:
        """Select every row of one end, chosen columns only."""
        columns = scan_columns(pairs, side)
        return f"SELECT {_names(columns)} FROM {self.to_compare[side]} UNION ALL {self.shared(side, columns)}"

    def shared(self, side: str, columns: Sequence[ScanColumn], *, within: Sequence[Range | Values] = ()) -> str:
        """Select rows of one end that the plan left out, because both ends have them in the same file.

        Those of files that hold none of the values in `within` are not among them.
        """
        scanner, rules = self.scanner(side), self.plan.rules
        if scanner is None:
            nothing = ", ".join(
                f"CAST(NULL AS {duckdb_type(column.field.type)}) AS {column.alias}" for column in columns
            )
            return f"SELECT {nothing or '1 AS nothing'} WHERE false"
        files = [file for file in self._shared_files if may_overlap(file.data, within)]
        shifted = [file for file in self.plan.shifted if may_overlap(file.before.data, within)]
        filtered_by = [column for column in scan_columns(rules.chosen_by.values(), side) if column not in columns]
        needed = [*columns, *filtered_by]
        parts = [scanner.live_rows(files, needed, dead="dead_shared")]
        if shifted:
            parts.append(scanner.kept_rows(shifted, needed, dead=self.dead.values()))
        return rules.choose(" UNION ALL ".join(parts), side, _names(columns))

    def count_shared(self) -> int:
        """Count the rows that both ends have in the same files and that the filter chooses."""
        plan = self.plan
        is_filtered = plan.rules.row_filter is not None
        if not is_filtered and not plan.shared_has_deletes and not plan.shifted:
            return plan.shared_records
        counted = None if is_filtered else self._count_listed()
        if counted is None:
            counted = int(first_row(self.connection, f"SELECT count(*) FROM ({self.shared('b', [])})")[0])
        return counted

    def _count_listed(self) -> int | None:
        """Count the shared rows by the counts of files and deleted positions; the filter aside.

        None where rows are deleted by value, so that they have to be read.
        """
        shifted = [end for moved in self.plan.shifted for end in (moved.before, moved.after)]
        files = [*self._shared_files, *shifted]
        if any(file.equality for file in files):
            return None
        scanner = self.scanner("b")
        if scanner is None:
            return 0
        tables = ["dead_shared", *(self.dead.values() if self.plan.shifted else ())]
        return scanner.count_rows({file.data for file in files}, tables)

    @cached_property
    def _shared_files(self) -> tuple[LiveFile, ...]:
        """The carried-over files, with their deleted positions loaded."""
        shared = self.plan.shared()
        scanner = self.scanner("b")
        if scanner is not None:
            scanner.load_positions("dead_shared", shared)
        return shared


def _names(columns: Iterable[ScanColumn]) -> str:
    return ", ".join(column.alias for column in columns) or "1 AS nothing"
