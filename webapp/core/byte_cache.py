"""What was used lately, bounded by its bytes; safe between threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
IDLE_S = 300.0
"""What nobody has asked for so long goes: else a process grows for hours, until all its limits are reached."""


@dataclass(frozen=True)
class Versions(Generic[Key]):
    """What a key is about, where that has versions of which the old ones are hardly asked for any more."""

    find: Callable[[Key], tuple[Hashable, Hashable]]
    """The thing that a key is about, and the version of it."""
    most: int
    """So many versions of a thing are kept, those used last."""


class ByteCache(Generic[Key, Value]):
    """Values by key, the longest unused dropped first, and those that nobody has used for a while.

    The newest stays whatever its size, or it would be made each time.
    """

    def __init__(self, limit: int, size_of: Callable[[Value], int], *, versions: Versions[Key] | None = None) -> None:
        """Keep at most so many bytes, as `size_of` counts them once, when a value comes in."""
        self._limit = limit
        self._size_of = size_of
        self._versions = versions
        self._things: dict[Hashable, dict[Hashable, set[Key]]] = {}
        """The keys of each version of each thing, the longest unused version first."""
        self._kept: OrderedDict[Key, tuple[Value, int, float]] = OrderedDict()
        """Each with its size and when it was used last."""
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """Return the value, which now counts as used."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return None
            value, size, _ = entry
            self._kept[key] = (value, size, time.monotonic())
            self._kept.move_to_end(key)
            self._note_use(key)
            return value

    def add(self, key: Key, value: Value) -> None:
        """Keep a value, in place of an earlier one of this key."""
        size = self._size_of(value)
        with self._lock:
            self._remove(key)
            self._kept[key] = (value, size, time.monotonic())
            self._size += size
            self._note_use(key)
            while len(self._kept) > 1 and (self._size > self._limit or self._is_first_idle()):
                self._remove(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        """Forget a value; an absent one is passed over."""
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._things.clear()
            self._size = 0

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def _is_first_idle(self) -> bool:
        _, _, used = next(iter(self._kept.values()))
        return time.monotonic() - used > IDLE_S

    def _note_use(self, key: Key) -> None:
        """Make the key's version the last used one of its thing, and drop a version that is too many."""
        if self._versions is None:
            return
        thing, version = self._versions.find(key)
        versions = self._things.setdefault(thing, {})
        keys = versions.pop(version, None) or set()
        keys.add(key)
        versions[version] = keys
        if len(versions) > self._versions.most:
            for old in list(versions[next(iter(versions))]):
                self._remove(old)

    def _remove(self, key: Key) -> None:
        if key not in self._kept:
            return
        _, size, _ = self._kept.pop(key)
        self._size -= size
        if self._versions is not None:
            self._forget_use(*self._versions.find(key), key)

    def _forget_use(self, thing: Hashable, version: Hashable, key: Key) -> None:
        versions = self._things[thing]
        versions[version].discard(key)
        if not versions[version]:
            del versions[version]
        if not versions:
            del self._things[thing]
