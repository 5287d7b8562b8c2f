"""A stored row diff as a file, made while it is sent: it begins at once and takes the memory of some thousand rows."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.encoding import encode_value
from jobs.engine.read.stored_rows import read_batches, to_rows
from jobs.formulas import escape_formula

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from jobs.protocol import ExportedValue, RowExport

EXPORT_BATCH = 2_000
_LACKING = {"before": "inserted", "after": "deleted"}
"""The change whose rows an end does not have."""


def export_rows(path: Path, export: RowExport) -> Iterator[bytes]:
    """Walk the whole diff as CSV or Parquet, a chunk at a time.

    CSV: NULL is an empty field, an empty text is quoted. Spreadsheets run a text that begins like a formula, so such texts
    get an apostrophe; numbers keep their sign.

    Parquet: `change`, `copies`, `changed` (names), and `before` and `after` as structs.
    """
    return _csv_chunks(path, export.values) if export.format == "csv" else _parquet_chunks(path, export)


def _csv_chunks(path: Path, values: Sequence[ExportedValue]) -> Iterator[bytes]:
    head = ["change", "copies", *(f"{value.side}.{value.name}" for value in values)]
    yield (",".join(_csv_text(name) for name in head) + "\r\n").encode()
    for batch in read_batches(path, EXPORT_BATCH):
        lines = []
        for line in to_rows(pa.Table.from_batches([batch])):
            fields = [_csv_value(encode_value(_follow(line, value.path)), is_text=value.is_text) for value in values]
            lines.append(",".join([line["change"], str(line["copies"]), *fields]))
        yield ("\r\n".join(lines) + "\r\n").encode()


def _follow(line: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Follow a path to a value of a stored row; what a NULL struct holds is NULL."""
    value: Any = line
    for name in path:
        value = None if value is None else value[name]
    return value


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


def _parquet_chunks(path: Path, export: RowExport) -> Iterator[bytes]:
    sent = _Sent()
    schema = _friendly(export, pa.RecordBatch.from_pylist([], schema=pq.read_schema(path))).schema
    with pq.ParquetWriter(sent, schema, compression="zstd") as writer:
        for batch in read_batches(path, EXPORT_BATCH * 10):
            writer.write_table(_friendly(export, batch))
            yield sent.take()
    yield sent.take()


class _Sent(io.RawIOBase):
    """A file that is sent as it grows: Parquet is written from its first byte to its last."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        """Take what was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _friendly(export: RowExport, batch: pa.RecordBatch) -> pa.Table:
    change = batch.column("change")
    outputs: dict[str, Any] = {
        "change": change,
        "copies": batch.column("copies"),
        "changed": _name_changed(dict(export.columns), batch.column("changed")),
    }
    for side, lacking in _LACKING.items():
        values = [value for value in export.values if value.side == side]
        if values:
            arrays = [_extract(batch, value.path) for value in values]
            fields = [pa.field(value.name, array.type) for value, array in zip(values, arrays, strict=True)]
            outputs[side] = pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.equal(change, lacking))
    return pa.table(outputs)


def _name_changed(names: Mapping[int, str], changed: pa.ListArray) -> pa.ListArray:
    """Name columns by their indexes; none for none."""
    by_index = pa.array([names.get(index) for index in range(max(names, default=-1) + 1)], pa.string())
    lengths = pc.fill_null(pc.list_value_length(changed), 0).cast(pa.int32())
    offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), lengths]))
    return pa.ListArray.from_arrays(offsets, by_index.take(changed.flatten()))


def _extract(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    return pc.struct_field(batch.column(path[0]), list(path[1:])) if path[1:] else batch.column(path[0])
