"""Whether stored answers are still there."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from jobs.regular_files import open_beneath
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services.answers import read_json
from webapp.comparisons.services.comparisons import rerun_comparison
from webapp.core.fsck import Finding, Note, look_apart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC = b"PAR1"
"""At both ends of a file of Parquet."""


def check_comparisons() -> Iterator[Finding | Note]:
    """Find stored diffs whose files are gone, cut or no files of their kind."""
    ready = Comparison.objects.filter(state=ComparisonState.READY).select_related("dataset").order_by("pk")
    yield from look_apart(ready.iterator(), _check_comparison)
    yield Note(what="stored diffs", count=ready.count())


def _check_comparison(comparison: Comparison) -> Iterator[Finding]:
    folder = artifact_folder(comparison)
    for path in _list_files(comparison, folder):
        problem = _find_problem(path)
        if problem:
            yield Finding(
                code="diff_damaged" if path.exists() else "diff_missing",
                object=f"{comparison.dataset.path} comparison {comparison.pk}",
                problem=problem,
                way_out="Compare again.",
                repair=partial(rerun_comparison, comparison=comparison, by=None, of=ComparisonState.READY),
            )
            return


def _list_files(comparison: Comparison, folder: Path) -> list[Path]:
    """List the files without which a page of a comparison says that it is damaged, that of its counts first."""
    names = {states.ROWS: ("schema.json", "rows.parquet"), states.CHANGELOG: ("rows.parquet",)}.get(comparison.kind, ())
    beside = sorted(folder.glob("*.parquet"))
    return list(dict.fromkeys([folder / "summary.json", *(folder / name for name in names), *beside]))


def _find_problem(path: Path) -> str:
    """Say what is wrong with a file of a stored comparison; nothing is decoded here but JSON."""
    if not os.path.lexists(path):
        return f"It counts as stored, and {path} is not there."
    is_whole = _is_parquet(path) if path.suffix == ".parquet" else bool(read_json(path))
    return "" if is_whole else f"{path} cannot be read."


def _is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet does, and ends with a footer that fits into it."""
    try:
        with os.fdopen(open_beneath(path.parent, path.name), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            begin = file.read(len(MAGIC))
            file.seek(max(0, size - len(MAGIC) - 4))
            length, end = file.read(4), file.read()
    except OSError:
        return False
    return begin == end == MAGIC and int.from_bytes(length, "little") <= size - 2 * len(MAGIC) - 4
