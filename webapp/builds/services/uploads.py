"""Uploads: a staged file becomes one transaction through one sandboxed job, all of it or nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from django.db import transaction

from webapp.accounts import permissions
from webapp.builds.models import UPLOAD, Build, Job, JobOutput
from webapp.builds.queries import chains
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import queue
from webapp.builds.services.builds import record_build_act
from webapp.builds.services.quotas import find_data_room
from webapp.core import clock, ids, names
from webapp.core.errors import Conflict, InvalidInput, StorageFull
from webapp.core.room import check_room
from webapp.datasets import queries as datasets
from webapp.datasets import services as dataset_services
from webapp.datasets.rules import transactions as rules

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
MODES = {"snapshot": rules.SNAPSHOT, "append": rules.APPEND}
LOOK_SECONDS = 0.1


def start_upload(
    *,
    dataset: Dataset,
    branch: str,
    mode: str,
    content: Iterable[bytes],
    filename: str,
    by: Principal,
    into: str | None = None,
) -> Build:
    """Stage a file and start the job that reads it into a dataset.

    Args:
        dataset: where it goes.
        branch: on which branch; ignored when it goes into an open transaction.
        mode: snapshot replaces what is there, append adds to it.
        content: the bytes, chunk by chunk.
        filename: its name says the format: .csv, .json, .jsonl, .parquet.
        by: who uploads.
        into: id of an open transaction to write into, which stays open.

    """
    check_room()
    if mode not in MODES:
        raise InvalidInput(f"An upload's mode is snapshot or append, not {mode!r}.", errors={"mode": ["Unknown mode."]})
    file_format = find_format(filename)
    target = _find_open(dataset, into) if into else None
    branch = target.branch_name if target else names.check_branch_name(branch)
    permissions.check_dataset(by, dataset.path, "write", branch)
    _check_quota(dataset.path, branch)
    job_id = ids.new_id()
    staged = stage_file(content=content, name=f"{job_id}{Path(filename).suffix.lower()}")
    with ExitStack() as undo, transaction.atomic():
        undo.callback(staged.unlink, missing_ok=True)
        build = _create_upload(
            dataset=dataset,
            branch=branch,
            mode=mode,
            staged=staged,
            file_format=file_format,
            filename=filename,
            by=by,
            job_id=job_id,
            target=target,
        )
        undo.pop_all()
    return build


def _check_quota(path: str, branch: str) -> None:
    repository = chains.find_repository(paths=[path], branch=branch)
    if repository is not None:
        find_data_room(repository=repository.name)


def find_format(filename: str) -> Format:
    """Return the format that a file's name says."""
    suffix = Path(filename).suffix.lower()
    if suffix not in FORMATS:
        message = f"{filename}: a file's name must end in {', '.join(FORMATS)}."
        raise InvalidInput(message, code="file_format", errors={"file": [message]})
    return FORMATS[suffix]


def stage_file(*, content: Iterable[bytes], name: str) -> Path:
    """Write chunks to the uploads folder, never holding more than one; refuse an empty file."""
    folder = paths.uploads_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    staged = folder / name
    written = 0
    try:
        with staged.open("xb") as file:
            for chunk in content:
                file.write(chunk)
                written += len(chunk)
    except BaseException:
        # The disk is full, or the client went away in the middle.
        staged.unlink(missing_ok=True)
        raise
    if not written:
        staged.unlink()
        raise InvalidInput("The file is empty.", code="empty_file", errors={"file": ["The file is empty."]})
    staged.chmod(0o644)
    return staged


def _find_open(dataset: Dataset, into: str) -> Transaction:
    target = datasets.get_transaction(dataset, into)
    if not target.is_open:
        raise Conflict(f"Transaction {target.pk} is {target.state}: nothing can be written.", code="transaction_closed")
    if target.build_id is not None:
        raise Conflict(f"Transaction {target.pk} belongs to build {target.build_id}.", code="transaction_open")
    return target


def _create_upload(
    *,
    dataset: Dataset,
    branch: str,
    mode: str,
    staged: Path,
    file_format: Format,
    filename: str,
    by: Principal,
    job_id: str,
    target: Transaction | None,
) -> Build:
    repository = chains.find_repository(paths=[dataset.path], branch=branch)
    chain = chains.default_chain(repository=repository, branch=branch)
    build = Build(
        kind=UPLOAD,
        branch=branch,
        chain=list(chain),
        targets=[dataset.path],
        repository=repository,
        title=f"Upload {filename}"[:250],
        state=BuildState.RUNNING,
        by_id=by.user_id,
        trigger="upload",
        started_at=clock.now(),
    )
    queue.take_turn(build)
    build.save()
    job = Job.objects.create(
        id=job_id,
        build=build,
        number=1,
        kind=UPLOAD,
        file=filename[:1000],
        state=JobState.RUN_PENDING,
        turn=build.turn,
        rung_at=clock.now(),
        size="large",
        why=f"{mode} of {filename}"[:500],
        upload={
            "file": str(staged),
            "format": file_format,
            "mode": mode,
            "transaction": target.pk if target else None,
        },
    )
    opened = target or dataset_services.open_transaction(
        dataset=dataset,
        branch=branch,
        chain=chain,
        type=MODES[mode],
        by=by,
        build_id=build.pk,
        job_id=job.pk,
        staging_branch=job.staging_branch,
    )
    JobOutput.objects.create(job=job, name="file", path=dataset.path, dataset=dataset, transaction=opened)
    record_build_act(build, "upload", by=by)
    queue.ring_job(job)
    return build


def wait_for_build(*, build: Build, seconds: float) -> Build:
    """Wait for the end of a build, that long at most; return it as it stands then."""
    deadline = time.monotonic() + seconds
    while not build.is_over and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        build.refresh_from_db()
    return build


def check_upload(*, build: Build) -> None:
    """Raise what an upload ended with, where it is no success."""
    if build.state == BuildState.COMPLETED:
        return
    job = build.jobs.get()
    error = job.error or {}
    if error.get("code") == StorageFull.default_code:
        raise StorageFull(job.reason, build=build.pk)
    raise InvalidInput(
        job.reason or build.reason,
        code=error.get("code") or "upload_failed",
        errors={"file": [job.reason or build.reason]},
        build=build.pk,
        line=error.get("line") or None,
    )


def forget_staged_file(*, job: Job) -> None:
    """Remove the file of an upload that is over."""
    if job.upload:
        Path(job.upload["file"]).unlink(missing_ok=True)


def sweep_staged_files(*, older_than: float) -> int:
    """Remove staged files that no unfinished upload needs."""
    folder = paths.uploads_folder()
    if not folder.exists():
        return 0
    needed = {job.upload["file"] for job in Job.objects.filter(kind=UPLOAD, finished_at=None) if job.upload}
    removed = 0
    for file in folder.iterdir():
        if str(file) not in needed and file.stat().st_mtime < older_than:
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
            removed += 1
    return removed
