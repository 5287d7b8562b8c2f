"""The cases of the embedded executor's tests of changelogs again, with Spark computing them; the longest are for soak."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from jobs.engine.spark import tables
from tests.unit.engine import test_engine_changelog as files
from tests.unit.engine.test_engine_changelog import (  # noqa: F401 - collected here again
    test_a_step_reads_the_files_that_its_snapshots_do_not_share,
    test_an_expired_middle_is_told_as_one_step,
    test_ordinals_count_from_the_first_snapshot_whatever_the_range,
)
from tests.unit.jobs import test_changelog as cases
from tests.unit.jobs.test_changelog import (  # noqa: F401 - collected here again
    test_an_added_column_changes_no_row,
    test_bad_questions_are_answered,
    test_documented_changes_by_identifier,
    test_documented_failure_by_identifier,
    test_documented_net_changes,
    test_null_is_a_key,
    test_the_end_must_come_from_the_start,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _by_spark(monkeypatch: pytest.MonkeyPatch, read_by_spark: Callable[..., Any]) -> None:
    for module in (files, cases):
        monkeypatch.setattr(module, "read_changelog", read_by_spark)
    # a context of Spark does not survive a fork
    monkeypatch.setattr(cases, "in_child", lambda function: function())


def test_a_uuid_is_the_text_that_spark_reads_it_as(quick_session: Any) -> None:
    uuids = pa.array([bytes(range(16)), None], pa.binary(16)).cast(pa.uuid())
    frame = tables.from_arrow(quick_session, pa.table({"u": uuids, "n": [1, 2]}))
    assert [tuple(row) for row in frame.collect()] == [("00010203-0405-0607-0809-0a0b0c0d0e0f", 1), (None, 2)]


@pytest.mark.parametrize("rows", [0, 2])
def test_a_small_changelog_has_the_types_of_its_table_and_may_be_empty(quick_session: Any, rows: int) -> None:
    at = dt.datetime(1965, 1, 1, 12)
    data = pa.table(
        {"at": pa.array([at] * rows, pa.timestamp("us")), "zoned": pa.array([at] * rows, pa.timestamp("us", "UTC"))}
    )
    frame = tables.from_arrow(quick_session, data)
    assert frame.schema.simpleString() == "struct<at:timestamp_ntz,zoned:timestamp>"
    assert [row["at"] for row in frame.collect()] == [at] * rows
