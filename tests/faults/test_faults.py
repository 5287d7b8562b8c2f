"""Mixed load, one fault after another, and after each: acknowledged once, everything ended, nothing to be mended by hand."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.factories.builds import PASSWORD, ROOT, wait_until
from tests.factories.disks import small_disk
from tests.factories.postgres import ask_database
from tests.factories.supervised import SupervisedStack, supervised_stack
from tests.faults.client import Client
from tests.faults.faults import Fault, build_clock, list_faults
from tests.faults.load import Load

pytestmark = pytest.mark.integration
SETTLE_S = 60
"""How long after a fault everything must work again and what was begun before it must have ended."""
SHORT, LONG = 60, 900
ONLY = os.environ.get("FAULTS_ONLY", "")
"""Part of the names of the faults to make, to look for one defect; FAULTS_SEED makes the same choices again."""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[SupervisedStack]:
    """An installation on a disk of its own that can be filled, by a clock that can be moved."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with small_disk(home, size="2g"), supervised_stack(home, **build_clock(tmp_path)) as running:
        yield running


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(SHORT, marks=pytest.mark.timeout(400)),
        pytest.param(LONG, marks=[pytest.mark.soak, pytest.mark.timeout(2400)]),
    ],
)
def test_faults_under_load(stack: SupervisedStack, seconds: float) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.randrange(10**6))
    print(f"FAULTS_SEED={seed}")
    dice = random.Random(seed)
    load = start_load(stack)
    lasting, together = (3, 3) if seconds == SHORT else (12, 1)
    end = time.monotonic() + seconds
    with load.running():
        while time.monotonic() < end:
            faults = [fault for fault in list_faults(stack, dice, seconds=lasting) if ONLY in fault.name]
            for number, fault in enumerate(dice.sample(faults, len(faults)), start=1):
                if time.monotonic() < end:
                    run_fault(fault, dice)
                    if number % together == 0:
                        settle(stack, load, time.monotonic())
    settle(stack, load, time.monotonic())
    print(load.summary())
    load.check()
    check_consistency(stack)


def start_load(stack: SupervisedStack) -> Load:
    """Make two people and what they work on."""
    author = Client(stack.url, stack.token)
    answer = author.post("/users", json={"username": "rita", "password": PASSWORD})
    assert answer.status_code == 201, answer.text
    answer = requests.post(f"{stack.url}/tokens", json={"name": "tests"}, auth=("rita", PASSWORD), timeout=30)
    load = Load(stack, author=author, reviewer=Client(stack.url, answer.json()["token"]))
    load.prepare()
    return load


def run_fault(fault: Fault, dice: random.Random) -> None:
    """Let it happen at a random moment."""
    time.sleep(dice.uniform(0, 2))
    started = time.monotonic()
    fault.happen()
    print(f"{fault.name}: {time.monotonic() - started:.1f} s")


def settle(stack: SupervisedStack, load: Load, since: float) -> None:
    """Wait until every part works and what was begun before has ended."""
    begun = [build for build, at in list(load.builds.items()) if at < since]
    wait_until(lambda: is_whole(stack), seconds=SETTLE_S, every=0.5)
    left = SETTLE_S - (time.monotonic() - since)
    try:
        wait_until(lambda: not list_unfinished(stack, begun), seconds=max(left, 1), every=0.5)
    except AssertionError:
        details = [load.author.get(f"/builds/{build}") for build in begun if list_unfinished(stack, [build])]
        raise AssertionError(f"not ended after {SETTLE_S} s: {details}") from None
    print(f"settled after {time.monotonic() - since:.1f} s")


def is_whole(stack: SupervisedStack) -> bool:
    """Whether the supervisor lives and every part of it, and readiness misses nothing but Spark."""
    assert stack.parts["supervisor"].poll() is None, "the supervisor ended"
    try:
        parts, body = stack.status(), stack.readiness()
    except (OSError, ValueError, requests.RequestException):
        return False
    if any(part["state"] not in {"ready", "done"} for part in parts.values()):
        return False
    states = {name: state for name, state in body.items() if isinstance(state, str) and name != "spark"}
    return set(states.values()) == {"ok"}


def list_unfinished(stack: SupervisedStack, builds: list[int]) -> list[str]:
    """Return the builds of these that have not ended, and the merges that have not."""
    numbers = ",".join(str(build) for build in builds) or "0"
    unfinished = f"SELECT id FROM builds_build WHERE state IN ('RESOLVING', 'RUNNING') AND id IN ({numbers})"
    waiting = "SELECT id FROM pulls_merge WHERE state = 'prepared'"
    return [str(row) for question in (unfinished, waiting) for row in ask_database(stack.home, question)]


def check_consistency(stack: SupervisedStack) -> None:
    """Ask the product's own check of everything."""
    command = [sys.executable, "manage.py", "fsck"]
    result = subprocess.run(command, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
