"""The two sides of a diff as relations of one DuckDB connection: the rows to compare, and those that both ends share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.plan.columns import comparable, find_pair
from jobs.engine.plan.components import FileGroup, Room, split_by_key
from jobs.engine.plan.rules import filter_columns, filter_pairs, filter_sql
from jobs.engine.plan.sizes import estimate_decoded_bytes
from jobs.engine.read.bounds import may_overlap
from jobs.engine.read.fields import duckdb_type
from jobs.engine.read.scan import ScanColumn, Scanner
from jobs.engine.write import artifact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.expressions import BooleanExpression

    from jobs.engine.compare.reduced import Reduced
    from jobs.engine.measure.measured import Measured
    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.planner import DiffPlan, End
    from jobs.engine.read.bounds import Range, Values
    from jobs.engine.read.live_files import LiveFile
    from jobs.protocol import DiffRequest

_USUAL_PART, _LARGEST_PART = 4, 2
"""A part of the memory each: a join holds one end of what it compares."""


@dataclass
class Sides:
    """What one diff reads."""

    request: DiffRequest
    folder: Path
    progress: artifact.ProgressReporter
    connection: duckdb.DuckDBPyConnection
    plan: DiffPlan = field(init=False)
    filter: BooleanExpression | None = None
    scanners: dict[str, Scanner] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    reduced: Reduced | None = None
    """What another executor left of the rows to compare; None where they are read here."""
    measured: Measured | None = None
    """All rows of both ends where another executor measures them."""
    _has_deleted: bool = False
    _has_files: bool = False

    def one(self, sql: str) -> tuple[Any, ...]:
        """The first row of a query that has one."""
        # a result that is not read to its end keeps the connection
        rows = self.connection.execute(sql).fetchall()
        return rows[0] if rows else ()

    def scanner(self, end: End) -> Scanner | None:
        """The reader of one end's files; both ends share it when they share their metadata."""
        if end.metadata is None:
            return None
        if end.metadata.location not in self.scanners:
            self.scanners[end.metadata.location] = Scanner(self.connection, end.metadata, self.request.io)
        return self.scanners[end.metadata.location]

    def columns(self, side: str, pairs: Iterable[Pair] | None = None) -> list[ScanColumn]:
        """The columns of one side, `b<i>` or `a<i>`."""
        chosen = self.plan.pairs if pairs is None else pairs
        found = ((pair, pair.before if side == "b" else pair.after) for pair in chosen)
        return [
            ScanColumn(f"{side}{pair.index}", side_field)
            for pair, side_field in found
            if side_field is not None and not pair.unreadable
        ]

    def _create_views(self) -> None:
        """Name the rows to compare, `before_rows` and `after_rows`."""
        if self.reduced is None:
            self._read_files()
        for side in ("before", "after"):
            rows = self.reduced.rows(self.columns(side[0]), side[0]) if self.reduced else f"SELECT * FROM {side}_files"
            self.connection.execute(f"CREATE TEMP VIEW {side}_rows AS {rows}")

    def _read_files(self) -> None:
        """Name what the files hold that the plan names, `before_files` and `after_files`."""
        plan = self.plan
        self.load_deleted()
        for name, end, files in (("before", plan.before, plan.left), ("after", plan.after, plan.came)):
            scanner = self.scanner(end)
            if scanner is None:
                self.connection.execute(f"CREATE TEMP VIEW {name}_files AS SELECT 1 AS nothing WHERE false")
                continue
            columns = self.columns(name[0])
            parts = [scanner.live_rows(files, columns, dead=f"dead_{name}")] if files else []
            if plan.shifted:
                # few rows of large files: found once, asked for often
                moved = scanner.moved_rows(plan.shifted, columns, gone=name == "before")
                self.connection.execute(f"CREATE TEMP TABLE {name}_moved AS {moved}")
                parts.append(f"SELECT * FROM {name}_moved")
            body = " UNION ALL ".join(parts) or scanner.live_rows((), columns, dead=f"dead_{name}")
            self.connection.execute(f"CREATE TEMP VIEW {name}_files AS {self._chosen(body, name[0])}")
        self._has_files = True

    def rows_by_part(self) -> Iterator[tuple[str, str]]:
        """The rows to compare, both ends: in one part, or if they are many in parts that no key connects."""
        plan, whole, memory = self.plan, FileGroup(self.plan.left, self.plan.came), self.request.memory_bytes
        room = Room(usual=memory // _USUAL_PART, most=memory // _LARGEST_PART, threads=self.request.threads)
        parts = [whole]
        is_joined = self.reduced is None and plan.left and plan.came
        if is_joined and not plan.shifted and self.decoded_bytes(whole) > room.usual:
            parts = split_by_key(whole, self.key_pairs, size=self.decoded_bytes, room=room)
        if len(parts) == 1:
            yield "before_rows", "after_rows"
            return
        done = 0
        for part in parts:
            self.progress.enter("comparing", files_done=done)
            yield self._rows_of("before", plan.before, part.left), self._rows_of("after", plan.after, part.came)
            done += len(part.left) + len(part.came)

    def _rows_of(self, name: str, end: End, files: tuple[LiveFile, ...]) -> str:
        scanner = self.scanner(end)
        assert scanner is not None  # noqa: S101 - a part has files of an end that has metadata
        rows = scanner.live_rows(files, self.columns(name[0]), dead=f"dead_{name}")
        return f"({self._chosen(rows, name[0])})"

    def decoded_bytes(self, part: FileGroup) -> int:
        """About the memory that all rows of some files of both ends take."""
        ends = ((self.plan.before, part.left), (self.plan.after, part.came))
        return sum(
            estimate_decoded_bytes(end.schema, [file.data for file in files])
            for end, files in ends
            if end.schema is not None
        )

    def load_deleted(self) -> None:
        """Have the deleted positions of the files that the plan names, `dead_before` and `dead_after`."""
        plan = self.plan
        for name, end, files in (("before", plan.before, plan.before_files), ("after", plan.after, plan.after_files)):
            scanner = self.scanner(end)
            if scanner is not None and not self._has_deleted:
                scanner.load_positions(f"dead_{name}", files)
        self._has_deleted = True

    def _chosen(self, rows: str, side: str, names: str = "*") -> str:
        """The rows that the filter chooses."""
        if self.filter is None:
            return rows
        test = filter_sql(self.filter, self.chosen_by, side)
        return f"SELECT {names} FROM ({rows}) f WHERE {test}"

    @property
    def chosen_by(self) -> dict[str, Pair]:
        """The columns by which rows are chosen."""
        return filter_pairs(filter_columns(self.filter), self.plan.pairs)

    def whole(self, side: str, pairs: Iterable[Pair]) -> str:
        """Every row of one end, chosen columns only."""
        if not self._has_files:
            self._read_files()
        rows, columns = ("before_files" if side == "b" else "after_files"), self.columns(side, pairs)
        names = ", ".join(column.alias for column in columns) or "1 AS nothing"
        return f"SELECT {names} FROM {rows} UNION ALL {self.untouched(side, columns)}"

    def untouched(self, side: str, columns: Sequence[ScanColumn], *, within: Sequence[Range | Values] = ()) -> str:
        """Rows of one end that the plan left out, because both ends have them in the same file.

        Those of files that hold none of the values in `within` are not among them.
        """
        end = self.plan.before if side == "b" else self.plan.after
        scanner = self.scanner(end)
        if scanner is None:
            nothing = ", ".join(f"CAST(NULL AS {duckdb_type(c.field.type)}) AS {c.alias}" for c in columns)
            return f"SELECT {nothing or '1 AS nothing'} WHERE false"
        shared = [file for file in self.shared_files if may_overlap(file.data, within)]
        shifted = [file for file in self.plan.shifted if may_overlap(file.before.data, within)]
        needed = [*columns]
        needed += [c for c in self.columns(side, self.chosen_by.values()) if c not in needed]
        parts = [scanner.live_rows(shared, needed, dead="dead_shared")]
        if shifted:
            parts.append(scanner.kept_rows(shifted, needed))
        names = ", ".join(column.alias for column in columns) or "1 AS nothing"
        return self._chosen(" UNION ALL ".join(parts), side, names)

    def count_untouched(self) -> int | None:
        """The rows of one end that the plan left out, by the counts of files and deleted positions; the filter aside.

        None where rows are deleted by value, so that they have to be read.
        """
        shifted = [end for moved in self.plan.shifted for end in (moved.before, moved.after)]
        files = [*self.shared_files, *shifted]
        if any(file.equality for file in files):
            return None
        scanner = self.scanner(self.plan.before)
        if scanner is None:
            return 0
        tables = ["dead_shared", *(("dead_before", "dead_after") if self.plan.shifted else ())]
        return scanner.count_rows({file.data for file in files}, tables)

    @cached_property
    def shared_files(self) -> tuple[LiveFile, ...]:
        """The carried-over files, with their deleted positions loaded."""
        shared = self.plan.shared()
        scanner = self.scanner(self.plan.before)
        if scanner is not None:
            scanner.load_positions("dead_shared", shared)
        return shared

    @cached_property
    def named_keys(self) -> dict[str, Pair | None]:
        """What the rules name as key, in their order; None where there is no such column or field."""
        return {name: find_pair(name, self.plan.pairs) for name in self.request.key or ()}

    @property
    def key_pairs(self) -> list[Pair]:
        """The parts of the key in the order in which the rules name them: columns, and fields inside struct columns."""
        return [pair for pair in self.named_keys.values() if pair is not None]

    @property
    def value_pairs(self) -> list[Pair]:
        """Compared columns that are not part of the key; a struct that holds a part of it may differ in others."""
        keys = {pair.index for pair in self.key_pairs if pair.outer is None}
        return [pair for pair in self.plan.pairs if pair.compared and pair.index not in keys]

    @staticmethod
    def _names(pair: Pair) -> set[str]:
        return {side.name for side in (pair.before, pair.after) if side is not None}

    def _key_values(self, side: str) -> list[str]:
        """SQL of the key of one side, comparable with the other's."""
        values = []
        for pair in self.key_pairs:
            if pair.before is None or pair.after is None:
                values.append(pair.value(side))
                continue
            pairwise = comparable(pair.before.type, pair.after.type, pair.value("b"), pair.value("a"))
            values.append(pairwise[0] if side == "b" else pairwise[1])
        return values

    @cached_property
    def compared(self) -> dict[str, int]:
        """How many rows there are to compare, by end."""
        if self.reduced is not None:
            return {"b": self.reduced.counted.before, "a": self.reduced.counted.after}
        return {side: self.one(f"SELECT count(*) FROM {rows}")[0] for side, rows in self._sides()}

    def has_rows(self, side: str) -> bool:
        """Whether an end lists any data: a new dataset's other end may lack even the columns."""
        own = self.plan.left if side == "before" else self.plan.came
        return bool(own or self.plan.shifted or self.plan.shared_records)

    def _sides(self) -> list[tuple[str, str]]:
        """The ends that have data, with the view of the rows to compare."""
        return [(side[0], f"{side}_rows") for side in ("before", "after") if self.has_rows(side)]
