"""Folders that the installation's own Spark server and one sandboxed process both see: lists of files in an object store lie there."""

import shutil
from pathlib import Path

from django.conf import settings


def find_spark_folder(name: str) -> Path | None:
    """Return the folder of that name; None where Spark is a server elsewhere, which sees no folder of this machine."""
    shared = settings.TRIBUTARY_SPARK_FOLDER
    return find_listings(Path(shared)) / name if shared else None


def find_listings(server_folder: Path) -> Path:
    """Return where in a server's folder those of all processes are."""
    return server_folder / "listings"


def open_spark_folder(folder: Path) -> None:
    """Make the folder, which the sandboxed process writes under a user of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)


def remove_spark_folder(folder: Path) -> None:
    """Remove the folder with whatever was left in it."""
    shutil.rmtree(folder, ignore_errors=True)
