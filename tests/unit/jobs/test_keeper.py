"""How files that a confined process left change hands."""

from __future__ import annotations

import os
from pathlib import Path

from jobs.entrypoints.folders import remove_folder
from jobs.entrypoints.keeper import take_over


def test_files_change_hands_however_deep_the_folders_beside_them_are(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    for name in ("a", "z"):
        (work / name).write_bytes(b"x")
        os.chown(work / name, 4242, 4242)
    (work / "link").symlink_to(work / "d")
    try:
        take_over(str(work), 4242)
        assert {(work / name).stat().st_uid for name in ("a", "z")} == {os.geteuid()}
    finally:
        remove_folder(str(work))  # pytest could not
    assert not work.exists()
