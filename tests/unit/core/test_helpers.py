"""Calls on hostile text end at their deadline, and the process that ran them is gone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from webapp.core import helpers
from webapp.core.budgets import Budget, spending
from webapp.core.helpers import Helpers, OutOfTime

HERE = "tests.unit.core.test_helpers"


def run_for_ever() -> None:
    """Explode as a regular expression does, with Python's lock held."""
    import re

    re.match(r"(a+)+$", "a" * 60 + "b")


def echo(value: str) -> str:
    return value


def name_environment() -> list[str]:
    return sorted(os.environ)


def take_memory() -> int:
    return len(bytearray(2 * helpers.MEMORY_BYTES))


@pytest.fixture
def pool() -> Helpers:
    return Helpers(1)


def test_a_call_that_explodes_ends_and_its_process_with_it(pool: Helpers) -> None:
    assert pool.call(HERE, "echo", "é", seconds=20) == "é"
    (process,) = pool._idle
    pid = process._process.pid
    began = time.monotonic()
    with pytest.raises(OutOfTime):
        pool.call(HERE, "run_for_ever", seconds=0.3)
    assert time.monotonic() - began < 3
    assert not Path(f"/proc/{pid}").exists()
    assert pool.call(HERE, "echo", "next", seconds=20) == "next"


def test_a_call_that_ran_out_of_time_is_not_tried_again(pool: Helpers) -> None:
    assert pool.call(HERE, "echo", "", seconds=20) == ""
    with pytest.raises(OutOfTime):
        pool.call(HERE, "run_for_ever", seconds=0.3)
    began = time.monotonic()
    with pytest.raises(OutOfTime):
        pool.call(HERE, "run_for_ever", seconds=20)
    assert time.monotonic() - began < 1


def test_the_alarm_of_a_helper_ends_it_when_its_caller_has_died(pool: Helpers) -> None:
    assert pool.call(HERE, "echo", "", seconds=20) == ""
    process = pool._idle.pop()
    with pytest.raises(OutOfTime):
        # The deadline of the caller is later than the alarm, as if nobody were left to kill.
        process.call(b'["tests.unit.core.test_helpers", "run_for_ever", [], -0.9]', ends=time.monotonic() + 20)
    assert process._process.wait(5) != 0


def test_a_helper_has_no_secrets_and_a_limit_of_memory(pool: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUTARY_SECRET_KEY", "s3cret")
    assert not [name for name in pool.call(HERE, "name_environment", seconds=20) if name.startswith("TRIBUTARY")]
    with pytest.raises(OutOfTime):
        pool.call(HERE, "take_memory", seconds=20)


def test_a_budget_is_spent_by_blocks_and_lets_other_time_pass() -> None:
    budget = Budget(0.2, 10)
    with budget.running():
        time.sleep(0.05)
    time.sleep(0.3)
    assert 0 < budget.left <= 0.15
    with budget.running():
        time.sleep(0.2)
    assert budget.left == 0
    assert budget.take_pieces(8)
    assert not budget.take_pieces(3)
    assert budget.take_pieces(2)


def test_outside_of_requests_each_block_has_a_budget() -> None:
    for _ in range(2):
        with spending() as budget:
            assert budget.left > 1
