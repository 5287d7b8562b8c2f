"""Statistics of a row diff as charts: geometry for the SVG templates, computed on the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.core.errors import AppError
from webapp.pulls.diffs.statistics import Bucket, ColumnStatistics, Scope, load_statistics

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, HEIGHT = 420, 150
LEFT, TOP, BOTTOM = 46, 8, 20
SHOWN = 12
LABEL = 22


@dataclass(frozen=True)
class Bar:
    """One bar."""

    x: float
    y: float
    width: float
    height: float
    side: str
    title: str


@dataclass(frozen=True)
class Tick:
    """One label of an axis."""

    x: float
    y: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Grid:
    """One line across."""

    y: float
    ty: float
    text: str


@dataclass(frozen=True)
class ChartRow:
    """What a pair of bars says, in numbers."""

    label: str
    before: int
    after: int


@dataclass(frozen=True)
class Chart:
    """A paired histogram of one column."""

    id: str
    title: str
    label: str
    width: int
    height: int
    bars: list[Bar]
    ticks: list[Tick]
    grid: list[Grid]
    rows: list[ChartRow]
    before_name: str
    after_name: str


@dataclass(frozen=True)
class Statistics:
    """All columns in numbers, the changed ones as charts."""

    columns: tuple[ColumnStatistics, ...]
    charts: list[Chart]
    left_out: int
    scope: str
    is_whole: bool
    """Over all rows; else over the changed ones."""
    table_is_measured: bool
    """Whether there are figures over all rows: large tables have them over the changed rows only."""
    has_estimates: bool
    rows_before: int
    rows_after: int
    before_name: str
    after_name: str


def read_statistics(folder: Path, *, before: str, after: str, scope: str = "") -> Statistics | None:
    """Return the statistics of an artifact, over all rows or the changed ones; None when it has none."""
    wanted: Scope | None = "changed" if scope == "changed" else "table" if scope == "table" else None
    try:
        found = load_statistics(folder, scope=wanted)
    except AppError:
        return None
    changed = [one for one in found.changed if one.buckets] or [one for one in found.columns if one.buckets]
    return Statistics(
        columns=found.columns,
        charts=[draw(one, before=before, after=after) for one in changed[:SHOWN]],
        left_out=max(0, len(changed) - SHOWN),
        scope="all rows of both sides" if found.scope == "table" else "the changed rows only",
        is_whole=found.scope == "table",
        table_is_measured=found.table_is_measured,
        has_estimates=any(
            side is not None and not (side.distinct_exact and side.quantiles_exact)
            for one in found.columns
            for side in (one.before, one.after)
        ),
        rows_before=found.rows_before,
        rows_after=found.rows_after,
        before_name=before,
        after_name=after,
    )


def draw(column: ColumnStatistics, *, before: str, after: str) -> Chart:
    """Return the chart of one column."""
    buckets = column.buckets
    tallest = max((max(one.before, one.after) for one in buckets), default=0)
    step = (WIDTH - LEFT) / max(1, len(buckets))
    height = HEIGHT - TOP - BOTTOM
    bars: list[Bar] = []
    for index, bucket in enumerate(buckets):
        bars += _pair(bucket, LEFT + index * step, step, height, tallest, (before, after))
    return Chart(
        id=f"chart-{column.column.index}",
        title=column.name,
        label="Value" if column.kind == "values" else "Range",
        width=WIDTH,
        height=HEIGHT,
        bars=bars,
        ticks=_ticks(column),
        grid=[Grid(TOP, TOP + 8, f"{tallest:,}"), Grid(TOP + height, TOP + height, "0")],
        rows=[ChartRow(one.label, one.before, one.after) for one in buckets],
        before_name=before,
        after_name=after,
    )


def _pair(bucket: Bucket, x: float, step: float, height: int, tallest: int, names: tuple[str, str]) -> list[Bar]:
    width = max(1.0, (step - max(1.0, step * 0.15)) / 2)
    bars = []
    for place, (value, side, name) in enumerate(((bucket.before, "m", names[0]), (bucket.after, "b", names[1]))):
        tall = height * value / tallest if tallest else 0
        tall = max(tall, 1.0) if value else 0.0
        title = f"{bucket.label}: {value:,} on {name}"
        bars.append(
            Bar(
                round(x + place * width, 2), round(TOP + height - tall, 2), round(width, 2), round(tall, 2), side, title
            )
        )
    return bars


def _ticks(column: ColumnStatistics) -> list[Tick]:
    buckets = column.buckets
    if not buckets:
        return []
    y = HEIGHT - 5
    if column.kind == "values":
        step = (WIDTH - LEFT) / len(buckets)
        room = max(2, int(step / 6.5))
        return [
            Tick(round(LEFT + (index + 0.5) * step, 1), y, _cut(one.label, room), "middle")
            for index, one in enumerate(buckets)
        ]
    return [
        Tick(LEFT, y, buckets[0].label.split(" – ")[0], "start"),
        Tick(WIDTH, y, buckets[-1].label.split(" – ")[-1], "end"),
    ]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
