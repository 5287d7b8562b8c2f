"""Uploads on branches, as a merge may repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.builds.models import UPLOAD, Job, KeptUpload
from webapp.builds.rules.loads import REPLACE, BranchWrite, LoadedFile, RepeatedUploads, find_repeat
from webapp.datasets import queries as datasets
from webapp.datasets.models import Transaction
from webapp.datasets.rules.transactions import SNAPSHOT

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Upload:
    """One upload whose rows a branch shows."""

    name: str
    """Of its file."""
    mode: str
    rows: int
    """That it brought."""
    by: str
    at: datetime | None


@dataclass(frozen=True)
class BranchUploads:
    """What was loaded into a dataset on a branch, the oldest first, and how it is loaded once more."""

    uploads: Sequence[Upload]
    start: str
    """What the branch began with; empty where that was nothing."""
    repeat: RepeatedUploads


def read_uploads(heads: Mapping[str, Transaction]) -> dict[str, BranchUploads]:
    """Return what was loaded into datasets on a branch that shows these, by path.

    Args:
        heads: path → the transaction that the branch shows, which is its own.

    """
    lines = {path: _list_line(head) for path, head in heads.items()}
    ids = {row.job_id for line in lines.values() for row in line if row.job_id}
    jobs = Job.objects.filter(kind=UPLOAD).prefetch_related("outputs").in_bulk(ids)
    kept_uploads = {row.job_id: row for row in KeptUpload.objects.filter(job__in=jobs)}
    return {path: _describe(heads[path].branch_name, line, jobs, kept_uploads) for path, line in lines.items() if line}


def _list_line(head: Transaction) -> list[Transaction]:
    """Return the transactions of the branch itself that led to what it shows, the oldest first."""
    steps = datasets.list_line(head, branches=[head.branch_name])
    rows = Transaction.objects.in_bulk([step.pk for step in steps])
    return [rows[step.pk] for step in reversed(steps)]


def _describe(
    branch: str, line: Sequence[Transaction], jobs: Mapping[str, Job], kept_uploads: Mapping[str, KeptUpload]
) -> BranchUploads:
    written = [_read_written(row, jobs.get(row.job_id), kept_uploads.get(row.job_id)) for row in line]
    repeat = find_repeat(written, branch=branch)
    counting = line[len(line) - repeat.counting :]
    uploads = [_read_upload(row, jobs[row.job_id]) for row in counting if row.job_id in jobs]
    return BranchUploads(uploads, line[0].parent_id or "", repeat)


def _read_written(row: Transaction, job: Job | None, kept_upload: KeptUpload | None) -> BranchWrite:
    if job is None:
        return BranchWrite(row.by, row.type == SNAPSHOT)
    upload = job.upload or {}
    replaces = row.type == SNAPSHOT or _read_mode(job) == REPLACE
    return BranchWrite(row.by, replaces, True, job.file, _read_file(job, upload, kept_upload) if kept_upload else None)


def _read_file(job: Job, upload: Mapping[str, Any], kept_upload: KeptUpload) -> LoadedFile:
    return LoadedFile(
        job=job.pk,
        name=job.file,
        sha256=kept_upload.sha256,
        format=upload["format"],
        mode=upload["mode"],
        delimiter=upload.get("delimiter", ""),
        has_header=upload.get("has_header", True),
        types=upload.get("types", {}),
    )


def _read_upload(row: Transaction, job: Job) -> Upload:
    rows = sum(int(output.summary.get("added_rows") or 0) for output in job.outputs.all())
    return Upload(job.file, _read_mode(job), rows, row.by, row.closed_at)


def _read_mode(job: Job) -> str:
    """Return what an upload did with the rows that were there; of a repeated one the first file says so."""
    upload = job.upload or {}
    mode: str = upload["files"][0]["mode"] if job.is_load else upload["mode"]
    return mode
