"""A worker's consumer that lives through messages which nobody sent in good faith."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer
from redis.exceptions import DataError

logger = logging.getLogger(__name__)
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError, zlib.error, DataError)
"""What Celery and Kombu raise of a message that has not the form of one; they refuse what is of another content type themselves."""


class ToughConsumer(Consumer):  # type: ignore[misc]
    """Drops what is no message, with a line in the log, where Celery's own would end the worker.

    Whoever may write to the broker could else stop all work with one line, again and again.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # What cannot be read at all has left the queue by then: the connection is made anew, and the next one is read.
        self.connection_errors += MALFORMED

    def create_task_handler(self, *arguments: Any, **options: Any) -> Callable[[Any], None]:
        """Return what is called with each message."""
        handle = super().create_task_handler(*arguments, **options)

        def handle_or_drop(message: Any) -> None:
            try:
                handle(message)
            except MALFORMED as error:
                self.on_decode_error(message, error)

        return handle_or_drop

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Say what was not a message, or that the broker is away."""
        if isinstance(exc, MALFORMED):
            logger.error("dropped what is no message (%r)", exc)
        else:
            super().on_connection_error_after_connected(exc)
