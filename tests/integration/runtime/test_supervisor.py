"""The supervisor with real children: order, restarts, silence, stops."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.factories.disks import filled, small_disk
from tests.factories.supervised import find_process
from webapp.runtime import supervisor
from webapp.runtime.pulses import Pulse
from webapp.runtime.supervisor import RENEWED, Part, Supervisor

pytestmark = pytest.mark.integration


def wait_until(condition: Callable[[], object], seconds: float = 15) -> None:
    """Wait for it, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def make_part(tmp_path: Path) -> Callable[..., Part]:
    """A part that runs a line of shell."""

    def make(name: str, line: str, **more: object) -> Part:
        return Part(
            name=name,
            command=["/bin/sh", "-c", line],
            environment=dict(os.environ),
            log=tmp_path / f"{name}.log",
            **more,
        )

    return make


class Driver(Supervisor):
    """Drives the supervisor's loop step by step."""

    def step(self) -> None:
        self._turn()

    def step_until(self, condition: Callable[[], object], seconds: float = 15) -> None:
        def stepped() -> object:
            self.step()
            return condition()

        wait_until(stepped, seconds)


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., Driver]:
    said: list[str] = []
    made: list[Driver] = []

    def make(*parts: Part) -> Driver:
        driver = Driver(parts, status=tmp_path / "parts.json", say=said.append)
        driver.said = said
        made.append(driver)
        return driver

    yield make
    for driver in made:
        driver._stop_all()


