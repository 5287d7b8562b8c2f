"""Numbered pages of long lists, as people turn them; REST pages lists by cursors alone (pagination.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import urlencode

from webapp.core.numbers import read_count
from webapp.core.turning import turn_page
from webapp.core.words import so_far

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.lazy_lists import PinnedList

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
class KeptPage:
    """A numbered page whose links hold its place: what others add or remove meanwhile is neither repeated nor skipped."""

    rows: list[Any]
    number: int
    size: int
    total: int | None
    """Of the items on all pages, if they are counted."""
    previous: dict[str, Any] | None
    """The parameters of the page before; None on the first page."""
    next: dict[str, Any] | None
    """The parameters of the page after; None on the last page."""

    @classmethod
    def turn(
        cls,
        items: QuerySet[Any] | Sequence[Any] | PinnedList[Any],
        parameters: Mapping[str, Any],
        *,
        size: int,
        scope: str,
        total: int | None = None,
    ) -> Self:
        """Return the page that the parameters of an address ask for.

        Args:
            items: what is listed.
            parameters: `page` and `cursor`, as the links of another page have them; without a cursor the number decides.
            size: the number of items of a page.
            scope: names the list.
            total: the number of all items, if it is known.

        Raises:
            BadRequest: the cursor is of another list.

        """
        number, cursor = read_count(str(parameters.get("page", ""))) or 1, str(parameters.get("cursor", ""))
        if total is not None and not cursor:
            number = min(number, max(1, -(-total // size)))
        page = turn_page(items, cursor=cursor, size=size, scope=scope, start=(number - 1) * size)
        before, after = (
            None if other is None else {"page": max(1, number + step), "cursor": other}
            for other, step in ((page.previous, -1), (page.next, 1))
        )
        return cls(page.rows, number, size, total, before, after)

    @property
    def text(self) -> str:
        """Say which items it has, and of how many; empty where there are none."""
        if not self.rows:
            return ""
        start = (self.number - 1) * self.size
        end = start + len(self.rows)
        return f"{start + 1:,}–{end:,}" + ("" if self.total is None else f" of {max(self.total, end):,}")

    def link(self, other: dict[str, Any] | None, **filters: Any) -> str:
        """Return the query of another page, with filters; empty if there is none."""
        if other is None:
            return ""
        parameters = {name: value for name, value in filters.items() if value}
        return f"?{urlencode({'page': other['page'], **parameters, 'cursor': other['cursor']})}"


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
