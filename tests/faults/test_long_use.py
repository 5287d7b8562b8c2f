"""Four people work for hours: what the installation holds is flat once it is warm, and no answer is a server error."""

from __future__ import annotations

import math
import os
import random
import time
from pathlib import Path

import pytest

from tests.factories.builds import wait_until
from tests.factories.supervised import supervised_stack
from tests.factories.tiers import further
from tests.faults.people import People
from tests.faults.states import list_unfinished, note_usage
from tests.faults.usage import Limits, Usage

pytestmark = pytest.mark.integration
LONG_S = float(os.environ.get("LONG_USE_SECONDS", "7200"))
"""How long the long one goes on; LONG_USE_SEED makes the same choices again."""
SAMPLES_OF_A_MINUTE = 10
QUIET_S = 300
"""How long what was begun may go on when nobody begins anything any more."""
FLAT = Limits(growth=1.1, mib=10, descriptors=10)
NO_LEAK_A_REQUEST = Limits(growth=1.1, mib=math.inf, descriptors=60)
"""In the first minute pools and caches fill; one descriptor for each of some hundred requests is more than that."""
TEMPORARY = ("jobs", "uploads")
"""Folders of the home in which nothing lies while nothing runs."""


@further("integration/runtime/test_deaths.py::test_each_part_comes_back_and_leaves_nothing")
@pytest.mark.timeout(600)
def test_a_minute_of_use_leaves_nothing_behind(tmp_path: Path) -> None:
    use(tmp_path, seconds=20, samples=SAMPLES_OF_A_MINUTE, pause=0.2, limits=NO_LEAK_A_REQUEST)


@pytest.mark.soak
@pytest.mark.timeout(4 * LONG_S + 600)
def test_hours_of_use_are_flat(tmp_path: Path) -> None:
    use(tmp_path, seconds=LONG_S, samples=120, pause=0.5, limits=FLAT)


def use(folder: Path, *, seconds: float, samples: int, pause: float, limits: Limits) -> None:
    """Let people work for so long; look at the installation so often, each time when nothing runs."""
    seed = int(os.environ.get("LONG_USE_SEED") or random.randrange(10**6))
    print(f"LONG_USE_SEED={seed}")
    home, temporary = folder / "home", folder / "tmp"
    home.mkdir(mode=0o700)
    temporary.mkdir()
    temporary.chmod(0o1777)
    usage = Usage(limits)
    with supervised_stack(home, TMPDIR=str(temporary)) as stack:
        people = People(stack, random.Random(seed), pause)
        people.prepare()
        with people.working():
            for _ in range(samples):
                time.sleep(seconds / samples)
                people.raise_failures()
                with people.barrier.closed():
                    wait_until(lambda: not list_unfinished(stack), seconds=QUIET_S)
                    # What ended just now is cleared away by whoever ran it.
                    wait_until(lambda: not list_left([temporary, *(home / name for name in TEMPORARY)]), seconds=30)
                    note_usage(stack, usage)
    print(f"rounds: {dict(people.rounds)}; answers: {dict(sorted(people.answers.items()))}", *people.silences, sep="\n")
    print(usage.summary())
    assert {status: count for status, count in people.answers.items() if status >= 500} == {}
    usage.check()


def list_left(folders: list[Path]) -> list[Path]:
    """What lies in folders that are for a moment only."""
    return [path for folder in folders if folder.exists() for path in folder.iterdir()]
