"""Lists whose items are made for those who look at them: a page of a long list costs what it shows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar, overload

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

    @abstractmethod
    def _load(self, places: Sequence[Place]) -> list[Item]:
        """Make the items at these places."""
