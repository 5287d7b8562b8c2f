"""Rings a worker. The message only carries an id: the row is the truth, and a lost ring is repeated by the sweeper.

That is why a ring never fails who rings. A broker that is away costs a request a second at most; then nobody tries for a
moment, so that the others do not wait as well.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from typing import Any

from celery import current_app
from kombu import Connection
from kombu.exceptions import OperationalError

from jobs.parsing import load_json
from webapp.core import clock
from webapp.runtime.broker import BrokerChannel

logger = logging.getLogger(__name__)
QUEUES = ("quick", "builds")
WAIT_S = 1.0
"""So long a ring waits for the broker's connection and for its answer."""
PAUSE_S = 2.0
"""So long nobody rings after a ring that failed."""
ROOM = 50
"""The sweep rings again while fewer messages than this wait, so that what is never taken does not grow."""
SENT_AT = "sent_at"
"""Header of a message: seconds since 1970."""
_OPTIONS: dict[str, dict[str, float]] = {
    "redis": {"socket_connect_timeout": WAIT_S, "socket_timeout": WAIT_S},
    "amqp": {"read_timeout": WAIT_S, "write_timeout": WAIT_S},
}
"""Per kind of broker, what makes one that is there and does not answer fail in time."""


class _Bell:
    """The process's own connection for ringing, apart from the one on which a worker listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._producer: Any = None
        self._silent_until = 0.0
        self.missed = 0

    def ring(self, task_name: str, queue: str, kwargs: dict[str, Any]) -> bool:
        with self._lock:
            if time.monotonic() < self._silent_until:
                self.missed += 1
                return False
            try:
                current_app.send_task(
                    task_name,
                    kwargs=kwargs,
                    queue=queue,
                    task_id=name_message(task_name, kwargs),
                    headers={SENT_AT: clock.now().timestamp()},
                    producer=self._connect(),
                    retry=False,
                )
            except (OperationalError, OSError) as error:
                self.missed += 1
                self._silent_until = time.monotonic() + PAUSE_S
                self._disconnect()
                logger.warning("the broker does not take messages (%s): the sweep rings again", error)
                return False
            return True

    def _connect(self) -> Any:
        if self._producer is None:
            self._connection = connect()
            self._producer = current_app.amqp.Producer(self._connection, auto_declare=False)
        return self._producer

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            connection.release()


_bell = _Bell()


def ring(task_name: str, *, queue: str, **kwargs: Any) -> bool:
    """Ask a worker to look at a row; return whether the broker took the message. Call it inside `transaction.on_commit`."""
    return _bell.ring(task_name, queue, kwargs)


def name_message(task_name: str, kwargs: dict[str, Any]) -> str:
    """Return the same name for every ring that asks for the same thing."""
    digest = hashlib.sha256(json.dumps(kwargs, sort_keys=True).encode()).hexdigest()
    return f"{task_name}:{digest[:32]}"


def connect() -> Connection:
    """Return a connection to the broker that gives up within a second or so instead of trying again."""
    connection = current_app.connection_for_write()
    options = {**connection.transport_options, "max_retries": 0, **_OPTIONS.get(connection.transport.driver_type, {})}
    return connection.clone(connect_timeout=WAIT_S, transport_options=options)


def count_missed() -> int:
    """Return how many rings of this process the broker did not take."""
    return _bell.missed


def count_messages(queue: str) -> int:
    """Return how many messages wait in a queue.

    Raises:
        OSError: the broker is away.

    """
    try:
        with connect() as connection:
            channel = connection.default_channel
            try:
                return int(current_app.amqp.queues[queue](channel).queue_declare(passive=True).message_count)
            except connection.channel_errors:
                return 0  # nobody has used the queue yet, or it is empty where empty queues are not kept
    except OperationalError as error:
        raise ConnectionError(str(error)) from error


def measure_wait(queue: str) -> float | None:
    """Return for how long the oldest message of a queue waits in seconds; None without messages, and for AMQP.

    AMQP shows a message only to a client that takes it.

    Raises:
        OSError: the broker is away.

    """
    try:
        with connect() as connection:
            channel = connection.default_channel
            if isinstance(channel, BrokerChannel):
                return channel.measure_wait(queue)
            if connection.transport.driver_type != "redis":
                return None
            oldest = channel.client.lindex(queue, -1)
            sent_at = None if oldest is None else load_json(oldest)["headers"].get(SENT_AT)
            return None if sent_at is None else max(0.0, clock.now().timestamp() - float(sent_at))
    except OperationalError as error:
        raise ConnectionError(str(error)) from error
    except (ValueError, TypeError, LookupError, AttributeError):
        return None  # not a message: the worker drops it


def count_room(queue: str) -> int:
    """Return how many rings may be repeated now: none while enough messages wait, or while the broker is away."""
    try:
        return max(0, ROOM - count_messages(queue))
    except OSError:
        return 0
