"""Disks that are full: a small file system of its own over a folder, where this runs as root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, *, size: str = "4m") -> Iterator[Path]:
    """Mount a file system of that size over a folder; skip the test where that is not allowed."""
    before = folder.stat()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode={before.st_mode & 0o7777:o}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        os.chown(folder, before.st_uid, before.st_gid)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Use up the room of the file system that a folder is on."""
    ballast = folder / ".ballast"
    try:
        for size in (1 << 20, 1 << 12):
            with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
        yield
    finally:
        ballast.unlink()
