"""Where the kernel's groups are found, and what is written in them: with plain files in place of the kernel's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jobs.entrypoints.cgroups import Groups, find_groups

LIMIT = 3 * 2**30


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The group of this process, in a tree of version 2 that is mounted from its middle."""
    own = tmp_path / "mount" / "service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.subtree_control").write_text("")
    (own / "cgroup.type").write_text("domain\n")
    (own / "cgroup.procs").write_text("4711\n")
    return own


def describe_process(tmp_path: Path, *, group: str, root: str = "/machine") -> Path:
    """A folder like that of a process in /proc, which is in this group."""
    process = tmp_path / "process"
    process.mkdir()
    (process / "cgroup").write_text(f"4:freezer:/elsewhere\n0::{group}\n")
    mount = tmp_path / "mount"
    (process / "mountinfo").write_text(
        "31 23 0:28 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw\n"
        f"36 31 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
        f"41 31 0:38 {root} {mount} rw,relatime - cgroup2 cgroup2 rw\n"
    )
    return process


def find(process: Path) -> Groups:
    """The groups of that process; the kernel would have removed the one that was tried."""
    groups = find_groups(process)
    assert groups is not None
    shutil.rmtree(groups.folder / f"tributary-job-{os.getpid()}")
    return groups


def test_in_version_2_other_processes_move_into_a_leaf_before_memory_is_handed_on(own: Path, tmp_path: Path) -> None:
    groups = find(describe_process(tmp_path, group="/machine/service"))

    assert (groups.folder, groups.name) == (own, "cgroup v2")
    assert (own / "tributary-rest" / "cgroup.procs").read_text() == "4711"
    assert (own / "cgroup.subtree_control").read_text() == "+memory"


def test_a_process_that_was_moved_makes_groups_beside_the_leaf(own: Path, tmp_path: Path) -> None:
    (own / "cgroup.subtree_control").write_text("memory")
    (own / "tributary-rest").mkdir()

    groups = find(describe_process(tmp_path, group="/machine/service/tributary-rest"))

    assert groups.folder == own
    assert not (own / "tributary-rest" / "cgroup.procs").exists()


def test_a_group_of_version_2_limits_memory_and_swap_and_ends_as_a_whole(own: Path, tmp_path: Path) -> None:
    group = find(describe_process(tmp_path, group="/machine/service")).create_group(LIMIT)
    group.take_in(815)

    names = ("memory.max", "memory.swap.max", "memory.oom.group", "cgroup.procs")
    assert [(group.folder / name).read_text() for name in names] == [str(LIMIT), "0", "1", "815"]
    assert group.folder.parent == own


@pytest.mark.parametrize(
    ("oom", "oom_kill", "is_exceeded"), [(0, 0, False), (1, 2, True), (0, 1, False), (3, 0, False)]
)
def test_only_what_was_killed_for_the_groups_own_limit_has_exceeded_it(
    own: Path, oom: int, oom_kill: int, *, is_exceeded: bool
) -> None:
    group = Groups(own, "v2").create_group(LIMIT)
    (group.folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom {oom}\noom_kill {oom_kill}\n")

    assert group.is_exceeded(0) is is_exceeded


@pytest.mark.parametrize(
    ("most", "oom_kill", "is_exceeded"),
    [(LIMIT, 1, True), (LIMIT - 2**20, 1, True), (LIMIT // 2, 1, False), (LIMIT, 0, False)],
)
def test_version_1_says_how_full_a_group_was(own: Path, most: int, oom_kill: int, *, is_exceeded: bool) -> None:
    group = Groups(own, "v1").create_group(LIMIT)
    (group.folder / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {oom_kill}\n")
    (group.folder / "memory.max_usage_in_bytes").write_text(f"{most}\n")

    assert group.is_exceeded(0) is is_exceeded


@pytest.mark.parametrize("group", ["/machine/../other", "/elsewhere"])
def test_a_group_that_cannot_be_seen_from_here_is_none(own: Path, tmp_path: Path, group: str) -> None:
    assert find_groups(describe_process(tmp_path, group=group)) is None
    assert (own / "cgroup.subtree_control").read_text() == ""


def test_without_a_memory_controller_nothing_is_moved(own: Path, tmp_path: Path) -> None:
    (own / "cgroup.controllers").write_text("cpu pids\n")

    assert find_groups(describe_process(tmp_path, group="/machine/service")) is None
    assert not (own / "tributary-rest").exists()


def test_only_groups_whose_keepers_are_gone_are_removed(own: Path) -> None:
    groups = Groups(own, "v2")
    ours, gone = own / f"tributary-job-{os.getpid()}", own / "tributary-job-999999999"
    for folder in (ours, gone):
        folder.mkdir()

    assert groups.sweep() is False
    assert (ours.exists(), gone.exists()) == (True, False)
