"""Parquet files as text, for people who edit their rows: JSON lines, one object for each row, a member for each column.

Numbers are written with all their digits, dates and times as ISO 8601, bytes in base64, what is no number in JSON by its
name ("NaN", "Infinity", "-Infinity"). A file is given out only where its text makes the same rows again; what has no such
text, as lists and structs, stays with who makes the file.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from decimal import Decimal
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.engine.read.files import open_parquet
from jobs.engine.read.json_lines import read_members
from jobs.engine.read.opened import SHOWN_CHARACTERS, FileError
from jobs.parsing import load_json

MOST_CHARACTERS = 1_000_000
"""Of the text, as many as the editor opens."""
_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class _Kind:
    """How values of some types stand in JSON."""

    noun: str
    """What a value is, for who typed another."""
    write: Callable[[pa.Array], list[Any]]
    read: Callable[[Any], Any]
    """Return what Arrow takes for a value that is not null.

    Raises:
        TypeError: the value is something else.

    """
    is_text: bool = False
    arrow: pa.DataType | None = None
    """The type of what Arrow takes, where it is not that of the column."""


def list_columns(content: bytes) -> list[tuple[str, bool]]:
    """Return the columns of a Parquet file, each with whether its values stand in JSON as texts.

    Raises:
        FileError: it is no Parquet file, or a column has a type without a text.

    """
    file, _ = open_parquet(pa.BufferReader(content), len(content))
    return [(name, kind.is_text) for name, kind in _find_kinds(file.schema_arrow).items()]


def make_lines(content: bytes) -> str:
    """Return the rows of a Parquet file as JSON lines.

    Raises:
        FileError: it is no Parquet file, a column has a type without a text, or the text is too long.

    """
    lines = _write(content)
    try:
        again = _write(make_parquet(lines, content))
    except FileError as error:
        message = f"its rows cannot be edited as text: {error}"
        raise FileError(message, code="not_editable") from None
    if again != lines:
        message = "its rows cannot be edited as text: some would not come back as they are"
        raise FileError(message, code="not_editable")
    return lines


def make_parquet(lines: str, old: bytes) -> bytes:
    """Return a Parquet file of the rows of a text, with the columns, types and compression of another file.

    Raises:
        FileError: a line is no such row; it says which and why.

    """
    file, _ = open_parquet(pa.BufferReader(old), len(old))
    schema = file.schema_arrow
    kinds = _find_kinds(schema)
    rows = [_read_line(number, line, schema) for number, line in _number(lines)]
    columns = [_read_column(field, kinds[field.name], rows) for field in schema]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, compression=_find_compression(file))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _write(content: bytes) -> str:
    file, batches = open_parquet(pa.BufferReader(content), len(content))
    kinds = _find_kinds(file.schema_arrow)
    parts, length = [], 0
    for batch in batches:
        values = [
            _write_column(column, kinds[name]) for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        part = "".join(
            f"{_encode(dict(zip(batch.schema.names, row, strict=True))).decode()}\n"
            for row in zip(*values, strict=True)
        )
        length += len(part)
        if length > MOST_CHARACTERS:
            message = f"its rows as text have more than {MOST_CHARACTERS:,} characters"
            raise FileError(message, code="not_editable")
        parts.append(part)
    return "".join(parts)


def _write_column(column: pa.Array, kind: _Kind) -> list[Any]:
    return kind.write(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)


def _number(lines: str) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their numbers; JSON has other ends of lines in texts that are not split here."""
    return ((number, line) for number, line in enumerate(lines.split("\n"), 1) if line.strip())


@dataclass(frozen=True)
class _Row:
    line: int
    values: Mapping[str, Any]


def _read_line(number: int, line: str, schema: pa.Schema) -> _Row:
    try:
        row = load_json(line, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=read_members)
    except ValueError as error:
        raise FileError(f"this is not JSON: {error}", code="broken_row", line=number) from None
    if not isinstance(row, dict):
        raise FileError("expected one JSON object on each line", code="broken_row", line=number)
    if unknown := next((name for name in row if name not in schema.names), None):
        columns = ", ".join(schema.names[:20])
        raise FileError(f"there is no column {unknown!r}; the file has {columns}", code="broken_row", line=number)
    return _Row(number, row)


def _refuse_constant(name: str) -> NoReturn:
    message = f'{name} is written "{name}"'
    raise ValueError(message)


def _read_column(field: pa.Field, kind: _Kind, rows: Sequence[_Row]) -> pa.Array:
    inner = _find_inner(field.type)
    values = []
    for row in rows:
        value = row.values.get(field.name)
        if value is None and not field.nullable:
            raise FileError(f"column {field.name!r} has to have a value", code="broken_row", line=row.line)
        try:
            values.append(None if value is None else kind.read(value))
        except TypeError:
            raise _refuse(field, kind, row) from None
    try:
        return _convert(values, kind, inner).cast(field.type)
    except (OverflowError, pa.ArrowException):
        raise _refuse(field, kind, _find_misfit(values, kind, inner, rows)) from None


