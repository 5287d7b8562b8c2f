"""What jobs have left in their tables' folders, kept as their keepers recorded it: by this a changed file is found."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from jobs.parsing import load_json
from jobs.regular_files import NotRegular, open_beneath, read_regular
from webapp.builds.runner import paths
from webapp.builds.runner.manifests import Place
from webapp.core.fsck import Finding, Note, look_apart

logger = logging.getLogger(__name__)
SWEPT_AT_ONCE = 500
MEMBERS = frozenset({"size", "ctime_ns", "sha256"})
"""What a record says of each file."""


def keep_seal(*, place: Place) -> None:
    """Keep the record of an attempt whose files are published."""
    folder = paths.seals_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.seal.rename(folder / place.seal.name)
    except OSError:
        # The job is done and published all the same.
        logger.exception("the record of what %s has written is lost", place.folder.name)


def sweep_seals() -> int:
    """Forget records of which no file is left, some in each turn; return how many."""
    records = sorted(paths.seals_folder().glob("*.json"), key=lambda path: path.stat().st_mtime)
    count = 0
    for record in islice(records, SWEPT_AT_ONCE):
        files = _read(record)
        if files is None or any(os.path.lexists(path) for path in files):
            os.utime(record)  # to the end of the queue; fsck names one that cannot be read
        else:
            record.unlink(missing_ok=True)
            count += 1
    return count


def check_seals() -> Iterator[Finding | Note]:
    """Find files that are not as they were when their job had ended. Those that are gone are the tables' matter."""
    records = sorted(paths.seals_folder().glob("*.json"))
    yield from look_apart(records, _check_record)
    present = (path for record in records for path in _read(record) or () if os.path.lexists(path))
    yield Note(what="sealed files", count=sum(1 for _ in present))


def _check_record(record: Path) -> Iterator[Finding]:
    files = _read(record)
    if files is None:
        yield Finding(
            code="seal_damaged",
            object=str(record),
            problem="It says what a job has left, and cannot be read: nobody can tell whether those files were changed.",
            way_out="Bring it back from a backup, or remove it.",
        )
        return
    for path, sealed in files.items():
        problem = _compare(path, sealed)
        if problem:
            yield Finding(
                code="file_changed",
                object=path,
                problem=f"{problem} Its job was {record.stem.partition('.')[0]}.",
                way_out="Bring the file back from a backup, or build the dataset again.",
            )


def _read(record: Path) -> dict[str, dict[str, Any]] | None:
    """Return what a record says of each file; None where it cannot be read."""
    try:
        files: dict[str, dict[str, Any]] = load_json(read_regular(record))["files"]
        return files if all(sealed.keys() >= MEMBERS for sealed in files.values()) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _compare(path: str, sealed: dict[str, Any]) -> str:
    """Say what is wrong with a file; its bytes are read only where the kernel says that it was touched."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if status.st_ctime_ns == sealed["ctime_ns"] and status.st_size == sealed["size"]:
        return ""
    if status.st_size != sealed["size"]:
        return f"It has {status.st_size} bytes and had {sealed['size']}."
    try:
        descriptor = open_beneath(os.path.dirname(path), os.path.basename(path))
    except NotRegular:
        return "It is no plain file any more."
    except OSError as error:
        return f"It cannot be read: {error.strerror}."
    with os.fdopen(descriptor, "rb") as file:
        is_same = hashlib.file_digest(file, "sha256").hexdigest() == sealed["sha256"]
    return "" if is_same else "Its bytes are not those that were written."
