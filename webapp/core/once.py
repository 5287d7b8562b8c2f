"""Questions that a request which only reads asks once, however many of its parts want the answer: decision 0073.

What takes long, writes, or goes on after its answer has begun asks anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

P = ParamSpec("P")
R = TypeVar("R")
READING = ("GET", "HEAD")
_answers: ContextVar[dict[tuple[Any, ...], Any] | None] = ContextVar("answers", default=None)
"""The answers that the request in hand has had; None where each question is asked anew."""


def is_asking_once() -> bool:
    """Return whether answers are kept now, so that a question may be wider than what one part wants to know."""
    return _answers.get() is not None


def asked_once(ask: Callable[P, R]) -> Callable[P, R]:
    """Let a function of hashable arguments answer as it did before in the same request; nobody changes an answer."""

    @wraps(ask)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        answers = _answers.get()
        if answers is None:
            return ask(*args, **kwargs)
        question = (ask, args, tuple(kwargs.items()))
        if question not in answers:
            answers[question] = ask(*args, **kwargs)
        reply: R = answers[question]
        return reply

    return answer


class AskOnceMiddleware:
    """Keeps answers from the beginning of a request that only reads to the beginning of its response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in READING:
            return self.get_response(request)
        token = _answers.set({})
        try:
            return self.get_response(request)
        finally:
            _answers.reset(token)
