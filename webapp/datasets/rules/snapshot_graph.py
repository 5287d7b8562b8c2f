"""The snapshots of a table as a graph: newest first, the history of each branch a lane.

A snapshot belongs to the first branch, master before all others, whose head descends from it; a line therefore begins at a
head and ends where it grew out of another line. Lines that do not overlap share a lane.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webapp.catalog.rules.iceberg import Snapshot

MOST_LANES = 10
"""Lines beyond share the last lane, so that a table with a thousand branches still fits beside its rows."""
STEP = 16
MARGIN = 12
TONES = 6
PASS, ABOVE, BELOW, JOIN, LOST = "pass", "above", "below", "join", "lost"


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """A run of snapshots, each the parent of the one above it, by their rows."""

    owner: str
    """The head it was drawn from; empty where no branch or tag reaches it."""
    rows: Sequence[int]
    joins: int | None
    """The row it grew out of."""
    is_cut: bool
    """Whether its oldest snapshot's parent has expired."""
    lane: int = 0

    @property
    def top(self) -> int:
        """The row of its newest snapshot."""
        return self.rows[0]

    @property
    def bottom(self) -> int:
        """The row down to which it is drawn."""
        return self.rows[-1] if self.joins is None else self.joins

    @property
    def x(self) -> int:
        """Where it is drawn."""
        return lane_x(self.lane)

    @property
    def tone(self) -> str:
        """Its colour."""
        if not self.owner:
            return "none"
        return "many" if self.lane >= MOST_LANES - 1 else str(self.lane % TONES)


@dataclass(frozen=True, slots=True)
class Stroke:
    """A piece of a line within one row."""

    kind: str
    x: int
    to: int
    """Where a line ends that joins another one."""
    tone: str


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """One row of the graph."""

    snapshot: Snapshot
    line: SnapshotLine
    strokes: Sequence[Stroke]
    grew_from: str | None
    """The owner of the line that this snapshot's line grew out of, at its first snapshot."""
    is_cut: bool
    """Whether its parent has expired."""


@dataclass(frozen=True)
class SnapshotGraph:
    """Every snapshot in its row and every line in its lane."""

    snapshots: Sequence[Snapshot]
    lines: Sequence[SnapshotLine]
    line_of: Sequence[int]
    """By row."""

    def draw(self, start: int, stop: int) -> list[SnapshotNode]:
        """Return some rows with what is drawn in them."""
        stop = min(stop, len(self.snapshots))
        strokes: list[dict[tuple[str, int, int], Stroke]] = [{} for _ in range(start, stop)]
        for line in self.lines:
            for row in range(max(line.top, start), min(line.bottom + 1, stop)):
                for stroke in self._strokes(line, row):
                    strokes[row - start].setdefault((stroke.kind, stroke.x, stroke.to), stroke)
        return [self._node(row, list(strokes[row - start].values())) for row in range(start, stop)]

    def _node(self, row: int, strokes: Sequence[Stroke]) -> SnapshotNode:
        line = self.lines[self.line_of[row]]
        is_first = row == line.rows[-1]
        return SnapshotNode(
            snapshot=self.snapshots[row],
            line=line,
            strokes=strokes,
            grew_from=self.lines[self.line_of[line.joins]].owner if is_first and line.joins is not None else None,
            is_cut=is_first and line.is_cut,
        )

    def _strokes(self, line: SnapshotLine, row: int) -> list[Stroke]:
        if self.lines[self.line_of[row]] is not line:
            dot = self.lines[self.line_of[row]].x
            return [Stroke(JOIN if row == line.joins else PASS, line.x, dot, line.tone)]
        drawn = []
        if row > line.top:
            drawn.append(ABOVE)
        if row < line.bottom:
            drawn.append(BELOW)
        elif line.is_cut:
            drawn.append(LOST)
        return [Stroke(kind, line.x, line.x, line.tone) for kind in drawn]


