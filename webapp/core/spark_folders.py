"""Folders that the installation's own Spark server shares with one sandboxed process: lists of files, and a job's own in tables."""

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from webapp.core.errors import Unavailable
from webapp.core.folders import remove_folder

OPEN_SECONDS = 10


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
    remove_folder(folder)


@contextmanager
def opened_for_spark(folders: Iterable[Path]) -> Iterator[None]:
    """Let the server write folders of tables meanwhile, which it may only read else; see jobs/entrypoints/opener.py.

    Raises:
        Unavailable: it is not there.

    """
    asked = [str(folder) for folder in folders]
    if not asked or not settings.TRIBUTARY_SPARK_OPENER:
        yield
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(OPEN_SECONDS)
        try:
            connection.connect(settings.TRIBUTARY_SPARK_OPENER)
            connection.sendall(json.dumps({"open": asked}).encode() + b"\n")
            answer = json.loads(connection.makefile("rb").readline() or b"{}")
        except (OSError, ValueError) as error:
            message = "The Spark engine is starting or away; the job begins when it answers."
            raise Unavailable(message, code="spark_down") from error
        if "opened" not in answer:
            message = f"The Spark engine cannot be given the job's folders: {answer.get('error', 'no answer')}"
            raise Unavailable(message, code="spark_folders")
        yield
