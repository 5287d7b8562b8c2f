"""Which lines of a stored row diff somebody asked for, in their order: numbers that are found once and kept beside it.

To find them whole columns are read, and sorted; a page needs a hundred of them. Each list is a file of the artifact's
folder and goes with it: four bytes a line and four for how many there are, named for what is asked of the rows and for
their time. To sort millions of rows takes a second, to find the first thousands of them a tenth of that: the front of a
list is a file of its own, and the whole is made when somebody asks for what lies behind.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from jobs.whole_files import whole_file
from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.reader import NUMBER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webapp.comparisons.diffs.artifact import Artifact
    from webapp.comparisons.diffs.search import RowQuery

FOLDER = "numbers"
KEPT = 16
"""Lists of one artifact; of a diff of five million rows they take 320 MB at most."""
FRONT_LINES = 5_000
"""Twenty pages of the longest, or fifty."""


def numbers_of(artifact: Artifact, query: RowQuery, *, start: int, limit: int) -> tuple[int, Sequence[int]]:
    """Return how many lines fit what was asked, and the numbers of those of one page."""
    if not query.conditions and query.order is None:
        total = artifact.stored_rows
        return total, range(min(start, total) + 1, min(start + limit, total) + 1)
    whole = _find_whole(artifact, query)
    is_in_front = start + limit <= FRONT_LINES
    path, first = (whole.with_suffix(".front"), FRONT_LINES) if is_in_front else (whole, None)
    for file in (whole, path):
        with suppress(FileNotFoundError):
            return _read(file, start, limit)
    _make(path, artifact, query, first=first)
    return _read(path, start, limit)


def place_of(artifact: Artifact, query: RowQuery, number: int) -> int | None:
    """Return how many lines stand before the one with this number in what was asked; None where it is not among them."""
    if not query.conditions and query.order is None:
        return number - 1
    whole = _find_whole(artifact, query)
    if not whole.exists():
        _make(whole, artifact, query, first=None)
    numbers = array("I", whole.read_bytes())
    try:
        return numbers.index(number, 1) - 1  # the first says how many there are
    except ValueError:
        return None


def _find_whole(artifact: Artifact, query: RowQuery) -> Path:
    return artifact.folder / FOLDER / f"{_name(artifact, query)}.whole"


def _name(artifact: Artifact, query: RowQuery) -> str:
    text = json.dumps([query.where, query.parameters, query.order, artifact.rows_stamp])
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _read(path: Path, start: int, limit: int) -> tuple[int, Sequence[int]]:
    with path.open("rb") as file:
        (total,) = array("I", file.read(NUMBER_BYTES))
        file.seek((1 + min(start, total)) * NUMBER_BYTES)
        return total, list(array("I", file.read(limit * NUMBER_BYTES)))


def _make(path: Path, artifact: Artifact, query: RowQuery, *, first: int | None) -> None:
    path.parent.mkdir(exist_ok=True)
    with whole_file(path) as partial, partial.open("wb") as file:
        file.seek(NUMBER_BYTES)
        written = reader.write_numbers(
            artifact.rows,
            where=query.where,
            parameters=query.parameters,
            order=query.order or "n",
            first=first,
            most=artifact.stored_rows,
            target=file,
        )
        file.seek(0)
        file.write(array("I", [_count(artifact, query) if written == first else written]).tobytes())
    _remove_old(path.parent)


def _count(artifact: Artifact, query: RowQuery) -> int:
    if not query.conditions:
        return artifact.stored_rows
    return reader.count(artifact.rows, where=query.where, parameters=query.parameters)


def _remove_old(folder: Path) -> None:
    """Keep the newest lists; one that is asked for again is made again."""
    lists = sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in lists[KEPT:]:
        path.unlink(missing_ok=True)
