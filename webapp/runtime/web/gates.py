"""A pool of threads behind a queue of bounded length: who would wait too long is refused at once.

A call that does not end keeps its thread, which nobody can take from it, but not whoever asked.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from webapp.core.errors import AppError, Unavailable

Result = TypeVar("Result")
PATIENCE_S = 15.0
DEADLINE_S = 120.0
"""So long after the end of its patience a call is waited for."""
STUCK_AFTER_S = 30.0
"""Longer than any call has reason to take: its own deadlines are shorter."""


class Overloaded(Unavailable):
    """More is asked than can be answered soon; nothing has been done."""

    default_code = "overloaded"

    def __init__(self) -> None:
        super().__init__("The server is busy and nothing was done: try again in a moment.")


class TookTooLong(AppError):
    """A call has begun and does not end. What it does may still happen, so nobody is told to send it again unseen."""

    status = 504
    title = "No answer in time"
    default_code = "took_too_long"

    def __init__(self) -> None:
        super().__init__("This takes too long and may still be done: look whether it is before you ask for it again.")


class _Waiting:
    """A call on its way to a thread, or to its refusal: whoever takes the work out first decides."""

    __slots__ = ("_work", "due", "ends", "loop", "outcome")

    def __init__(self, work: Callable[[], Any], *, loop: asyncio.AbstractEventLoop, due: float, ends: float) -> None:
        self._work = [work]
        self.loop = loop
        self.outcome: asyncio.Future[Any] = loop.create_future()
        self.due = due
        self.ends = ends

    @property
    def is_taken(self) -> bool:
        """Whether it runs, or never will."""
        return not self._work

    def take(self) -> Callable[[], Any] | None:
        """Take the work, once; None where it was taken before."""
        try:
            return self._work.pop()
        except IndexError:
            return None


class _Turns:
    """The places of one owner, and how many calls hold or await one."""

    __slots__ = ("places", "users")

    def __init__(self, share: int) -> None:
        self.places = asyncio.Semaphore(share)
        self.users = 0


class Gate:
    """Runs calls in threads of its own.

    An executor does so too, at five times the cost: its futures are made for waiting threads, and here only the loop waits.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        waiting: int,
        patience_s: float = PATIENCE_S,
        deadline_s: float = DEADLINE_S,
        share: int | None = None,
    ) -> None:
        """Have so many threads and so many calls that wait for one.

        One owner of calls holds `share` of the threads at most. Further calls of theirs wait outside of the queue, half
        as many as fit into it.

        Who has waited longer than `patience_s` is not served any more: most have gone, and the rest would wait longer still.
        Whose call has begun and not ended `deadline_s` later is told so.
        """
        self.name = name
        self._threads = threads
        self._running: dict[int, float] = {}
        self._started = 0
        self._room = threads + waiting
        self._patience_s = patience_s
        self._deadline_s = deadline_s
        self._inside = 0
        self._share = share
        self._most_of_owner = waiting // 2
        self._turns: dict[str, _Turns] = {}
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()
        self._line: dict[_Waiting, None] = {}
        """Those that are inside, the oldest first."""
        self._looks_at = 0.0
        """When the loop looks for those whose time is over; in the past where it is not going to."""

    async def run(self, call: Callable[..., Result], *arguments: Any, owner: str = "") -> Result:
        """Run a call in a thread; the owner is limited to their share.

        Raises:
            Overloaded: too many wait already, or this one has waited too long; it was not run.
            TookTooLong: it runs, and has not ended in time.

        """
        if self._share is None or not owner:
            return await self._run(call, *arguments)
        async with self._take_turn(owner, self._share):
            return await self._run(call, *arguments)

    @asynccontextmanager
    async def _take_turn(self, owner: str, share: int) -> AsyncIterator[None]:
        """Hold one place of an owner's share during the block."""
        turns = self._turns.setdefault(owner, _Turns(share))
        if turns.users >= share + self._most_of_owner:
            raise Overloaded
        turns.users += 1
        try:
            try:
                async with asyncio.timeout(self._patience_s):
                    await turns.places.acquire()
            except TimeoutError:
                raise Overloaded from None
            try:
                yield
            finally:
                turns.places.release()
        finally:
            turns.users -= 1
            if not turns.users:
                del self._turns[owner]

    async def _run(self, call: Callable[..., Result], *arguments: Any) -> Result:
        if self._inside >= self._room:
            raise Overloaded
        if self._inside >= self._started < self._threads:
            # Not at import: what forks after it would have no threads.
            self._started += 1
            threading.Thread(target=self._serve, name=f"{self.name}-{self._started}", daemon=True).start()
        self._inside += 1
        loop = asyncio.get_running_loop()
        due = time.monotonic() + self._patience_s
        waiting = _Waiting(partial(call, *arguments), loop=loop, due=due, ends=due + self._deadline_s)
        self._line[waiting] = None
        self._look_later(loop)
        try:
            self._queue.put(waiting)
            outcome: Result = await waiting.outcome
            return outcome
        finally:
            waiting.take()  # who has gone while it waited is not served
            del self._line[waiting]
            self._inside -= 1

    def is_stuck(self) -> bool:
        """Return whether every thread has been in one and the same call for longer than any should take.

        A gate that is only busy begins one call after the other.
        """
        began = list(self._running.copy().values())
        return len(began) >= self._threads and time.monotonic() - max(began) > STUCK_AFTER_S

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop itself tell those whose time is over: no thread does while all of them hang.

        One timer for all, which is never later than the patience of who comes next.
        """
        if self._looks_at > (now := time.monotonic()) or not self._line:
            return
        first = min(waiting.ends if waiting.is_taken else waiting.due for waiting in self._line)
        self._looks_at = min(first, now + self._patience_s)
        loop.call_later(self._looks_at - now, self._tell_overdue, loop)

    def _tell_overdue(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks_at = 0.0
        now = time.monotonic()
        for waiting in self._line:
            if waiting.due > now:
                break
            if waiting.take() is not None:
                waiting.loop.call_soon_threadsafe(_settle, waiting.outcome, None, Overloaded())
            elif waiting.ends <= now:
                waiting.ends = math.inf
                waiting.loop.call_soon_threadsafe(_settle, waiting.outcome, None, TookTooLong())
        self._look_later(loop)

    def _serve(self) -> None:
        thread = threading.get_ident()
        while True:
            waiting = self._queue.get()
            work = waiting.take()
            if work is None:
                continue
            self._running[thread] = time.monotonic()
            result, error = _finish(work, due=waiting.due)
            del self._running[thread]
            try:
                waiting.loop.call_soon_threadsafe(_settle, waiting.outcome, result, error)
            except RuntimeError:  # the loop was closed: the process ends, or a test's loop did
                continue
            finally:
                # Nothing of this request is kept until the next one comes.
                del waiting, work, result, error


def _finish(work: Callable[[], Any], *, due: float) -> tuple[Any, BaseException | None]:
    if time.monotonic() > due:
        return None, Overloaded()
    try:
        return work(), None
    except BaseException as error:  # raised again where the outcome is awaited
        return None, error


def _settle(outcome: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if outcome.done():  # its asker has gone, or was told that this takes too long
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
