"""Pages of a list that hold their place: a cursor names the last item, so that inserts and deletes move nothing.

An item that was there when the first page was read is on exactly one page, whatever is added or removed meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

from django.core.signing import BadSignature, Signer
from django.db.models import Q, QuerySet
from django.db.models.expressions import OrderBy

from webapp.core.errors import BadRequest
from webapp.core.lazy_lists import LazyList, PinnedList

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Turned:
    """One page, with the cursors of the pages before and after it; None where there is none."""

    rows: list[Any]
    previous: str | None
    next: str | None


class _CursorPlace(NamedTuple):
    key: Key
    is_backward: bool
    position: int
    """Where the item stood, for lists that have no order of their own."""


class _Part(NamedTuple):
    rows: list[Any]
    has_previous: bool
    has_next: bool
    keys: tuple[Key, Key] = ((), ())
    """Of the first item and the last one."""
    positions: tuple[int, int] = (0, 0)


def turn_page(
    items: QuerySet[Any] | Sequence[Any] | PinnedList[Any],
    *,
    cursor: str,
    size: int,
    scope: str,
    key: Callable[[Any], Key] | None = None,
    start: int = 0,
) -> Turned:
    """Return the page of a list that a cursor names, or the first one.

    Args:
        items: what is listed. Of rows of the database, their order decides.
        cursor: as an earlier page had it; empty for the first page.
        size: the maximum number of items of a page.
        scope: names the list, such as its address: cursors of other lists are refused.
        key: what tells an item of a plain sequence from the others.
        start: how many items to skip without a cursor.

    Raises:
        BadRequest: the cursor is of another list.

    """
    signer = Signer(salt=f"page of {scope}")
    stored = _read_cursor(signer, cursor)
    if isinstance(items, PinnedList):
        return _turn_pinned(items, stored, size, signer, start)
    source = _Rows(items) if isinstance(items, QuerySet) else _Listed(items, key)
    place = None
    if stored is not None:
        if not isinstance(stored, dict) or stored.get("order") != source.order:
            raise _refuse()
        place = _CursorPlace(_decode(stored["key"]), stored["back"], stored["position"])
    part = source.read(place, size, start)
    if place is not None and place.is_backward and not part.rows:
        part = source.read(None, size, 0)  # all that came before was removed

    def write(end: int, *, back: bool) -> str:
        key, position = _encode(part.keys[end]), part.positions[end]
        return signer.sign_object({"key": key, "back": back, "order": source.order, "position": position})

    return Turned(
        part.rows,
        write(0, back=True) if part.has_previous else None,
        write(1, back=False) if part.has_next else None,
    )


def _read_cursor(signer: Signer, cursor: str) -> Any:
    if not cursor:
        return None
    try:
        return signer.unsign_object(cursor)
    except (BadSignature, ValueError):
        raise _refuse() from None


def _refuse() -> BadRequest:
    return BadRequest("The cursor is not one of ours. Start from the first page.", code="bad_cursor")


def _turn_pinned(items: PinnedList[Any], stored: Any, size: int, signer: Signer, start: int) -> Turned:
    """Turn the pages of a list that never changes once it is pinned: there a number is enough."""
    if stored is not None and (not isinstance(stored, dict) or "pins" not in stored):
        raise _refuse()
    pinned = items.pin(stored["pins"] if stored else None)
    start = stored["start"] if stored else start
    rows = pinned[start : start + size + 1]

    def write(number: int) -> str:
        return signer.sign_object({"pins": pinned.pins, "start": number})

    return Turned(
        rows[:size], write(max(0, start - size)) if start else None, write(start + size) if len(rows) > size else None
    )


class _Rows:
    """Rows of the database, in their order; rows that are equal in that, by their primary key."""

    def __init__(self, rows: QuerySet[Any]) -> None:
        query = rows.query
        entries = query.order_by or (query.get_meta().ordering if query.default_ordering else None) or ()
        self._keys: list[tuple[str, bool]] = []
        for number, entry in enumerate(entries):
            if isinstance(entry, str):
                self._keys.append((entry.removeprefix("-"), entry.startswith("-")))
                continue
            name = f"cursor_{number}"
            rows = rows.annotate(**{name: entry.expression if isinstance(entry, OrderBy) else entry})
            self._keys.append((name, isinstance(entry, OrderBy) and entry.descending))
        own = query.get_meta().pk
        if not {"pk", own.name if own else "pk"}.intersection(name for name, _is_descending in self._keys):
            self._keys.append(("pk", bool(self._keys) and self._keys[0][1]))
        self._rows = rows
        self.order = " ".join(f"-{name}" if is_descending else name for name, is_descending in self._keys)

    def _key_of(self, row: Any) -> Key:
        return tuple(reduce(getattr, name.split("__"), row) for name, _is_descending in self._keys)

    def read(self, place: _CursorPlace | None, size: int, start: int) -> _Part:
        back = place is not None and place.is_backward
        order = [f"-{name}" if is_descending != back else name for name, is_descending in self._keys]
        rows = self._rows.order_by(*order)
        if place is not None:
            rows, start = rows.filter(self._find_beyond(place.key, back=back)), 0
        page_rows = list(rows[start : start + size + 1])
        has_more, page_rows = len(page_rows) > size, page_rows[:size]
        if not page_rows:
            return _Part([], has_previous=False, has_next=False)
        if back:
            page_rows.reverse()
        keys = self._key_of(page_rows[0]), self._key_of(page_rows[-1])
        return _Part(page_rows, has_more if back else place is not None or start > 0, has_more or back, keys)

    def _find_beyond(self, key: Key, *, back: bool) -> Q:
        """Return the condition that a row comes after a key, or before it."""
        where, equal = Q(), Q()
        for (name, is_descending), value in zip(self._keys, key, strict=True):
            direction = "lt" if is_descending != back else "gt"
            where |= equal & Q(**{f"{name}__{direction}": value})
            equal &= Q(**{name: value})
        (first, is_descending), *_others = self._keys
        # The first column alone bounds the rows, so that an index on it is used.
        return Q(**{f"{first}__{'lte' if is_descending != back else 'gte'}": key[0]}) & where


class _Listed:
    """Items in memory. In ascending order of their keys a removed item has a place; else it is where it was."""

    order = "listed"

    def __init__(self, items: Sequence[Any], key: Callable[[Any], Key] | None) -> None:
        self._items, self._key = items, key
        if isinstance(items, LazyList):
            self._keys = [_decode(_encode(entry)) for entry in items.list_keys()]
        elif key is not None:
            self._keys = [_decode(_encode(key(item))) for item in items]
        else:
            msg = "a page of a plain sequence needs the key of its items"
            raise TypeError(msg)
        self._is_sorted = all(before <= after for before, after in pairwise(self._keys))

    def read(self, place: _CursorPlace | None, size: int, start: int) -> _Part:
        back = place is not None and place.is_backward
        if place is not None and back:
            start = max(0, self._find(place, bisect_left, 0) - size)
        elif place is not None:
            start = self._find(place, bisect_right, 1)
        end = self._find(place, bisect_left, 0) if place is not None and back else min(start + size, len(self._keys))
        if start >= end:
            return _Part([], has_previous=False, has_next=False)
        keys = self._keys[start], self._keys[end - 1]
        return _Part(list(self._items[start:end]), start > 0, end < len(self._keys), keys, (start, end - 1))

    def _find(self, place: _CursorPlace, bisect: Callable[[list[Key], Key], int], step: int) -> int:
        if self._is_sorted:
            return bisect(self._keys, place.key)
        if place.key in self._keys:
            return self._keys.index(place.key) + step
        return min(place.position, len(self._keys))


def _encode(key: Key) -> list[Any]:
    return [{"at": value.isoformat()} if isinstance(value, datetime) else value for value in key]


def _decode(values: list[Any]) -> Key:
    return tuple(datetime.fromisoformat(value["at"]) if isinstance(value, dict) else value for value in values)
