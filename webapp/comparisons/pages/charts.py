"""Statistics of a row diff as charts: geometry for the SVG templates, computed on the server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from webapp.comparisons.diffs.statistics import Bucket, ColumnStatistics, Scope, load_statistics
from webapp.comparisons.pages.columns import choose_columns
from webapp.comparisons.pages.spread import SpreadView, read_spread_view
from webapp.core.errors import AppError
from webapp.core.numbers import read_count
from webapp.core.templatetags.ui import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight

WIDTH, HEIGHT = 420, 150
LEFT, TOP, BOTTOM = 46, 8, 20
SHOWN = 12
COLUMNS_PER_PAGE = 100
LABEL_HEIGHT = 12
"""Labels of lines nearer to each other would lie on one another."""
LOWEST_SEEN = 0.02
"""Bars below this share of the tallest are no more than lines."""
FEWEST_POWERS = 10
"""Below this many rows a logarithmic scale says no more."""


@dataclass(frozen=True)
class ChartBar:
    """One bar."""

    x: float
    y: float
    width: float
    height: float
    side: str
    title: str


@dataclass(frozen=True)
class ChartTick:
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
    bars: list[ChartBar]
    ticks: list[ChartTick]
    grid: list[Grid]
    rows: list[ChartRow]
    before_name: str
    after_name: str
    note: str
    """How the chart is to be read, where that is not plain."""


@dataclass(frozen=True)
class StatisticsTable:
    """All columns in numbers, the changed ones as charts."""

    columns: tuple[ColumnStatistics, ...]
    """Those of one page."""
    url: str
    """With a query."""
    columns_text: str
    """Which ones these are; empty where they are all."""
    previous_url: str
    next_url: str
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
    spread: SpreadView | None
    """How the changed rows spread over a column."""


def read_statistics(
    folder: Path, sight: RowSight, *, url: str, parameters: Mapping[str, Any], before: str, after: str
) -> StatisticsTable | None:
    """Return the statistics of an artifact; None when it has none.

    Args:
        folder: the artifact.
        sight: what the reader may see.
        url: of these statistics, with a query.
        parameters: which rows are measured (`scope`: table or changed), and which page of columns is shown.
        before: the name of the older side.
        after: that of the newer.

    """
    text = str(parameters.get("scope", ""))
    scope: Scope | None = "changed" if text == "changed" else "table" if text == "table" else None
    try:
        statistics = load_statistics(folder, sight, scope=scope)
    except AppError:
        return None
    changed = [column for column in statistics.changed if column.buckets] or [
        column for column in statistics.columns if column.buckets
    ]
    count, page = len(statistics.columns), read_count(str(parameters.get("columns_page", ""))) or 0
    chosen = choose_columns(count, page=page, size=COLUMNS_PER_PAGE)
    page, columns = chosen.start // COLUMNS_PER_PAGE, statistics.columns[chosen.start : chosen.stop]
    pages = f"{url}&scope={scope}" if scope else url
    return StatisticsTable(
        columns=columns,
        url=url,
        columns_text=f"Columns {chosen.start + 1:,}–{chosen.stop:,} of {count:,}" if len(chosen) < count else "",
        previous_url=f"{pages}&columns_page={page - 1}" if page else "",
        next_url=f"{pages}&columns_page={page + 1}" if chosen.stop < count else "",
        charts=[draw(column, before=before, after=after) for column in changed[:SHOWN]],
        left_out=max(0, len(changed) - SHOWN),
        scope="all rows of both sides" if statistics.scope == "table" else "the changed rows only",
        is_whole=statistics.scope == "table",
        table_is_measured=statistics.table_is_measured,
        has_estimates=any(
            side is not None and not (side.distinct_exact and side.quantiles_exact)
            for column in columns
            for side in (column.before, column.after)
        ),
        rows_before=statistics.rows_before,
        rows_after=statistics.rows_after,
        before_name=before,
        after_name=after,
        spread=read_spread_view(folder, sight, keeps=dict(parse_qsl(urlsplit(url).query)), parameters=parameters),
    )


def draw(column: ColumnStatistics, *, before: str, after: str) -> Chart:
    """Return the chart of one column."""
    buckets = column.buckets
    scale = ChartScale.of([count for bucket in buckets for count in (bucket.before, bucket.after)])
    step = (WIDTH - LEFT) / max(1, len(buckets))
    bars: list[ChartBar] = []
    for index, bucket in enumerate(buckets):
        bars += _pair(bucket, LEFT + index * step, step, scale, (before, after))
    return Chart(
        id=f"chart-{column.column.index}",
        title=column.name,
        label="Value" if column.kind == "values" else "Range",
        width=WIDTH,
        height=HEIGHT,
        bars=bars,
        ticks=_ticks(column),
        grid=_grid(scale),
        rows=[ChartRow(bucket.label, bucket.before, bucket.after) for bucket in buckets],
        before_name=before,
        after_name=after,
        note=_explain(column, scale, after),
    )


@dataclass(frozen=True)
class ChartScale:
    """How high a number of rows is drawn."""

    tallest: int
    is_logarithmic: bool

    @classmethod
    def of(cls, counts: Sequence[int]) -> ChartScale:
        """Choose the plain scale, or a logarithmic one where the tallest bar would leave half of the others unseen."""
        seen = [count for count in counts if count]
        tallest = max(seen, default=0)
        low = sum(count < LOWEST_SEEN * tallest for count in seen)
        return cls(tallest, tallest >= FEWEST_POWERS and 0 < len(seen) <= low * 2)

    def height(self, count: float) -> float:
        """Return the height in units of the drawing."""
        whole = HEIGHT - TOP - BOTTOM
        if not self.tallest:
            return 0.0
        if self.is_logarithmic:
            # One row is seen and none is not.
            return whole * math.log1p(count) / math.log1p(self.tallest)
        return whole * count / self.tallest


def _grid(scale: ChartScale) -> list[Grid]:
    bottom = HEIGHT - BOTTOM
    counts = [scale.tallest] if scale.tallest else []
    if scale.is_logarithmic:
        powers = [10**exponent for exponent in range(int(math.log10(scale.tallest)) + 1)]
        heights = {count: scale.height(count) for count in powers[:: -(-len(powers) // 4)]}
        whole = scale.height(scale.tallest)
        counts += [count for count, height in heights.items() if LABEL_HEIGHT < height < whole - LABEL_HEIGHT]
    lines = [(bottom - scale.height(count), f"{count:,}") for count in counts]
    return [
        *(Grid(round(y, 2), round(y + (8 if y == TOP else 4), 2), text) for y, text in lines),
        Grid(bottom, bottom, "0"),
    ]


def _explain(column: ColumnStatistics, scale: ChartScale, after: str) -> str:
    if not scale.is_logarithmic:
        return ""
    note = "Rows on a logarithmic scale."
    side = column.after
    low, high = (side.quantiles.get(name) if side else None for name in ("p5", "p95"))
    if low is None or high is None:
        return note
    about = "" if side and side.quantiles_exact else "about "
    return f"{note} On {after} {about}90 of 100 values lie between {number(low)} and {number(high)}."


def _pair(bucket: Bucket, x: float, step: float, scale: ChartScale, names: tuple[str, str]) -> list[ChartBar]:
    width = max(1.0, (step - max(1.0, step * 0.15)) / 2)
    bars = []
    for place, (value, side, name) in enumerate(((bucket.before, "m", names[0]), (bucket.after, "b", names[1]))):
        tall = max(scale.height(value), 1.0) if value else 0.0
        title = f"{bucket.label}: {value:,} on {name}"
        bars.append(
            ChartBar(
                round(x + place * width, 2),
                round(HEIGHT - BOTTOM - tall, 2),
                round(width, 2),
                round(tall, 2),
                side,
                title,
            )
        )
    return bars


def _ticks(column: ColumnStatistics) -> list[ChartTick]:
    buckets = column.buckets
    if not buckets:
        return []
    y = HEIGHT - 5
    if column.kind == "values":
        step = (WIDTH - LEFT) / len(buckets)
        room = max(2, int(step / 6.5))
        return [
            ChartTick(round(LEFT + (index + 0.5) * step, 1), y, _cut(bucket.label, room), "middle")
            for index, bucket in enumerate(buckets)
        ]
    return [
        ChartTick(LEFT, y, buckets[0].label.split(" – ")[0], "start"),
        ChartTick(WIDTH, y, buckets[-1].label.split(" – ")[-1], "end"),
    ]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
