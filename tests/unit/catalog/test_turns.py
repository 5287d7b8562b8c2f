"""Commits take turns, and wait for nobody who stands still."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from webapp.catalog.rules.refs import TableRef
from webapp.catalog.services import turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    Take = Callable[[], AbstractContextManager[None]]

REF = TableRef(("shop",), "orders")
HOLD_ALL = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
WRITE = """
import sys, time
from pathlib import Path
import django
django.setup()
from webapp.catalog.services import turns
turns._path = lambda: sys.argv[1]
turns.WAIT_S = 60
log = Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
for _ in range(50):
    with turns.take_writers_turn(), log.open("a") as stream:
        stream.write(sys.argv[3])
        stream.flush()
        time.sleep(0.002)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "commits.lock"
    path.touch()
    monkeypatch.setattr(turns, "_path", lambda: path)
    return path


@pytest.fixture
def other(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has every turn until its input ends."""
    command = [sys.executable, "-c", HOLD_ALL, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


TURNS = pytest.mark.parametrize(
    "take", [lambda: turns.take_turn(REF), turns.take_writers_turn], ids=["at its table", "at the database"]
)


@TURNS
def test_a_commit_waits_for_that_of_another_process(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, take: Take
) -> None:
    monkeypatch.setattr(turns, "WAIT_S", 60)
    ended: list[int | None] = []

    def commit() -> None:
        with take():
            ended.append(other.poll())

    waiting = threading.Thread(target=commit)
    waiting.start()
    time.sleep(0.2)
    assert not ended
    other.kill()
    waiting.join(30)
    assert len(ended) == 1


@TURNS
def test_nobody_waits_long_for_a_process_that_stands_still(other: subprocess.Popen[str], take: Take) -> None:
    with take():
        assert other.poll() is None


def test_a_turn_inside_a_turn_leaves_the_outer_one_alone(file: Path) -> None:
    with turns.take_turn(REF):
        with turns.take_turn(REF):
            pass
        assert not is_free(file)
    assert is_free(file)


@pytest.mark.parametrize("path", ["missing/commits.lock", "."])
def test_without_the_file_there_are_turns_of_threads_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(turns, "_path", lambda: tmp_path / path)
    with turns.take_turn(REF), turns.take_writers_turn():
        pass


def test_two_processes_write_in_turn(file: Path, tmp_path: Path) -> None:
    """While both have something to write they take it in turn, but where a busy machine lets one of them sleep."""
    log = tmp_path / "log"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(file), str(log), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    # Importing takes longer than all that they write: neither begins before the other can.
    assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 2
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0, 0]
    written = log.read_text()
    both = written[max(written.index("a"), written.index("b")) : min(written.rindex("a"), written.rindex("b"))]
    assert (written.count("a"), written.count("b")) == (50, 50)
    assert len(list(groupby(both))) > len(both) / 3
    assert len(both) > 20
    assert is_free(file)


def is_free(file: Path) -> bool:
    """Whether another process would get every turn."""
    command = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", command, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "BlockingIOError" in done.stderr
    return done.returncode == 0
