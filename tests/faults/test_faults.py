"""Mixed load, one fault after another, and after each: acknowledged once, everything ended, nothing to be mended by hand."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from tests.factories.builds import PASSWORD, ROOT
from tests.factories.disks import small_disk
from tests.factories.postgres import Postgres, find_programs, running_postgres
from tests.factories.supervised import SupervisedStack, find_process, supervised_stack
from tests.factories.tiers import further
from tests.faults.barrier import Barrier
from tests.faults.client import Client
from tests.faults.faults import DAMAGES, Fault, build_clock, list_faults
from tests.faults.leftovers import check_two_passes
from tests.faults.load import Load
from tests.faults.pace import OwnTime, wait_at_own_pace
from tests.faults.states import list_unfinished, note_usage
from tests.faults.usage import Usage

pytestmark = pytest.mark.integration
SETTLE_S = 60
"""How long after a fault everything must work again and what was begun before it must have ended."""
SPARK_S = 180
SHORT, LONG = 45, 900
LONG_ON_POSTGRESQL = 300
ONLY = os.environ.get("FAULTS_ONLY", "")
"""Part of the names of the faults to make, to look for one defect; FAULTS_SEED makes the same choices again."""


@dataclass(frozen=True)
class Plan:
    """How long a run goes on, and how."""

    seconds: float
    lasting: float
    """How long a fault that lasts does so."""
    together: int = 1
    """How many faults happen before everything must have settled."""
    with_spark: bool = False
    """A writer that is Spark, and a Spark server that is killed as other parts are."""
    with_supervisor: bool = False
    """The supervisor is killed, too."""
    damages: int = len(DAMAGES)
    """How many kinds of damaged files there are in a round."""
    shows_leaks: bool = True
    """Whether everything settles often enough to say that nothing grows; a minute is too short for that."""
    pause: float = 0.2
    """How long each client waits before it does something more."""


QUICK = Plan(SHORT, lasting=3, together=3, damages=1, shows_leaks=False, pause=1)


@dataclass
class Run:
    """An installation under load, and what was seen of it."""

    stack: SupervisedStack
    load: Load
    usage: Usage = field(default_factory=Usage)
    happened: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    """The longest that anything took to settle, in seconds of our own."""


@contextmanager
def running(folder: Path, **more: str) -> Iterator[SupervisedStack]:
    """An installation on a disk of its own that can be filled, by a clock that can be moved."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    with small_disk(home, size="1g"), supervised_stack(home, **build_clock(folder), **more) as stack:
        yield stack


