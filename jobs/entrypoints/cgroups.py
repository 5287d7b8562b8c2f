"""The kernel's own limit on the memory of a process and all that it starts: a control group for each. Standard library only.

Groups are made below the one that this program is in, where the kernel and whoever started it allow that (`find_groups`
tries it once): `v2`, where a group that hands memory on may hold no processes itself, so all that are in it move into a
leaf; or `v1` of Linux 4.13 and later. Elsewhere the sum over the processes is watched; see memory_limit.py.

A group counts what the watched sum does, and also the kernel's own memory and the files in /tmp and /dev/shm. When it is
full, and nothing in it can be written back to a disk, the kernel kills: with v2 all that is in the group, with v1 one process,
and whoever looks at `Group.is_exceeded` the rest.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.entrypoints.memory_limit import EXCEEDED, LEAST_PAUSE_S

Version = Literal["v1", "v2"]

_JOB = "tributary-job-"
"""With the number of the process that keeps the job: whoever comes later sees by it whose group is left over."""
_REST = "tributary-rest"
"""The leaf for everything that is no job."""
_PASSES = 5
"""Processes that are started while others are moved are moved with the next pass."""
_TRIED_BYTES = 64 * 2**20
_NEARLY_BYTES = 4 * 2**20
"""What asks for pages is killed when the limit leaves no room for as many as it wants at once, two MiB at most."""


@dataclass(frozen=True)
class Group:
    """One job's processes, which together hold no more than a limit."""

    folder: Path
    version: Version
    allowed: int

    code = EXCEEDED
    pause_s = LEAST_PAUSE_S
    """So long to wait before the next look: one small file is read."""

    def take_in(self, process: int) -> None:
        """Move a process in; what it starts from then on is inside, too.

        Raises:
            OSError: the kernel does not let it.

        """
        (self.folder / "cgroup.procs").write_text(str(process))

    def is_exceeded(self, _child: int) -> bool:
        """Return whether the kernel killed for this limit, not because the machine or a group above ran out of memory."""
        try:
            if self.version == "v2":
                events = self._read_pairs("memory.events")
                return events["oom_kill"] > 0 and events["oom"] > 0
            return self._read_pairs("memory.oom_control")["oom_kill"] > 0 and self._was_full()
        except (OSError, KeyError):
            return False

    def _was_full(self) -> bool:
        most = int((self.folder / "memory.max_usage_in_bytes").read_text())
        return most + _NEARLY_BYTES >= self.allowed

    def _read_pairs(self, name: str) -> dict[str, int]:
        lines = (self.folder / name).read_text().splitlines()
        return {key: int(number) for key, number in map(str.split, lines)}


@dataclass(frozen=True)
class Groups:
    """Where the groups of jobs are made."""

    folder: Path
    version: Version

    @property
    def name(self) -> str:
        """What this is called where people read it."""
        return f"cgroup {self.version}"

    def create_group(self, allowed: int) -> Group:
        """Make the group of the job that this process keeps; `allowed` is its limit in bytes.

        Raises:
            OSError: the kernel does not let it.

        """
        folder = self.folder / f"{_JOB}{os.getpid()}"
        with suppress(FileNotFoundError):
            folder.rmdir()  # of an earlier process with this number: its counts are not to be taken for ours
        folder.mkdir()
        (_limit_v2 if self.version == "v2" else _limit_v1)(folder, allowed)
        return Group(folder, self.version, allowed)

    def sweep(self) -> bool:
        """Remove the groups whose keepers are gone; return whether one is left whose processes are still ending."""
        leftovers = [folder for folder in self.folder.glob(f"{_JOB}*") if not _is_alive(folder.name.removeprefix(_JOB))]
        return not all([_remove(folder) for folder in leftovers])  # noqa: C419 - every one of them

    def clear(self) -> None:
        """Remove them, and wait for processes that are still ending."""
        _wait_until(lambda: not self.sweep())


