"""Folders that the installation's own Spark server shares with one sandboxed process: lists of files, and a job's own in tables."""

import json
import select
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from webapp.core.errors import Unavailable
from webapp.runtime.folders import remove_folder

OPEN_SECONDS = 10
RENEWAL_SECONDS = 120
"""So long the server may take to start anew for another group."""


def is_renewing() -> bool:
    """Return whether the server starts anew for another group."""
    if not settings.TRIBUTARY_SPARK_OPENER:
        return False
    noted_at = _find_noted_at()
    # In the future: the clock was set back since.
    return noted_at is not None and 0 <= time.time() - noted_at / 1e9 < RENEWAL_SECONDS


def is_spark_shared() -> bool:
    """Return whether Spark is a server of `SPARK_REMOTE`, where transforms of different repositories are not kept apart."""
    return bool(settings.SPARK_REMOTE) and not settings.TRIBUTARY_SPARK_OPENER


def may_use_spark(repository: str) -> bool:
    """Return whether the Spark transforms and the data of a repository may go to the Spark server."""
    allowed = settings.TRIBUTARY_SPARK_REPOSITORIES
    return not allowed or repository in allowed or not is_spark_shared()


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


@dataclass(frozen=True)
class Loan:
    """The server while it is lent to one process."""

    connection: socket.socket | None = None
    """At its opener, which ends with it; None: the server is somebody else's."""
    noted_at: int | None = None
    """When the last server had noted its end, before this loan."""

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended since, with all that ran on it."""
        # after its answer the opener sends nothing more: there is something to read at the end only
        return self.connection is not None and bool(select.select([self.connection], [], [], 0)[0])

    @property
    def why_lost(self) -> str:
        """Why it has ended, where it has said so."""
        if _find_noted_at() in (None, self.noted_at):
            return ""
        return _find_note().read_text()


@contextmanager
def lent_spark(*, group: str, read: Iterable[Path] = (), written: Iterable[Path] = ()) -> Iterator[Loan]:
    """Have the server for a group alone meanwhile, and mount folders in its sandbox, which shows it no others of tables.

    Without such a socket the server is one of `SPARK_REMOTE`, which sees whatever its host shows it. See
    jobs/entrypoints/opener.py.

    Args:
        group: who could have written the code that runs on it; see `webapp/builds/queries/trust.py`.
        read: absolute paths of the folders that it reads, such as those of whole tables.
        written: absolute paths of the folders that it writes.

    Raises:
        Unavailable: it is not there, or another group's now.

    """
    if not settings.TRIBUTARY_SPARK_OPENER:
        yield Loan()
        return
    noted_at = _find_noted_at()
    with _connected() as connection:
        answer = _ask(connection, {"group": group, "show": [*map(str, read)], "open": [*map(str, written)]})
        if "busy" in answer:
            message = f"The Spark engine works for other people's code: {answer['busy']}. The job begins then."
            raise Unavailable(message, code="spark_busy")
        if "opened" not in answer:
            message = f"The Spark engine cannot be given the job's folders: {answer.get('error', 'no answer')}"
            raise Unavailable(message, code="spark_folders")
        yield Loan(connection, noted_at)


def renew_spark(*, why: str) -> None:
    """End the server with all that runs on it, and have it started anew.

    Raises:
        Unavailable: it is not there, or somebody else's.

    """
    if not settings.TRIBUTARY_SPARK_OPENER:
        message = "The Spark server is not this installation's own: whoever runs it has to end what runs on it."
        raise Unavailable(message, code="spark_foreign")
    with _connected() as connection:
        _ask(connection, {"renew": why})


@contextmanager
def _connected() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(OPEN_SECONDS)
        try:
            connection.connect(settings.TRIBUTARY_SPARK_OPENER)
        except OSError as error:
            raise _explain_absence() from error
        yield connection


def _ask(connection: socket.socket, request: Mapping[str, object]) -> dict[str, Any]:
    """Return the answer; an empty one where there was none."""
    try:
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(connection.makefile("rb").readline() or b"{}")
    except (OSError, ValueError) as error:
        raise _explain_absence() from error
    return answer


def _find_note() -> Path:
    """Return the file in which a server notes that it ends to start anew, and why."""
    return Path(f"{settings.TRIBUTARY_SPARK_OPENER}.renewed")


def _find_noted_at() -> int | None:
    with suppress(OSError):
        return _find_note().stat().st_mtime_ns
    return None


def _explain_absence() -> Unavailable:
    return Unavailable("The Spark engine is starting or away; the job begins when it answers.", code="spark_down")
