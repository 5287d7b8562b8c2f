"""The broker of a machine by itself: a small SQLite file of its own, in which a queue holds one message of a kind at most.

A message is a doorbell: it says nothing that a row does not say, so a second one for the same row says nothing at all.
Taking the oldest of a queue costs the same among ten messages and among a hundred thousand. It is apart from the
installation's database, whose write lock it would otherwise take for every ring; and it can be lost, since the sweep
rings again for what is due, so a file that is gone or damaged is made anew.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import Empty
from typing import Any, ClassVar, TypeVar

from kombu.transport import virtual

logger = logging.getLogger(__name__)
WAIT_S = 1.0
"""So long one process waits for another one's write; a request rings, and is not to wait for longer."""
_TABLE = """
CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS message_once ON message (queue, key);
CREATE INDEX IF NOT EXISTS message_oldest ON message (queue, id);
"""
_TIME = "ALTER TABLE message ADD COLUMN put_at REAL NOT NULL DEFAULT 0"
"""Seconds since the host was started; 0 in messages of the previous release."""
_Value = TypeVar("_Value")


class MessageFile:
    """Queues of messages in one file, shared by the processes of a machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def put(self, queue: str, key: str, body: str) -> None:
        """Add a message, unless one of the same key waits in the queue."""
        columns = "(queue, key, body, put_at) VALUES (?, ?, ?, ?)"
        statement = f"INSERT INTO message {columns} ON CONFLICT (queue, key) DO NOTHING"
        self._use(lambda connection: connection.execute(statement, (queue, key, body, time.monotonic())))

    def take(self, queue: str) -> str | None:
        """Remove the oldest message of a queue and return it; None where there is none."""
        return self._use(lambda connection: _take_oldest(connection, queue))

    def count(self, queue: str) -> int:
        """Return how many messages wait."""
        statement = "SELECT count(*) FROM message WHERE queue = ?"
        return int(self._use(lambda connection: connection.execute(statement, (queue,)).fetchone())[0])

    def measure_wait(self, queue: str) -> float | None:
        """Return for how long the oldest message of a queue waits in seconds; None without messages."""
        statement = "SELECT put_at FROM message WHERE queue = ? AND put_at > 0 ORDER BY id LIMIT 1"
        row = self._use(lambda connection: connection.execute(statement, (queue,)).fetchone())
        now = time.monotonic()
        # A later time is from before the host was started again.
        return None if row is None else now - row[0] if row[0] <= now else now

    def purge(self, queue: str) -> int:
        """Remove every message of a queue and return how many there were."""
        return self._use(
            lambda connection: connection.execute("DELETE FROM message WHERE queue = ?", (queue,))
        ).rowcount

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._opened = None

    def _use(self, act: Callable[[sqlite3.Connection], _Value]) -> _Value:
        try:
            return act(self._open())
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            logger.warning("the broker's file %s is damaged (%s): it is made anew", self._path, error)
            self.close()
            self._path.unlink(missing_ok=True)
            return act(self._open())

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the file that has this name now: another process may have made it anew."""
        if self._connection is not None and self._opened == _identify(self._path):
            return self._connection
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._path.exists():
                # What is left of a file that is gone would be read into the new one.
                for ending in ("-wal", "-shm"):
                    Path(f"{self._path}{ending}").unlink(missing_ok=True)
            # A channel is used by one thread at a time, not always by the same one.
            connection = sqlite3.connect(self._path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.executescript(_TABLE)
                if "put_at" not in [row[1] for row in connection.execute("PRAGMA table_info(message)")]:
                    connection.execute(_TIME)
            except sqlite3.DatabaseError:
                connection.close()
                raise
            self._connection, self._opened = connection, _identify(self._path)
        return connection


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _take_oldest(connection: sqlite3.Connection, queue: str) -> str | None:
    oldest = "SELECT id, body FROM message WHERE queue = ? ORDER BY id LIMIT 1"
    while (row := connection.execute(oldest, (queue,)).fetchone()) is not None:
        with closing(connection.execute("DELETE FROM message WHERE id = ? AND queue = ?", (row[0], queue))) as removed:
            if removed.rowcount:
                return str(row[1])
        # Another worker was faster.
    return None


class BrokerChannel(virtual.Channel):  # type: ignore[misc]
    """Puts Celery's messages into the file and takes them out; the id that the doorbell gave a message is its key."""

    do_restore = False  # a message that a worker took and lost is rung again by the sweep

    def _put(self, queue: str, payload: dict[str, Any], **_: Any) -> None:
        self._messages.put(queue, payload["properties"]["correlation_id"], json.dumps(payload))

    def _get(self, queue: str) -> dict[str, Any]:
        body = self._messages.take(queue)
        if body is None:
            raise Empty
        payload: dict[str, Any] = json.loads(body)
        return payload

    def _size(self, queue: str) -> int:
        return self._messages.count(queue)

    def measure_wait(self, queue: str) -> float | None:
        """Return for how long the oldest message of a queue waits in seconds; None without messages."""
        return self._messages.measure_wait(queue)

    def _purge(self, queue: str) -> int:
        return self._messages.purge(queue)

    @property
    def _messages(self) -> MessageFile:
        messages: MessageFile = self.connection.messages
        return messages


class Transport(virtual.Transport):  # type: ignore[misc]
    """The broker in a file; the setting ``CELERY_BROKER_TRANSPORT`` names it, its option ``path`` says where."""

    Channel = BrokerChannel
    driver_type = driver_name = "file"
    default_connection_params: ClassVar[dict[str, Any]] = {}  # there is no host to warn of
    connection_errors = (OSError, sqlite3.OperationalError)
    """A worker that meets a full disk connects again until there is space, instead of ending."""

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.messages = MessageFile(Path(client.transport_options["path"]))

    def close_connection(self, connection: Any) -> None:
        """Close what was opened."""
        super().close_connection(connection)
        self.messages.close()

    def driver_version(self) -> str:
        """Return the version of the file's layout."""
        return "2"
