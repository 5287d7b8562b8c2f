"""What a quota sees, and what is removed when it was exceeded, while somebody changes it still."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.entrypoints import disk_quota
from jobs.entrypoints.disk_quota import DiskQuota
from jobs.entrypoints.memory_limit import MemoryLimit

PR_SET_CHILD_SUBREAPER = 36
LARGE = 64 * 1024 * 1024
WITHOUT_FIRST_TASK = f"""
import ctypes, os, sys, threading, time
def hold():
    if sys.argv[1]:
        file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        os.unlink(sys.argv[1])
        os.write(file, bytes({LARGE}))
    else:
        held = bytearray(os.urandom(1)) * {LARGE}
    print("held", flush=True)
    time.sleep(600)
threading.Thread(target=hold).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "job-1"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "rows").write_bytes(b"rows")
    return folder


def test_removal_follows_no_link_that_takes_the_place_of_a_folder(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "rows").write_bytes(b"of another table")
    away = tmp_path / "away"

    def swap() -> None:
        if not away.exists():
            (own / "part").rename(away)
            (own / "part").symlink_to(victim)

    quota = DiskQuota([str(own)], 1)
    for call in ("stat", "open", "unlink", "rmdir"):
        monkeypatch.setattr(os, call, _swap_at_part(getattr(os, call), swap))
    quota.remove(uid=None, own=[str(own)])
    assert away.exists()
    assert (victim / "rows").read_bytes() == b"of another table"


def _swap_at_part(call: Callable[..., Any], swap: Callable[[], None]) -> Callable[..., Any]:
    """Swap the folder after it was looked at, and before anything else is done with it."""

    def wrapped(path: str, *arguments: Any, **options: Any) -> Any:
        if call.__name__ == "stat":
            result = call(path, *arguments, **options)
            if Path(path).name == "part":
                swap()
            return result
        if "rows" in str(path):
            swap()
        return call(path, *arguments, **options)

    return wrapped


def test_only_a_users_files_are_removed_from_folders_that_are_not_its_own(own: Path, tmp_path: Path) -> None:
    writable = tmp_path / "work"
    writable.mkdir()
    for name, uid in (("theirs", 4242), ("ours", os.geteuid())):
        (writable / name).write_bytes(b"x")
        os.chown(writable / name, uid, -1)
    DiskQuota([str(writable), str(own)], 1).remove(uid=4242, own=[str(own)])
    assert [path.name for path in writable.iterdir()] == ["ours"]
    assert list(own.iterdir()) == []


def test_what_lies_too_deep_to_be_measured_exceeds_the_quota_and_is_removed(own: Path) -> None:
    quota = DiskQuota([str(own)], 1024 * 1024)
    assert not quota.is_exceeded(os.getpid())
    folder = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(70):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    file = os.open("rows", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
    os.write(file, bytes(2 * 1024 * 1024))
    os.close(file)
    os.close(folder)
    assert quota.is_exceeded(os.getpid())
    assert DiskQuota([str(own)], 1024 * 1024).is_exceeded(os.getpid())
    quota.remove(uid=None, own=[str(own)])
    assert list(own.iterdir()) == []


def test_measuring_follows_no_link_that_takes_the_place_of_a_folder(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is more seen than there is, nor less: what was looked at is what is measured."""
    (own / "part" / "rows").write_bytes(bytes(2 * 1024 * 1024))
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "rows").write_bytes(bytes(8 * 1024 * 1024))
    away = tmp_path / "away"
    quota = DiskQuota([str(own)], 1024 * 1024)

    def swap() -> None:
        if not away.exists():
            (own / "part").rename(away)
            (own / "part").symlink_to(tmp_path / "large")

    for call in ("scandir", "open"):
        monkeypatch.setattr(os, call, _swap_before(getattr(os, call), swap))
    assert not quota.is_exceeded(os.getpid())
    assert away.exists()


def _swap_before(call: Callable[..., Any], swap: Callable[[], None]) -> Callable[..., Any]:
    """Swap the folder after it was looked at, and before it is opened by its path or its name."""

    def wrapped(path: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(path, int) and Path(path).name == "part":
            swap()
        return call(path, *arguments, **options)

    return wrapped


@pytest.mark.parametrize("shown", [8 * 1024 * 1024, mmap.PAGESIZE])
def test_a_file_without_a_name_counts_while_it_is_mapped(own: Path, shown: int) -> None:
    if shown == mmap.PAGESIZE and os.geteuid() != 0:
        pytest.skip("only root is told of what is not mapped")
    quota = DiskQuota([str(own)], 1024 * 1024)
    file = os.open(own / "rows", os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(8 * 1024 * 1024))
    mapped = mmap.mmap(file, shown)
    os.unlink(own / "rows")
    os.close(file)
    # Python keeps a descriptor of its own for a mapping: only an exec of another program would not have it
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(str(own / "rows")):
                os.close(int(name))
    assert quota.is_exceeded(os.getpid())
    del mapped


def test_a_file_on_its_way_between_processes_counts(own: Path) -> None:
    """No process has it: its socket says that there is one, and the disk how much it lacks."""
    quota = DiskQuota([str(own)], 1024 * 1024)
    here, there = socket.socketpair()
    file = os.open(own / "rows", os.O_RDWR | os.O_CREAT)
    os.unlink(own / "rows")
    os.write(file, bytes(LARGE))
    os.fsync(file)
    socket.send_fds(here, [b"1"], [file])
    os.close(file)
    assert [quota.is_exceeded(os.getpid()) for _ in range(2)][-1], "one look may meet an honest process just then"
    here.close()
    there.close()


@contextlib.contextmanager
def holding(place: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose first task has ended while another holds a file without a name, or memory."""
    command = [sys.executable, "-c", WITHOUT_FIRST_TASK, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def test_what_a_process_without_its_first_task_holds_counts(own: Path) -> None:
    quota, limit = DiskQuota([str(own)], 1024 * 1024), MemoryLimit(LARGE // 2)
    with holding(str(own / "rows")) as process:
        assert quota.is_exceeded(process.pid)
        assert os.readlink(f"/proc/{process.pid}/ns/pid") == os.readlink("/proc/self/ns/pid"), "it is found like others"
    with holding("") as process:
        assert limit.is_exceeded(process.pid)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)  # what the limit has made of this process


def test_more_names_than_a_job_may_make_are_too_much_however_little_they_hold(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_quota, "MOST_ENTRIES", 20)
    quota = DiskQuota([str(own)], 1 << 40)
    for number in range(10):
        (own / f"empty-{number}").touch()
        (own / f"folder-{number}").mkdir()
    assert not quota.is_exceeded(os.getpid())
    (own / "link").symlink_to("nowhere")
    assert quota.is_exceeded(os.getpid())
