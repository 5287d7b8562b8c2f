"""A pool of threads behind a queue of bounded length: who would wait too long is told so at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from webapp.core.errors import Unavailable

Result = TypeVar("Result")
PATIENCE_S = 15.0


class Overloaded(Unavailable):
    """More is asked than can be answered soon; nothing has been done."""

    default_code = "overloaded"

    def __init__(self) -> None:
        super().__init__("The server is busy and nothing was done: try again in a moment.")


class Gate:
    """Runs calls in threads of its own."""

    def __init__(self, name: str, *, threads: int, waiting: int, patience_s: float = PATIENCE_S) -> None:
        """Have so many threads and so many calls that wait for one.

        Who has waited longer than `patience_s` is not served any more: most have gone, and the rest would wait longer still.
        """
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        self._room = threads + waiting
        self._patience_s = patience_s
        self._inside = 0

    async def run(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Run a call in a thread.

        Raises:
            Overloaded: too many wait already, or this one has waited too long; it was not run.

        """
        if self._inside >= self._room:
            raise Overloaded
        self._inside += 1
        due = time.monotonic() + self._patience_s
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _run, due, call, arguments)
        finally:
            self._inside -= 1


def _run(due: float, call: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    if time.monotonic() > due:
        raise Overloaded
    return call(*arguments)
