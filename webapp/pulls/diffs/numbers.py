"""Which lines of a stored row diff somebody asked for, in their order: numbers that are found once and kept beside it.

To find them whole columns are read, and sorted; a page needs a hundred of them. Each list is a file of the artifact's
folder and goes with it: four bytes a line, named for what is asked of the rows and for their time.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from array import array
from typing import TYPE_CHECKING

from webapp.pulls.diffs import reader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webapp.pulls.diffs.artifact import Artifact
    from webapp.pulls.diffs.search import Asked

FOLDER = "numbers"
KEPT = 16
"""Lists of one artifact; of a diff of five million rows they take 320 MB at most."""


def numbers_of(artifact: Artifact, query: Asked, *, start: int, limit: int) -> tuple[int, Sequence[int]]:
    """Return how many lines fit what was asked, and the numbers of those of one page."""
    if not query.conditions and query.order is None:
        total = artifact.stored_rows
        return total, range(min(start, total) + 1, min(start + limit, total) + 1)
    path = artifact.folder / FOLDER / _name(artifact, query)
    try:
        return _read(path, start, limit)
    except FileNotFoundError:
        _make(path, artifact, query)
        return _read(path, start, limit)


def _name(artifact: Artifact, query: Asked) -> str:
    text = json.dumps([query.where, query.parameters, query.order, artifact.rows_stamp])
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _read(path: Path, start: int, limit: int) -> tuple[int, Sequence[int]]:
    with path.open("rb") as file:
        total = os.fstat(file.fileno()).st_size // reader.NUMBER_BYTES
        file.seek(min(start, total) * reader.NUMBER_BYTES)
        numbers = array("I")
        numbers.frombytes(file.read(limit * reader.NUMBER_BYTES))
    return total, list(numbers)


def _make(path: Path, artifact: Artifact, query: Asked) -> None:
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            reader.write_numbers(
                artifact.rows,
                where=query.where,
                parameters=query.parameters,
                order=query.order or "n",
                most=artifact.stored_rows,
                target=file,
            )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    _remove_old(path.parent)


def _remove_old(folder: Path) -> None:
    """Keep the newest lists; one that is asked for again is made again."""
    lists = sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in lists[KEPT:]:
        path.unlink(missing_ok=True)
