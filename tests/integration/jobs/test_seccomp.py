"""Calls that change the machine, look into other processes or widen rights are refused, whatever else is open."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from jobs.entrypoints.seccomp import REFUSED, compile_filter
from tests.integration.jobs.conftest import Home

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.uname().machine not in {"x86_64", "aarch64"}, reason="no filter for this machine"),
]
CALL = """
import ctypes, errno, mmap, os, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    outcome = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    return "done" if outcome >= 0 else errno.errorcode[ctypes.get_errno()]
"""


def run(home: Home, source: str) -> str:
    ended, _ = home.run(CALL + source)
    assert ended.code == 0, ended.log
    return ended.log.rpartition("\n0 JobSpecs")[0]


def test_every_refused_call_is_refused_before_its_arguments_are_read(home: Home) -> None:
    """Minus one as each argument is EBADF, EFAULT or EINVAL where the kernel looks at it at all."""
    column = ["x86_64", "aarch64"].index(os.uname().machine)
    numbers = {name: numbers[column] for name, numbers in REFUSED.items() if numbers[column] is not None}
    log = run(home, f"for name, number in {numbers!r}.items(): print(name, call(number, *[-1] * 6))")
    assert log.splitlines() == [f"{name} EPERM" for name in numbers]


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        ("libc.unshare(0x10000000), ctypes.get_errno()", f"-1 {errno.EPERM}"),  # a user namespace of one's own
        ("libc.ptrace(0, 0, 0, 0), ctypes.get_errno()", f"-1 {errno.EPERM}"),
        ("socket.socket(40, socket.SOCK_STREAM)", "Operation not permitted"),  # AF_VSOCK, past the network namespace
        ("socket.socket(38, socket.SOCK_SEQPACKET)", "Operation not permitted"),  # AF_ALG
        ("socket.socket(17, socket.SOCK_RAW)", "Operation not permitted"),  # AF_PACKET
        ("socket.socket(16, socket.SOCK_RAW, 12)", "Operation not permitted"),  # netfilter's netlink
        ("__import__('fcntl').ioctl(0, 0x5412, b'x')", "Operation not permitted"),  # type into the terminal
        ("libc.personality(0x0400000), ctypes.get_errno()", f"-1 {errno.EPERM}"),  # READ_IMPLIES_EXEC
    ],
)
def test_what_hostile_code_asks_of_the_kernel_is_refused(home: Home, attempt: str, answer: str) -> None:
    log = run(home, f"try: print({attempt})\nexcept OSError as error: print(error.strerror)")
    assert log.strip() == answer


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls of this machine")
def test_new_namespaces_are_refused_to_clone_too(home: Home) -> None:
    log = run(home, "print(call(56, 0x10000011, 0, 0, 0, 0), call(435, -1, 88), call(0x40000000 + 39))")
    assert log.split() == ["EPERM", "ENOSYS", "EPERM"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls of this machine")
def test_no_task_has_descriptors_of_its_own(home: Home) -> None:
    """Quotas look at those of processes: a thread that had others would hold files that nobody counts."""
    log = run(home, "print(call(56, 0x10900, 0, 0, 0, 0), call(436, 1000, 1000, 2), call(436, 1000, 1000, 0))")
    assert log.split() == ["EPERM", "EPERM", "done"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its other architecture")
def test_calls_of_the_other_architecture_end_the_process(home: Home) -> None:
    """`int 0x80` with getpid: the numbers mean other calls there."""
    source = """
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
process = os.fork()
if process == 0:
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""
    assert run(home, source).strip() == "-31"


def test_what_transforms_need_still_works(home: Home) -> None:
    source = """
import multiprocessing, duckdb, polars, pyarrow, tempfile
import pyarrow.parquet
threads = [threading.Thread(target=lambda: None) for _ in range(4)]
[thread.start() for thread in threads]
folder = tempfile.mkdtemp()
polars.DataFrame({"a": range(1000)}).write_parquet(folder + "/a.parquet")
print(duckdb.sql(f"select sum(a) from '{folder}/a.parquet'").fetchall(), pyarrow.parquet.read_table(folder).num_rows)
print(subprocess.run(["/bin/echo", "child"], capture_output=True).stdout)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
print(socket.getaddrinfo("localhost", 80)[0][0])
"""
    log = run(home, source).splitlines()
    assert log[:3] == ["[(499500,)] 1000", "b'child\\n'", "[1, 2]"]


def test_both_machines_have_a_filter_of_legal_size() -> None:
    for machine in ("x86_64", "aarch64"):
        instructions = list(compile_filter(machine))
        assert len(instructions) < 4096
        assert all(len(instruction) == 8 for instruction in instructions)


def test_the_tests_own_process_may_do_more() -> None:
    """The refusals above are the filter's: here the kernel does look at the arguments."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(ctypes.c_long(425), ctypes.c_long(-1), ctypes.c_long(-1)) == -1
    assert ctypes.get_errno() != errno.EPERM
