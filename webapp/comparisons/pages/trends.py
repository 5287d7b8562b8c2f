"""How the statistics of a dataset went over its last transactions, as lines and as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.comparisons.pages.charts import BOTTOM, HEIGHT, TOP, WIDTH, ChartTick, Grid
from webapp.comparisons.queries.trends import read_trend
from webapp.core.errors import InvalidInput
from webapp.core.templatetags.ui import number, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from webapp.comparisons.queries.trends import Trend, TrendStep
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

CHARACTER = 6.5
"""About the width of one in the labels of a chart."""
DOT = 4
SHORT_ID = 7
SIDES = ("m", "b")
"""Of the charts' colours: the target's and the branch's."""


@dataclass(frozen=True)
class TrendDot:
    """What is known after one transaction."""

    x: float
    y: float
    title: str


@dataclass(frozen=True)
class TrendPath:
    """One branch in a chart."""

    branch: str
    side: str
    points: str
    dots: list[TrendDot]


@dataclass(frozen=True)
class TrendChart:
    """One figure over the transactions."""

    id: str
    title: str
    width: int
    height: int
    left: float
    paths: list[TrendPath]
    """Those drawn last lie above the others."""
    grid: list[Grid]
    ticks: list[ChartTick]


@dataclass(frozen=True)
class TrendView:
    """The last transactions of one or two branches."""

    branches: list[str]
    charts: list[TrendChart]
    steps: Sequence[TrendStep]
    """Newest first."""
    columns: Sequence[str]
    column: str
    is_hidden: bool
    measured: int
    """Of how many transactions the chosen column was measured."""
    fields: list[tuple[str, str]]
    """What the form keeps of the address."""
    problem: str


@dataclass(frozen=True)
class _Figure:
    """What a chart is drawn of."""

    name: str
    read: Callable[[TrendStep], float | None]
    write: Callable[[float], str]


def read_trend_view(
    principal: Principal,
    dataset: Dataset,
    heads: Mapping[str, Transaction],
    *,
    keeps: Mapping[str, str],
    parameters: Mapping[str, Any],
) -> TrendView:
    """Return how the dataset went up to some heads, by branch: its rows, and a column where the address names one."""
    problem = ""
    try:
        trend = read_trend(principal, dataset, heads, column=str(parameters.get("column", "")))
    except InvalidInput as error:
        trend, problem = read_trend(principal, dataset, heads), error.detail
    return TrendView(
        branches=[line.branch for line in trend.lines],
        charts=[chart for figure in _choose_figures(trend) if (chart := _draw(trend, figure)) is not None],
        steps=trend.steps[::-1],
        columns=trend.columns,
        column=trend.column,
        is_hidden=bool(trend.masked),
        measured=sum(step.measured is not None for step in trend.steps),
        fields=list(keeps.items()),
        problem=problem,
    )


def _choose_figures(trend: Trend) -> list[_Figure]:
    rows = _Figure("Rows", lambda step: step.rows, number)
    if not trend.column:
        return [rows]
    return [
        rows,
        _Figure("Share of null", _read_null_share, lambda share: percent(share, 1)),
        _Figure("Distinct values", lambda step: step.measured.distinct if step.measured else None, number),
        _Figure("Mean", _read_mean, number),
    ]


def _read_null_share(step: TrendStep) -> float | None:
    side = step.measured
    return side.nulls / side.rows if side is not None and side.rows else None


def _read_mean(step: TrendStep) -> float | None:
    """Return the mean of numbers; those of large ones are stored as text, and of values that are none there is none."""
    try:
        mean = float(step.measured.mean) if step.measured is not None else math.nan
    except (TypeError, ValueError):
        return None
    return mean if math.isfinite(mean) else None


@dataclass(frozen=True)
class _Scale:
    """Where transactions and values lie in a chart."""

    left: float
    last: int
    """The place of the newest transaction."""
    low: float
    high: float

    def x(self, place: int) -> float:
        return round(self.left + DOT + place * (WIDTH - self.left - 2 * DOT) / self.last, 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        bottom = HEIGHT - BOTTOM
        return round(bottom - DOT - share * (bottom - TOP - 2 * DOT), 1)


def _draw(trend: Trend, figure: _Figure) -> TrendChart | None:
    """Return the chart of a figure; None where less than two transactions have it, which the table says."""
    values = {place: value for place, step in enumerate(trend.steps) if (value := figure.read(step)) is not None}
    if len(values) < 2:
        return None
    low, high, last = min(values.values()), max(values.values()), len(trend.steps) - 1
    labels = {value: figure.write(value) for value in (high, low)}
    scale = _Scale(12 + CHARACTER * max(map(len, labels.values())), last, low, high)
    sides = SIDES if len(trend.lines) > 1 else SIDES[1:]
    paths = []
    for side, line in zip(sides, trend.lines, strict=True):
        dots = [
            TrendDot(scale.x(place), scale.y(value), _describe(trend.steps[place], figure.write(value)))
            for place, value in values.items()
            if trend.steps[place].transaction.pk in line.transactions
        ]
        if dots:
            paths.append(TrendPath(line.branch, side, " ".join(f"{dot.x},{dot.y}" for dot in dots), dots))
    return TrendChart(
        id=f"trend-{figure.name.lower().replace(' ', '-')}",
        title=figure.name,
        width=WIDTH,
        height=HEIGHT,
        left=scale.left - 6,
        # What both branches have is drawn as the target's, and the branch leaves it.
        paths=paths[::-1],
        grid=[Grid(scale.y(value), scale.y(value) + DOT, text) for value, text in labels.items()],
        ticks=[
            ChartTick(scale.x(place), HEIGHT - 5, _write_day(trend.steps[place]), anchor)
            for place, anchor in ((0, "start"), (last, "end"))
        ],
    )


def _describe(step: TrendStep, value: str) -> str:
    transaction = step.transaction
    return f"{transaction.pk[:SHORT_ID]} on {transaction.branch_name}, {_write_day(step)}: {value}"


def _write_day(step: TrendStep) -> str:
    return f"{step.transaction.closed_at or step.transaction.started_at:%Y-%m-%d}"
