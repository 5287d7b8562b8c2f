"""What a quota sees, and what is removed when it was exceeded, while somebody changes it still."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.entrypoints.disk_quota import DiskQuota


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
