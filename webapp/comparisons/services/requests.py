"""What each kind of comparison asks of its job process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from django.conf import settings

from jobs.protocol import BlameRequest, BlameStep, ChangelogRequest, DiffRequest, Executor, SideRef, SparkAccess
from webapp.catalog import queries as catalog
from webapp.catalog.rules import lens
from webapp.catalog.storage.local_files import local_path
from webapp.comparisons.queries.blames import MOST_STEPS, list_line
from webapp.comparisons.rules import states
from webapp.comparisons.services.spark import offer_spark
from webapp.datasets import queries as datasets
from webapp.runtime.object_store import is_object_location

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webapp.comparisons.models import Comparison
    from webapp.datasets.models import Dataset, Transaction

TIME_LIMIT_S = 600.0
GRACE_S = 30.0
"""How long a process may take beyond its own time limit to say so."""
MEMORY_BYTES = 512 * 1024**2
SPILLS = 32
"""A row diff in one process takes so many times the rows of a changelog: it spills what memory does not hold, one file of it
may have as many bytes as `LIMITS` of comparisons says, and a Spark on the same processors took ten times its time.
"""


@dataclass(frozen=True)
class Work:
    """One job process: its entry point, its message, and the folder of the table's files (empty on an object store)."""

    entrypoint: str
    message: object
    table_folder: str
    time_limit_s: float = TIME_LIMIT_S + GRACE_S
    spark: SparkAccess | None = None


def locate(dataset: Dataset) -> tuple[str, str]:
    """Return a table's metadata file and the folder of its files, which is empty for those of an object store."""
    view = catalog.load_view(table=dataset.table, branch="master")
    location = str(view.metadata["location"])
    return str(view.metadata_location), "" if is_object_location(location) else str(local_path(location))


def _open_files(comparison: Comparison) -> dict[str, str]:
    """Return what opens the table's files, and no other's, where they are in an object store."""
    return catalog.file_properties(table=comparison.dataset.table, who=f"comparison-{comparison.pk}")


def make_side(end: Transaction | None, metadata_location: str) -> SideRef | None:
    """Return one end as the engine reads it."""
    if end is None:
        return None
    return SideRef(
        metadata_location=metadata_location,
        snapshot_id=end.snapshot_id,
        schema_id=end.schema_id,
        spec_id=end.spec_id,
        order_id=end.order_id,
    )


def _ask_rows(comparison: Comparison, folder: Path, answer: Path) -> Work:
    metadata_location, table_folder = locate(comparison.dataset)
    rules = comparison.rules
    spark, obstacle = offer_spark(comparison=comparison, table_folder=table_folder)
    message = DiffRequest(
        before=make_side(comparison.before, metadata_location),
        after=make_side(comparison.after, metadata_location),
        folder=str(folder),
        result_path=str(answer),
        key=tuple(rules.get("key", ())) or None,
        ignore=tuple(rules.get("ignore", ())),
        tolerance=rules.get("tolerance", {}),
        row_filter=rules.get("row_filter") or None,
        executor=cast("Executor", settings.TRIBUTARY_EXECUTOR),
        embedded_bytes=SPILLS * settings.TRIBUTARY_EMBEDDED_BYTES,
        spark=spark,
        spark_obstacle=obstacle,
        memory_bytes=MEMORY_BYTES,
        time_limit_s=TIME_LIMIT_S,
        io=_open_files(comparison),
    )
    return Work("diff", message, table_folder, spark=spark)


def _ask_changelog(comparison: Comparison, folder: Path, answer: Path) -> Work:
    _, table_folder = locate(comparison.dataset)
    rules = comparison.rules
    message = ChangelogRequest(
        metadata_location=str(_write_view(comparison, folder)),
        folder=str(folder),
        result_path=str(answer),
        start=_number(rules.get("start")),
        end=_number(rules.get("end")),
        keys=tuple(rules["keys"]) if rules.get("keys") is not None else None,
        images=rules.get("images", "first"),
        io=_open_files(comparison),
    )
    return Work("changelog", message, table_folder)


def _write_view(comparison: Comparison, folder: Path) -> Path:
    """Write the table's metadata as it looks where the range ends, so that its head and schema are that end's."""
    metadata = catalog.get_metadata(table=comparison.dataset.table)
    end = comparison.after
    shown = metadata if end is None else lens.show(metadata, datasets.pointer_of(end).state)
    path = folder / "view.metadata.json"
    path.write_text(json.dumps(shown))
    path.chmod(0o644)
    return path


def _ask_blame(comparison: Comparison, folder: Path, answer: Path) -> Work:
    metadata_location, table_folder = locate(comparison.dataset)
    line = list_line(comparison.after, most=MOST_STEPS) if comparison.after is not None else []
    sides = {end.pk: make_side(end, metadata_location) for row in line for end in (row, row.parent) if end is not None}
    steps = [
        BlameStep(transaction=row.pk, before=sides.get(row.parent_id or ""), after=after)
        for row in line
        if (after := sides[row.pk]) is not None
    ]
    message = BlameRequest(
        steps=tuple(steps),
        key=comparison.rules["key"],
        folder=str(folder),
        result_path=str(answer),
        ignore=tuple(comparison.rules.get("ignore", ())),
        io=_open_files(comparison),
    )
    return Work("blame", message, table_folder)


def _number(text: str | None) -> int | None:
    """Return a snapshot id, which JSON of the database keeps as text: it has 64 bits."""
    return None if text is None else int(text)


REQUESTS: dict[str, Callable[[Comparison, Path, Path], Work]] = {
    states.ROWS: _ask_rows,
    states.CHANGELOG: _ask_changelog,
    states.BLAME: _ask_blame,
}