def _convert(values: Sequence[Any], kind: _Kind, inner: pa.DataType) -> pa.Array:
    return pa.array(values, type=kind.arrow or inner).cast(inner)


def _find_misfit(values: Sequence[Any], kind: _Kind, inner: pa.DataType, rows: Sequence[_Row]) -> _Row:
    """Return the first row whose value does not fit."""
    for value, row in zip(values, rows, strict=True):
        try:
            _convert([value], kind, inner)
        except (OverflowError, pa.ArrowException):
            return row
    message = "each value fits and all together do not"
    raise AssertionError(message)


def _refuse(field: pa.Field, kind: _Kind, row: _Row) -> FileError:
    value = row.values[field.name]
    shown = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str, ensure_ascii=False)
    message = f"column {field.name!r} takes {kind.noun} ({_find_inner(field.type)}), not {shown[:SHOWN_CHARACTERS]}"
    return FileError(message, code="broken_row", line=row.line)


# --- types ----------------------------------------------------------------------------------------


def _find_kinds(schema: pa.Schema) -> dict[str, _Kind]:
    if twice := next((name for name in schema.names if schema.names.count(name) > 1), None):
        raise FileError(f"it has two columns {twice!r}", code="not_editable")
    return {field.name: _find_kind(field) for field in schema}


def _find_kind(field: pa.Field) -> _Kind:
    inner = _find_inner(field.type)
    for fits, kind in _KINDS:
        if fits(inner):
            return kind
    message = f"column {field.name!r} is a {field.type}, which has no text to edit"
    raise FileError(message, code="not_editable")


def _find_inner(kind: pa.DataType) -> pa.DataType:
    """Return the type of values, which a dictionary only stores in another way."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _find_compression(file: pq.ParquetFile) -> str:
    metadata = file.metadata
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    return str(metadata.row_group(0).column(0).compression).lower().replace("uncompressed", "none")


def _write_floats(column: pa.Array) -> list[Any]:
    """Shortest digits that make the same number of this width."""
    texts = column.cast(pa.string()).to_pylist()
    return [None if text is None else _name_float(float(text)) for text in texts]


def _name_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def _expect(*types: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise TypeError(value)
        return value

    return check


def _read_float(value: Any) -> float:
    return _NAMES[value] if isinstance(value, str) and value in _NAMES else float(_expect(int, Decimal)(value))


def _write_bytes(column: pa.Array) -> list[Any]:
    return [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_expect(str)(value), validate=True)
    except binascii.Error as error:
        raise TypeError(value) from error


def _read_time(value: Any) -> time:
    try:
        return time.fromisoformat(_expect(str)(value))
    except ValueError as error:
        raise TypeError(value) from error


def _write_times(column: pa.Array) -> list[Any]:
    """In UTC where there is a zone: long ago zones had offsets with seconds, which the texts have not."""
    return _write_texts(column.cast(pa.timestamp(column.type.unit, "UTC")) if column.type.tz else column)


def _write_texts(column: pa.Array) -> list[Any]:
    return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], _Kind], ...] = (
    (pa.types.is_boolean, _Kind("true or false", pa.Array.to_pylist, _expect(bool))),
    (pa.types.is_integer, _Kind("a whole number", pa.Array.to_pylist, _expect(int))),
    (pa.types.is_floating, _Kind("a number", _write_floats, _read_float)),
    (pa.types.is_decimal, _Kind("a decimal number", pa.Array.to_pylist, _expect(int, Decimal))),
    (pa.types.is_string, _Kind("a text", pa.Array.to_pylist, _expect(str), is_text=True)),
    (pa.types.is_large_string, _Kind("a text", pa.Array.to_pylist, _expect(str), is_text=True)),
    (pa.types.is_date, _Kind("a date", _write_texts, _expect(str), is_text=True, arrow=pa.string())),
    (pa.types.is_time, _Kind("a time of day", _write_texts, _read_time, is_text=True)),
    (pa.types.is_timestamp, _Kind("a date with a time", _write_times, _expect(str), is_text=True, arrow=pa.string())),
    (pa.types.is_binary, _Kind("bytes in base64", _write_bytes, _read_bytes, is_text=True)),
    (pa.types.is_large_binary, _Kind("bytes in base64", _write_bytes, _read_bytes, is_text=True)),
    (pa.types.is_fixed_size_binary, _Kind("bytes in base64", _write_bytes, _read_bytes, is_text=True)),
    (pa.types.is_null, _Kind("null", pa.Array.to_pylist, _expect())),
)
