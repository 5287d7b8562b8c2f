"""What a loop repeats every few seconds: ring again what is due, take over what a dead worker held, close what is left."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import Exists, OuterRef

from webapp.accounts import services as accounts
from webapp.builds.models import Build, Job
from webapp.builds.queries import queue as waiting
from webapp.builds.rules.states import BUILD_UNFINISHED, BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import builds, interrupts, keeping, leftovers, publication, queue, seals, trees, uploads
from webapp.builds.services.running import PAUSE
from webapp.core import clock
from webapp.core.errors import AppError
from webapp.datasets import services as datasets
from webapp.datasets.models import Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.dispatch.leases import MAX_LOST, RING_AGAIN, list_stamps, ring_forgotten
from webapp.dispatch.logs import LogWriter
from webapp.dispatch.stamps import Stamp
from webapp.dispatch.sweeps import HELD_UP_S, Turns, take_each
from webapp.repositories.models import Publication
from webapp.runtime import doorbell

turns = Turns()
MOVING = (JobState.RUN_PENDING, JobState.RUNNING, JobState.ABORT_PENDING)
KEEP_UPLOADS = timedelta(days=1)
STAMPS = (
    *list_stamps(Job.objects.all),
    Stamp(Job.objects.waiting, "due_at", PAUSE),
    Stamp(lambda: Build.objects.filter(state=BuildState.RESOLVING), "rung_at"),
    *list_stamps(Publication.objects.all),
)
"""What this sweep waits for."""


def sweep_builds() -> dict[str, int]:
    """Do all of it once; return how often each thing was needed."""
    return {
        **(take_over_lost() if turns.begin() else {}),
        "jobs rung again": ring_waiting_jobs(),
        "builds rung again": ring_resolving_builds(),
        "builds advanced": advance_running_builds(),
        "transactions aborted": abort_orphaned_transactions(),
        "publications rung again": ring_pending_publications(),
    }


def sweep_folders() -> dict[str, int]:
    """Remove what nothing needs any more, files first."""
    old = (clock.cautious_now() - KEEP_UPLOADS).timestamp()
    return {
        "old trees removed": trees.sweep_trees(),
        "records of sealed files removed": seals.sweep_seals(),
        "staged files removed": uploads.sweep_staged_files(older_than=old),
        "files of uploads forgotten": keeping.sweep_kept_files(),
        "columns of unused code forgotten": publication.sweep_columns(),
    }


def take_over_lost() -> dict[str, int]:
    """Retry or end what dead workers held; return how often each thing was needed."""
    return {
        "jobs taken over": take_over_lost_jobs(),
        "publications taken over": publication.take_over_lost_publications(),
    }


def take_over_lost_jobs() -> int:
    """Retry or fail jobs whose lease ran out: their worker is dead, or so slow that its result may not count."""
    is_held_up = False

    def take_over(job: Job) -> int:
        nonlocal is_held_up
        if is_held_up:
            return 0
        start = time.monotonic()
        with transaction.atomic():
            builds.lock_outputs(build=job.build)
            # So were the workers, who could not renew their leases: they are given until the next turn.
            is_held_up = time.monotonic() - start > HELD_UP_S
            if is_held_up or not Job.objects.lost().filter(pk=job.pk).exists():
                return 0
            return _take_over(job)

    return take_each(Job.objects.lost().select_related("build"), take_over, what="Nobody can take over")


def _take_over(job: Job) -> int:
    reason = f"The worker {job.worker} died while it ran the job."
    accounts.revoke_job_tokens(job_id=job.pk, attempt=job.attempt)
    if job.state == JobState.ABORT_PENDING:
        ended = builds.end_job(job=job, state=JobState.ABORTED, reason=job.reason, attempt=job.attempt)
        note = "aborted"
    elif job.lost >= MAX_LOST:
        ended = builds.end_job(
            job=job,
            state=JobState.FAILED,
            reason=f"{reason} It died for the second time.",
            error={"message": reason, "code": "worker_lost"},
            attempt=job.attempt,
        )
        note = "failed"
    else:
        ended = bool(Job.objects.held(job).give_back(lost=1, reason=f"{reason} It is tried once more."))
        note = ""
        if ended:
            queue.ring_job(job)
    if ended:
        transaction.on_commit(partial(_note, job, reason, note))
        transaction.on_commit(partial(leftovers.remove_attempt, job, attempt=job.attempt))
        builds.advance_build(build=job.build)
    return int(ended)


def _note(job: Job, reason: str, end: str) -> None:
    interrupts.interrupt_session_aside(job=job)
    log = LogWriter(paths.log_path(job.pk))
    log.write(reason, is_runner=True)
    if end:
        log.end(end, 1)
    log.close()


def ring_waiting_jobs() -> int:
    """Ring again for jobs that are ready and that nobody took: the message was lost, or a part was down."""
    return ring_forgotten(Job.objects.order_by("turn", "build_id", "number"), queue.ring_job, queue="builds")


def ring_resolving_builds() -> int:
    """Ring again for builds that nothing stands before: they wait for a publication, or a message was lost."""
    due = waiting.list_due(before=clock.shared_now() - RING_AGAIN, limit=doorbell.count_room("quick"))
    queue.ring_again(due)
    return len(due)


def advance_running_builds() -> int:
    """Carry on builds whose last step was cut off between a job's end and its consequences: no job of theirs moves."""
    moving = Job.objects.filter(build=OuterRef("pk"), state__in=MOVING)
    return take_each(
        Build.objects.filter(~Exists(moving), state=BuildState.RUNNING), _advance, what="Nobody can carry on"
    )


def _advance(build: Build) -> bool:
    before = set(build.jobs.values_list("pk", "state"))
    builds.advance_build(build=build)
    build.refresh_from_db()
    return before != set(build.jobs.values_list("pk", "state")) or build.is_over


def abort_orphaned_transactions() -> int:
    """Abort what builds that are over, or gone, still hold open."""
    alive = Build.objects.filter(pk=OuterRef("build_id"), state__in=BUILD_UNFINISHED)
    held = Transaction.objects.filter(~Exists(alive), state=TransactionState.OPEN, build_id__isnull=False)
    return take_each(held.select_related("dataset"), _abort, what="Nobody can abort")


def _abort(row: Transaction) -> Transaction:
    return datasets.abort_transaction(transaction=row, reason=f"Build {row.build_id} is over.")


def ring_pending_publications() -> int:
    """Ring again for commits whose JobSpecs were not published."""
    pending = Publication.objects.select_related("repository").order_by("rung_at")
    return ring_forgotten(pending, _request_or_drop, queue="quick")


def _request_or_drop(pending: Publication) -> None:
    # Where the repository is damaged readiness says so, and the other ones go on.
    with suppress(AppError), transaction.atomic():
        publication.request_or_drop(publication=pending)
