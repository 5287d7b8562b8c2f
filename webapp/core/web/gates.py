"""A pool of threads behind a queue of bounded length: who would wait too long is told so at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from webapp.core.errors import Unavailable

Result = TypeVar("Result")
PATIENCE_S = 15.0
STUCK_AFTER_S = 30.0
"""Longer than any call has reason to take: its own deadlines are shorter."""


class Overloaded(Unavailable):
    """More is asked than can be answered soon; nothing has been done."""

    default_code = "overloaded"

    def __init__(self) -> None:
        super().__init__("The server is busy and nothing was done: try again in a moment.")


class _Waiting(NamedTuple):
    """A call on its way to a thread."""

    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Any]
    due: float
    call: Callable[..., Any]
    arguments: tuple[Any, ...]


class Gate:
    """Runs calls in threads of its own.

    An executor does so too, at five times the cost: its futures are made for waiting threads, and here only the loop waits.
    """

    def __init__(self, name: str, *, threads: int, waiting: int, patience_s: float = PATIENCE_S) -> None:
        """Have so many threads and so many calls that wait for one.

        Who has waited longer than `patience_s` is not served any more: most have gone, and the rest would wait longer still.
        """
        self.name = name
        self._threads = threads
        self._running: dict[int, float] = {}
        self._started = 0
        self._room = threads + waiting
        self._patience_s = patience_s
        self._inside = 0
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()

    async def run(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Run a call in a thread.

        Raises:
            Overloaded: too many wait already, or this one has waited too long; it was not run.

        """
        if self._inside >= self._room:
            raise Overloaded
        if self._inside >= self._started < self._threads:
            # Not at import: what forks after it would have no threads.
            self._started += 1
            threading.Thread(target=self._serve, name=f"{self.name}-{self._started}", daemon=True).start()
        self._inside += 1
        try:
            loop = asyncio.get_running_loop()
            outcome: asyncio.Future[Result] = loop.create_future()
            self._queue.put(_Waiting(loop, outcome, time.monotonic() + self._patience_s, call, arguments))
            return await outcome
        finally:
            self._inside -= 1

    def is_stuck(self) -> bool:
        """Whether every thread has been in one and the same call for longer than any should take.

        A gate that is only busy begins one call after the other.
        """
        began = list(self._running.copy().values())
        return len(began) >= self._threads and time.monotonic() - max(began) > STUCK_AFTER_S

    def _serve(self) -> None:
        thread = threading.get_ident()
        while True:
            waiting = self._queue.get()
            self._running[thread] = time.monotonic()
            result, error = _run(waiting)
            del self._running[thread]
            try:
                waiting.loop.call_soon_threadsafe(_settle, waiting.outcome, result, error)
            except RuntimeError:  # the loop was closed: the process ends, or a test's loop did
                continue
            finally:
                # Nothing of this request is kept until the next one comes.
                del waiting, result, error


def _run(waiting: _Waiting) -> tuple[Any, BaseException | None]:
    if time.monotonic() > waiting.due:
        return None, Overloaded()
    try:
        return waiting.call(*waiting.arguments), None
    except BaseException as error:  # raised again where the outcome is awaited
        return None, error


def _settle(outcome: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if outcome.cancelled():
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
