"""Removing folders that code of others has filled."""

import subprocess
from pathlib import Path


def remove_folder(path: Path) -> None:
    """Remove a folder with whatever is in it, however deep; no link in it is followed, and an absent one is passed over.

    `shutil.rmtree` calls itself for each level, and raises RecursionError even where errors are to be ignored.
    """
    subprocess.run(["rm", "-rf", "--", str(path)], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
