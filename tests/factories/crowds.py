"""Crowds of clients that connect and say nothing, or little, and what they cost a server."""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.factories.supervised import list_descendants

ADDRESSES = 200
SLOW_REQUESTS = (
    b"GET /login HTTP/1.1\r\nHost: loc",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200\r\n\r\nusername=i",
    b"POST /api/v1/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    b"POST /iceberg/v1/oauth/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
)


@contextmanager
def silent_connections(port: int, number: int) -> Iterator[None]:
    """Hold so many connections to a port of loopback open, from many of its addresses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as stack:
            for place in range(number):
                source = (f"127.0.1.{place % ADDRESSES + 1}", 0)
                end = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=source)
                stack.enter_context(end)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def slow_clients(port: int, number: int) -> Iterator[None]:
    """Hold requests open that have begun, and come no further."""
    with ExitStack() as stack:
        for place in range(number):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            connection.sendall(SLOW_REQUESTS[place % len(SLOW_REQUESTS)])
        yield


def measure_processor(pid: int, work: Callable[[], object]) -> float:
    """Return the processor's time in seconds that a process and those below it take while something is done."""
    before = _processor_s(pid)
    work()
    return _processor_s(pid) - before


def _processor_s(pid: int) -> float:
    pids = [pid, *(process.pid for process in list_descendants(pid))]
    fields = [Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split() for number in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


def count_threads(pid: int) -> int:
    """Return the number of threads of a process and those below it."""
    pids = [pid, *(process.pid for process in list_descendants(pid))]
    return sum(len(os.listdir(f"/proc/{number}/task")) for number in pids)


def read_peak_mib(pid: int) -> float:
    """The most that a process, or one below it, ever had in memory."""
    pids = [pid, *(process.pid for process in list_descendants(pid))]
    sizes = [re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{number}/status").read_text()) for number in pids]
    return max(int(size[1]) for size in sizes if size) / 1024
