"""What sealing tells of folders that somebody may have at hand still."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.entrypoints import folders, sealing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's own folder with a file in it, as open as it is while the job runs."""
    own = tmp_path / "data" / "job-1"
    (own / "part").mkdir(parents=True)
    for path in (own, own / "part"):
        path.chmod(0o777)
    (own / "part" / "rows").write_bytes(b"rows")
    (own / "part" / "rows").chmod(0o666)
    return own


def seal(folder: Path, *, is_shared: bool = False, copies: bool = False) -> dict[str, Any]:
    record = folder.parents[1] / "seal.json"
    sealing.seal([str(folder)], record=str(record), is_shared=is_shared, copies=copies)
    found: dict[str, Any] = json.loads(record.read_text())
    record.unlink()
    return found


@pytest.mark.parametrize("copies", [False, True])
def test_files_are_closed_and_recorded_with_size_and_digest(folder: Path, copies: bool) -> None:
    file = folder / "part" / "rows"
    digest = hashlib.sha256(b"rows").hexdigest()
    found = seal(folder, copies=copies)
    about = {"size": 4, "sha256": digest, "ctime_ns": file.stat().st_ctime_ns}
    assert found == {"files": {str(file): about}, "problems": []}
    modes = [path.stat().st_mode & 0o7777 for path in (folder, file.parent, file)]
    assert modes == [0o755, 0o755, 0o644]
    assert [path.name for path in folder.parent.iterdir()] == ["job-1"]


def test_a_file_that_is_open_for_writing_is_told_and_one_that_is_read_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "PATIENCE_S", 0.1)
    file = folder / "part" / "rows"
    with file.open("rb"):
        assert seal(folder, is_shared=True)["problems"] == []
    with file.open("r+b"):
        held = seal(folder, is_shared=True)["problems"]
        assert held == [f"{file} is still held open for writing by another process"]
    assert list(seal(folder, is_shared=True)["files"]) == [str(file)]


def test_where_the_kernel_cannot_tell_who_writes_copies_take_the_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "_take_lease", lambda _: False)  # as NFS does
    file = folder / "part" / "rows"
    with file.open("r+b") as held:
        assert seal(folder, is_shared=True)["problems"] == []
        held.write(b"gone")
    assert file.read_bytes() == b"rows"
    inode = file.stat().st_ino
    assert seal(folder)["problems"] == []
    assert file.stat().st_ino == inode


def test_copies_are_out_of_reach_of_who_holds_the_originals(folder: Path) -> None:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with (folder / "part" / "rows").open("r+b") as file:
        assert seal(folder, copies=True)["problems"] == []
        file.write(b"gone")
    with pytest.raises(FileNotFoundError):
        os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=held)
    os.close(held)
    assert (folder / "part" / "rows").read_bytes() == b"rows"
    assert [path.name for path in folder.rglob("*")] == ["part", "rows"]


@pytest.mark.parametrize("copies", [False, True])
def test_what_is_no_plain_file_is_told(folder: Path, copies: bool) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "part" / "folder").symlink_to(folder.parent, target_is_directory=True)
    os.link(folder / "part" / "rows", folder / "second")
    problems = " ".join(seal(folder, copies=copies)["problems"])
    for what in (f"{folder}/pipe is a named pipe", f"{folder}/link is a symbolic link", "part/folder is a symbolic"):
        assert what in problems
    # a copy has one name, whatever names its original had
    assert ("hard links" in problems) is not copies


@pytest.mark.parametrize("copies", [False, True])
def test_a_folder_that_is_gone_and_one_without_end_are_told(folder: Path, copies: bool) -> None:
    deep = folder
    for _ in range(folders.DEEPEST + 2):
        deep /= "d"
    deep.mkdir(parents=True)
    assert f"lies deeper than {folders.DEEPEST} folders" in seal(folder, copies=copies)["problems"][0]
    assert "No such file" in seal(folder.with_name("job-2"), copies=copies)["problems"][0]
    assert [path.name for path in folder.parent.iterdir()] == ["job-1"]


def test_a_link_that_takes_the_place_of_a_folder_leads_to_no_copy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "rows").write_text("secret")
    make = os.mkdir

    def make_and_swap(path: str, *arguments: Any, **options: Any) -> None:
        make(path, *arguments, **options)
        if Path(path).name == "part":
            (folder / "part").rename(tmp_path / "away")
            (folder / "part").symlink_to(secrets)

    monkeypatch.setattr(os, "mkdir", make_and_swap)
    found = seal(folder, copies=True)
    assert found["files"] == {}, "the server's link was followed"
    assert f"{folder} could not be sealed" in found["problems"][0]
    assert [path.name for path in folder.parent.iterdir()] == ["job-1"]


def test_a_file_that_grows_while_it_is_copied_is_copied_as_long_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "_CHUNK", 1)
    file = folder / "part" / "rows"
    look = os.fstat
    with file.open("ab") as held, monkeypatch.context() as patch:

        def look_and_append(descriptor: int) -> os.stat_result:
            about = look(descriptor)
            held.write(b" and more")
            held.flush()
            return about

        patch.setattr(os, "fstat", look_and_append)
        assert [about["size"] for about in seal(folder, copies=True)["files"].values()] == [4]
    assert file.read_bytes() == b"rows"


def enter_user_namespace(uid: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: its own maps may be written
    assert libc.unshare(0x10000000) == 0  # CLONE_NEWUSER
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{uid} {uid} 1")


def test_an_ordinary_user_seals_below_a_folder_of_another_of_its_groups(folder: Path, tmp_path: Path) -> None:
    for path in (folder, folder / "part", folder / "part" / "rows", folder.parent, tmp_path):
        os.chown(path, 4242, 4343)
    for path in (folder / "part", folder, folder.parent):
        path.chmod(0o2777)
    record = folder.parents[1] / "seal.json"
    above = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)  # pytest's own folders are closed to others
    child = os.fork()
    if child == 0:
        try:
            os.fchdir(above)
            os.setgroups([4343])
            os.setresgid(4242, 4242, 4242)
            os.setresuid(4242, 4242, 4242)
            enter_user_namespace(4242)
            sealing.seal(["data/job-1"], record="./seal.json", copies=True)
        finally:
            os._exit(0)
    os.close(above)
    os.waitpid(child, 0)
    found = json.loads(record.read_text())
    assert (list(found["files"]), found["problems"]) == (["data/job-1/part/rows"], [])
    assert (folder / "part" / "rows").stat().st_uid == 4242


@pytest.mark.parametrize("copies", [False, True])
def test_files_without_content_that_are_longer_than_any_disk_are_told_and_not_read(folder: Path, copies: bool) -> None:
    before = os.statvfs(folder).f_bfree
    for number in range(400):
        with (folder / f"long-{number}").open("wb") as file:
            file.truncate(1 << 40)
    record = folder.parents[1] / "seal.json"
    started = time.monotonic()
    sealing.seal([str(folder)], record=str(record), copies=copies, most_bytes=1000)
    assert time.monotonic() - started < 5
    problem = f"{folder} could not be sealed: its files are together longer than 1,000 bytes"
    assert json.loads(record.read_text())["problems"][0] == problem
    assert (before - os.statvfs(folder).f_bfree) * os.statvfs(folder).f_frsize < 1 << 30
