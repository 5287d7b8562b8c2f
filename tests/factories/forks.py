"""Running a function in a process of its own."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
BOMB_S = 2
"""Seconds of the processor within which a bomb is refused or cut."""


def in_child(function: Callable[[], Answer]) -> Answer:
    """Call a function in a fork: what it imports and changes stays there.

    Whatever uses threads of Arrow, PyIceberg or polars belongs in here: a fork made afterwards would wait for them.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        answer: tuple[bool, Answer | str]
        try:
            answer = True, function()
        except BaseException as error:  # noqa: BLE001 - told in the parent
            answer = False, repr(error)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told: tuple[bool, Answer] = pickle.load(pipe)  # noqa: S301 - our own bytes
    is_good, value = told
    os.waitpid(child, 0)
    assert is_good, value
    return value
