"""What an app asks of those above it, which it may not import: it names the question, and one app above answers.

A signal states a fact, to whoever listens. A port is called for its answer, or for its refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class Port(Generic[Asked, Answer]):
    """A question. What it is made from says what holds without an app above, and how it is asked.

    The app above sets `answer` when it is ready.
    """

    def __init__(self, question: Callable[Asked, Answer]) -> None:
        self.answer = question
        self.__doc__ = question.__doc__

    def __call__(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        """Ask."""
        return self.answer(*args, **kwargs)
