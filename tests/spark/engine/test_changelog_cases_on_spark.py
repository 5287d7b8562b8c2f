"""The cases of the embedded executor's tests of changelogs again, with Spark computing them; the longest are for soak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
