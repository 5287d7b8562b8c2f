"""The queue: who takes a turn, who stands where, and whose bell is rung when something becomes free."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import Max

from webapp.builds.models import Build, Job, QueuedOutput
from webapp.builds.queries import queue
from webapp.builds.rules.plan import join_words
from webapp.builds.rules.states import BuildState
from webapp.builds.rules.turns import next_turn
from webapp.builds.rules.values import BuildPlan
from webapp.core import clock
from webapp.datasets.models import Transaction
from webapp.repositories.models import Publication, Repository
from webapp.runtime import doorbell

logger = logging.getLogger(__name__)
RESOLVE_TASK = "webapp.builds.tasks.resolve_build"
RUN_TASK = "webapp.builds.tasks.run_job"


def take_turn(build: Build) -> None:
    """Give a new build, not yet saved, its place among the builds of all users."""
    last = Build.objects.filter(by=build.by_id).aggregate(last=Max("turn"))["last"]
    served = Build.objects.filter(has_begun=True).aggregate(served=Max("turn"))["served"]
    build.turn = next_turn(last=last or 0, served=served or 0)


def ring_resolution(build: Build) -> None:
    """Ring for the resolution of a build once the atomic block is committed."""
    transaction.on_commit(partial(_ring_builds, [build.pk]))


def ring_job(job: Job) -> None:
    """Ring for a job that is ready to run once the atomic block is committed."""
    transaction.on_commit(lambda: doorbell.ring(RUN_TASK, queue="builds", id=job.pk))


def ring_again(builds: Collection[int]) -> None:
    """Ring once more for builds that may have been forgotten, and note when."""
    Build.objects.filter(pk__in=builds).update(rung_at=clock.shared_now())
    _ring_builds(builds)


def _ring_builds(ids: Iterable[int]) -> None:
    for pk in ids:
        doorbell.ring(RESOLVE_TASK, queue="quick", id=pk)


def enter_queue(*, build: Build, plan: BuildPlan, datasets: Collection[int]) -> None:
    """Stand in the queues for what the plan writes, and in no others."""
    with transaction.atomic():
        if not Build.objects.filter(pk=build.pk, state=BuildState.RESOLVING).update(plan=plan.to_json()):
            return
        _leave(build, keep=datasets)
        QueuedOutput.objects.bulk_create(
            [QueuedOutput(build=build, dataset_id=pk, branch=build.branch, turn=build.turn) for pk in datasets],
            ignore_conflicts=True,
        )


def leave_queue(*, build: Build, taken: Collection[int] = ()) -> None:
    """Stand in no queue any more; who is next for what the build does not take is rung."""
    _leave(build, keep=(), taken=taken)


def _leave(build: Build, *, keep: Collection[int], taken: Collection[int] = ()) -> None:
    left = QueuedOutput.objects.filter(build=build).exclude(dataset__in=keep)
    datasets = list(left.values_list("dataset", flat=True))
    if datasets:
        left.delete()
    freed = [dataset for dataset in datasets if dataset not in taken]
    if freed:
        wake_queue(branch=build.branch, datasets=freed)


def wake_queue(*, branch: str, datasets: Collection[int]) -> None:
    """Ring for the first build in the queue of each of these datasets once the atomic block is committed.

    It is looked up after the commit: a build stands in its queues before it looks whether they are free, so it either
    sees what is committed or is seen here.
    """
    transaction.on_commit(partial(_ring_heads, branch, datasets))


def _ring_heads(branch: str, datasets: Collection[int]) -> None:
    try:
        heads = queue.find_heads(datasets=datasets, branch=branch)
    except DatabaseError as error:
        # What was done is committed: whoever did it is not to fail. The sweep finds who can go on.
        logger.warning("builds that wait for datasets %s of %s not rung: %s", join_words(datasets), branch, error)
        return
    _ring_builds(sorted({build for _turn, build in heads.values()}))


def wake_unpublished(*, repository: Repository, branch: str) -> None:
    """Ring for the builds that wait for the JobSpecs of a branch once the atomic block is committed.

    They are looked up after the commit, as the heads of queues are: a build writes down what it waits for before it
    looks whether that is there.
    """
    transaction.on_commit(partial(_ring_unpublished, repository, branch))


def _ring_unpublished(repository: Repository, branch: str) -> None:
    try:
        builds = queue.list_unpublished(repository=repository, branch=branch)
    except DatabaseError as error:
        logger.warning("builds that wait for the JobSpecs of %s not rung: %s", branch, error)
        return
    _ring_builds(builds)


def follow_publication(*, publication: Publication, **_: Any) -> None:
    """Ring whoever waits for the JobSpecs of a branch, which are published or cannot be."""
    wake_unpublished(repository=publication.repository, branch=publication.branch)


def follow_closed_transaction(*, transaction: Transaction, **_: Any) -> None:
    """Ring whoever waits first for a dataset's branch, which is free again. A plain client's commit held nothing."""
    if transaction.staging_branch:
        wake_queue(branch=transaction.branch_name, datasets=[transaction.dataset_id])
