"""When the whole tables of a diff are measured by the process that compares them; Spark has a limit of its own."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.template.loader import render_to_string
from pyiceberg.types import DateType, DoubleType, LongType, StringType

from jobs.engine.measure import statistics
from jobs.engine.measure.measured import HereMeasured
from jobs.engine.plan.diff_rules import DiffRules
from tests.factories import engine as tables
from tests.unit.engine.test_engine_embedded import field, keyed, two_versions
from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs.statistics import load_statistics
from webapp.comparisons.pages import charts
from webapp.comparisons.pages.charts import read_statistics

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("rows", "cells", "is_measured"),
    [(5, 12, True), (5, 11, False), (6, 0, True)],
    ids=["few values", "many", "few rows"],
)
def test_tables_too_large_to_be_measured_whole_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, cells: int, is_measured: bool
) -> None:
    monkeypatch.setattr("jobs.engine.measure.measured.HereMeasured.row_limit", rows)
    monkeypatch.setattr("jobs.engine.measure.measured.HereMeasured.cell_limit", cells)
    schema = keyed(field(2, "v", DoubleType()))
    same = {"k": 5, "v": 5.0}
    _, *sides = two_versions(tmp_path, schema, [{"k": 1}, {"k": 2}, same], [{"k": 1, "v": 1.0}, {"k": 3}, same])
    found = json.loads((tables.diff(tmp_path, *sides, key=["k"])["folder"] / "statistics.json").read_text())
    assert (found["table_is_measured"], "table" in found["scopes"], "changed" in found["scopes"]) == (
        is_measured,
        is_measured,
        True,
    )


def test_rows_that_all_changed_are_the_table_and_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = keyed(field(2, "v", DoubleType()))
    before = [{"k": number, "v": number / 2} for number in range(6)]
    after = [{"k": number, "v": number / 3} for number in range(1, 9)]
    _, *sides = two_versions(tmp_path, schema, before, after)
    options = {"key": ["k"], "row_filter": "k > 0"}
    with monkeypatch.context() as patch:
        whole = statistics.collect
        patch.setattr(statistics, "collect", lambda ends, summary: whole(ends, {**summary, "unchanged": 1}))
        measured = (tables.diff(tmp_path, *sides, **options)["folder"] / "statistics.json").read_text()
    monkeypatch.setattr(statistics, "_load_table", None)
    assert (tables.diff(tmp_path, *sides, **options)["folder"] / "statistics.json").read_text() == measured


@pytest.mark.parametrize("is_only_updated", [True, False])
@pytest.mark.parametrize("key", [["k"], None])
def test_what_both_ends_share_is_told_as_if_each_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: list[str] | None, *, is_only_updated: bool
) -> None:
    schema = keyed(
        field(2, "same", StringType()),
        field(3, "zero", DoubleType()),
        field(4, "v", LongType()),
        field(5, "day", DateType()),
    )
    day = dt.date(2020, 1, 1)
    before = [
        {"k": n, "same": f"w{n % 3}" if n % 4 else None, "zero": -0.0, "v": n, "day": day + dt.timedelta(n)}
        for n in range(20)
    ]
    after = [{**row, "zero": 0.0, "v": row["v"] * (1 + row["k"] % 2)} for row in before]
    others = [] if is_only_updated else [{"k": 99, "same": "new", "zero": 7.0, "v": 1, "day": day}]
    _, *sides = two_versions(tmp_path, schema, before, [*after[len(others) :], *others])
    shared = tables.diff(tmp_path, *sides, key=key)
    monkeypatch.setattr(DiffRules, "unchanged_pairs", lambda *_: [])
    separate = tables.diff(tmp_path, *sides, key=key)
    assert repr(shared["rows"]) == repr(separate["rows"])  # which tells two zeros apart
    assert (shared["folder"] / "statistics.json").read_text() == (separate["folder"] / "statistics.json").read_text()


def test_a_column_that_is_the_same_at_both_ends_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = keyed(field(2, "v", LongType()), field(3, "w", LongType()))
    before = [{"k": number, "v": number, "w": number} for number in range(9)]
    _, *sides = two_versions(tmp_path, schema, before, [{**row, "v": -1} for row in before])
    passes = []
    spread = HereMeasured.spread

    def note(rows: HereMeasured, side: str, bins: Any, scales: Any) -> Any:
        passes.append((side, sorted(bins)))
        return spread(rows, side, bins, scales)

    monkeypatch.setattr(HereMeasured, "spread", note)
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    assert passes == [("b", ["b0", "b1", "b2"]), ("a", ["a1"])]
    key, _, same = load_statistics(folder, EVERYTHING, scope="table").columns
    assert (key.after, same.after) == (key.before, same.before)


def test_quantiles_of_a_sample_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact up to a stated number of rows of an end; beyond it near, and the same however the rows are stored."""
    monkeypatch.setattr("jobs.engine.measure.measured.EXACT_QUANTILE_ROWS", 1000)
    monkeypatch.setattr("jobs.engine.measure.measured.SAMPLE", 500)
    before = [{"k": number} for number in range(1000)]
    _, *sides = two_versions(
        tmp_path, keyed(field(2, "v", DoubleType())), before, [*before, *({"k": 1000 + n} for n in range(1000))]
    )
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    key, empty = load_statistics(folder, EVERYTHING, scope="table").columns
    assert key.before is not None
    assert key.after is not None
    assert (key.before.quantiles_exact, key.before.quantiles["p50"]) == (True, 499)
    assert key.after.quantiles_exact is False
    assert abs(key.after.quantiles["p50"] - 1000) < 200
    assert empty.after is not None
    assert empty.after.quantiles_exact
    statistics = read_statistics(folder, EVERYTHING, url="?show=statistics", parameters={}, before="m", after="f")
    assert "≈" in render_to_string("comparisons/_statistics.html", {"statistics": statistics})


def test_columns_come_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "COLUMNS_PER_PAGE", 2)
    columns = [field(number, f"v{number}", DoubleType()) for number in range(2, 6)]
    _, *sides = two_versions(tmp_path, keyed(*columns), [{"k": 1}], [{"k": 1, "v3": 1.0}])
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]

    def read(page: str) -> tuple[list[str], str, str, str]:
        asked = {"scope": "changed", "columns_page": page}
        statistics = read_statistics(
            folder, EVERYTHING, url="?show=statistics", parameters=asked, before="m", after="f"
        )
        assert statistics is not None
        assert statistics.columns_text in render_to_string("comparisons/_statistics.html", {"statistics": statistics})
        return (
            [one.name for one in statistics.columns],
            statistics.columns_text,
            statistics.previous_url,
            statistics.next_url,
        )

    at = "?show=statistics&scope=changed&columns_page="
    assert read("") == (["k", "v2"], "Columns 1–2 of 5", "", f"{at}1")
    assert read("1") == (["v3", "v4"], "Columns 3–4 of 5", f"{at}0", f"{at}2")
    assert read("2") == read("99") == (["v5"], "Columns 5–5 of 5", f"{at}1", "")
    monkeypatch.undo()
    assert read("") == (["k", "v2", "v3", "v4", "v5"], "", "", "")
