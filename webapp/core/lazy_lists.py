"""Lists whose items are made for those who look at them: a page of a long list costs what it shows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar, overload

Place = TypeVar("Place")
Item = TypeVar("Item")


class LazyList(Sequence[Item], Generic[Place, Item]):
    """Items in the order of their places, which are small: a name, a number."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, int):
            return self._load([self._places[index]])[0]
        return self._load(self._places[index])

    def list_keys(self) -> list[tuple[Any, ...]]:
        """Return what tells the items apart, in their order: their places."""
        return [place if isinstance(place, tuple) else (place,) for place in self._places]

    @abstractmethod
    def _load(self, places: Sequence[Place]) -> list[Item]:
        """Make the items at these places."""


class PinnedList(Generic[Item]):
    """Items that never change once what they begin with is pinned, such as the commits of a head."""

    pins: list[Any]
    """What it begins with, as JSON."""

    @abstractmethod
    def pin(self, pins: list[Any] | None) -> Self:
        """Return the list as it was when it was pinned, or as it is now."""

    @abstractmethod
    def __getitem__(self, part: slice) -> list[Item]:
        """Read some of it."""