def arrange(snapshots: Sequence[Snapshot], heads: Mapping[str, int]) -> SnapshotGraph:
    """Return the graph of a table's snapshots.

    Args:
        snapshots: all of them, in the order of the metadata.
        heads: what each branch, then each tag points to; the first one's line keeps the first lane.

    """
    ordered = sort_newest_first(snapshots)
    row_of = {snapshot["snapshot-id"]: row for row, snapshot in enumerate(ordered)}
    line_of: list[int] = [-1] * len(ordered)
    lines: list[SnapshotLine] = []
    starts = [(owner, row_of[head]) for owner, head in heads.items() if head in row_of]
    for owner, start in (*starts, *(("", row) for row in range(len(ordered)))):
        if line_of[start] < 0:
            lines.append(_follow(owner, start, ordered, row_of, line_of, number=len(lines)))
    first = next(iter(heads), None)
    return SnapshotGraph(ordered, _choose_lanes(lines, first=first), line_of)


def sort_newest_first(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots in the order of their commits, each above its parent whatever the clocks said."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in snapshots}
    places: dict[int, tuple[int, int, int]] = {}
    for snapshot in snapshots:
        path: list[Snapshot] = []
        current: Snapshot | None = snapshot
        seen: set[int] = set()
        while current is not None and current["snapshot-id"] not in places and current["snapshot-id"] not in seen:
            path.append(current)
            seen.add(current["snapshot-id"])
            parent = current.get("parent-snapshot-id")
            current = None if parent is None else by_id.get(parent)
        before = places.get(current["snapshot-id"], (0, 0, 0)) if current is not None else (0, 0, 0)
        for step in reversed(path):
            own = (int(step.get("sequence-number") or 0), int(step["timestamp-ms"]))
            before = (*max(own, before[:2]), before[2] + 1)
            places[step["snapshot-id"]] = before
    return sorted(snapshots, key=lambda snapshot: places[snapshot["snapshot-id"]], reverse=True)


def find_line_heads(graph: SnapshotGraph, snapshots: Iterable[Snapshot]) -> dict[str, int]:
    """Return the newest of some snapshots on each line of a graph, so that they keep their lines when drawn alone.

    The snapshots come newest first; the oldest line, from which the others grew, is named first and gets the first lane.
    """
    row_of = {snapshot["snapshot-id"]: row for row, snapshot in enumerate(graph.snapshots)}
    heads: dict[str, int] = {}
    for snapshot in snapshots:
        number = snapshot["snapshot-id"]
        heads.setdefault(graph.lines[graph.line_of[row_of[number]]].owner, number)
    return dict(reversed(heads.items()))


def lane_x(lane: int) -> int:
    """Return where a lane is drawn."""
    return MARGIN + STEP * min(lane, MOST_LANES - 1)


def graph_width(nodes: Iterable[SnapshotNode]) -> int:
    """Return how wide the drawing of some rows is."""
    places = [stroke.x for node in nodes for stroke in node.strokes] + [node.line.x for node in nodes]
    return max(places, default=MARGIN) + MARGIN


def _follow(
    owner: str,
    start: int,
    ordered: Sequence[Snapshot],
    row_of: Mapping[int, int],
    line_of: list[int],
    *,
    number: int,
) -> SnapshotLine:
    rows = [start]
    line_of[start] = number
    while True:
        parent = ordered[rows[-1]].get("parent-snapshot-id")
        below = row_of.get(parent) if parent is not None else None
        # A parent that is not further down belongs to a damaged history, which must not draw in circles.
        if below is None or below <= rows[-1]:
            return SnapshotLine(owner, rows, None, is_cut=parent is not None and below is None)
        if line_of[below] >= 0:
            return SnapshotLine(owner, rows, below, is_cut=False)
        line_of[below] = number
        rows.append(below)


def _choose_lanes(lines: Sequence[SnapshotLine], *, first: str | None) -> list[SnapshotLine]:
    """Give each line the lowest lane that is free for its length; the first one's stays free for it alone."""
    lanes = [0] * len(lines)
    is_reserved = any(line.owner == first for line in lines)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    unused = 1 if is_reserved else 0
    for place in sorted(range(len(lines)), key=lambda place: lines[place].top):
        if is_reserved and lines[place].owner == first:
            continue
        while busy and busy[0][0] < lines[place].top:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lanes[place] = heapq.heappop(free)
        else:
            lanes[place], unused = unused, unused + 1
        heapq.heappush(busy, (lines[place].bottom, lanes[place]))
    return [replace(line, lane=lane) for line, lane in zip(lines, lanes, strict=True)]
