"""Whether what waits to be built moves, as a part of the installation: for `readyz`."""

from __future__ import annotations

from django.db import DatabaseError

from webapp.builds.queries.backlog import read_backlog
from webapp.runtime.health import PartHealth


def check_backlog() -> PartHealth:
    """Tell what waits to be resolved or run; it works while that moves, however much it is."""
    try:
        backlog = read_backlog()
    except DatabaseError:
        return PartHealth("backlog", works=False, state="down", detail="unknown: the database is away")
    waiting = f"{backlog.builds_resolving} builds resolve, {backlog.jobs_waiting} jobs wait for a worker"
    return PartHealth(
        "backlog",
        works=not backlog.is_stuck,
        state="stuck" if backlog.is_stuck else "ok",
        detail=f"{waiting}; none has begun or ended for two minutes and none runs" if backlog.is_stuck else waiting,
        figures={
            "builds_resolving": backlog.builds_resolving,
            "jobs_waiting": backlog.jobs_waiting,
            "oldest_s": backlog.oldest_s,
            "messages": backlog.messages,
        },
    )