def find_groups(process: Path = Path("/proc/self")) -> Groups | None:
    """Return where groups with a limit can be made; None where they cannot, which is found by making one.

    Args:
        process: the folder of this process in /proc.

    """
    for version, folder in _list_own(process):
        with suppress(OSError):
            groups = Groups(_open_up(folder) if version == "v2" else folder, version)
            groups.sweep()
            _try(groups)
            return groups
    return None


def _try(groups: Groups) -> None:
    """Move a process into a group with a limit, and see that the kernel counts what it kills there."""
    group = groups.create_group(_TRIED_BYTES)
    try:
        waits, ends = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ends)
            os.read(waits, 1)
            os._exit(0)
        try:
            group.take_in(child)
            is_counted = group.version == "v2" or "oom_kill " in (group.folder / "memory.oom_control").read_text()
        finally:
            os.close(ends)
            os.close(waits)
            os.waitpid(child, 0)
        if not is_counted:
            raise OSError("this kernel does not say what it kills")
    finally:
        _wait_until(lambda: _remove(group.folder))


def _list_own(process: Path) -> Iterator[tuple[Version, Path]]:
    """Yield the folders of the groups that a process is in and that may limit memory."""
    try:
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        memberships = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in memberships:
        version: Version = "v1" if controllers else "v2"
        if (controllers and "memory" not in controllers.split(",")) or ".." in path.split("/"):
            continue
        for root, point, kind, options in (_read_mount(mount) for mount in mounts):
            is_it = kind == "cgroup2" if version == "v2" else kind == "cgroup" and "memory" in options
            inside = os.path.relpath(path, root)
            if is_it and not inside.startswith(".."):
                yield version, Path(point) / inside


def _read_mount(mount: list[str]) -> tuple[str, str, str, list[str]]:
    r"""Read which part of a file system is mounted where, its kind and its options; spaces in paths stand as \040."""
    rest = mount.index("-") + 1
    root, point = (path.replace("\\040", " ") for path in mount[3:5])
    return root, point, mount[rest], mount[rest + 2].split(",")


def _open_up(own: Path) -> Path:
    """Let the group of this process hand memory on; return it.

    Raises:
        OSError: it has no memory to hand on, or belongs to somebody else.

    """
    folder = own.parent if own.name == _REST else own
    if "memory" not in (folder / "cgroup.controllers").read_text().split():
        raise OSError("no memory controller is handed down to this group")
    if "memory" not in (folder / "cgroup.subtree_control").read_text().split():
        if (folder / "cgroup.type").exists():  # the topmost group alone has none, and may hold processes
            _move_into_leaf(folder)
        (folder / "cgroup.subtree_control").write_text("+memory")
    return folder


def _move_into_leaf(folder: Path) -> None:
    leaf = folder / _REST
    leaf.mkdir(exist_ok=True)
    for _ in range(_PASSES):
        processes = (folder / "cgroup.procs").read_text().split()
        if not processes:
            break
        for process in processes:
            with suppress(ProcessLookupError):  # it has ended
                (leaf / "cgroup.procs").write_text(process)


def _limit_v2(folder: Path, allowed: int) -> None:
    (folder / "memory.max").write_text(str(allowed))
    for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        with suppress(OSError):  # a kernel without swap, or older than 4.19
            (folder / name).write_text(value)


def _limit_v1(folder: Path, allowed: int) -> None:
    with suppress(OSError):  # it may be for the group above to say
        (folder / "memory.oom_control").write_text("0")
    (folder / "memory.limit_in_bytes").write_text(str(allowed))
    try:
        (folder / "memory.memsw.limit_in_bytes").write_text(str(allowed))
    except OSError:  # a kernel that does not count what it swaps, and so is not to swap
        (folder / "memory.swappiness").write_text("0")


def _is_alive(number: str) -> bool:
    """Return whether a process runs: one that has ended has a number until its parent asks for it."""
    with suppress(OSError):
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in {"Z", "X"}
    return False


def _remove(folder: Path) -> bool:
    """Remove a group; return whether there is nothing to wait for: it cannot go while a process is in it."""
    try:
        folder.rmdir()
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _wait_until(is_done: Callable[[], bool]) -> None:
    """Wait for what the kernel does within milliseconds, and no longer than a second."""
    deadline = time.monotonic() + 1
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.01)
