"""kill -9 at each system call that writes, of one commit of a table and of one merge: old or new, and the way goes on."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.catalog.conftest import Server, serve, start_server, wait_until_up
from tests.contract.catalog.test_catalog_kill import kill_children_too
from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, running_stack, wait_until
from tests.factories.committer import Committer, Order
from tests.factories.strace import killing_at
from tests.factories.supervised import Process, list_descendants
from tests.factories.tiers import further
from tests.faults.client import Client

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ALL = range(1, 300)
"""No commit and no merge takes as many calls of one thread: a long run ends with the first that nothing kills."""


def numbers_of(*few: int) -> pytest.MarkDecorator:
    """Some of the calls in a short run, all of them in a long one."""
    soak = [pytest.mark.soak, pytest.mark.timeout(7200)]
    return pytest.mark.parametrize("numbers", [pytest.param(few, id="few"), pytest.param(ALL, id="all", marks=soak)])


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Server]:
    """A server of this test alone."""
    running = start_server(tmp_path)
    yield running
    kill_children_too(running.process)


@numbers_of(4, 14, 24)
def test_a_commit_killed_at_a_call_is_there_or_not_and_once_when_repeated(
    victim: Server, numbers: Sequence[int]
) -> None:
    table = make_table(victim)
    committer = Committer(Order(victim.port, victim.token, table, 0))
    expected: list[int] = []
    for number in numbers:
        sent: list[int | None] = []
        commit = threading.Thread(target=lambda sent=sent: sent.append(committer.append()))
        workers = list_workers(victim.process.pid)
        with killing_at([worker.pid for worker in workers], number):
            commit.start()
            wait_until(lambda workers=workers: not commit.is_alive() or not all_live(workers), seconds=30, every=0.02)
        survived = all_live(workers)
        if not survived:
            kill_children_too(victim.process)
            victim.process = serve(victim.home, victim.port, victim.more)
            wait_until_up(victim)
        commit.join(60)
        assert sent, f"call {number}: the commit has no answer"
        assert sent[0] is not None, f"call {number}: nobody else writes"
        expected.append(sent[0])
        assert read_chain(committer) == expected, f"call {number}"
        if survived:
            break
    check_end(numbers, number, survived=survived)


def check_end(numbers: Sequence[int], last: int, *, survived: bool) -> None:
    """A short run kills every time; a long one ends with the call that does not come any more."""
    print(f"the first call that killed nothing is {last}" if survived else f"the last call that killed is {last}")
    assert survived is (numbers is ALL), f"call {last}"


def list_workers(parent: int) -> list[Process]:
    """Return the processes that answer below granian's parent."""
    wait_until(lambda: bool(list_descendants(parent)), seconds=30)
    return list_descendants(parent)


def all_live(processes: Sequence[Process]) -> bool:
    """Whether none of them has died."""
    return all(process.lives for process in processes)


def make_table(server: Server) -> str:
    client = Committer(Order(server.port, server.token, "calls.t", 0))
    assert client.send("POST", "/iceberg/v1/namespaces", {"namespace": ["calls"]})[0] == 200
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    assert client.send("POST", "/iceberg/v1/namespaces/calls/tables", {"name": "t", "schema": schema})[0] == 200
    return "calls.t"


def read_chain(committer: Committer) -> list[int]:
    """Return the snapshots of master, oldest first."""
    view = committer.send("GET", committer.path)[1]["metadata"]
    return [entry["snapshot-id"] for entry in view["snapshot-log"]]


@further("integration/pulls/test_merging.py::test_a_cut_merge_is_taken_on_once")
@numbers_of(20, 50, 75)
def test_a_merge_killed_at_a_call_lands_once_and_is_built_once(tmp_path: Path, numbers: Sequence[int]) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with running_stack(home) as stack:
        stack.make_repository()
        assert stack.upload("/shop/raw", "a\n1\n").status_code == 201
        stack.commit({"pipeline.toml": PIPELINE, "pipelines/totals.py": source(0)})
        for number in numbers:
            if survived := merge_once(stack, number):
                break
        check_end(numbers, number, survived=survived)


def source(factor: int) -> str:
    body = f'rows = i0.arrow()\nout.write_table(rows.append_column("factor", pa.array([{factor}] * len(rows))))'
    return HEAD + make_transform("totals", inputs=["/shop/raw"], output="/shop/totals", body=body)


def start_again(stack: Stack) -> None:
    """As the supervisor does: granian ends where a worker dies soon after another one of its number."""
    if stack.parts["web"].poll() is not None:
        stack.start_part("web")


def merge_once(stack: Stack, number: int) -> bool:
    """Merge one change while its writer is killed at a call; whether the web part survived."""
    branch = f"change/{number}"
    stack.call("POST", "/repositories/shop/branches", json={"name": branch, "start_point": "master"}, expect=201)
    stack.commit({"pipelines/totals.py": source(number)}, branch=branch)
    body = {"title": f"Change {number}", "source": branch}
    pull = stack.call("POST", "/repositories/shop/pulls", json=body, expect=201)["number"]
    workers = list_workers(stack.parts["web"].pid)
    client = Client(stack.url, stack.token)
    path, key = f"/repositories/shop/pulls/{pull}/merge", str(uuid4())
    merge = {"bypass": True, "rebuild": "modified"}
    with ThreadPoolExecutor(1) as pool:
        with killing_at([worker.pid for worker in workers], number):
            answer = pool.submit(client.send, "POST", path, key=key, json=merge)
            wait_until(lambda: answer.done() or not all_live(workers), seconds=40, every=0.02)
            survived = all_live(workers)
        while not answer.done():
            start_again(stack)
            wait([answer], timeout=0.5)
    answer.result()  # the client says what it saw where no answer was final

    def is_merged() -> bool:
        if client.get(f"/repositories/shop/pulls/{pull}")["state"] == "merged":
            return True
        client.post(path, json=merge)
        return False

    wait_until(is_merged, seconds=60, every=1)
    content = client.get("/repositories/shop/contents/pipelines/totals.py?ref=master")["content"]
    assert base64.b64decode(content).decode() == source(number), f"call {number}"
    rebuilds = f"SELECT id FROM builds_build WHERE title LIKE 'Rebuild for #{pull}:%'"  # noqa: S608 - our own number
    wait_until(lambda: len(stack.query(rebuilds)) == 1, seconds=60, every=0.5)
    assert stack.wait_for_build(stack.query(rebuilds)[0])["state"] == "COMPLETED", f"call {number}"
    return survived
