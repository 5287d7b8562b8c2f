"""What attempts of jobs have written, which takes disk space until it is committed or removed; and who must give space back."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.builds.models import Job, JobOutput
from webapp.builds.rules.states import JobState
from webapp.builds.runner import paths
from webapp.catalog import services as catalog
from webapp.core.errors import AppError
from webapp.core.principals import name_folder
from webapp.runtime.folders import remove_folder
from webapp.runtime.room import describe_size, list_disks, measure_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from webapp.runtime.room import Disk

LARGE_SHARE = 10
"""A job is large if it has written this part of a disk's reserve: a tenth."""


def remove_attempt(job: Job, *, attempt: int) -> None:
    """Remove everything that a lost attempt has left: its messages, and its files in tables."""
    remove_folder(paths.work_folder(job.pk, attempt))
    remove_files(job, attempt=attempt)


def remove_files(job: Job, *, attempt: int) -> None:
    """Remove the files of an attempt in tables; it must be certain that the attempt never commits.

    An upload stages into a transaction that a user opened and can still commit: what it has staged there stays.
    """
    folder, is_into_open = _name_folder(job, attempt), job.is_into_open_transaction
    for table in _list_tables(job):
        with suppress(AppError):  # dropped meanwhile, and its folders with it; or away, and the collector finds them
            if not (is_into_open and catalog.has_staged(table=table, folder=folder)):
                catalog.remove_job_files(table=table, folder=folder)


def explain_shortage(job: Job) -> str:
    """Return why a running job must end to give disk space back, or an empty text.

    It must if a disk has less space than its reserve, and the job is the newest of the large ones on this host.
    """
    with suppress(OSError):
        for disk in list_disks():
            if not disk.is_low or (size := _measure(job, disk)) < disk.reserve // LARGE_SHARE:
                continue
            is_large = partial(_is_large, disk=disk)
            # What an ended job has written may have been removed while this was measured.
            if not any(map(is_large, _list_newer(job))) and any(again.is_low for again in list_disks()):
                return (
                    f"{disk.describe()}. The job was ended because it was the newest of the large jobs: it had written "
                    f"{describe_size(size)}. Its files are removed. Free some space, or have an administrator lower "
                    "TRIBUTARY_RESERVE_BYTES, and build again."
                )
    return ""


def _is_large(job: Job, *, disk: Disk) -> bool:
    return _measure(job, disk) >= disk.reserve // LARGE_SHARE


def _list_newer(job: Job) -> Iterable[Job]:
    """Return the running jobs of this host that began after a job."""
    host = _host_of(job)
    later = Q(started_at__gt=job.started_at) | Q(started_at=job.started_at, pk__gt=job.pk)
    running = Job.objects.filter(later, state=JobState.RUNNING, worker__startswith=host)
    return (other for other in running if _host_of(other) == host)


def _host_of(job: Job) -> str:
    return job.worker.rpartition("-")[0]


def _measure(job: Job, disk: Disk) -> int:
    """Return the bytes that a job's current attempt has on a disk."""
    return sum(measure_folder(folder) for folder in _list_folders(job) if _is_on(disk, folder))


def _is_on(disk: Disk, folder: Path) -> bool:
    with suppress(OSError):
        return folder.stat().st_dev == disk.device
    return False


def _list_folders(job: Job) -> list[Path]:
    folders = [paths.work_folder(job.pk, job.attempt)]
    for table in _list_tables(job):
        with suppress(AppError):
            folders += catalog.list_job_folders(table=table, folder=_name_folder(job, job.attempt))
    return folders


def _list_tables(job: Job) -> list[str]:
    outputs = JobOutput.objects.filter(job=job, dataset__isnull=False)
    return list(outputs.values_list("dataset__table", flat=True))


def _name_folder(job: Job, attempt: int) -> str:
    return name_folder(staging=find_staging(job), job=job.pk, attempt=attempt)


def find_staging(job: Job) -> str:
    """Return the branch that a job writes: an upload into somebody's open transaction where that transaction is staged."""
    if not job.is_into_open_transaction:
        return job.staging_branch
    output = job.outputs.select_related("transaction").first()
    opened = output.transaction if output is not None else None
    return job.staging_branch if opened is None else opened.staging_branch
