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

from tests.factories.builds import ROOT, wait_until
from tests.factories.disks import small_disk
from tests.factories.installation import PASSWORD, Installation, running_installation
from tests.factories.postgres import ask_database
from tests.faults.client import Client
from tests.faults.faults import Fault, build_clock, list_faults, read_parts
from tests.faults.load import Load

pytestmark = pytest.mark.integration
SETTLE_S = 60
"""How long after a fault everything must work again and what was begun before it must have ended."""
SHORT, LONG = 60, 900


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """An installation without Spark, on a disk of its own that can be filled."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with (
        small_disk(home, size="2g"),
        running_installation(
            home, TRIBUTARY_DEMO="0", SPARK_REMOTE="sc://localhost:1", **build_clock(tmp_path)
        ) as running,
    ):
        yield running


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(SHORT, marks=[pytest.mark.soak, pytest.mark.timeout(400)]),
        pytest.param(LONG, marks=[pytest.mark.soak, pytest.mark.timeout(2400)]),
    ],
)
def test_faults_under_load(installation: Installation, seconds: float) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.randrange(10**6))
    print(f"FAULTS_SEED={seed}")
    dice = random.Random(seed)
    load = start_load(installation)
    end = time.monotonic() + seconds
    with load.running():
        rounds = 0
        while time.monotonic() < end:
            faults = list_faults(installation, dice, seconds=3 if seconds == SHORT else 12)
            dice.shuffle(faults)
            for fault in faults:
                if time.monotonic() < end:
                    run_fault(installation, load, fault, dice)
            rounds += 1
    settle(installation, load, time.monotonic())
    print(load.summary())
    load.check()
    check_consistency(installation)


def start_load(installation: Installation) -> Load:
    """Make two people and what they work on."""
    author = Client(installation.api, installation.make_token())
    answer = author.post("/users", json={"username": "rita", "password": PASSWORD})
    assert answer.status_code == 201, answer.text
    load = Load(installation, author=author, reviewer=Client(installation.api, installation.make_token("rita")))
    load.prepare()
    return load


def run_fault(installation: Installation, load: Load, fault: Fault, dice: random.Random) -> None:
    """Let it happen at a random moment, and wait until it has passed."""
    time.sleep(dice.uniform(0, 2))
    started = time.monotonic()
    fault.happen()
    ended = time.monotonic()
    settle(installation, load, ended)
    print(f"{fault.name}: {ended - started:.1f} s, settled after {time.monotonic() - ended:.1f} s")


def settle(installation: Installation, load: Load, since: float) -> None:
    """Wait until every part works and what was begun before has ended."""
    begun = [build for build, at in list(load.builds.items()) if at < since]
    wait_until(lambda: is_whole(installation), seconds=SETTLE_S, every=0.5)
    left = SETTLE_S - (time.monotonic() - since)
    wait_until(lambda: not list_unfinished(installation, begun), seconds=max(left, 1), every=0.5)


def is_whole(installation: Installation) -> bool:
    """Whether the supervisor lives and every part of it, and readiness misses nothing but Spark."""
    assert installation.process.poll() is None, "the supervisor ended"
    if any(part["state"] not in {"ready", "done"} for part in read_parts(installation.home).values()):
        return False
    try:
        body = requests.get(f"{installation.url}/readyz", timeout=10).json()
    except (requests.ConnectionError, requests.Timeout, ValueError):
        return False
    names = set(body) - {"ready", "details", "spark"}
    return all(body[name] == "ok" for name in names if isinstance(body[name], str))


def list_unfinished(installation: Installation, builds: list[int]) -> list[str]:
    """Return the builds of these that have not ended, and the merges that have not."""
    numbers = ",".join(str(build) for build in builds) or "0"
    unfinished = f"SELECT id FROM builds_build WHERE state IN ('RESOLVING', 'RUNNING') AND id IN ({numbers})"
    waiting = "SELECT id FROM pulls_merge WHERE state = 'prepared'"
    return [str(row) for question in (unfinished, waiting) for row in ask_database(installation.home, question)]


def check_consistency(installation: Installation) -> None:
    """Ask the product's own check of everything."""
    command = [sys.executable, "manage.py", "fsck"]
    result = subprocess.run(
        command, cwd=ROOT, env=installation.environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
