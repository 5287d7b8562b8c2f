"""Many processes write one table, or branches of it: nothing lost, nothing doubled, each branch's history a chain.

The same while the server is killed and started again, while the disk is slow, and with clients that give up waiting and
repeat with the same Idempotency-Key. Small here; `make soak` runs the full sizes and prints the numbers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.catalog.conftest import ROOT, Server, serve, start_server, wait_until_up
from tests.contract.catalog.test_catalog_kill import kill_children_too
from tests.factories.builds import wait_until
from tests.factories.committer import Committer, Order

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]
SLOW = {"PYTHONPATH": str(ROOT / "tests" / "fakes" / "slow_disk"), "SLOW_FSYNC_S": "0.15"}


@dataclass(frozen=True)
class Size:
    """How many write, how often, and how often the server dies meanwhile."""

    writers: int
    commits: int
    kill_every_s: float = 0


MOST_BY_PYICEBERG = 10
"""Commits of a real client: each reads the whole of the table's metadata twice, and every manifest's line of the list.

Beside fourteen writers that commit ten times a second it loses nearly always, and commits once those have ended: then each
takes it ten to twenty seconds, with thousands of snapshots.
"""
KEPT_VERSIONS = 20
SMALL = Size(writers=4, commits=8)
FULL = Size(writers=8, commits=200)
KILLED = Size(writers=8, commits=200, kill_every_s=4)
SIZES = [
    pytest.param(SMALL, id="small"),
    pytest.param(FULL, id="full", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    pytest.param(KILLED, id="killed", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
]


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that these tests kill."""
    running = start_server(tmp_path_factory.mktemp("victims"))
    yield running
    kill_children_too(running.process)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a disk that takes 0.15 seconds for every fsync."""
    held = tmp_path_factory.mktemp("disk") / "held"
    running = start_server(tmp_path_factory.mktemp("slow"), **SLOW, SLOW_FSYNC_HELD=str(held))
    yield running
    kill_children_too(running.process)


def make_table(server: Server) -> str:
    """A new table with one column."""
    namespace = f"n{uuid4().hex[:8]}"
    client = Committer(Order(server.port, server.token, f"{namespace}.t", 0))
    assert client.send("POST", "/iceberg/v1/namespaces", {"namespace": [namespace]})[0] == 200
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    path = f"/iceberg/v1/namespaces/{namespace}/tables"
    assert client.send("POST", path, {"name": "t", "schema": schema})[0] == 200
    return f"{namespace}.t"


def run_writers(
    server: Server, table: str, branches: Sequence[str | None], size: Size, *, timeout_s: float = 30
) -> list[dict[str, Any]]:
    """Let every writer finish in a process of its own; their reports."""
    orders = [Order(server.port, server.token, table, size.commits, branch, timeout_s) for branch in branches]
    return carry_out(server, orders, kill_every_s=size.kill_every_s)


def carry_out(server: Server, orders: Sequence[Order], *, kill_every_s: float = 0) -> list[dict[str, Any]]:
    """Give each order to a process of its own; their reports."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.factories.committer", json.dumps(asdict(order))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for order in orders
    ]
    over = threading.Event()
    killer = threading.Thread(target=kill_now_and_then, args=(server, kill_every_s, over))
    if kill_every_s:
        killer.start()
    try:
        outputs = [process.communicate()[0] for process in processes]
    finally:
        over.set()
        if kill_every_s:
            killer.join()
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [json.loads(output) for output in outputs]


def kill_now_and_then(server: Server, every_s: float, over: threading.Event) -> None:
    while not over.wait(every_s):
        kill_children_too(server.process)
        server.process = serve(server.home, server.port, server.more)
        wait_until_up(server)  # or a slow machine would never let it answer


def share(total: int, writers: int) -> list[int]:
    """So many commits for each writer."""
    each, left = divmod(total, writers)
    return [each + (number < left) for number in range(writers)]


@contextmanager
def pruned(server: Server, table: str) -> Iterator[None]:
    """Remove metadata files that the table's log names no more, as its operator would: the catalog leaves that to them."""
    client = Committer(Order(server.port, server.token, table, 0))
    kept = {"write.metadata.previous-versions-max": str(KEPT_VERSIONS)}
    assert client.send("POST", client.path, {"updates": [{"action": "set-properties", "updates": kept}]})[0] == 200
    location = client.send("GET", client.path)[1]["metadata"]["location"]
    folder, over = Path(location.removeprefix("file://")) / "metadata", threading.Event()

    def prune() -> None:
        while not over.wait(1):
            with suppress(FileNotFoundError):  # the catalog removes those of commits that lost
                files = sorted(folder.glob("*.metadata.json"), key=lambda file: file.stat().st_mtime_ns)
                for file in files[: -2 * KEPT_VERSIONS]:
                    file.unlink()

    pruner = threading.Thread(target=prune)
    pruner.start()
    try:
        yield
    finally:
        over.set()
        pruner.join()


def check_histories(server: Server, table: str, written: dict[str | None, list[list[int]]]) -> None:
    """Every acknowledged commit is in its branch's chain once, each writer's in its order; nothing else is there."""
    everything: set[int] = set()
    for branch, writers in written.items():
        client = Committer(Order(server.port, server.token, table, 0, branch))
        view = client.send("GET", client.path)[1]["metadata"]
        parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in view["snapshots"]}
        chain, at = [], view["refs"]["main"]["snapshot-id"]
        while at is not None:
            chain.append(at)
            at = parents[at]
        chain.reverse()
        assert sorted(chain) == sorted(number for writer in writers for number in writer)
        for writer in writers:
            assert [number for number in chain if number in set(writer)] == writer
        assert [entry["snapshot-id"] for entry in view["snapshot-log"]] == chain
        everything |= set(chain)
        # The first snapshot of a branch follows none, and the specification lets its number be taken.
        sequences = [one["sequence-number"] for one in view["snapshots"] if parents[one["snapshot-id"]] is not None]
        assert len(sequences) == len(set(sequences))
    plain = Committer(Order(server.port, server.token, table, 0))
    stored = plain.send("GET", plain.path)[1]["metadata"]["snapshots"]
    assert {one["snapshot-id"] for one in stored} == everything
    assert len(stored) == len(everything)


