"""What a changelog has to read: the range of history, and the two sides of each of its steps.

One value for every executor. Nothing of a data file is read to make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyiceberg.table import Table

from jobs.changelog.keys import Key, resolve_keys
from jobs.changelog.ranges import list_range, number_snapshots
from jobs.engine.errors import UnsupportedTableError
from jobs.engine.plan.planner import plan_step
from jobs.engine.plan.sizes import estimate_decoded_bytes
from jobs.engine.read.fields import duckdb_type
from jobs.engine.read.metadata import describe_table, find_head
from jobs.engine.read.paths import field_parts, list_paths

if TYPE_CHECKING:
    from jobs.engine.read.fields import Schema
    from jobs.engine.read.live_files import LiveFile, ShiftedFile
    from jobs.engine.read.metadata import TableMetadata

Images = Literal["first", "latest"]
TYPE, ORDINAL = "_change_type", "_change_ordinal"
ADDED = (TYPE, ORDINAL, "_commit_snapshot_id")
OWN_PREFIX = "changelog__"
"""Columns that the executors work with."""


@dataclass(frozen=True)
class ChangelogStep:
    """One snapshot of the range: the files in which it may differ from the one before."""

    ordinal: int
    left: tuple[LiveFile, ...]
    came: tuple[LiveFile, ...]
    shifted: tuple[ShiftedFile, ...]


@dataclass(frozen=True)
class ChangelogPlan:
    """A range of one table's history, read by the schema that its branch has now."""

    table: Table
    metadata: TableMetadata
    schema: Schema
    keys: tuple[Key, ...] | None
    images: Images
    start: int | None
    until: int | None
    steps: tuple[ChangelogStep, ...]

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [field.name for field in self.schema.fields]

    @property
    def files(self) -> list[LiveFile]:
        """What all steps read; a file of several steps stands there several times."""
        files = [file for step in self.steps for file in (*step.left, *step.came)]
        return files + [file for step in self.steps for moved in step.shifted for file in (moved.before, moved.after)]

    @property
    def decoded_bytes(self) -> int:
        """About how much memory the rows of all steps take."""
        return estimate_decoded_bytes(self.schema, [file.data for file in self.files])


def plan_changelog(
    table: Table, *, keys: Sequence[str] | None, start: int | None, end: int | None, images: Images = "first"
) -> ChangelogPlan:
    """Check the question and plan the answer; see `IcebergInput.changelog_arrow`."""
    if images not in ("first", "latest"):
        message = f"images is 'first' or 'latest', not {images!r}"
        raise ValueError(message)
    metadata = describe_table(table)
    schema = metadata.schemas[table.schema().schema_id]
    chosen = None if keys is None else resolve_keys(keys, list_paths(schema.fields, field_parts))
    check_columns(schema)
    head = find_head(table.metadata)
    until = end if end is not None else (head.snapshot_id if head else None)
    snapshots = [] if until is None or not schema.fields else list_range(table, start, until)
    steps, before = [], start
    for ordinal, snapshot in number_snapshots(table, start, snapshots):
        plan = plan_step(table.io, metadata, schema, before=before, after=snapshot.snapshot_id)
        steps.append(ChangelogStep(ordinal, plan.left, plan.came, plan.shifted))
        before = snapshot.snapshot_id
    return ChangelogPlan(table, metadata, schema, chosen, images, start, until, tuple(steps))


def check_columns(schema: Schema) -> None:
    """Refuse columns whose changes could not be told apart from others, or from what a changelog adds."""
    folded: dict[str, str] = {}
    for field in schema.fields:
        name = field.name.lower()
        if duckdb_type(field.type) is None:
            raise UnsupportedTableError(f"Column {field.name!r} has a type that a changelog cannot hold.")
        if name in ADDED or name.startswith(OWN_PREFIX):
            raise UnsupportedTableError(f"A changelog has a column {name!r} of its own: rename the table's.")
        if name in folded:
            raise UnsupportedTableError(
                f"Columns {folded[name]!r} and {field.name!r} differ only in case, which a changelog cannot tell apart: "
                "rename one."
            )
        folded[name] = field.name
