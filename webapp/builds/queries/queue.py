"""Who waits for whom: the queue of builds before each dataset of a branch, first the one whose turn is earliest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from webapp.builds.models import Build, Job, QueuedOutput
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.rules.waiting import FREE, EarlierBuild, OpenWriter, PlaceInQueue, has_stood
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

_EARLIER = Q(turn__lt=OuterRef("turn")) | Q(turn=OuterRef("turn"), build__lt=OuterRef("build"))


def find_blocker(*, build: Build, datasets: Mapping[int, str]) -> EarlierBuild | OpenWriter | None:
    """Return what a build waits for that is to write these datasets (id → path); None where it can now."""
    for pk, head in find_heads(datasets=datasets, branch=build.branch).items():
        if head < (build.turn, build.pk):
            return EarlierBuild(head[1], datasets[pk])
    opened = (
        Transaction.objects.filter(dataset__in=datasets, branch_name=build.branch, state=TransactionState.OPEN)
        .select_related("dataset")
        .order_by("dataset__path")
        .first()
    )
    return None if opened is None else _read_writer(opened)


def read_reasons(*, builds: Collection[Build]) -> dict[int, str]:
    """Say why each of these builds ended as it did, or what it waits for now.

    What a waiting build wrote down is of when it looked: meanwhile others have written, or somebody has passed on.
    """
    standing = [build.pk for build in builds if build.state == BuildState.RESOLVING]
    same = QueuedOutput.objects.filter(dataset=OuterRef("dataset"), branch=OuterRef("branch"))
    head = Subquery(same.order_by("turn", "build_id").values("build")[:1])
    rows = QueuedOutput.objects.filter(build__in=standing).annotate(head=head).order_by("dataset__path")
    places: dict[int, list[_QueuePlace]] = {}
    for build, *place in rows.values_list("build", "head", "dataset", "dataset__path", "branch"):
        places.setdefault(build, []).append(_QueuePlace(*place))
    written = {place.dataset for stood in places.values() for place in stood}
    opened = Transaction.objects.filter(dataset__in=written, state=TransactionState.OPEN).select_related("dataset")
    writers = {(writer.dataset_id, writer.branch_name): writer for writer in opened}
    return {build.pk: _explain_waiting(build, places.get(build.pk, ()), writers) for build in builds}


class _QueuePlace(NamedTuple):
    """A place of a build in the queue of one dataset."""

    head: int
    """The build that is first there."""
    dataset: int
    path: str
    branch: str


def _explain_waiting(
    build: Build, places: Collection[_QueuePlace], writers: Mapping[tuple[int, str], Transaction]
) -> str:
    for place in places:
        if place.head != build.pk:
            return EarlierBuild(place.head, place.path).sentence
    for place in places:
        if (place.dataset, place.branch) in writers:
            return _read_writer(writers[place.dataset, place.branch]).sentence
    return FREE if build.state == BuildState.RESOLVING and has_stood(build.reason) else build.reason


def _read_writer(opened: Transaction) -> OpenWriter:
    return OpenWriter(
        transaction=opened.pk,
        path=opened.dataset.path,
        branch=opened.branch_name,
        build=opened.build_id,
        by=opened.by,
        started_at=opened.started_at,
        written_at=opened.written_at,
        abortable_at=opened.abortable_at,
    )


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
    opened = Transaction.objects.filter(
        dataset=OuterRef("dataset"), branch_name=OuterRef("branch"), state=TransactionState.OPEN
    )
    blocked = QueuedOutput.objects.filter(Exists(earlier) | Exists(opened), build=OuterRef("pk"))
    return Build.objects.filter(~Exists(blocked), state=BuildState.RESOLVING).order_by("turn", "pk")


def list_due(*, before: datetime, limit: int) -> list[int]:
    """Return builds that could be resolved and for which the sweep has not rung since.

    A publication that is not over rings those that wait for it, or is rung for itself.
    """
    pending = Publication.objects.filter(
        repository=OuterRef("repository"), branch=OuterRef("waits_for_branch"), status=PublicationState.PENDING
    )
    due = list_movable().filter(~Exists(pending), rung_at__lt=before)
    return list(due.values_list("pk", flat=True)[:limit])


def list_unpublished(*, repository: Repository, branch: str) -> list[int]:
    """Return the builds that wait for the JobSpecs of a branch, in the order of their turns."""
    waiting = Build.objects.filter(state=BuildState.RESOLVING, repository=repository, waits_for_branch=branch)
    return list(waiting.order_by("turn", "pk").values_list("pk", flat=True))


def read_places(*, builds: Collection[Build]) -> dict[int, PlaceInQueue]:
    """Return for each of these builds that waits in queues where it stands."""
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
    return {build: PlaceInQueue(before + 1, length, path) for build, before, length, path in rows}


def count_jobs_before(*, builds: Collection[Build]) -> dict[int, int]:
    """Return for each of these builds that waits for its first worker how many ready jobs come before its own."""
    waiting = [build.pk for build in builds if build.state == BuildState.RUNNING and not build.has_begun]
    ready = Job.objects.filter(state=JobState.RUN_PENDING).order_by()
    before = ready.filter(Q(turn__lt=OuterRef("turn")) | Q(turn=OuterRef("turn"), build__lt=OuterRef("pk")))
    count = before.values("state").annotate(count=Count("pk")).values("count")
    rows = Build.objects.filter(pk__in=waiting).annotate(before=Coalesce(Subquery(count), 0))
    return dict(rows.values_list("pk", "before"))
