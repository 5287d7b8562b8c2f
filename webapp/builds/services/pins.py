"""Pinned inputs whose transaction is gone: the job reads the newest one instead, or fails and names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.builds.models import Build, JobInput
from webapp.catalog import queries as catalog
from webapp.core.errors import Conflict, find_refusal
from webapp.core.prepared import Prepared
from webapp.datasets import queries as datasets
from webapp.datasets import services as dataset_services

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.builds.models import Job
    from webapp.datasets.models import Transaction

INPUT_GONE = "input_gone"
_INPUTS = Prepared(lambda job: JobInput.objects.filter(job=job).select_related("transaction__dataset", "from_job"), str)


def find_gone(*, job: Job) -> list[JobInput]:
    """Return the inputs of a job whose transaction the table no longer has."""
    return [row for row in _INPUTS.all(job.pk) if row.transaction is None or _is_expired(row.transaction)]


def read_newest(*, job: Job, gone: Iterable[JobInput]) -> str:
    """Pin inputs to the newest transaction of their branch; return what has changed, which the build also notes.

    The caller holds the lock of the build.

    Raises:
        Conflict: an input has no other transaction that the job can read; nothing is changed then.

    """
    rows = list(gone)
    dataset_services.lock_paths([row.path for row in rows])
    build = Build.objects.get(pk=job.build_id)
    newest = [_choose_newest(build, row) for row in rows]
    changes = []
    for row, chosen in zip(rows, newest, strict=True):
        changes.append(f"{describe_gone(row)} Job {job.number} reads transaction {chosen.pk} instead.")
        row.transaction = chosen
        row.save(update_fields=["transaction"])
    Build.objects.filter(pk=build.pk).update(notes=[*build.notes, *changes])
    return " ".join(changes)


def describe_gone(row: JobInput) -> str:
    """Name the dataset, the transaction and the branch of an input whose transaction is gone."""
    transaction = "its transaction" if row.transaction is None else f"transaction {row.transaction.pk}"
    return f"{row.path}: {transaction} on branch {row.branch} is gone, its snapshot has expired."


def _choose_newest(build: Build, row: JobInput) -> Transaction:
    """Return the transaction to read instead."""
    if row.transaction is None:
        raise _refuse(row, "The dataset was removed")
    if row.from_job is not None:
        raise _refuse(row, f"Job {row.from_job.number} of this build made it: build again")
    if build.pins.get(row.path) == row.transaction.pk:
        raise _refuse(row, "The build was asked to read this one")
    newest = datasets.latest_committed(row.transaction.dataset, row.branch)
    if newest is None or newest.pk == row.transaction.pk or _is_expired(newest):
        raise _refuse(row, "The branch has no other one to read")
    return newest


def _refuse(row: JobInput, reason: str) -> Conflict:
    return Conflict(f"{describe_gone(row)} {reason}.", code=INPUT_GONE)


def _is_expired(row: Transaction) -> bool:
    metadata = catalog.get_metadata(table=row.dataset.table)
    return bool(find_refusal(datasets.check_not_expired, row.dataset, row, metadata))
