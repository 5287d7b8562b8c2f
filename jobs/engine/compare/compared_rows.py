"""The rows to compare: those that one end has and the other may not have, read from files or left by another executor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from jobs.engine.compare.file_rows import NAMES
from jobs.engine.plan.columns import scan_columns
from jobs.engine.plan.components import FileGroup, Room, split_by_key
from jobs.engine.read.connections import first_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobs.engine.compare.comparison import RowComparison
    from jobs.engine.compare.reduced import Reduced

_USUAL_PART, _LARGEST_PART = 4, 2
"""A part of the memory each: a join holds one end of what it compares."""


@dataclass(frozen=True)
class ComparedRows:
    """The rows to compare, as relations of a comparison's connection."""

    comparison: RowComparison
    views: Mapping[str, str]
    """The views of the ends that have data, by end."""
    reduced: Reduced | None

    @property
    def have_both_ends(self) -> bool:
        return len(self.views) > 1

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are to compare, by end."""
        if self.reduced is not None:
            return {"b": self.reduced.counted.before, "a": self.reduced.counted.after}
        connection = self.comparison.connection
        return {side: first_row(connection, f"SELECT count(*) FROM {view}")[0] for side, view in self.views.items()}

    def count_shared(self) -> int:
        """Count the rows that both ends have in the same files."""
        return self.comparison.files.count_shared() if self.reduced is None else self.reduced.counted.shared

    def split(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of both ends: in one part, or if they are many in parts that no key connects."""
        files, groups = self.comparison.files, self._group_files()
        if len(groups) == 1:
            yield _view("b"), _view("a")
            return
        done = 0
        for group in groups:
            self.comparison.progress.enter("comparing", files_done=done)
            yield f"({files.of_files('b', group.left)})", f"({files.of_files('a', group.came)})"
            done += len(group.left) + len(group.came)

    def _group_files(self) -> list[FileGroup]:
        plan, request = self.comparison.plan, self.comparison.request
        whole = FileGroup(plan.left, plan.came)
        room = Room(
            usual=request.memory_bytes // _USUAL_PART,
            most=request.memory_bytes // _LARGEST_PART,
            threads=request.threads,
        )
        is_joined = self.reduced is None and plan.left and plan.came and not plan.shifted
        if not is_joined or plan.decoded_bytes(whole) <= room.usual:
            return [whole]
        return split_by_key(whole, plan.rules.key_pairs, size=plan.decoded_bytes, room=room)


def view_rows(comparison: RowComparison, reduced: Reduced | None) -> ComparedRows:
    """Name the rows to compare of both ends, `before_rows` and `after_rows`."""
    for side in NAMES:
        if reduced is None:
            rows = f"SELECT * FROM {comparison.files.to_compare[side]}"
        else:
            rows = reduced.rows(scan_columns(comparison.plan.pairs, side), side)
        comparison.connection.execute(f"CREATE TEMP VIEW {_view(side)} AS {rows}")
    views = {side: _view(side) for side in comparison.plan.sides_with_rows}
    return ComparedRows(comparison, views, reduced)


def _view(side: str) -> str:
    return f"{NAMES[side]}_rows"
