"""Who waits for whom: the queue of builds before each dataset of a branch, first the one whose turn is earliest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from webapp.builds.models import Build, Job, QueuedOutput
from webapp.builds.rules.states import BuildState, JobState
from webapp.core.errors import Conflict
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules.transactions import OPEN

_EARLIER = Q(turn__lt=OuterRef("turn")) | Q(turn=OuterRef("turn"), build__lt=OuterRef("build"))


def find_blocker(*, build: Build, datasets: Mapping[int, str]) -> Conflict | None:
    """Return why a build cannot write these datasets (id → path) now, naming what it waits for; None where it can."""
    for pk, head in find_heads(datasets=datasets, branch=build.branch).items():
        if head < (build.turn, build.pk):
            message = f"Waits for build {head[1]}, which is before it in the queue for {datasets[pk]}."
            return Conflict(message, code="queued", build=head[1])
    opened = (
        Transaction.objects.filter(dataset__in=datasets, branch_name=build.branch, state=OPEN)
        .select_related("dataset")
        .order_by("dataset__path")
        .first()
    )
    if opened is None:
        return None
    holder = f"build {opened.build_id}" if opened.build_id else f"transaction {opened.pk} of {opened.by}"
    message = f"Waits for {holder}, which is writing {opened.dataset.path} on {build.branch}."
    return Conflict(message, code="queued", build=opened.build_id)


def find_heads(*, datasets: Collection[int], branch: str) -> dict[int, tuple[int, int]]:
    """Return turn and id of the build that is first in the queue for each of these datasets, where one waits."""
    first = QueuedOutput.objects.filter(dataset=OuterRef("pk"), branch=branch).order_by("turn", "build_id")
    rows = Dataset.objects.filter(pk__in=datasets).order_by("path")
    heads = rows.annotate(turn=Subquery(first.values("turn")[:1]), build=Subquery(first.values("build")[:1]))
    return {pk: (turn, build) for pk, turn, build in heads.values_list("pk", "turn", "build") if build is not None}


def list_queued(*, build: Build) -> dict[int, str]:
    """Return the datasets, id → path, in whose queues a build stands."""
    return dict(QueuedOutput.objects.filter(build=build).values_list("dataset", "dataset__path"))


def list_movable() -> QuerySet[Build]:
    """Return the unresolved builds that nothing stands before, in the order of their turns."""
    earlier = QueuedOutput.objects.filter(_EARLIER, dataset=OuterRef("dataset"), branch=OuterRef("branch"))
    opened = Transaction.objects.filter(dataset=OuterRef("dataset"), branch_name=OuterRef("branch"), state=OPEN)
    blocked = QueuedOutput.objects.filter(Exists(earlier) | Exists(opened), build=OuterRef("pk"))
    return Build.objects.filter(~Exists(blocked), state=BuildState.RESOLVING).order_by("turn", "pk")


def list_due(*, before: datetime, limit: int) -> list[int]:
    """Return builds that could be resolved and for which the sweep has not rung since."""
    return list(list_movable().filter(rung_at__lt=before).values_list("pk", flat=True)[:limit])


def read_places(*, builds: Collection[Build]) -> dict[int, str]:
    """Say for each of these builds that waits in queues where it stands: "3rd of 12 in the queue for /shop/one"."""
    waiting = [build.pk for build in builds if build.state == BuildState.RESOLVING]
    same = QueuedOutput.objects.filter(dataset=OuterRef("dataset"), branch=OuterRef("branch")).order_by()
    count = same.values("dataset").annotate(count=Count("pk")).values("count")
    rows = (
        QueuedOutput.objects.filter(build__in=waiting)
        .annotate(before=Coalesce(Subquery(count.filter(_EARLIER)), 0), length=Coalesce(Subquery(count), 0))
        .order_by("before", "dataset__path")
        .values_list("build", "before", "length", "dataset__path")
    )
    # The place that is last says when its turn comes.
    return {
        build: f"{_say_place(before + 1)} of {length} in the queue for {path}" for build, before, length, path in rows
    }


def count_jobs_before(*, builds: Collection[Build]) -> dict[int, int]:
    """Return for each of these builds that waits for its first worker how many ready jobs come before its own."""
    waiting = [build.pk for build in builds if build.state == BuildState.RUNNING and not build.has_begun]
    ready = Job.objects.filter(state=JobState.RUN_PENDING).order_by()
    before = ready.filter(Q(turn__lt=OuterRef("turn")) | Q(turn=OuterRef("turn"), build__lt=OuterRef("pk")))
    count = before.values("state").annotate(count=Count("pk")).values("count")
    rows = Build.objects.filter(pk__in=waiting).annotate(before=Coalesce(Subquery(count), 0))
    return dict(rows.values_list("pk", "before"))


def _say_place(number: int) -> str:
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"
