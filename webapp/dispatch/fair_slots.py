"""Slots for work that runs at the same time, shared by users: no user ever holds all of them."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from django.db.models import BigIntegerField, Model, Value
from django.db.models.functions import Coalesce

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from django.db.models import QuerySet

Row = TypeVar("Row", bound=Model)
NOBODY = 0
"""Owner of work whose user is unknown."""


def may_start(owner: Hashable, held: Mapping[Hashable, int], *, slots: int) -> bool:
    """Return whether an owner may take another slot.

    An owner holds at most half of the slots, and at least one. The last free slot is only for an owner who holds none,
    so a user who arrives while two others hold all they may have starts at once.

    Args:
        owner: usually a user.
        held: the number of slots of each owner.
        slots: the number of all slots.

    """
    free = slots - sum(held.values())
    own = held.get(owner, 0)
    return free > 0 if own == 0 else own < slots // 2 and free > 1


class FairSlots:
    """The slots of one worker process for one kind of work; their owners are users, by id."""

    def __init__(self, slots: int) -> None:
        self.size = slots
        self._held: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    def take(self, user: int | None) -> bool:
        """Take a slot if the user may have another one."""
        owner = user or NOBODY
        with self._lock:
            is_free = may_start(owner, self._held, slots=self.size)
            if is_free:
                self._held[owner] += 1
            return is_free

    def release(self, user: int | None) -> None:
        """Return a slot that was taken."""
        owner = user or NOBODY
        with self._lock:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]

    @contextmanager
    def taking(self, user: int | None) -> Iterator[bool]:
        """Hold a slot during the block; yields False if the user may not have another one."""
        is_taken = self.take(user)
        try:
            yield is_taken
        finally:
            if is_taken:
                self.release(user)

    def in_turn(self, rows: QuerySet[Row], *, user: str, most: int = 1) -> Iterator[Row]:
        """Yield the rows to start next: first those of users who hold no slot, then those of others who may start.

        Args:
            rows: the work that waits, in order.
            user: the column with its user, which can be null.
            most: the number of rows of each group.

        """
        with self._lock:
            held = dict(self._held)
        if sum(held.values()) >= self.size:
            return
        owned = rows.alias(slot_owner=Coalesce(user, Value(NOBODY), output_field=BigIntegerField()))
        yield from owned.exclude(slot_owner__in=held)[:most]
        if below := [owner for owner in held if may_start(owner, held, slots=self.size)]:
            yield from owned.filter(slot_owner__in=below)[:most]
