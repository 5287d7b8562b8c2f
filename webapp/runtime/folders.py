"""Folders that code of others fills: made open for it, and removed."""

import subprocess
from pathlib import Path


def remove_folder(path: str | Path, *, dir_fd: int | None = None) -> None:
    """Remove a folder with whatever is in it, however deep; no link in it is followed, and an absent one is passed over.

    `shutil.rmtree` calls itself for each level, and raises RecursionError even where errors are to be ignored.

    Args:
        path: the folder.
        dir_fd: the open folder that a relative path is in.

    """
    subprocess.run(
        ["rm", "-rf", "--", str(path)],
        check=False,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=None
        if dir_fd is None
        else f"/proc/self/fd/{dir_fd}",  # the child's own, which it has until it becomes `rm`
    )


def make_open_folder(path: Path) -> None:
    """Make a folder that a process with a user of its own may write; the home above it is closed to everybody else."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
