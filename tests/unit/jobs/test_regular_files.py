"""Files that others have put there: only regular ones below the folder are opened, and nobody waits for any."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import regular_files
from jobs.protocol import JobResult, ProtocolError, read_message
from jobs.regular_files import NotRegular, open_beneath, read_beneath, read_regular

pytestmark = pytest.mark.timeout(20)


@pytest.fixture(params=["openat2", "folder by folder"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table's folder beside somebody else's, opened in both ways."""
    if request.param != "openat2":
        monkeypatch.setattr(regular_files.sys, "platform", "elsewhere")
    mine = tmp_path / "mine"
    (mine / "data" / "deep").mkdir(parents=True)
    (mine / "data" / "deep" / "rows").write_bytes(b"mine")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "rows").write_bytes(b"secret")
    return mine


def _link_file(mine: Path) -> str:
    (mine / "link").symlink_to("../others/rows")
    return "link"


def _link_inside(mine: Path) -> str:
    (mine / "inner").symlink_to("data/deep/rows")
    return "inner"


def _link_folder(mine: Path) -> str:
    (mine / "away").symlink_to("../others")
    return "away/rows"


def _magic_link(mine: Path) -> str:
    (mine / "proc").symlink_to("/proc/self")
    return "proc/environ"


def _fifo(mine: Path) -> str:
    os.mkfifo(mine / "data" / "fifo")
    return "data/fifo"


def _socket(mine: Path) -> str:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(mine / "socket"))
    return "socket"


def _device(mine: Path) -> str:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(mine / "zero", 0o20666, os.makedev(1, 5))
    return "zero"


@pytest.mark.parametrize(
    "make",
    [_link_file, _link_inside, _link_folder, _magic_link, _fifo, _socket, _device, lambda _: "data", lambda _: "."],
)
def test_what_is_no_regular_file_of_the_folder_is_refused(folder: Path, make: Callable[[Path], str]) -> None:
    with pytest.raises(NotRegular):
        open_beneath(folder, make(folder))


@pytest.mark.parametrize("name", ["../others/rows", "data/../../others/rows", "/etc/passwd", "data/deep/.."])
def test_names_that_lead_out_are_refused(folder: Path, name: str) -> None:
    with pytest.raises(NotRegular):
        read_beneath(folder, name)


def test_regular_files_are_read_as_far_as_asked(folder: Path) -> None:
    assert read_beneath(folder, "data/deep/rows") == b"mine"
    assert read_beneath(folder, "data/deep/rows", at_most=2) == b"mi"
    assert read_regular(folder / "data" / "deep" / "rows") == b"mine"
    before = len(os.listdir("/proc/self/fd"))
    for name in ("data/deep/absent", "data/deep/rows/below", "data/absent/rows"):
        with pytest.raises(OSError) as caught:
            read_beneath(folder, name)
        assert not isinstance(caught.value, NotRegular)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_above_the_folder_is_the_operators_own(folder: Path) -> None:
    elsewhere = folder.parent / "mounted"
    elsewhere.symlink_to(folder)
    assert read_beneath(elsewhere, "data/deep/rows") == b"mine"


def test_an_answer_that_is_a_fifo_keeps_nobody_waiting(folder: Path) -> None:
    with pytest.raises(ProtocolError, match="not a regular file"):
        read_message(JobResult, folder / _fifo(folder))
