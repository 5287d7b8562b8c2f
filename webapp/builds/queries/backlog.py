"""What waits, and whether it moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max, Min

from webapp.builds.models import Build, Job
from webapp.builds.queries import queue
from webapp.builds.rules.states import BuildState, JobState
from webapp.core import clock
from webapp.runtime import doorbell

STUCK_AFTER = timedelta(minutes=2)
"""Nothing has begun or ended for so long, nothing runs, and something that could begin waits: the queue has stopped."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much waits, and since when."""

    builds_resolving: int
    jobs_waiting: int
    oldest_s: int
    """How long what waits longest could have begun."""
    messages: int | None
    """None: the broker is away."""
    is_stuck: bool


def read_backlog() -> Backlog:
    """Return what waits to be resolved or run, and whether that moves."""
    now = clock.now()
    movable = queue.list_movable().aggregate(oldest=Min("created_at"))["oldest"]
    ready = Job.objects.filter(state=JobState.RUN_PENDING).aggregate(count=Count("pk"), oldest=Min("created_at"))
    oldest = min((at for at in (movable, ready["oldest"]) if at is not None), default=None)
    return Backlog(
        builds_resolving=Build.objects.filter(state=BuildState.RESOLVING).count(),
        jobs_waiting=ready["count"],
        oldest_s=round((now - oldest).total_seconds()) if oldest else 0,
        messages=_count_messages(),
        is_stuck=oldest is not None and now - oldest > STUCK_AFTER and not _moves(since=now - STUCK_AFTER),
    )


def _moves(*, since: datetime) -> bool:
    if Job.objects.filter(state__in=[JobState.RUNNING, JobState.ABORT_PENDING]).exists():
        return True
    began = Job.objects.aggregate(at=Max("started_at"))["at"]
    ended = Build.objects.aggregate(at=Max("finished_at"))["at"]
    return any(at is not None and at > since for at in (began, ended))


def _count_messages() -> int | None:
    try:
        return sum(doorbell.count_messages(name) for name in doorbell.QUEUES)
    except OSError:
        return None  # the broker's own part says that it is away
