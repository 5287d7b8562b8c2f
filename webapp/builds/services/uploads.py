"""Uploads: a staged file becomes one transaction through one sandboxed job, all of it or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from django.db import transaction

from jobs.protocol import CATALOG_BUSY, LOST_COMMIT
from webapp.accounts import permissions
from webapp.accounts.services import record_audit
from webapp.builds.models import UPLOAD, Build, Job, JobOutput
from webapp.builds.queries import chains, drafts
from webapp.builds.rules.files import FileForm
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import queue
from webapp.builds.services.builds import record_build_act
from webapp.builds.services.quotas import find_data_room
from webapp.core import clock, ids, names
from webapp.core.errors import Conflict, InvalidInput, StorageFull, Unavailable
from webapp.datasets import queries as datasets
from webapp.datasets import services as dataset_services
from webapp.datasets.rules import transactions as rules
from webapp.repositories import services as repositories
from webapp.repositories.permissions import can_move_branch
from webapp.runtime.folders import remove_folder
from webapp.runtime.room import check_room

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction
    from webapp.repositories.models import Repository

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
MOST_DRAFTS = 3


def start_upload(
    *,
    dataset: Dataset,
    branch: str,
    mode: str,
    content: Iterable[bytes] | Path,
    filename: str,
    by: Principal,
    into: str | None = None,
    form: FileForm | None = None,
    draft: str = "",
) -> Build:
    """Stage a file and start the job that reads it into a dataset.

    Args:
        dataset: where it goes.
        branch: on which branch; ignored when it goes into an open transaction.
        mode: snapshot replaces what is there, append adds to it.
        content: the bytes, chunk by chunk, or a file of the uploads folder that holds them.
        filename: its name says the format: .csv, .json, .jsonl, .parquet.
        by: who uploads.
        into: id of an open transaction to write into, which stays open.
        form: how the file is read; found in the file by default.
        draft: the kept file that it is, which goes when it is loaded.

    """
    check_room()
    if mode not in MODES:
        raise InvalidInput(f"An upload's mode is snapshot or append, not {mode!r}.", errors={"mode": ["Unknown mode."]})
    file_format = find_format(filename)
    form = form or FileForm()
    form.check()
    form.check_format(file_format)
    target = _find_open(dataset, into) if into else None
    branch = target.branch_name if target else names.check_branch_name(branch)
    datasets.get_fallback_chain(path=dataset.path, branch=branch)
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
            form=form,
            draft=draft,
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


def stage_file(*, content: Iterable[bytes] | Path, name: str) -> Path:
    """Link a file, or write chunks, never holding more than one, to the uploads folder; refuse an empty file."""
    folder = paths.uploads_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    staged = folder / name
    if isinstance(content, Path):
        staged.hardlink_to(content)  # a copy would take the room of a large file once more
    else:
        _write_chunks(staged, content)
    if not staged.stat().st_size:
        staged.unlink()
        raise InvalidInput("The file is empty.", code="empty_file", errors={"file": ["The file is empty."]})
    staged.chmod(0o644)
    return staged


def _write_chunks(staged: Path, chunks: Iterable[bytes]) -> None:
    try:
        with staged.open("xb") as file:
            file.writelines(chunks)
    except BaseException:
        # The disk is full, or the client went away in the middle.
        staged.unlink(missing_ok=True)
        raise


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
    form: FileForm,
    draft: str,
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
            "draft": draft,
            **asdict(form),
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


def keep_draft(*, content: Iterable[bytes] | Path, filename: str, by: Principal) -> str:
    """Keep a file until its sender has said how it is loaded, for a day; return the token to go on with.

    Of each person the newest few are kept: who sends and never loads fills no disk.
    """
    check_room()
    file_format = find_format(filename)
    own = f"draft-{by.user_id}-"
    name = f"{own}{ids.new_id()}{Path(filename).suffix.lower()}"
    stage_file(content=content, name=name)
    record_audit(by=by, verb="send_file", object=filename)
    older = sorted(paths.uploads_folder().glob(f"{own}*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in older[MOST_DRAFTS:]:
        path.unlink(missing_ok=True)
    return drafts.sign_draft(file=name, name=filename, file_format=file_format, by=by)


def load_draft(*, draft: drafts.Draft, path: str, branch: str, mode: str, form: FileForm, by: Principal) -> Build:
    """Start the job that reads a kept file into a dataset, which is made if it is not there yet.

    A new branch becomes a branch of the repository too, so that a pull request can propose the file.
    """
    names.split_dataset_path(path)
    names.check_branch_name(branch)
    form.check()
    repository = _find_repository_without(branch, path=path, by=by)
    if repository is not None:
        repositories.check_branch_name_is_free(repository=repository, name=branch)
    with transaction.atomic():  # what is refused makes no dataset
        dataset = datasets.find_dataset(path) or dataset_services.create_dataset(path=path, by=by)
        build = start_upload(
            dataset=dataset,
            branch=branch,
            mode=mode,
            content=draft.path,
            filename=draft.name,
            by=by,
            form=form,
            draft=draft.path.name,
        )
    if repository is not None:
        with suppress(Conflict):  # somebody made it meanwhile
            repositories.create_branch(repository=repository, name=branch, by=by, is_consequence=True)
    return build


def _find_repository_without(branch: str, *, path: str, by: Principal) -> Repository | None:
    """Return the repository of a dataset, if it lacks a branch and the user may make it there."""
    repository = chains.find_repository(paths=[path], branch=branch)
    if repository is None or not can_move_branch(by, repository, branch):
        return None
    return None if chains.find_head_sha(repository=repository, branch=branch) else repository


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
    code, reason = error.get("code") or "upload_failed", job.reason or build.reason
    if code in {CATALOG_BUSY, LOST_COMMIT}:
        raise Unavailable(f"{reason} Nothing was loaded: try again.", build=build.pk)
    raise InvalidInput(
        reason,
        code=code,
        errors={"types" if code == "type" else "file": [reason]},
        build=build.pk,
        line=error.get("line") or None,
    )


def forget_staged_file(*, job: Job, is_loaded: bool) -> None:
    """Remove the file of an upload that is over; what a page sent and could not be loaded stays, to be read otherwise."""
    if job.upload and not job.is_load:
        Path(job.upload["file"]).unlink(missing_ok=True)
    if job.upload and job.upload.get("draft") and is_loaded:
        (paths.uploads_folder() / job.upload["draft"]).unlink(missing_ok=True)


def sweep_staged_files(*, older_than: float) -> int:
    """Remove staged files that no unfinished upload needs."""
    folder = paths.uploads_folder()
    if not folder.exists():
        return 0
    needed = {job.upload.get("file") for job in Job.objects.filter(kind=UPLOAD, finished_at=None) if job.upload}
    removed = 0
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # its upload has just ended
            if str(file) in needed or file.lstat().st_mtime >= older_than:
                continue
            if file.is_dir():
                remove_folder(file)
            else:
                file.unlink()
            removed += 1
    return removed
