"""A stored row diff as a file, which a process in the sandbox makes while it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jobs.protocol import ExportedValue, RowExport
from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import SIDES, open_artifact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jobs.protocol import ExportFormat
    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn


def export(folder: str | Path, sight: RowSight, file_format: ExportFormat) -> Iterator[bytes]:
    """Export the whole diff, a chunk at a time (jobs/engine/read/row_exports.py), without the columns that are hidden.

    Parts of the key that stand inside a struct column have a column of their own.
    """
    artifact = open_artifact(folder, sight)
    shown = [column for column in artifact.shown if not column.is_hidden]
    values = [value for column in shown for side in SIDES for value in _find_value(artifact, column, side)]
    names = [(column.index, column.name) for column in artifact.columns]
    return reader.export(artifact.rows, RowExport(file_format, tuple(values), tuple(names)))


def _find_value(artifact: Artifact, column: DiffColumn, side: Literal["a", "b"]) -> list[ExportedValue]:
    """Find the name and place of a column's values on one side: the stored column, then fields inside it."""
    name, path = (column.before_name, column.before_path) if side == "b" else (column.after_name, column.after_path)
    type_ = artifact.types.get(column.stored(side))
    if name is None or type_ is None:
        return []
    end: Literal["before", "after"] = "before" if side == "b" else "after"
    return [ExportedValue(end, name, (f"{side}{column.index}", *path[1:]), _holds_text(type_))]


def _holds_text(type_: str) -> bool:
    """Return whether values are written as text: those of bytes are base64, which may begin with a plus."""
    return "VARCHAR" in type_ or type_ == "BLOB" or type_.startswith(("STRUCT", "MAP")) or type_.endswith("]")
