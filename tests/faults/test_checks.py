"""The checks of the fault tier can fail: each is given what it must find."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.barrier import Barrier
from tests.faults.comparisons import Comparer
from tests.faults.ledger import Ledger
from tests.faults.pace import MOST, OwnTime, wait_at_own_pace
from tests.faults.people import People
from tests.faults.test_long_use import NO_LEAK_A_REQUEST, SAMPLES_OF_A_MINUTE
from tests.faults.usage import FEWEST, Sample, Usage

pytestmark = pytest.mark.integration
LEAK = "import os\nkept = []\nwhile input():\n    kept.append(bytearray(os.urandom(8 << 20)))\n    kept += [os.open('/', 0) for _ in range(4)]\n    print()"
FLAT = "import os\nwhile input():\n    bytearray(os.urandom(8 << 20))\n    os.close(os.open('/', 0))\n    print()"


@contextmanager
def part(program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that does something for each line."""
    process = subprocess.Popen(
        [sys.executable, "-uc", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def sample(program: str) -> Usage:
    usage = Usage()
    with part(program) as process:
        assert process.stdin
        assert process.stdout
        for _ in range(FEWEST * 2):
            process.stdin.write("go on\n")
            process.stdout.readline()
            usage.note("planted", [process.pid])
    return usage


def test_a_planted_leak_of_memory_and_descriptors_is_found() -> None:
    with pytest.raises(AssertionError, match=r"planted grew from \d+ to \d+ MiB; planted grew from \d+ to \d+ desc"):
        sample(LEAK).check()
    sample(FLAT).check()


def test_too_few_samples_are_no_proof() -> None:
    """Neither of a leak nor of none: who asks is told so, with the limits of the minute of use as with any."""
    few, enough = (Usage(NO_LEAK_A_REQUEST) for _ in range(2))
    few.samples = {"planted": grow(FEWEST - 1), "often seen": grow(FEWEST)}
    for usage, message in ((few, f"too few samples.*{{'planted': {FEWEST - 1}}}"), (Usage(), "too few samples")):
        with pytest.raises(AssertionError, match=message):
            usage.check()
    enough.samples["planted"] = grow(SAMPLES_OF_A_MINUTE)
    with pytest.raises(AssertionError, match=r"^planted grew from \d+ to \d+ descriptors$"):
        enough.check()


def grow(times: int) -> list[Sample]:
    """What a part uses that forgets a descriptor with each of the some twenty requests between two samples."""
    return [Sample(100, 50 + 20 * number, 10) for number in range(times)]


@pytest.mark.parametrize(
    ("present", "what"),
    [(["b"], "lost"), (["a", "a"], "doubled"), (["a", "c"], "refused but there"), (["a", "d"], "never written")],
)
def test_what_differs_from_what_was_told_is_found(present: list[str], what: str) -> None:
    ledger = Ledger("rows", {"a": "acknowledged", "b": "unknown", "c": "refused"})
    ledger.check(["a"])
    ledger.check(["a", "b"])
    with pytest.raises(AssertionError, match=what):
        ledger.check(present)


CSV = (
    "change,copies,before.id,after.id,before.n,after.n\r\ninserted,1,,c,,3\r\ndeleted,1,a,,1,\r\nupdated,1,b,b,2,5\r\n"
)
BEFORE = {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 2}}
AFTER = {"b": {"id": "b", "n": 5}, "c": {"id": "c", "n": 3}}


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"inserted": 2, "deleted": 1, "updated": 1, "unchanged": 0}, CSV),
        ({"inserted": 1, "deleted": 1, "updated": 1, "unchanged": 0}, CSV.replace(",c,", ",d,")),
        ({"inserted": 1, "deleted": 1, "updated": 1, "unchanged": 0}, f"{CSV}updated,1,b,b,2,5\r\n"),
    ],
)
def test_a_row_diff_that_does_not_say_what_the_rows_say_is_found(counts: dict[str, int], text: str) -> None:
    Comparer.check("/shop/raw", {"inserted": 1, "deleted": 1, "updated": 1, "unchanged": 0}, CSV, BEFORE, AFTER)
    with pytest.raises(AssertionError):
        Comparer.check("/shop/raw", counts, text, BEFORE, AFTER)


def test_a_wait_at_ones_own_pace_ends_in_vain() -> None:
    started = time.monotonic()
    spent = OwnTime([os.getpid()])
    with pytest.raises(AssertionError, match="in vain"):
        wait_at_own_pace(lambda: False, spent=spent, seconds=0.3, every=0.05)
    assert spent.seconds > 0.3 or spent.wall > MOST * 0.3
    assert spent.seconds <= spent.wall <= time.monotonic() - started


def test_nobody_passes_a_closed_barrier_and_who_passed_is_waited_for() -> None:
    barrier, seen = Barrier(), []

    def work(name: str, seconds: float) -> None:
        with barrier.passing():
            time.sleep(seconds)
            seen.append(name)

    early, late = threading.Thread(target=work, args=("early", 0.3)), threading.Thread(target=work, args=("late", 0))
    early.start()
    time.sleep(0.1)
    with barrier.closed():
        assert seen == ["early"]
        late.start()
        time.sleep(0.1)
        assert seen == ["early"]
    late.join(10)
    early.join(10)
    assert seen == ["early", "late"]


class ProposerAndReviewer(People):
    """What Ada proposes late in her round waits for Rita; the others do nothing."""

    begun, proposed, merged = threading.Event(), threading.Event(), threading.Event()

    def _changes(self) -> Callable[[], None]:
        def propose() -> None:
            self.begun.set()
            time.sleep(0.3)
            self.proposed.set()
            self._wait(self.merged.is_set)

        return propose

    def _reviews(self) -> Callable[[], None]:
        return lambda: self.merged.set() if self.proposed.is_set() else None

    def _rows(self) -> Callable[[], None]:
        return lambda: None

    _reads = _rows


def test_who_has_proposed_something_is_not_left_waiting_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.people.MERGED_S", 5)
    nowhere: Any = None
    people = ProposerAndReviewer(nowhere, random.Random(1), pause=0.05)
    with people.working():
        people.begun.wait(5)
    assert people.merged.is_set()
