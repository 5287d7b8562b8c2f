"""When the whole tables of a diff are measured by the process that compares them; Spark has a limit of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.template.loader import render_to_string
from pyiceberg.types import DoubleType

from tests.factories import engine as tables
from tests.unit.engine.test_engine_embedded import field, keyed, two_versions
from webapp.pulls.diffs.statistics import load_statistics
from webapp.pulls.queries.charts import read_statistics

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("rows", "cells", "is_measured"),
    [(3, 8, True), (3, 7, False), (4, 0, True)],
    ids=["few values", "many", "few rows"],
)
def test_tables_too_large_to_be_measured_whole_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, cells: int, is_measured: bool
) -> None:
    monkeypatch.setattr("jobs.engine.measured.HereMeasured.row_limit", rows)
    monkeypatch.setattr("jobs.engine.measured.HereMeasured.cell_limit", cells)
    schema = keyed(field(2, "v", DoubleType()))
    _, *sides = two_versions(tmp_path, schema, [{"k": 1}, {"k": 2}], [{"k": 1, "v": 1.0}, {"k": 3}])
    found = json.loads((tables.diff(tmp_path, *sides, key=["k"])["folder"] / "statistics.json").read_text())
    assert (found["table_is_measured"], "table" in found["scopes"], "changed" in found["scopes"]) == (
        is_measured,
        is_measured,
        True,
    )


def test_quantiles_of_a_sample_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact up to a stated number of rows of an end; beyond it near, and the same however the rows are stored."""
    monkeypatch.setattr("jobs.engine.measured.EXACT_QUANTILE_ROWS", 1000)
    monkeypatch.setattr("jobs.engine.measured.SAMPLE", 500)
    before = [{"k": number} for number in range(1000)]
    _, *sides = two_versions(
        tmp_path, keyed(field(2, "v", DoubleType())), before, [*before, *({"k": 1000 + n} for n in range(1000))]
    )
    folder = tables.diff(tmp_path, *sides, key=["k"])["folder"]
    key, empty = load_statistics(folder, scope="table").columns
    assert key.before is not None
    assert key.after is not None
    assert (key.before.quantiles_exact, key.before.quantiles["p50"]) == (True, 499)
    assert key.after.quantiles_exact is False
    assert abs(key.after.quantiles["p50"] - 1000) < 200
    assert empty.after is not None
    assert empty.after.quantiles_exact
    page = render_to_string("pulls/_statistics.html", {"statistics": read_statistics(folder, before="m", after="f")})
    assert "≈" in page