def tell(what: str, reports: list[dict[str, Any]]) -> None:
    commits = sum(len(report["acknowledged"]) for report in reports)
    seconds = max(report["seconds"] for report in reports)
    statuses: dict[str, int] = {}
    for report in reports:
        for status, count in report["statuses"].items():
            statuses[status] = statuses.get(status, 0) + count
    conflicts = sum(report["conflicts"] for report in reports)
    repeats = sum(report["repeats"] for report in reports)
    print(
        f"{what}: {commits} commits in {seconds:.1f} s ({commits / seconds:.1f}/s), {conflicts} conflicts, "
        f"{repeats} repeats, {statuses}"
    )


@pytest.mark.parametrize("size", SIZES)
def test_writers_of_one_table_lose_and_double_nothing(victims: Server, size: Size) -> None:
    table = make_table(victims)
    reports = run_writers(victims, table, [None] * size.writers, size)
    tell(f"{size} on one table", reports)
    check_histories(victims, table, {None: [report["acknowledged"] for report in reports]})


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(Size(4, 4), id="small"),
        pytest.param(Size(16, 500), id="full", marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_real_clients_and_bare_requests_with_and_without_the_header_lose_nothing(victims: Server, size: Size) -> None:
    """One table; an eighth of the writers, but at least two, are PyIceberg; every other one sends the header.

    What these commit less than their share the others commit more.
    """
    table = make_table(victims)
    seed = carry_out(victims, [Order(victims.port, victims.token, table, 1, client="pyiceberg")])
    real = max(2, size.writers // 8)
    by_real = min(size.commits, MOST_BY_PYICEBERG)
    others = share(size.writers * size.commits - real * by_real, size.writers - real)
    orders = [
        Order(
            victims.port,
            victims.token,
            table,
            commits,
            branch="master" if number % 2 else None,
            client="pyiceberg" if number < real else "copying",
        )
        for number, commits in enumerate([by_real] * real + others)
    ]
    with pruned(victims, table):
        reports = carry_out(victims, orders)
    assert sum(len(report["acknowledged"]) for report in reports) == size.writers * size.commits
    tell(f"{size}, {real} of them PyIceberg, half with the header", reports)
    assert {status for report in reports for status in report["statuses"]} <= {"200", "409"}
    everybody = [*seed, *reports]
    check_histories(victims, table, {None: [report["acknowledged"] for report in everybody]})
    rows = victims.pyiceberg().load_table(table).scan().to_arrow()["id"].to_pylist()
    assert sorted(rows) == sorted(row for report in everybody for row in report["rows"])


@pytest.mark.parametrize("size", SIZES)
def test_writers_of_branches_lose_and_double_nothing(victims: Server, size: Size) -> None:
    table = make_table(victims)
    branches = [f"branch/{number}" for number in range(size.writers)]
    reports = run_writers(victims, table, branches, size)
    tell(f"{size} on a branch each", reports)
    check_histories(
        victims, table, {name: [report["acknowledged"]] for name, report in zip(branches, reports, strict=True)}
    )
    view = Committer(Order(victims.port, victims.token, table, 0))
    assert view.send("GET", view.path)[1]["metadata"]["refs"].get("main") is None


@pytest.mark.parametrize(
    "size", [pytest.param(Size(2, 3), id="small"), pytest.param(Size(8, 25), id="full", marks=pytest.mark.soak)]
)
def test_clients_that_give_up_and_repeat_on_a_slow_disk(slow: Server, size: Size) -> None:
    """The client's patience ends while the file is being synchronised: the first try goes on, the second is its twin."""
    table = make_table(slow)
    reports = run_writers(slow, table, [None] * size.writers, size, timeout_s=0.2)
    tell(f"{size} with 0.2 s of patience", reports)
    assert sum(report["repeats"] for report in reports) > 0
    check_histories(slow, table, {None: [report["acknowledged"] for report in reports]})


def test_a_disk_that_hangs_holds_up_no_readers(slow: Server) -> None:
    table = make_table(slow)
    held = Path(slow.more["SLOW_FSYNC_HELD"])
    reader = Committer(Order(slow.port, slow.token, table, 0, timeout_s=30))
    reports: list[dict[str, Any]] = []
    writer = threading.Thread(target=lambda: reports.extend(run_writers(slow, table, [None], Size(1, 1))))
    held.touch()
    try:
        writer.start()
        wait_until(held.with_name("held.waiting").exists, seconds=60)
        for _ in range(20):
            status, view = reader.send("GET", reader.path)
            assert status == 200
            assert "main" not in view["metadata"]["refs"]
    finally:
        held.unlink()
        writer.join()
    assert len(reports[0]["acknowledged"]) == 1


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_slow_disk_and_a_server_that_dies(slow: Server) -> None:
    size = Size(writers=8, commits=25, kill_every_s=5)
    table = make_table(slow)
    reports = run_writers(slow, table, [None] * size.writers, size)
    tell(f"{size} on a slow disk", reports)
    check_histories(slow, table, {None: [report["acknowledged"] for report in reports]})
    leftovers = list(Path(slow.home).glob("warehouse/**/*.tmp"))
    print(f"{len(leftovers)} temporary files for the collector")
