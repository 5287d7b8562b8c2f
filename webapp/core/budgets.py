"""What one page can spend on decoration: colours, marked words and Markdown.

Users write the text that is decorated, so the time it takes is theirs to choose. A page that has spent its budget shows
the rest as plain text.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.http import HttpRequest, HttpResponse

PAGE_S = 2.0
"""Seconds of one request."""
PAGE_PIECES = 100_000
"""Coloured or marked pieces of text on one page; each becomes an element."""


class Budget:
    """What a page has left."""

    def __init__(self, seconds: float, pieces: int) -> None:
        self._seconds = seconds
        self._pieces = pieces
        self._began: float | None = None

    @property
    def left(self) -> float:
        """Seconds left; 0 if the budget is spent."""
        running = 0.0 if self._began is None else time.monotonic() - self._began
        return max(0.0, self._seconds - running)

    def take_pieces(self, count: int) -> bool:
        """Take pieces of text; returns False, and takes none, if fewer are left."""
        if count > self._pieces:
            return False
        self._pieces -= count
        return True

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the time run during the block."""
        if self._began is not None:
            yield
            return
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._seconds = self.left
            self._began = None


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)
"""The budget of the current request; None outside of requests."""


@contextmanager
def spending() -> Iterator[Budget]:
    """Charge the time of the block to the current request; outside of requests each block has a full budget."""
    budget = _budget.get() or Budget(PAGE_S, PAGE_PIECES)
    with budget.running():
        yield budget


class BudgetMiddleware:
    """Gives each request its own budget."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        token = _budget.set(Budget(PAGE_S, PAGE_PIECES))
        try:
            return self.get_response(request)
        finally:
            _budget.reset(token)
