"""What was used lately, bounded by its bytes; safe between threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteCache(Generic[Key, Value]):
    """Values by key, the longest unused dropped first. The newest stays whatever its size, or it would be made each time."""

    def __init__(self, limit: int, size_of: Callable[[Value], int]) -> None:
        """Keep at most so many bytes, as `size_of` counts them once, when a value comes in."""
        self._limit = limit
        self._size_of = size_of
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value, which now counts as used."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def add(self, key: Key, value: Value) -> None:
        """Keep a value, in place of an earlier one of this key."""
        size = self._size_of(value)
        with self._lock:
            self._remove(key)
            self._kept[key] = (value, size)
            self._size += size
            while self._size > self._limit and len(self._kept) > 1:
                self._remove(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        """Forget a value; an absent one is passed over."""
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def _remove(self, key: Key) -> None:
        _, size = self._kept.pop(key, (None, 0))
        self._size -= size
