"""JSON objects of which little changes from one version to the next: what stayed is copied as text, not written again.

What stayed is known by identity, so a value may not be changed in place once it has been written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import is_
from typing import Any

from webapp.core.json_bytes import dump

_NOTHING = object()


class Members:
    """The members of an object, and the text in which each lies between two positions."""

    __slots__ = ("_places", "_values", "text")

    def __init__(self, values: Mapping[str, Any], *, like: Members | None = None) -> None:
        """Write an object without spaces; `like` is an earlier one, from which what both have is taken."""
        self._values = values
        self._places: dict[str, tuple[int, int]] = {}
        parts: list[bytes | memoryview] = []
        at = 0
        for key, value in values.items():
            head = (b"," if parts else b"{") + dump(key) + b":"
            pieces = [dump(value)] if like is None else list(like._pieces(key, value))
            start = at + len(head)
            at = start + sum(map(len, pieces))
            self._places[key] = (start, at)
            parts += [head, *pieces]
        self.text = b"".join([*parts, b"}" if parts else b"{}"])

    def _pieces(self, key: str, value: Any) -> Iterator[bytes | memoryview]:
        """The text of a member of the next version, as far as possible from this one's."""
        old = self._values.get(key, _NOTHING)
        if old is value:
            yield self._text_of(key)
        elif _goes_on(old, value):
            yield self._text_of(key)[:-1]
            yield b"," + dump(value[len(old) :])[1:]
        else:
            yield dump(value)

    def _text_of(self, key: str) -> memoryview:
        start, end = self._places[key]
        return memoryview(self.text)[start:end]


def _goes_on(old: Any, new: Any) -> bool:
    """Whether a list is an older one with more at its end."""
    if not isinstance(old, list) or not isinstance(new, list):
        return False
    return 0 < len(old) < len(new) and all(map(is_, old, new))