def test_part_starts_when_what_it_waits_for_is_ready(make_part, drive, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = make_part("first", "sleep 60", is_ready=mark.exists)
    second = make_part("second", "sleep 60", waits_for=("first",))
    driver = drive(first, second)

    driver.step()
    driver.step()
    assert first.process
    assert second.process is None

    mark.touch()
    driver.step_until(lambda: second.process)


def test_part_that_was_ready_starts_again_at_once_however_often(make_part, drive) -> None:
    part = make_part("part", "sleep 60")
    driver = drive(part)
    driver.step_until(lambda: part.ready)

    for _ in range(4):
        os.kill(part.process.pid, signal.SIGKILL)
        driver.step_until(lambda: part.process is None)
        driver.step()
        assert part.process
        driver.step_until(lambda: part.ready)

    assert part.restarts == 4
    assert all("again at once" in line for line in driver.said)


def test_pauses_between_failed_starts_have_a_limit(make_part, drive) -> None:
    part = make_part("part", "exit 3", is_ready=lambda: False, most_pause=0.1)
    driver = drive(part)

    driver.step_until(lambda: part.restarts == 5)

    assert part.pause == 0.1


def test_pauses_grow_while_a_part_keeps_dying(make_part, drive) -> None:
    part = make_part("part", "exit 3", is_ready=lambda: False)
    driver = drive(part)

    driver.step_until(lambda: part.restarts == 3)

    assert part.pause == 4


def test_what_a_part_leaves_of_its_group_dies_with_it(make_part, drive, tmp_path: Path) -> None:
    part = make_part("part", f"sleep 300 & echo $! > {tmp_path}/left; exit 0")
    driver = drive(part)

    driver.step_until(lambda: part.restarts == 1)

    wait_until(lambda: not find_process(int((tmp_path / "left").read_text())))


def test_supervisor_lives_on_when_it_can_write_nothing(make_part, tmp_path: Path) -> None:
    with small_disk(tmp_path, size="1m") as folder:
        (folder / "log").touch()
        part = make_part("part", "sleep 60")
        part.log = folder / "log"
        late = make_part("late", "sleep 60")
        late.log = folder / "missing" / "log"

        def say(_line: str) -> None:
            raise OSError(errno.ENOSPC, "no room for output")

        driver = Driver([part, late], status=folder / "parts.json", say=say)
        with filled(folder):
            driver.step()
            driver._write_status()
            os.kill(part.process.pid, signal.SIGKILL)
            driver.step_until(lambda: part.restarts == 1 and part.process)
            assert late.process is None
        late.log = folder / "late.log"
        driver.step_until(lambda: late.process)
        driver._write_status()
        assert json.loads((folder / "parts.json").read_text())["part"]["restarts"] == 1
        driver._stop_all()


ONE_BEAT = "printf . > /proc/self/fd/$SUPERVISOR_PIPE;"
BEAT = f"while :; do {ONE_BEAT} sleep 0.1; done"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that waits for seconds, and not for minutes."""
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(supervisor, "BUSY_SECONDS", 4.0)
    monkeypatch.setattr(supervisor, "START_SECONDS", 2.0)


@pytest.mark.usefixtures("impatient")
def test_idle_part_without_a_sign_of_life_is_replaced(make_part, drive) -> None:
    part = make_part("part", f"{ONE_BEAT} sleep 60", probe=Pulse())
    driver = drive(part)
    driver.step_until(lambda: part.ready)
    began = time.monotonic()

    driver.step_until(lambda: part.restarts == 1)

    assert 0.8 < time.monotonic() - began < supervisor.BUSY_SECONDS
    assert any("does not answer" in line for line in driver.said)


@pytest.mark.usefixtures("impatient")
def test_busy_part_has_more_time_for_a_sign_of_life(make_part, drive) -> None:
    part = make_part("part", f"{ONE_BEAT} while :; do :; done", probe=Pulse())
    driver = drive(part)
    driver.step_until(lambda: part.ready)
    began = time.monotonic()

    driver.step_until(lambda: part.restarts == 1)

    assert time.monotonic() - began > supervisor.BUSY_SECONDS - 0.5


@pytest.mark.usefixtures("impatient")
def test_part_that_never_becomes_ready_is_replaced(make_part, drive) -> None:
    part = make_part("part", "sleep 60", probe=Pulse())
    driver = drive(part)

    driver.step_until(lambda: part.restarts == 1)

    assert part.pause == supervisor.PAUSE_SECOND


@pytest.mark.usefixtures("impatient")
def test_part_that_beats_lives_on(make_part, drive) -> None:
    part = make_part("part", BEAT, probe=Pulse())
    driver = drive(part)
    end = time.monotonic() + 2.5

    driver.step_until(lambda: time.monotonic() > end)

    assert (part.ready, part.restarts) == (True, 0)


@pytest.mark.usefixtures("impatient")
def test_stopped_process_of_a_part_is_killed(make_part, drive, tmp_path: Path) -> None:
    """The part itself beats: it has to learn of the death of its child."""
    line = f"sleep 300 & echo $! > {tmp_path}/child; {BEAT} & wait %1; exit 3"
    part = make_part("part", line, probe=Pulse())
    driver = drive(part)
    driver.step_until(lambda: part.ready)
    child = int((tmp_path / "child").read_text())
    os.kill(child, signal.SIGSTOP)

    driver.step_until(lambda: part.restarts == 1)

    assert any(f"Process {child} of part is stopped" in line for line in driver.said)


@pytest.mark.usefixtures("impatient")
def test_supervisor_that_was_stopped_itself_kills_nothing(make_part, drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LATE_SECONDS", 1.5)
    part = make_part("part", BEAT, probe=Pulse())
    driver = drive(part)
    driver.step_until(lambda: part.ready)

    os.kill(part.process.pid, signal.SIGSTOP)
    driver.step()
    time.sleep(2)
    driver.step()
    os.kill(part.process.pid, signal.SIGCONT)

    end = time.monotonic() + 1
    driver.step_until(lambda: time.monotonic() > end)
    assert (part.ready, part.restarts) == (True, 0)


def test_work_done_once_is_repeated_only_for_a_new_start_of_its_base(make_part, drive, tmp_path: Path) -> None:
    base = make_part("base", "sleep 60")
    runs = tmp_path / "runs"
    again = make_part("again", f"echo run >> {runs}", waits_for=("base",), once=True, repeats_with=("base",))
    once = make_part("once", "true", waits_for=("base",), once=True)
    driver = drive(base, again, once)
    driver.step_until(lambda: again.done and once.done)

    os.kill(base.process.pid, signal.SIGKILL)
    driver.step_until(lambda: base.restarts == 1 and base.ready and again.done)

    assert runs.read_text() == "run\nrun\n"
    assert once.done


SCRIPT = """
import os, sys
from pathlib import Path
from webapp.runtime.supervisor import Part, Supervisor

folder = Path(sys.argv[1])
line = "sleep 300 & echo $! > {0}/grandchild; echo $$ > {0}/child; {1} wait; wait".format(folder, sys.argv[2])
part = Part(name="part", command=["/bin/sh", "-c", line], environment=dict(os.environ), log=folder / "log")
Supervisor([part], status=folder / "parts.json", say=lambda text: print(text, flush=True)).run()
"""


def start_script(folder: Path, trap: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), trap], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: (folder / "child").exists() and (folder / "child").read_text().strip())
    return process


def read_pids(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in ("child", "grandchild")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_stops_everything_cleanly(tmp_path: Path, number: int) -> None:
    process = start_script(tmp_path)
    pids = read_pids(tmp_path)

    process.send_signal(number)

    assert process.wait(15) == 0
    assert [pid for pid in pids if find_process(pid)] == []
    assert not (tmp_path / "parts.json").exists()


def test_second_signal_kills_what_will_not_stop(tmp_path: Path) -> None:
    process = start_script(tmp_path, trap="trap '' TERM;")
    pids = read_pids(tmp_path)

    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)

    assert process.wait(15) == 0
    assert time.monotonic() - started < 5
    assert [pid for pid in pids if find_process(pid)] == []


def test_killed_supervisor_leaves_no_child(tmp_path: Path) -> None:
    process = start_script(tmp_path)
    child, grandchild = read_pids(tmp_path)

    process.kill()
    process.wait()

    wait_until(lambda: not find_process(child))
    if find_process(grandchild):  # a grandchild of a shell is not ours to promise; real parts are no shells
        os.kill(grandchild, signal.SIGKILL)


def test_part_that_waits_for_work_done_once_starts_behind_its_end(make_part, drive, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    work = make_part("work", f"until [ -e {gate} ]; do sleep 0.05; done", once=True)
    behind = make_part("behind", "true", waits_for=("work",), once=True)
    driver = drive(work, behind)
    driver.step_until(lambda: work.ready)
    driver.step()
    assert behind.process is None, "the work has only begun"

    gate.touch()
    driver.step_until(lambda: behind.done)


def test_a_server_that_made_room_starts_at_once_however_often(make_part: Callable[..., Part], tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    part = make_part("spark", f"echo >> {starts}; exit {RENEWED}")
    said: list[str] = []
    Driver([part], status=tmp_path / "status", say=said.append).step_until(
        lambda: starts.exists() and len(starts.read_text()) > 4
    )
    assert (part.restarts, part.pause, said) == (0, 0.0, [])
