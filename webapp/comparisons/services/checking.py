"""Whether stored answers can be read."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from webapp.accounts.rules.sight import RowSight
from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import read_artifact, read_json
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services.comparisons import rerun_comparison
from webapp.core.errors import Conflict
from webapp.core.fsck import Finding, Note, look_apart
from webapp.runtime import fork_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUMMARY, STATISTICS = "summary.json", "statistics.json"
NEEDED = {states.ROWS: ("schema.json", "rows.parquet"), states.CHANGELOG: ("rows.parquet",)}
"""The files of each kind of comparison, without its summary, that its pages cannot do without."""


def check_comparisons() -> Iterator[Finding | Note]:
    """Read every file of every stored comparison; find those that are missing or damaged."""
    ready = Comparison.objects.filter(state=ComparisonState.READY).select_related("dataset").order_by("pk")
    with fork_server.at_hand():
        yield from look_apart(ready.iterator(), _check_comparison)
    yield Note(what="stored diffs", count=ready.count())


def _check_comparison(comparison: Comparison) -> Iterator[Finding]:
    folder = artifact_folder(comparison)
    missing = [name for name in (SUMMARY, *NEEDED.get(comparison.kind, ())) if not os.path.lexists(folder / name)]
    if missing:
        yield _finding("diff_missing", comparison, f"It counts as stored, and {folder / missing[0]} is not there.")
    elif problem := _find_damage(comparison, folder):
        yield _finding("diff_damaged", comparison, problem)


def _finding(code: str, comparison: Comparison, problem: str) -> Finding:
    return Finding(
        code=code,
        object=f"{comparison.dataset.path} comparison {comparison.pk}",
        problem=problem,
        way_out="Compare again.",
        repair=partial(rerun_comparison, comparison=comparison, by=None, of=ComparisonState.READY),
    )


def _find_damage(comparison: Comparison, folder: Path) -> str:
    """Read the files as pages do; return what is wrong with the first damaged one."""
    at = folder / SUMMARY
    try:
        for at in _list_documents(folder):
            with reader.naming_damage():
                _check_document(read_json(folder, at.name))
        if comparison.kind == states.ROWS:
            at = folder / "schema.json"
            read_artifact(folder, RowSight())
        for at in sorted(folder.glob("*.parquet")):
            reader.read_through(at)
    except Conflict as error:
        return f"{at} cannot be read: {error.extra.get('reason') or error.detail}."
    return ""


def _list_documents(folder: Path) -> list[Path]:
    return [folder / name for name in (SUMMARY, STATISTICS) if os.path.lexists(folder / name)]


def _check_document(content: object) -> None:
    if not isinstance(content, dict) or not content:
        message = "it is not a JSON object with members"
        raise ValueError(message)
