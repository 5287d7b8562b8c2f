"""Files of uploads on branches, kept as long as a merge may repeat them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from django.db.models import Exists, OuterRef, Q, QuerySet

from webapp.builds.models import UPLOAD, Job, KeptUpload
from webapp.builds.rules.loads import Load
from webapp.builds.runner import paths
from webapp.core.errors import InvalidInput
from webapp.core.names import MASTER
from webapp.datasets.models import Transaction
from webapp.datasets.rules.transactions import SNAPSHOT, TransactionState

CHUNK_BYTES = 16 * 1024 * 1024
_keepers: list[Callable[[], Iterable[str]]] = []


def register_keeper(keep: Callable[[], Iterable[str]]) -> None:
    """Add a function that names uploads whose files an app above still needs; call it from `AppConfig.ready`."""
    if keep not in _keepers:
        _keepers.append(keep)


def keep_file(*, job: Job, branch: str, beat: Callable[[], object]) -> KeptUpload | None:
    """Keep the file of an upload that is about to be committed, not saved yet; None of one that nobody repeats.

    A file of master lands nowhere, and what goes into somebody's open transaction is not all that they put there.
    """
    upload = job.upload or {}
    if job.kind != UPLOAD or branch == MASTER or job.is_load or upload.get("transaction") is not None:
        return None
    staged, path = Path(upload["file"]), paths.kept_path(job.pk)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):  # an attempt before this one came as far
        path.hardlink_to(staged)
    return KeptUpload(job=job, sha256=_digest(path, beat), bytes=path.stat().st_size)


def _digest(file: Path, beat: Callable[[], object]) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            digest.update(chunk)
            beat()
    return digest.hexdigest()


def check_kept(*, load: Load) -> None:
    """Refuse to repeat uploads of which a file is gone.

    Raises:
        InvalidInput: it names the file and the way out.

    """
    gone = [file.name for file in load.files if not paths.kept_path(file.job).exists()]
    if gone:
        message = (
            f"The file {', '.join(gone)} is not kept any more: load it into {load.path} here, or on a branch again."
        )
        raise InvalidInput(message, code="file_gone")


def sweep_kept_files() -> int:
    """Forget files that no branch stands on, and no merge needs; return how many."""
    needed = {job for keep in _keepers for job in keep()}
    unneeded = _list_unneeded().exclude(job__in=needed)
    count, _ = KeptUpload.objects.filter(pk__in=list(unneeded.values_list("pk", flat=True))).delete()
    folder = paths.kept_folder()
    files = [file.name for file in folder.iterdir()] if folder.exists() else []
    # In this order: a job that is over has its row, and one that is not may be about to write it.
    unfinished = set(Job.objects.filter(pk__in=files, finished_at=None).values_list("pk", flat=True))
    rows = set(KeptUpload.objects.filter(job__in=files).values_list("job_id", flat=True))
    for name in set(files) - unfinished - rows:
        (folder / name).unlink(missing_ok=True)
    return count


def _list_unneeded() -> QuerySet[KeptUpload]:
    """Return those whose rows no branch shows: it is gone for good, or everything was replaced since."""
    later = Transaction.objects.filter(
        dataset_branch=OuterRef("dataset_branch"),
        number__gt=OuterRef("number"),
        type=SNAPSHOT,
        state=TransactionState.COMMITTED,
    )
    written = Transaction.objects.filter(job_id=OuterRef("job_id"), state=TransactionState.COMMITTED)
    shown = written.filter(Q(dataset_branch__isnull=False) & ~Exists(later) | Q(deleted_branch__isnull=False))
    return KeptUpload.objects.filter(~Exists(shown))
