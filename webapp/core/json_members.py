"""JSON objects of which little changes from one version to the next: what stayed is copied as text, not written again.

What stayed is known by identity, so a value may not be changed in place once it has been written.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any

from webapp.core.json_bytes import dump

Pieces = list[bytes | memoryview]
_NOTHING = object()


class Members:
    """The members of an object, and the text in which each lies between two positions."""

    __slots__ = ("_places", "_values", "text")

    def __init__(self, values: Mapping[str, Any], *, like: Members | None = None) -> None:
        """Write an object without spaces; `like` is an earlier one, from which what both have is taken."""
        self._values = values
        self._places: dict[str, tuple[int, int]] = {}
        pieces: Pieces = [b"{"]
        at = 1
        for key, value in values.items():
            head = dump(key) + b":" if at == 1 else b"," + dump(key) + b":"
            body = [dump(value)] if like is None else like._pieces_of(key, value)
            start = at + len(head)
            at = start + sum(map(len, body))
            self._places[key] = (start, at)
            pieces += [head, *body]
        self.text = b"".join([*pieces, b"}"])

    def splice(self, values: Mapping[str, Any]) -> Pieces:
        """Write the text of another version in pieces, most of them views of this one's."""
        pieces: Pieces = []
        for key, value in values.items():
            pieces += [b"," if pieces else b"{", dump(key), b":", *self._pieces_of(key, value)]
        return [*pieces, b"}"] if pieces else [b"{}"]

    def _pieces_of(self, key: str, value: Any) -> Pieces:
        """Write a member of another version, as far as possible from this one's text."""
        old = self._values.get(key, _NOTHING)
        if old is value:
            return [self._text_of(key)]
        if goes_on(old, value):
            return [self._text_of(key)[:-1], b"," + dump(value[len(old) :])[1:]]
        return [dump(value)]

    def _text_of(self, key: str) -> memoryview:
        start, end = self._places[key]
        return memoryview(self.text)[start:end]


def goes_on(old: Any, new: Any) -> bool:
    """Return whether a list is an older one with more at its end."""
    if not isinstance(old, list) or not isinstance(new, list):
        return False
    return 0 < len(old) < len(new) and all(map(is_, old, new))
