"""Random histories and schemas, with Spark finding the rows that differ: both executors say the same, and the oracle too."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.property import test_engine_diff as histories
from tests.property import test_engine_evolution as evolution
from tests.spark.engine.conftest import BothExecutors
from tests.unit.engine.test_engine_nested_keys import (
    test_a_field_and_a_column_of_its_values_give_the_same_diff as test_a_field_and_a_column_of_its_values,  # noqa: F401
)

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]
SLOW = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def _by_both(both: BothExecutors) -> None:
    """Every diff of the cases."""


@SLOW
@given(histories.histories())
def test_both_executors_match_the_oracle(history: Any) -> None:
    kinds, keys, steps = history
    # of keys that are equal and written differently the examples of doubled ones show either
    assume(all(kinds[key] != "struct" for key in keys))
    with tempfile.TemporaryDirectory() as path:
        histories.check_history(Path(path), kinds, keys, steps)


@SLOW
@given(st.sampled_from(["1", "2"]), evolution.steps)
def test_both_executors_follow_columns_through_schema_changes(version: str, history: Any) -> None:
    evolution.test_diff_follows_columns_through_schema_and_partition_changes.hypothesis.inner_test(version, history)
