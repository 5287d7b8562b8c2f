"""kill -9 of each process of a running installation: what hangs on it dies with it, and everything comes back by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.factories.builds import HEAD, ROOT, make_transform, wait_until
from tests.factories.crowds import silent_connections
from tests.factories.supervised import Process, SupervisedStack, list_descendants, supervised_stack
from tests.factories.tiers import further, thin
from tests.faults.pace import OwnTime
from webapp.runtime.home_lock import hold_home
from webapp.runtime.supervisor import SILENT_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
USERS = 100
PAGES = ("/repositories", "/datasets", "/builds", "/pulls")
BACK_S = 5
"""So long web may take to answer again after its death."""
REPLACED_S = 20
"""Maximum time in seconds until a part that hangs is ended."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStack]:
    with supervised_stack(tmp_path_factory.mktemp("deaths") / "home") as running:
        yield running


def listeners(port: int) -> set[str]:
    """Return the sockets that listen on a port of loopback, by their inode."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}


def workers_of(parent: Process) -> list[Process]:
    return list_descendants(parent.pid)


def is_healthy(stack: SupervisedStack) -> bool:
    return requests.get(f"http://127.0.0.1:{stack.port}/healthz", timeout=60).status_code == 200


def test_workers_of_web_die_with_their_parent_and_no_connection_is_refused(stack: SupervisedStack) -> None:
    parent = stack.process_of("web")
    workers = workers_of(parent)
    assert workers

    parent.kill()

    wait_until(lambda: not any(process.lives for process in [parent, *workers]), seconds=30, every=0.01)
    assert is_healthy(stack), "the connection waits for the next web process"
    wait_until(lambda: stack.runs_again("web", since=parent), seconds=30)
    assert len(listeners(stack.port)) == 1


def test_dead_worker_of_web_is_replaced_by_its_parent(stack: SupervisedStack) -> None:
    parent = stack.process_of("web")
    before = workers_of(parent)

    before[0].kill()

    wait_until(lambda: not before[0].lives, seconds=30, every=0.01)
    assert is_healthy(stack)
    assert stack.process_of("web") == parent or stack.runs_again("web", since=parent)
    assert len(listeners(stack.port)) == 1


def test_silent_connections_are_no_reason_to_kill_web(stack: SupervisedStack) -> None:
    """More than all places and the queue before them hold, for as long as it takes to be taken for dead."""
    parent = stack.process_of("web")
    before = [parent, *workers_of(parent)]
    with silent_connections(stack.port, 9000):
        assert is_healthy(stack)
        time.sleep(SILENT_SECONDS + 3)
    with silent_connections(stack.port, 9000):
        assert is_healthy(stack)
    assert [parent, *workers_of(parent)] == before


@further("integration/runtime/test_deaths.py::test_silent_connections_are_no_reason_to_kill_web")
def test_a_busy_web_is_not_killed(stack: SupervisedStack) -> None:
    """A hundred people who each ask for a page as soon as they have the last, for longer than the dead are waited for."""
    parent = stack.process_of("web")
    before = [parent, *workers_of(parent)]
    cookies = stack.browser.cookies.get_dict()
    end = time.monotonic() + SILENT_SECONDS + 8

    def use(path: str) -> Counter[tuple[int, bool]]:
        answers: Counter[tuple[int, bool]] = Counter()
        while time.monotonic() < end:
            answer = requests.get(f"http://127.0.0.1:{stack.port}{path}", cookies=cookies, timeout=60)
            answers[answer.status_code, "Retry-After" in answer.headers] += 1
        return answers

    with ThreadPoolExecutor(USERS + 1) as pool:
        users = [pool.submit(use, PAGES[number % len(PAGES)]) for number in range(USERS)]
        health = pool.submit(use, "/healthz")
        answers = sum((user.result() for user in users), Counter[tuple[int, bool]]())
    print(f"answers: {dict(answers)}; of health: {health.result().total()}")
    assert set(health.result()) == {(200, False)}
    assert (200, False) in answers
    assert set(answers) <= {(200, False), (503, True)}
    assert [parent, *workers_of(parent)] == before


def test_web_is_back_within_seconds_of_its_death(stack: SupervisedStack, record_property: Any) -> None:
    """Seconds as a machine of its own would have given them: what strangers used of the processors does not count."""
    parent = stack.process_of("web")
    workers = workers_of(parent)
    spent = OwnTime([os.getpid(), stack.parts["supervisor"].pid])

    parent.kill()
    # Often, because what a process has used is not seen any more once it is dead.
    wait_until(
        lambda: spent.update() > 0 and not any(process.lives for process in [parent, *workers]), seconds=30, every=0.01
    )
    assert is_healthy(stack)

    took = spent.update()
    record_property("web_back_s", round(took, 2))
    print(f"web answered again {took:.2f} s after kill -9, {spent.wall:.2f} s by the clock")
    assert took < BACK_S


@pytest.mark.parametrize(
    "part",
    thin(["worker-quick", "worker-builds", "sweep", "fork-server"], every_run=["worker-builds"]),
)
def test_each_part_comes_back_and_leaves_nothing(stack: SupervisedStack, part: str) -> None:
    process = stack.process_of(part)
    below = list_descendants(process.pid)

    process.kill()

    wait_until(lambda: not any(each.lives for each in [process, *below]), seconds=30)
    wait_until(lambda: stack.runs_again(part, since=process), seconds=60)


@pytest.mark.parametrize(
    "part",
    thin(["worker-quick", "worker-builds", "sweep", "fork-server", "web"], every_run=["worker-quick"]),
)
def test_each_part_that_is_stopped_is_replaced(stack: SupervisedStack, part: str) -> None:
    process = stack.process_of(part)
    below = list_descendants(process.pid)

    os.kill(process.pid, signal.SIGSTOP)

    wait_until(lambda: not process.lives, seconds=REPLACED_S)
    wait_until(lambda: not any(each.lives for each in below), seconds=30)
    wait_until(lambda: stack.runs_again(part, since=process), seconds=60)
    wait_until(lambda: set(stack.readiness()["details"]) and stack.works("worker") and stack.is_warm(), seconds=60)


@further("integration/runtime/test_deaths.py::test_each_part_that_is_stopped_is_replaced")
def test_stopped_worker_of_web_is_replaced_alone(stack: SupervisedStack) -> None:
    parent = stack.process_of("web")
    worker = workers_of(parent)[-1]

    os.kill(worker.pid, signal.SIGSTOP)

    wait_until(lambda: not worker.lives, seconds=REPLACED_S)
    wait_until(lambda: is_healthy(stack), seconds=30)


@further("integration/runtime/test_deaths.py::test_web_is_back_within_seconds_of_its_death")
def test_web_is_back_each_time_that_it_dies(stack: SupervisedStack) -> None:
    for _ in range(6):
        parent = stack.process_of("web")
        dying = [parent, *workers_of(parent)]
        spent = OwnTime([os.getpid(), stack.parts["supervisor"].pid])
        parent.kill()
        wait_until(
            lambda dying=dying, spent=spent: spent.update() > 0 and not any(process.lives for process in dying),
            seconds=30,
            every=0.01,
        )
        assert is_healthy(stack)
        assert spent.update() < BACK_S
        wait_until(lambda parent=parent: stack.runs_again("web", since=parent), seconds=30)


@further("integration/runtime/test_deaths.py::test_web_is_back_within_seconds_of_its_death")
def test_builds_outlive_the_death_of_web_and_have_their_effect_once(stack: SupervisedStack) -> None:
    """Eight light builds, web killed twice while their jobs read and commit: its workers first, then all of it."""
    names = [f"out{number}" for number in range(8)]
    # Asks the catalog all the time, so that some request is under way whenever web dies.
    body = "for _ in range(150):\n    i0._connections.load('shop.raw', '/shop/raw')\nout.write_table(i0.arrow())"
    sources = [make_transform(name, inputs=["/shop/raw"], output=f"/shop/{name}", body=body) for name in names]
    stack.make_repository()
    assert stack.upload("/shop/raw", "a,b\n1,x\n").status_code == 201
    stack.commit({"pipelines/outs.py": HEAD + "".join(sources)})
    builds = [stack.start_build(f"/shop/{name}")["id"] for name in names]
    stack.wait_for_job(builds[0], "RUNNING")

    for kill_all in (False, True):
        parent = stack.process_of("web")
        workers = workers_of(parent)
        dying = [parent, *workers] if kill_all else workers
        for process in [parent] if kill_all else workers:
            process.kill()
        wait_until(lambda dying=dying: not any(process.lives for process in dying), seconds=30, every=0.01)
        assert is_healthy(stack)

    ended = [stack.wait_for_build(build, seconds=120) for build in builds]
    assert [build["state"] for build in ended] == ["COMPLETED"] * 8, [build["jobs"][0]["reason"] for build in ended]
    for name in names:
        assert stack.rows(f"/shop/{name}") == [{"a": 1, "b": "x"}]
        assert len(stack.history(f"/shop/{name}")) == 1
    assert [job["lost"] for build in ended for job in build["jobs"] if job.get("lost")] == []


def test_second_supervisor_on_a_home_is_refused_by_name(stack: SupervisedStack) -> None:
    for arguments in ((), ("--role", "worker")):
        second = subprocess.run(
            [sys.executable, "manage.py", "run", *arguments],
            cwd=ROOT,
            env=stack.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 1
        assert str(stack.home) in second.stderr
        assert f"process {stack.parts['supervisor'].pid} on " in second.stderr
    assert is_healthy(stack)


def test_dead_supervisor_takes_everything_with_it_and_the_next_one_starts(stack: SupervisedStack) -> None:
    processes = stack.processes()
    assert len(processes) >= 6

    os.kill(stack.parts["supervisor"].pid, signal.SIGKILL)
    stack.parts["supervisor"].wait()

    wait_until(lambda: not any(process.lives for process in processes), seconds=30)
    # A process counts as dead while the last of its threads still lets go of what it had open.
    wait_until(lambda: listeners(stack.port) == set(), seconds=30)
    with pytest.raises(requests.ConnectionError):
        is_healthy(stack)

    stack.run()
    assert is_healthy(stack)
    assert len(listeners(stack.port)) == 1


@further("integration/runtime/test_deaths.py::test_dead_supervisor_takes_everything_with_it_and_the_next_one_starts")
def test_spark_dies_whole_with_each_of_its_processes_and_with_the_supervisor(tmp_path: Path) -> None:
    """Its sandbox is a chain of processes above the server; not waited for until it is warm, which takes long."""
    with supervised_stack(tmp_path / "home", SPARK_REMOTE="") as stack:

        def has_server() -> bool:
            return any(process.command.split()[0].endswith("/java") for process in stack.processes() if process.command)

        for chosen in (0, -1):  # what the supervisor started, the server itself
            wait_until(has_server, seconds=90)
            part = stack.process_of("spark")
            chain = [part, *list_descendants(part.pid)]
            chain[chosen].kill()
            wait_until(lambda chain=chain: not any(process.lives for process in chain), seconds=30)
        wait_until(has_server, seconds=90)
        processes = stack.processes()

        os.kill(stack.parts["supervisor"].pid, signal.SIGKILL)
        stack.parts.pop("supervisor").wait()

        wait_until(lambda: not any(process.lives for process in processes), seconds=30)


@further("integration/runtime/test_deaths.py::test_each_part_that_is_stopped_is_replaced")
def test_stopped_spark_is_replaced(tmp_path: Path) -> None:
    """Connections to a stopped server are taken by the kernel and by the relay, and not answered."""
    with supervised_stack(tmp_path / "home", SPARK_REMOTE="") as stack:
        for chosen in (0, -1):  # what the supervisor started, the server itself
            wait_until(lambda: stack.status()["spark"]["state"] == "ready", seconds=120)
            part = stack.process_of("spark")
            chain = [part, *(each for each in list_descendants(part.pid) if "/java" in each.command.split()[0])]

            os.kill(chain[chosen].pid, signal.SIGSTOP)

            if chosen:
                wait_until(lambda: not stack.works("spark"), seconds=5)
            wait_until(lambda part=part: not part.lives, seconds=REPLACED_S)
        wait_until(lambda: stack.status()["spark"]["state"] == "ready", seconds=120)
        assert stack.status()["spark"]["restarts"] == 2


def test_web_and_workers_on_two_hosts_share_a_home(tmp_path: Path) -> None:
    """What the lock files say: a worker beside a web host, but no second worker, and none beside both."""
    script = "import sys; from pathlib import Path; from webapp.runtime.home_lock import hold_home; "
    script += "hold_home(Path(sys.argv[1]), role='worker')"

    def second() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)

    assert second().returncode == 0
    locks = hold_home(tmp_path, role="worker")
    refused = second()
    assert (refused.returncode, f"process {os.getpid()}" in refused.stderr) == (1, True)
    for lock in locks:
        os.close(lock)
    assert second().returncode == 0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_spark_builds_outlive_the_death_of_web(tmp_path: Path) -> None:
    """Spark's client of the catalog tries again by itself, with a key of its own, as long as it can connect."""
    with supervised_stack(tmp_path / "home", SPARK_REMOTE="") as stack:
        stack.make_repository()
        assert stack.upload("/shop/raw", "a,b\n1,x\n").status_code == 201
        names = [f"spark{number}" for number in range(3)]
        body = "for _ in range(12):\n    ctx.spark.table('shop.raw').count()\nout.write_dataframe(i0.dataframe())"
        sources = [
            make_transform(name, inputs=["/shop/raw"], output=f"/shop/{name}", body=body)
            .replace("@transform.using", "@transform.spark.using")
            .replace("(i0, out)", "(ctx, i0, out)")
            for name in names
        ]
        stack.commit({"pipelines/sparks.py": HEAD + "".join(sources)})
        wait_until(lambda: stack.works("spark"), seconds=180, every=1)
        builds = [stack.start_build(f"/shop/{name}")["id"] for name in names]
        stack.wait_for_job(builds[0], "RUNNING", seconds=60)
        for _ in range(2):
            time.sleep(3)
            killed = [stack.process_of("web"), *workers_of(stack.process_of("web"))]
            killed[0].kill()
            wait_until(lambda killed=killed: not any(process.lives for process in killed), seconds=30, every=0.01)
            assert is_healthy(stack)

        ended = [stack.wait_for_build(build, seconds=200) for build in builds]
        assert [build["state"] for build in ended] == ["COMPLETED"] * 3, [build["jobs"][0]["reason"] for build in ended]
        for name in names:
            assert stack.rows(f"/shop/{name}") == [{"a": 1, "b": "x"}]
            assert len(stack.history(f"/shop/{name}")) == 1
