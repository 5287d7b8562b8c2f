"""When the whole tables of a diff are measured by the process that compares them; Spark has a limit of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyiceberg.types import DoubleType

from tests.factories import engine as tables
from tests.unit.engine.test_engine_embedded import field, keyed, two_versions

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
