"""What waits, and whether it moves: for `readyz`."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Count, Max, Min

from webapp.builds.models import Build, Job
from webapp.builds.queries import queue
from webapp.builds.rules.states import BuildState, JobState
from webapp.core import clock
from webapp.runtime import doorbell
from webapp.runtime.health import PartHealth

STUCK_AFTER = timedelta(minutes=2)
"""Nothing has begun or ended for so long, nothing runs, and something that could begin waits: the queue has stopped."""


def check_backlog() -> PartHealth:
    """What waits to be resolved or run; it works while that moves, however much it is."""
    try:
        return _read_backlog()
    except DatabaseError:
        return PartHealth("backlog", works=False, state="down", detail="unknown: the database is away")


def _read_backlog() -> PartHealth:
    now = clock.now()
    resolving = Build.objects.filter(state=BuildState.RESOLVING).count()
    movable = queue.list_movable().aggregate(oldest=Min("created_at"))["oldest"]
    ready = Job.objects.filter(state=JobState.RUN_PENDING).aggregate(count=Count("pk"), oldest=Min("created_at"))
    oldest = min((at for at in (movable, ready["oldest"]) if at is not None), default=None)
    figures: dict[str, int | None] = {
        "builds_resolving": resolving,
        "jobs_waiting": ready["count"],
        "oldest_s": round((now - oldest).total_seconds()) if oldest else 0,
        "messages": _count_messages(),
    }
    is_stuck = oldest is not None and now - oldest > STUCK_AFTER and not _moves(since=now - STUCK_AFTER)
    waiting = f"{resolving} builds resolve, {ready['count']} jobs wait for a worker"
    return PartHealth(
        "backlog",
        works=not is_stuck,
        state="stuck" if is_stuck else "ok",
        detail=f"{waiting}; none has begun or ended for two minutes and none runs" if is_stuck else waiting,
        figures=figures,
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
