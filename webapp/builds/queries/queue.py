"""Who waits for whom: the queue of builds before each dataset of a branch, first the one whose turn is earliest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from webapp.builds.models import Build, Job, QueuedOutput
from webapp.builds.rules.states import BuildState, JobState
from webapp.core.errors import Conflict
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

_STOOD = ("Waits for build ", "Waits for transaction ")
"""How the reasons begin that are true only as long as somebody stands or writes there."""
_FREE = "Nothing is in its way any more: it is planned next."
_EARLIER = Q(turn__lt=OuterRef("turn")) | Q(turn=OuterRef("turn"), build__lt=OuterRef("build"))


def find_blocker(*, build: Build, datasets: Mapping[int, str]) -> Conflict | None:
    """Return why a build cannot write these datasets (id → path) now, naming what it waits for; None where it can."""
    for pk, head in find_heads(datasets=datasets, branch=build.branch).items():
        if head < (build.turn, build.pk):
            return Conflict(_explain_queue(head[1], datasets[pk]), code="queued", build=head[1])
    opened = (
        Transaction.objects.filter(dataset__in=datasets, branch_name=build.branch, state=TransactionState.OPEN)
        .select_related("dataset")
        .order_by("dataset__path")
        .first()
    )
    if opened is None:
        return None
    return Conflict(_explain_writer(opened), code="queued", build=opened.build_id)


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
            return _explain_queue(place.head, place.path)
    for place in places:
        if (place.dataset, place.branch) in writers:
            return _explain_writer(writers[place.dataset, place.branch])
    return _FREE if build.state == BuildState.RESOLVING and build.reason.startswith(_STOOD) else build.reason


def _explain_queue(head: int, path: str) -> str:
    return f"Waits for build {head}, which is before it in the queue for {path}."


def _explain_writer(opened: Transaction) -> str:
    holder = f"build {opened.build_id}" if opened.build_id else f"transaction {opened.pk} of {opened.by}"
    message = f"Waits for {holder}, which is writing {opened.dataset.path} on {opened.branch_name}."
    return message if opened.build_id else f"{message} {_explain_person(opened)}"


def _explain_person(opened: Transaction) -> str:
    """Say how idle somebody's open transaction is, who may end it, and from when on others may."""
    written = f"last written {opened.written_at:%Y-%m-%d %H:%M}" if opened.written_at else "not written yet"
    text = f"It is open since {opened.started_at:%Y-%m-%d %H:%M} UTC, {written}: {opened.by} or a maintainer commits or aborts it"
    if opened.abortable_at is None:
        return f"{text}."
    return (
        f"{text}; if nothing more is written, whoever may write there aborts it from "
        f"{opened.abortable_at:%Y-%m-%d %H:%M} UTC on."
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
