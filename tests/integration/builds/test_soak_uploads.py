"""Two gigabytes in one multipart request: streamed to the disk and into the table, with the memory of every part bounded."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.factories.builds import Stack, running_stack, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.soak, pytest.mark.timeout(3600)]
SIZE = int(os.environ.get("SOAK_UPLOAD_BYTES") or 2 * 1024**3)
BLOCK_ROWS = 10_000
WEB_MEMORY = 200 * 1024**2
"""How much the web half may grow while it takes the file in."""
JOB_MEMORY = 3 * 1024**3


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An installation whose jobs may take as long as their size allows."""
    home = tmp_path_factory.mktemp("large") / "home"
    home.mkdir(mode=0o700)
    with running_stack(home) as running:
        yield running


def make_blocks(size: int) -> Iterator[bytes]:
    """CSV of about that size, block by block."""
    head = b"id,amount,code,text\n"
    yield head
    sent, row = len(head), 0
    while sent < size:
        lines = (
            f"{n},{n * 7919 % 1_000_003}.25,c{n % 97},text of row {n * 31 % 1_000_000_007}\n"
            for n in range(row, row + BLOCK_ROWS)
        )
        block = "".join(lines).encode()
        row += BLOCK_ROWS
        sent += len(block)
        yield block


def send(stack: Stack, dataset: int, blocks: Callable[[], Iterator[bytes]]) -> tuple[int, dict[str, object]]:
    """POST the blocks as one multipart field, never holding more than one."""
    before = b'--b0\r\nContent-Disposition: form-data; name="file"; filename="big.csv"\r\n\r\n'
    after = b"\r\n--b0--\r\n"
    length = len(before) + sum(len(block) for block in blocks()) + len(after)
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=900)
    connection.putrequest("POST", f"/api/v1/datasets/{dataset}/upload?branch=master")
    for name, value in (
        ("Authorization", f"Bearer {stack.token}"),
        ("Content-Type", "multipart/form-data; boundary=b0"),
        ("Content-Length", str(length)),
    ):
        connection.putheader(name, value)
    connection.endheaders(before)
    for block in blocks():
        connection.send(block)
    connection.send(after)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def tree_of(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for number in found:
        for task in Path(f"/proc/{number}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def resident(pids: list[int]) -> int:
    """The memory that processes hold now."""
    total = 0
    for pid in pids:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


class Watch:
    """The largest memory of the web half and of the job runner, looked at ten times a second."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.peaks = {"web": 0, "fork": 0}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.start = {name: resident(tree_of(stack.parts[name].pid)) for name in self.peaks}

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.over.wait(0.1):
            for name in self.peaks:
                self.peaks[name] = max(self.peaks[name], resident(tree_of(self.stack.parts[name].pid)))


def test_two_gigabytes_in_one_request(large: Stack) -> None:
    dataset = large.call("POST", "/datasets", json={"path": "/shop/large"}, expect=201)["id"]
    large.upload("/shop/small", "a\n1\n")
    rows = sum(block.count(b"\n") for block in make_blocks(SIZE)) - 1
    started = time.monotonic()
    with Watch(large) as watch:
        status, body = send(large, dataset, lambda: make_blocks(SIZE))
        sent = time.monotonic() - started
        assert status in (201, 202), body
        build = large.wait_for_build(int(str(body["id"])), seconds=3000)
    took = time.monotonic() - started
    grown = {name: watch.peaks[name] - watch.start[name] for name in watch.peaks}
    print(
        f"{SIZE / 1024**3:.2f} GiB, {rows:,} rows: answered {status} after {sent:.0f} s, in the table after {took:.0f} s; "
        f"web grew by {grown['web'] / 1024**2:.0f} MiB, the job took {grown['fork'] / 1024**2:.0f} MiB"
    )
    assert build["state"] == "COMPLETED", (build["jobs"][0]["reason"], large.log(build["jobs"][0]["id"]))
    assert build["jobs"][0]["outputs"][0]["summary"]["rows"] == rows
    assert grown["web"] < WEB_MEMORY
    assert grown["fork"] < JOB_MEMORY
    wait_until(lambda: not list((large.home / "uploads").iterdir()), seconds=30)
