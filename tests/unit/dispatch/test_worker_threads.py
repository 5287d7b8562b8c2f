"""Threads of the quick worker: those that can wait for processes of users leave some to short work."""

from __future__ import annotations

from webapp.builds.services import publication
from webapp.comparisons.services import comparisons
from webapp.previews import services as previews
from webapp.pulls.services import checks
from webapp.runtime.workers import THREADS
from webapp.sql import services as sql

SHORT_WORK = 4


def test_slots_leave_threads_of_the_quick_worker_to_short_work() -> None:
    slots = [module.SLOTS.size for module in (publication, comparisons, previews, sql, checks)]
    assert sum(slots) + SHORT_WORK <= THREADS["quick"]
