"""Charts of a column whose rows are spread unevenly."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from webapp.comparisons.diffs.artifact import DiffColumn
from webapp.comparisons.diffs.statistics import Bucket, ColumnStatistics, SideStatistics
from webapp.comparisons.pages import charts

TALL = charts.HEIGHT - charts.TOP - charts.BOTTOM


def a_column(*counts: tuple[int, int]) -> ColumnStatistics:
    """Make a column with so many rows before and after in each bin."""
    rows = sum(after for _, after in counts)
    quantiles = {"p5": -9, "p25": -5, "p50": -2, "p75": 11, "p95": 88}
    side = SideStatistics(rows, 0, 500, True, -43, 1301, 12.6, quantiles, True)
    buckets = tuple(Bucket(f"{n * 56} – {n * 56 + 56}", before, after) for n, (before, after) in enumerate(counts))
    return ColumnStatistics(A_COLUMN, side, side, "number", buckets)


A_COLUMN = DiffColumn(
    index=1,
    name="arr_delay",
    before_name="arr_delay",
    before_type="double",
    after_name="arr_delay",
    after_type="double",
    is_key=False,
    is_ignored=False,
    is_unreadable=False,
)


def draw(*counts: tuple[int, int]) -> charts.Chart:
    """Draw the chart of such a column."""
    return charts.draw(a_column(*counts), before="master", after="feature/x")


def test_a_long_tail_is_seen_on_a_scale_that_is_said() -> None:
    chart = draw((320_000, 310_000), (3_000, 2_900), (200, 210), (10, 9), (1, 0))
    heights = [bar.height for bar in chart.bars]
    assert heights[0] == TALL
    assert all(height >= 6 for height in heights[:-1]), "one bar hides all others"
    assert heights[-1] == 0, "no row is no bar"
    assert chart.note == (
        "Rows on a logarithmic scale. On feature/x 90 of 100 values lie between \N{MINUS SIGN}9 and 88."
    )
    texts = [line.text for line in chart.grid]
    assert texts[0] == "320,000"
    assert "100" in texts
    places = sorted(line.y for line in chart.grid)
    assert all(after - before >= 8 for before, after in pairwise(places))


@pytest.mark.parametrize("counts", [[(50, 50), (49, 1)], [(5, 4), (3, 0)], [(0, 0)], [(100, 90), (95, 1), (80, 70)]])
def test_other_charts_keep_the_plain_scale(counts: list[tuple[int, int]]) -> None:
    chart = draw(*counts)
    assert chart.note == ""
    assert [line.text for line in chart.grid][-1] == "0"
    tallest = max(max(pair) for pair in counts) or 1
    for bar, count in zip(chart.bars, [count for pair in counts for count in pair], strict=True):
        assert bar.height == pytest.approx(max(1.0, TALL * count / tallest) if count else 0, abs=0.01)


def test_estimated_quantiles_are_said_to_be_about() -> None:
    column = a_column((1_000_000, 1_000_000), (1, 1))
    assert column.after is not None
    column = replace(column, after=replace(column.after, quantiles_exact=False))
    assert "about 90 of 100" in charts.draw(column, before="a", after="b").note