@further("integration/builds/test_crashes.py::test_worker_killed_is_noticed_and_the_job_tried_again")
@pytest.mark.timeout(600)
def test_faults_under_load(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        run_faults(stack, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_faults_under_load_at_length(tmp_path: Path) -> None:
    with running(tmp_path, SPARK_REMOTE="") as stack:
        run_faults(stack, Plan(LONG, lasting=12, with_spark=True, with_supervisor=True))
        # Its start takes longer than all else may take to settle.
        spent = OwnTime([os.getpid(), stack.parts["supervisor"].pid])
        wait_at_own_pace(lambda: stack.works("spark"), spent=spent, seconds=SPARK_S)


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.skipif(find_programs() is None, reason="no PostgreSQL server: apt-get install postgresql")
def test_faults_under_load_on_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stacked:
        server = stacked.enter_context(running_postgres())
        monkeypatch.setenv("DATABASE_URL", server.url)
        stack = stacked.enter_context(running(tmp_path))
        run_faults(stack, Plan(LONG_ON_POSTGRESQL, lasting=8, with_supervisor=True), server)


def run_faults(stack: SupervisedStack, plan: Plan, server: Postgres | None = None) -> None:
    """Make one fault of each kind after another until the time is over; the same seed, the same choices."""
    seed = int(os.environ.get("FAULTS_SEED") or random.randrange(10**6))
    print(f"FAULTS_SEED={seed}")
    dice = random.Random(seed)
    run = Run(stack, start_load(stack, dice, plan))
    end = time.monotonic() + plan.seconds
    with run.load.running():
        while time.monotonic() < end:
            faults = list_faults(
                stack,
                dice,
                seconds=plan.lasting,
                server=server,
                with_supervisor=plan.with_supervisor,
                damages=plan.damages,
            )
            faults = [fault for fault in faults if ONLY in fault.name]
            for number, fault in enumerate(dice.sample(faults, len(faults)), start=1):
                if time.monotonic() < end:
                    run_fault(run, fault, dice)
                    if number % plan.together == 0:
                        settle(run)
    settle(run)
    check_two_passes(stack)
    run.load.check()
    print(f"faults: {', '.join(f'{count} × {name}' for name, count in sorted(run.happened.items()))}")
    print(f"{run.load.summary()}; settled after {run.slowest:.1f} s at most")
    print(run.usage.summary())
    if plan.shows_leaks:
        run.usage.check()


def start_load(stack: SupervisedStack, dice: random.Random, plan: Plan) -> Load:
    """Make two people and what they work on."""
    operator, barrier = Client(stack.url, stack.token), Barrier()
    answer = operator.post("/users", json={"username": "rita", "password": PASSWORD})
    assert answer.status_code == 201, answer.text
    answer = requests.post(f"{stack.url}/tokens", json={"name": "tests"}, auth=("rita", PASSWORD), timeout=30)
    author = Client(stack.url, stack.token, barrier)
    reviewer = Client(stack.url, answer.json()["token"], barrier)
    load = Load(
        stack,
        author=author,
        reviewer=reviewer,
        operator=operator,
        barrier=barrier,
        dice=random.Random(dice.random()),
        with_spark=plan.with_spark,
        pause=plan.pause,
    )
    load.prepare()
    return load


def run_fault(run: Run, fault: Fault, dice: random.Random) -> None:
    """Let it happen at a random moment."""
    time.sleep(dice.uniform(0, 2))
    started = time.monotonic()
    fault.happen()
    run.happened[fault.name] += 1
    print(f"{fault.name}: {time.monotonic() - started:.1f} s")


def settle(run: Run) -> None:
    """Wait until every part works and what was begun has ended, under load; then let nobody work, and look at all."""
    stack, load = run.stack, run.load
    spent = OwnTime([os.getpid(), stack.parts["supervisor"].pid])
    begun = list(load.builds)
    try:
        wait_at_own_pace(lambda: is_whole(stack), spent=spent, seconds=SETTLE_S)
        wait_at_own_pace(lambda: not list_unfinished(stack, begun), spent=spent, seconds=SETTLE_S)
        run.slowest = max(run.slowest, spent.update())
        with load.barrier.closed():
            calm = OwnTime([os.getpid(), stack.parts["supervisor"].pid])
            wait_at_own_pace(lambda: not list_unfinished(stack), spent=calm, seconds=SETTLE_S)
            print(f"settled after {spent.seconds:.1f} s, {spent.wall:.1f} s by the clock; calm {calm.wall:.1f} s later")
            load.check_writers()
            load.check()
            check_consistency(stack)
            note_usage(stack, run.usage)
    except AssertionError as error:
        details = [load.operator.get(f"/builds/{build}") for build in list(load.builds)[-10:]]
        raise AssertionError(f"{error}; readiness {stack.readiness()}; unfinished builds {unended(details)}") from error
    load.raise_failures()


def unended(builds: list[dict[str, object]]) -> list[dict[str, object]]:
    """What matters of builds that have not ended."""
    names = ("id", "state", "reason", "created_at", "started_at", "jobs")
    return [{name: build[name] for name in names} for build in builds if build["state"] in {"RESOLVING", "RUNNING"}]


def is_whole(stack: SupervisedStack) -> bool:
    """Whether the supervisor lives and every part of it, and readiness misses nothing but Spark."""
    assert stack.parts["supervisor"].poll() is None, "the supervisor ended"
    try:
        parts, body = {name: part for name, part in stack.status().items() if name != "spark"}, stack.readiness()
    except (OSError, ValueError, requests.RequestException):
        return False
    if any(part["state"] not in {"ready", "done"} for part in parts.values()):
        return False
    if not all(find_process(part["pid"]) for part in parts.values() if part["pid"]):
        return False  # the supervisor has not noticed yet
    states = {name: state for name, state in body.items() if isinstance(state, str) and name != "spark"}
    return set(states.values()) == {"ok"}


def check_consistency(stack: SupervisedStack) -> None:
    """Ask the product's own check of everything."""
    command = [sys.executable, "manage.py", "fsck"]
    result = subprocess.run(command, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
