"""Rows of work that one worker at a time has: claimed, renewed while it lives, fenced by the attempt, missed once it is dead.

The row is the truth about its work, and a message only rings for it. Of all workers that are rung one claims the row and has
it until its lease is over. Each claim counts the attempt up, and what a worker writes through `held` reaches its own attempt
alone: whoever was slow, or only seemed dead, changes nothing any more. The sweep finds what nobody was rung for, and what
those held who are lost.

Leases are times of the database's clock. When it is set ahead, nobody is lost before they could renew their lease.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from django.db import models
from django.db.models import F

from webapp.core import clock
from webapp.core.errors import TooManyRequests
from webapp.core.moves import Moves, Row_co
from webapp.dispatch.stamps import Stamp
from webapp.runtime import doorbell
from webapp.runtime.folders import remove_folder
from webapp.runtime.pulses import pool_check

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.core.states import State

Row = TypeVar("Row", bound=models.Model)
RING_AGAIN = timedelta(seconds=10)
"""What has waited for so long is rung for again."""
PRUNED_AT_ONCE = 100
MAX_LOST = 1
"""So many times work whose worker, job runner or Spark server died under it is tried once more."""


class Leases(Moves[Row_co], Generic[Row_co]):
    """Rows of one kind of work.

    Most wait in one state and run in another, and the sweep decides what becomes of a row whose worker is lost. Where both
    are the same state, a row is free again as soon as its lease is over.
    """

    lease: ClassVar[timedelta]
    """So long a worker has a row without saying that it lives: longer than any wait between two heartbeats."""
    until: ClassVar = "lease_until"
    """The column that says how long."""
    fence: ClassVar = "attempt"
    """The column that counts the claims."""
    waits: ClassVar[State]
    """In which a worker may take it."""
    runs: ClassVar[State]
    """In which a worker works on it."""
    ending: ClassVar[frozenset[State]] = frozenset()
    """In which a worker still has it and ends it."""

    def waiting(self) -> Self:
        """Return those that wait for a worker, however long they are to wait."""
        return self.filter(**{self.column: self.waits})

    def free(self) -> Self:
        """Return those that a worker may take now."""
        return self.waiting().exclude(**{f"{self.until}__gt": clock.statement_now()})

    def forgotten(self) -> Self:
        """Return those that nobody has taken though a worker was rung for them a while ago."""
        return self.free().exclude(rung_at__gt=clock.statement_now() - RING_AGAIN)

    def note_rung(self) -> None:
        """Write down that a worker was rung for them."""
        self.update(rung_at=clock.statement_now())

    def check_room(self, *, most: int, noun: str) -> None:
        """Refuse to start more of them while so many are not over yet.

        Args:
            most: so many may wait or run.
            noun: what they are called, in the plural.

        Raises:
            TooManyRequests: there is no room; nothing was done.

        """
        if self._count_unfinished() >= most:
            message = f"{most} {noun} wait already. Ask again when some of them are done."
            raise TooManyRequests(message, code=f"too_many_{noun}")

    def check_own_room(self, by: int | None, *, most: int, noun: str) -> None:
        """Refuse a person who has so many of them that are not over yet.

        Args:
            by: the person; the rows have a column of that name.
            most: so many of theirs may wait or run.
            noun: what they are called, in the plural.

        Raises:
            TooManyRequests: they have too many; nothing was done.

        """
        if self.filter(by=by)._count_unfinished() >= most:
            message = f"{most} of your {noun} are not over yet. Wait for one, or stop it."
            raise TooManyRequests(message, code=f"too_many_{noun}")

    def _count_unfinished(self) -> int:
        return self.filter(**{f"{self.column}__in": [self.waits, self.runs, *self.ending]}).count()

    def claim(self, row: models.Model, **values: Any) -> bool:
        """Take a row that is as it was read; of all who ask at once one gets it.

        Args:
            row: what to take; where it is got it shows what was written.
            values: further columns, written with it.

        """
        attempt = getattr(row, self.fence)
        values = {self.fence: attempt + 1, self.until: clock.shared_now() + self.lease, **values}
        if not self.free().filter(pk=row.pk, **{self.fence: attempt})._begin(values):
            return False
        for name, value in values.items():
            setattr(row, name, value)
        return True

    def _begin(self, values: dict[str, Any]) -> int:
        return self.move(to=self.runs, was=self.waits, **values)

    def claimed(self) -> Self:
        """Return those that some worker has, or had when it died."""
        return self.filter(**{f"{self.column}__in": [self.runs, *self.ending]}).exclude(**{self.until: None})

    def held(self, row: models.Model) -> Self:
        """Return a row for as long as its attempt has it: who writes through this reaches nobody else's."""
        return self.claimed().filter(pk=row.pk, **{self.fence: getattr(row, self.fence)})

    def is_running(self) -> bool:
        """Return whether one of them is being worked on and nobody has asked to end that."""
        return self.filter(**{self.column: self.runs}).exists()

    def renew(self, **values: Any) -> bool:
        """Prolong the lease; return whether there still is one."""
        pool_check.note_work()
        return bool(self.update(**{self.until: clock.statement_now() + self.lease, **values}))

    def prune(self, find_folder: Callable[[Row_co], Path]) -> int:
        """Remove the first of them, each with the folder of what came of it; return how many."""
        chosen = list(self[:PRUNED_AT_ONCE])
        for row in chosen:
            folder = find_folder(row)
            row.delete()
            remove_folder(folder)
        return len(chosen)

    def lost(self) -> Self:
        """Return those whose worker has not renewed its lease: it is dead, or so slow that its result may not count."""
        return self.claimed().filter(**{f"{self.until}__lt": clock.settled_now()})

    def give_back(self, *, lost: int = 0, **values: Any) -> int:
        """Let them wait again: what they need is not there now, or `lost`, their worker or a part died under them."""
        values = {"rung_at": clock.statement_now(), "lost": F("lost") + lost, **values}
        return self.move(to=self.waits, was=self.runs, **{self.until: None}, **values)

    def retry(self) -> int:
        """Let those wait again, and be rung for at once, whose worker or a part died under them; again and again it may not."""
        return self.filter(lost__lt=MAX_LOST).give_back(lost=1, rung_at=clock.statement_now() - RING_AGAIN)


def ring_forgotten(rows: Leases[Row], ring: Callable[[Row], object], *, queue: str) -> int:
    """Ring once more for what was forgotten, in the order of the rows, as far as there is room; return how many."""
    due = list(rows.forgotten()[: doorbell.count_room(queue)])
    rows.filter(pk__in=[row.pk for row in due]).note_rung()
    for row in due:
        ring(row)
    return len(due)


def list_stamps(rows: Callable[[], Leases[Row]]) -> list[Stamp]:
    """Return the times that sweeps of leased rows wait for."""
    return [Stamp(lambda: rows().claimed(), rows().until, rows().lease), Stamp(lambda: rows().waiting(), "rung_at")]
