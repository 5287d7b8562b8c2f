"""A stored row diff as a file, made while it is sent."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.encoding import encode_value
from webapp.core.formulas import escape_formula
from webapp.pulls.diffs import reader
from webapp.pulls.diffs.artifact import open_artifact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from webapp.pulls.diffs.artifact import Artifact, Column

_EXPORT_BATCH = 2_000
_CHUNK = 1 << 20


@dataclass(frozen=True)
class _Side:
    """One end of the diff in an export."""

    name: str
    prefix: Literal["a", "b"]
    lacking: str
    """The change whose rows this end does not have."""


_SIDES = (_Side("before", "b", "inserted"), _Side("after", "a", "deleted"))


def export_csv(folder: str | Path) -> Iterator[bytes]:
    """The whole diff as CSV, a chunk at a time. NULL is an empty field, an empty text is quoted.

    Spreadsheets run a text that begins like a formula, so such texts get an apostrophe; numbers keep their sign.
    """
    artifact = open_artifact(folder)
    return _csv_chunks(artifact)


def _csv_chunks(artifact: Artifact) -> Iterator[bytes]:
    fields = _csv_fields(artifact)
    head = ["change", "copies", *(name for name, _, _ in fields)]
    yield (",".join(_csv_text(name) for name in head) + "\r\n").encode()
    for batch in reader.read_batches(artifact.rows, _EXPORT_BATCH):
        lines = []
        for line in reader.to_rows(pa.Table.from_batches([batch])):
            values = [_csv_value(encode_value(_follow(line, path)), is_text=is_text) for _, path, is_text in fields]
            lines.append(",".join([line["change"], str(line["copies"]), *values]))
        yield ("\r\n".join(lines) + "\r\n").encode()


def _csv_fields(artifact: Artifact) -> list[tuple[str, tuple[str, ...], bool]]:
    """Head, where the value is, whether it is text: per column before, then after."""
    return [
        (f"{side.name}.{name}", path, _holds_text(artifact.types[column.stored(side.prefix)]))
        for column in artifact.shown
        for side in _SIDES
        for name, path in _find_value(artifact, column, side)
    ]


def _find_value(artifact: Artifact, column: Column, side: _Side) -> list[tuple[str, tuple[str, ...]]]:
    """The name and the place of a column's values on one side: the stored column, then fields inside it."""
    if side.prefix == "b":
        name, path = column.before_name, column.before_path
    else:
        name, path = column.after_name, column.after_path
    if name is None or column.stored(side.prefix) not in artifact.types:
        return []
    return [(name, (f"{side.prefix}{column.index}", *path[1:]))]


def _follow(line: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """A value of a stored row; what a NULL struct holds is NULL."""
    value: Any = line
    for name in path:
        value = None if value is None else value[name]
    return value


def _holds_text(type_: str) -> bool:
    return "VARCHAR" in type_ or type_.startswith(("STRUCT", "MAP")) or type_.endswith("]")


def _csv_value(value: Any, *, is_text: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    text = str(value)
    return _csv_text(text) if is_text else _csv_quote(text)


def _csv_text(text: str) -> str:
    return _csv_quote(escape_formula(text)) if text else '""'


def _csv_quote(text: str) -> str:
    if any(mark in text for mark in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def export_parquet(folder: str | Path) -> Iterator[bytes]:
    """The whole diff as Parquet: `change`, `copies`, `changed` (names), and `before` and `after` as structs.

    Parts of the key that stand inside a struct column have a column of their own there, as in CSV.
    """
    return _parquet_chunks(open_artifact(folder))


def _parquet_chunks(artifact: Artifact) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as target:
        writer: pq.ParquetWriter | None = None
        with pq.ParquetFile(artifact.rows) as source:
            empty = source.schema_arrow.empty_table().to_batches(max_chunksize=1)
            batches = [*empty] or [pa.RecordBatch.from_pylist([], schema=source.schema_arrow)]
            for batch in (*batches[:1], *source.iter_batches(batch_size=_EXPORT_BATCH * 10)):
                table = _friendly(artifact, batch)
                writer = writer or pq.ParquetWriter(target, table.schema, compression="zstd")
                if table.num_rows:
                    writer.write_table(table)
        if writer is not None:
            writer.close()
        target.seek(0)
        while chunk := target.read(_CHUNK):
            yield chunk


def _friendly(artifact: Artifact, batch: pa.RecordBatch) -> pa.Table:
    names = {column.index: column.name for column in artifact.columns}
    changed = pa.array(
        [[names[index] for index in found or ()] for found in batch.column("changed").to_pylist()],
        pa.list_(pa.string()),
    )
    change = batch.column("change")
    outputs: dict[str, Any] = {"change": change, "copies": batch.column("copies"), "changed": changed}
    for side in _SIDES:
        found = [one for column in artifact.shown for one in _find_value(artifact, column, side)]
        if found:
            mask = pa.array([value == side.lacking for value in change.to_pylist()], pa.bool_())
            arrays = [_extract(batch, path) for _, path in found]
            fields = [pa.field(name, array.type) for (name, _), array in zip(found, arrays, strict=True)]
            outputs[side.name] = pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
    return pa.table(outputs)


def _extract(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    return pc.struct_field(batch.column(path[0]), path[1:]) if path[1:] else batch.column(path[0])
