"""Numbered pages of long lists, as people turn them; REST pages lists by cursors instead (pagination.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from webapp.core.words import so_far

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet

Row = TypeVar("Row")
MOST_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class NumberedPage:
    """Which part of a list is shown."""

    number: int
    """From 1."""
    size: int
    total: int
    """Of the items on all pages."""

    @classmethod
    def choose(cls, number: int, *, size: int, total: int) -> NumberedPage:
        """Return the page that is asked for, or the last one that there is."""
        return cls(min(number, max(1, -(-total // size))), size, total)

    @property
    def start(self) -> int:
        """How many items stand before it."""
        return (self.number - 1) * self.size

    @property
    def end(self) -> int:
        """How many items there are up to its end."""
        return min(self.start + self.size, self.total)

    @property
    def text(self) -> str:
        """Say which items it has of how many; empty where there are none."""
        return f"{self.start + 1:,}–{self.end:,} of {self.total:,}" if self.total else ""

    @property
    def previous(self) -> int | None:
        """The number of the page before; None of the first."""
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """The number of the page behind; None of the last."""
        return self.number + 1 if self.end < self.total else None

    def link_previous(self, write: Callable[[int], str]) -> str:
        """Return the address of the page before, written by its number; empty of the first."""
        return "" if self.previous is None else write(self.previous)

    def link_next(self, write: Callable[[int], str]) -> str:
        """Return the address of the page behind, written by its number; empty of the last."""
        return "" if self.next is None else write(self.next)


@dataclass(frozen=True, slots=True)
class CutList(Generic[Row]):
    """The first rows of a list that is not turned, and how many it has: counted no further than anybody reads."""

    rows: list[Row]
    total: int

    @classmethod
    def of(cls, rows: QuerySet[Any], most: int) -> CutList[Any]:
        """Read so many, and count all."""
        return cls(list(rows[:most]), rows.order_by()[:MOST_COUNTED].count())

    @property
    def is_cut(self) -> bool:
        """Whether there are more."""
        return self.total > len(self.rows)

    @property
    def total_text(self) -> str:
        """Say how many there are."""
        return so_far(self.total, MOST_COUNTED)
