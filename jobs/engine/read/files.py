r"""Reading files that people upload: CSV, JSON lines, Parquet. Types come from the whole file, memory stays bounded.

Text files are scanned twice by DuckDB: once to find broken rows and the type of every column, once to read. A column is
what all of its values are: boolean, whole number, number, date, timestamp, else text. Numbers with leading zeros or too
many digits stay text, so that nothing is lost. An empty CSV field is NULL; `NA`, `N/A`, `NULL`, `null`, `NaN`, `nan` and
`\N` are NULL too in a column of numbers, dates or booleans, and then in the whole file.
"""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from jobs.engine.read.column_names import find_twin, fold
from jobs.engine.read.file_types import (
    BY_ICEBERG,
    Misfit,
    cast_batches,
    check_names,
    check_texts,
    read_raw,
    type_schema,
)
from jobs.parsing import load_json

COLUMN_TYPES = tuple(BY_ICEBERG)
"""The types that somebody may choose for a column, in Iceberg's words."""
MEMORY_LIMIT = "1GB"
BATCH_ROWS = 65_536
SAMPLE_ROWS = 2_000
MAX_LINE_BYTES = 32 * 1024 * 1024
BUFFER_BYTES = 2 * MAX_LINE_BYTES
"""How much of a CSV file is read at once: DuckDB's own choice, sixteen lines of the longest, is half of its memory."""
MOST_COLUMNS = 5_000
"""Columns of a file, those inside others too."""
LOOKED_AT_BYTES = 4 * 1024 * 1024
"""Of a file of JSON lines, before DuckDB reads the first of them."""
LEAST_DECODED_BYTES = 256 * 1024 * 1024
MOST_TIMES = 100
"""A Parquet file may decode to so many times its size, and to `LEAST_DECODED_BYTES` whatever its size."""
PARQUET_ROWS = 8_192
"""Rows that are decoded at a time: fewer than of text, since each may be larger than the whole file."""
_BATCH_BYTES = 16 * 1024 * 1024
SAMPLED_ROWS = 64
SHOWN_CHARACTERS = 200
_decode_json = msgspec.json.Decoder().decode
_SEPARATORS = (",", ";", "\t", "|")
_MISSING = ("NA", "N/A", "NULL", "null", "NaN", "nan", r"\N")
# the first that fits all values of a column wins; each as (DuckDB type, what a text must look like)
_KINDS = (
    ("BOOLEAN", "(?i:true|false)"),
    ("BIGINT", ""),
    ("DOUBLE", r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)"),
    ("DATE", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("TIMESTAMP", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"),
    (
        "TIMESTAMPTZ",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)? ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)",
    ),
)
_TOO_LONG = r"[+-]?[0-9]{16,}"
"""Digits that a double would round: kept as text unless they fit a whole number."""


@dataclass(frozen=True)
class CsvFormat:
    """How to read a CSV file, where somebody said so."""

    delimiter: str = ""
    """One character; found from the first line where it is empty."""
    has_header: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    """Column → Iceberg type; the others' types come from the whole file."""


class FileError(ValueError):
    """The file cannot be loaded; `line` is where, 0 for the whole file."""

    def __init__(self, message: str, *, code: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.code = code
        self.line = line


class OpenedFile:
    """An opened file: its columns, its number of rows, and its rows once."""

    def __init__(self, schema: pa.Schema, rows: int, reader: Iterator[pa.RecordBatch], close: object) -> None:
        self.schema = schema
        self.rows = rows
        self._reader = reader
        self._close = close

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        return self._reader

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._close, duckdb.DuckDBPyConnection):
            self._close.close()


# --- CSV ------------------------------------------------------------------------------------------


def read_csv(path: Path, table_schema: Schema, form: CsvFormat = CsvFormat()) -> OpenedFile:
    """Open a CSV file; `table_schema` is that of the table that it is appended to."""
    _check_not_empty(path)
    separator, names = _read_header(path, form)
    connection = _connect()
    source = _csv_source(path, separator, names, form)
    explain = partial(_csv_error, path, separator, len(names))
    try:
        rows, kinds, missing = _infer(connection, source, names)
        if rows == 0:
            raise FileError("the file has a header and no rows", code="empty_file")
        with _refusing_misfits():
            check_names(form.types, names)
            texts = {name: _value(name, _MISSING) for name in form.types}
            check_texts(connection, source, texts, form.types)
    except duckdb.Error as error:
        raise explain(error) from None
    kinds = _suit(connection, source, names=names, kinds=kinds, missing=missing, table_schema=table_schema)
    cast = ", ".join(
        _cast(name, BY_ICEBERG[form.types[name]], _MISSING) if name in form.types else _cast(name, kind, missing)
        for name, kind in zip(names, kinds, strict=True)
    )
    return _stream(connection, f"SELECT {cast} FROM {source}", rows, explain)


@dataclass(frozen=True)
class Sample:
    """The beginning of a file, for somebody to look at before it is loaded."""

    columns: Sequence[tuple[str, str]]
    """Names with the types that these rows suggest, in Iceberg's words for CSV."""
    rows: Sequence[Sequence[str | None]]
    delimiter: str = ""


def sample_csv(path: Path, form: CsvFormat, *, shown: int) -> Sample:
    """Read the first rows of a CSV file as texts, and find their types.

    Raises:
        FileError: these rows cannot be read.

    """
    _check_not_empty(path)
    separator, names = _read_header(path, form)
    source = f"(SELECT * FROM {_csv_source(path, separator, names, form)} LIMIT {SAMPLE_ROWS})"
    with _connect() as connection:
        try:
            _, kinds, _ = _infer(connection, source, names)
            rows = connection.execute(f"SELECT * FROM {source} LIMIT {int(shown)}").fetchall()
        except duckdb.Error as error:
            raise _csv_error(path, separator, len(names), error) from None
    words = {kind: word for word, kind in BY_ICEBERG.items()}
    return Sample(
        list(zip(names, (words[kind] for kind in kinds), strict=True)), [_cut(row) for row in rows], separator
    )


def _csv_source(path: Path, separator: str, names: Sequence[str], form: CsvFormat) -> str:
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    header = "true" if form.has_header else "false"
    return (
        f"read_csv({_text(str(path))}, auto_detect=false, header={header}, delim={_text(separator)}, quote='\"', "
        f"escape='\"', strict_mode=true, null_padding=false, max_line_size={MAX_LINE_BYTES}, "
        f"buffer_size={BUFFER_BYTES}, columns={{{columns}}})"
    )


@contextmanager
def _refusing_misfits() -> Iterator[None]:
    try:
        yield
    except Misfit as error:
        raise FileError(str(error), code="type") from None


def _read_header(path: Path, form: CsvFormat) -> tuple[str, list[str]]:
    with path.open("rb") as file:
        first = file.readline(MAX_LINE_BYTES)
    try:
        text = first.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise FileError("the file is not UTF-8 text", code="broken_row", line=1) from None
    if "\0" in text:
        raise FileError("this is not a CSV file", code="broken_file", line=1)
    separator = form.delimiter or max(_SEPARATORS, key=lambda mark: (text.count(mark), -_SEPARATORS.index(mark)))
    try:
        names = [name.strip() for name in next(csv.reader([text], delimiter=separator, strict=True), [])]
    except csv.Error as error:
        raise FileError(f"the header cannot be read: {error}", code="broken_row", line=1) from None
    _check_width(len(names))
    if not form.has_header:
        return separator, [f"column_{number}" for number in range(1, len(names) + 1)]
    for number, name in enumerate(names, 1):
        if not name:
            raise FileError(f"column {number} has no name in the header", code="bad_header", line=1)
    if (twins := find_twin(names)) is not None:
        raise FileError(f"the header names column {twins[1]!r} twice", code="bad_header", line=1)
    return separator, names


def _infer(
    connection: duckdb.DuckDBPyConnection, source: str, names: Sequence[str]
) -> tuple[int, list[str], tuple[str, ...]]:
    """Return the number of rows, the type of each column and the words that mean NULL in this file.

    A first look at some rows says which type each column may have; the scans of the whole file then ask about that one
    alone, and again about the next where some value does not fit.
    """
    head = f"(SELECT * FROM {source} LIMIT {SAMPLE_ROWS})"
    everything = [tuple(range(len(_KINDS)))] * len(names)
    _, filled, present, fitting = _count(connection, head, names, everything)
    left = [
        [kind for kind in range(len(_KINDS)) if fitting[index][kind] == present[index]] for index in range(len(names))
    ]
    while True:
        column_kinds = [tuple(kinds[:1]) for kinds in left]
        rows, filled, present, fitting = _count(connection, source, names, column_kinds)
        misfits = [
            index for index, kinds in enumerate(column_kinds) if any(fitting[index][k] < present[index] for k in kinds)
        ]
        if not misfits:
            break
        for index in misfits:
            left[index].pop(0)
    # a column of NULLs alone fits everything and is text
    kinds = [
        _KINDS[candidates[0]][0] if candidates and present[index] else "VARCHAR"
        for index, candidates in enumerate(left)
    ]
    marks = any(kind != "VARCHAR" and filled[index] > present[index] for index, kind in enumerate(kinds))
    return rows, kinds, _MISSING if marks else ()


def _count(
    connection: duckdb.DuckDBPyConnection, source: str, names: Sequence[str], column_kinds: Sequence[Sequence[int]]
) -> tuple[int, list[int], list[int], list[dict[int, int]]]:
    """Scan once: rows; then for each column the filled fields, those that are a value, and those that fit each kind."""
    parts = ["count(*)"]
    for name, kinds in zip(names, column_kinds, strict=True):
        value = _value(name, _MISSING)
        parts += [f"count({_name(name)})", f"count({value})"]
        parts += [f"count_if({_fits(value, *_KINDS[kind])})" for kind in kinds]
    counts = iter(connection.execute(f"SELECT {', '.join(parts)} FROM {source}").fetchall()[0])
    rows, filled, present, fitting = int(next(counts, 0)), [], [], []
    for kinds in column_kinds:
        filled.append(int(next(counts)))
        present.append(int(next(counts)))
        fitting.append({kind: int(next(counts) or 0) for kind in kinds})
    return rows, filled, present, fitting


def _fits(value: str, kind: str, pattern: str) -> str:
    if kind == "BIGINT":  # writing the number again must give the same text: fast, and no leading zero is lost
        return f"CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR) = {value}"
    fits = f"regexp_full_match({value}, {_text(pattern)}) AND TRY_CAST({value} AS {kind}) IS NOT NULL"
    return f"{fits} AND NOT regexp_full_match({value}, {_text(_TOO_LONG)})" if kind == "DOUBLE" else fits


def _suit(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    *,
    names: Sequence[str],
    kinds: Sequence[str],
    missing: Sequence[str],
    table_schema: Schema,
) -> list[str]:
    """Prefer the types of the table that is appended to, where every value fits them."""
    table = _list_types(table_schema)
    suited = []
    for name, kind in zip(names, kinds, strict=True):
        target = table.get(fold(name))
        if target is None or target == kind:
            suited.append(kind)
            continue
        value = _value(name, missing)
        misfit = f"TRY_CAST({value} AS {target}) IS NULL"
        if target in {"INTEGER", "BIGINT"}:  # casting would round
            misfit = f"CAST(TRY_CAST({value} AS {target}) AS VARCHAR) IS DISTINCT FROM {value}"
        query = f"SELECT count(*) FROM {source} WHERE {value} IS NOT NULL AND {misfit}"
        misfits = connection.execute(query).fetchall()[0]
        # a text column takes anything; a date is not read from '5', nor a number from 'true'
        fits = misfits[0] == 0 and (target == "VARCHAR" or kind == "VARCHAR" or {target, kind} <= _NUMBERS)
        suited.append(target if fits else kind)
    return suited


_NUMBERS = {"INTEGER", "BIGINT", "FLOAT", "DOUBLE"}


def _value(name: str, missing: Sequence[str]) -> str:
    if not missing:
        return _name(name)
    return f"CASE WHEN {_name(name)} IN ({', '.join(map(_text, missing))}) THEN NULL ELSE {_name(name)} END"


def _cast(name: str, kind: str, missing: Sequence[str]) -> str:
    return f"CAST({_value(name, missing)} AS {kind}) AS {_name(name)}"


def _csv_error(path: Path, separator: str, width: int, error: duckdb.Error) -> FileError:
    """Find the broken row again with the line numbers that an editor shows."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return FileError("the file needs more memory than an upload may use", code="memory")
    csv.field_size_limit(MAX_LINE_BYTES)
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            for row in reader:
                first, line = line + 1, reader.line_num
                if len(row) not in (0, width) or (not row and width > 1):
                    values = "1 value" if len(row) == 1 else f"{len(row)} values"
                    return FileError(f"expected {width} values, found {values}", code="broken_row", line=first)
    except csv.Error as problem:
        text = str(problem)
        text = "a quoted value is never closed" if "unexpected end of data" in text else text
        return FileError(text, code="broken_row", line=line + 1)
    except UnicodeDecodeError:
        return FileError("this is not UTF-8 text", code="broken_row", line=_undecodable_line(path))
    place = re.search(r"Line: (\d+)", str(error))
    message = str(error).partition("\n")[0].removeprefix("Invalid Input Error: ")
    return FileError(message, code="broken_row", line=int(place[1]) if place else 0)


def _undecodable_line(path: Path) -> int:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


# --- JSON lines -----------------------------------------------------------------------------------


def read_json_lines(path: Path, table_schema: Schema, types: Mapping[str, str] | None = None) -> OpenedFile:
    """Open a file with one JSON object on each line; `types` are those that somebody chose, by column."""
    _check_not_empty(path)
    _check_members(path)
    connection = _connect()
    source = _json_source(path, sampled="-1")
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        counted = connection.execute(f"SELECT count(*) FROM {source}").fetchall()[0]
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise _json_error(path, error) from None
    _check_width(len(described))
    table = _list_types(table_schema)
    kinds = {name: kind for name, kind, *_ in described}
    words = types or {}
    cast = ", ".join(
        _cast(name, BY_ICEBERG[words[name]], ()) if name in words else _json_cast(name, kind, table.get(fold(name)))
        for name, kind in kinds.items()
    )
    try:
        if words:
            source = _choose_json(connection, path, source, kinds, words)
        return _stream(connection, f"SELECT {cast} FROM {source}", int(counted[0]), partial(_json_error, path))
    except duckdb.Error as error:
        raise _json_error(path, error) from None


def _choose_json(
    connection: duckdb.DuckDBPyConnection, path: Path, source: str, names: Iterable[str], words: Mapping[str, str]
) -> str:
    """Return, as SQL, the file with the texts of the columns that somebody chose a type for.

    What DuckDB has made of them already may have lost something: digits, or how a date was written.
    """
    with _refusing_misfits():
        check_names(words, names)
    columns = ", ".join(f"{_text(name)}: 'JSON'" for name in words)
    raw = read_raw(
        f"read_json({_text(str(path))}, format='newline_delimited', records=true, maximum_object_size={MAX_LINE_BYTES}, "
        f"columns={{{columns}}})",
        words,
    )
    with _refusing_misfits():
        check_texts(connection, raw, {name: _name(name) for name in words}, words)
    rest = ", ".join(_name(name) for name in names if name not in words)
    return f"((SELECT {rest} FROM {source}) POSITIONAL JOIN {raw})" if rest else raw


def sample_json_lines(path: Path, *, shown: int) -> Sample:
    """Read the first objects of a file with one on each line.

    Raises:
        FileError: they cannot be read.

    """
    _check_not_empty(path)
    _check_members(path, most_bytes=LOOKED_AT_BYTES)
    source = _json_source(path, sampled=str(SAMPLE_ROWS))
    with _connect() as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            _check_width(len(described))
            texts = ", ".join(f"CAST({_name(name)} AS VARCHAR)" for name, *_ in described)
            rows = connection.execute(f"SELECT {texts} FROM {source} LIMIT {int(shown)}").fetchall()
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise _json_error(path, error) from None
    words = {kind: word for word, kind in BY_ICEBERG.items()} | {"TIMESTAMP WITH TIME ZONE": "timestamptz"}
    return Sample([(name, words.get(kind, kind.lower())) for name, kind, *_ in described], [_cut(row) for row in rows])


def _json_source(path: Path, *, sampled: str) -> str:
    """Return the objects of a file, of the types that so many of them suggest; -1: all of them."""
    return (
        f"read_json({_text(str(path))}, format='newline_delimited', records=true, sample_size={sampled}, "
        f"map_inference_threshold=-1, maximum_object_size={MAX_LINE_BYTES})"
    )


def _check_members(path: Path, *, most_bytes: float = math.inf) -> None:
    """Refuse objects of too many different members before DuckDB makes columns of them, which takes it hours.

    A line that cannot be read is passed over: the reading says what is wrong with it.
    """
    members = _Members()
    with path.open("rb") as file:
        while file.tell() < most_bytes and (line := file.readline(MAX_LINE_BYTES)):
            with suppress(ValueError, RecursionError):
                members.note(_read_line(line))
            _check_width(members.count)
    if (twins := find_twin(members.columns)) is not None:
        message = f"the keys {twins[0]!r} and {twins[1]!r} name one column: write one of them in all lines"
        raise FileError(message, code="bad_header")


def _read_line(line: bytes) -> object:
    try:
        return _decode_json(line)
    except (msgspec.DecodeError, RecursionError):
        return load_json(line)  # takes more, as DuckDB does: Infinity, and halves of characters


class _Members:
    """The members of values, each of which becomes a column or a field in one."""

    def __init__(self) -> None:
        self.count = 0
        self._names: dict[str, Any] = {}
        """Each with those below it; what a list holds is below one nameless member."""

    @property
    def columns(self) -> Iterable[str]:
        """The members of the objects themselves, in the order in which they first occurred."""
        return self._names

    def note(self, value: object) -> None:
        """Add those of one more value."""
        self._note(value, self._names)

    def _note(self, value: object, names: dict[str, Any]) -> None:
        if isinstance(value, list):
            below = names.setdefault("", {})
            for inner in value:
                if isinstance(inner, dict | list):
                    self._note(inner, below)
        elif isinstance(value, dict):
            for name, inner in value.items():
                if name not in names:
                    names[name] = {}
                    self.count += 1
                if isinstance(inner, dict | list):
                    self._note(inner, names[name])


def _json_cast(name: str, kind: str, chosen_type: str | None) -> str:
    is_scalar = not any(mark in kind for mark in ("STRUCT", "[", "MAP"))
    if chosen_type == "VARCHAR" and is_scalar:
        kind = "VARCHAR"
    elif chosen_type == "DOUBLE" and kind in {"BIGINT", "UBIGINT", "HUGEINT"}:
        kind = "DOUBLE"
    elif kind in {'"NULL"', "NULL"} or (is_scalar and kind in {"JSON", "UUID", "HUGEINT", "UBIGINT", "TIME"}):
        kind = "VARCHAR"
    # values of several types stay JSON text, nested ones too
    kind = kind.replace('"NULL"', "VARCHAR").replace("JSON", "VARCHAR").replace("UBIGINT", "DOUBLE")
    return f"CAST({_name(name)} AS {kind}) AS {_name(name)}"


class RepeatedKey(ValueError):
    """A key that occurs twice in one object; the message says which."""


def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, each of whose keys occurs once.

    Raises:
        RepeatedKey: one occurs again.

    """
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            message = f"the key {name!r} occurs twice in one object"
            raise RepeatedKey(message)
        members[name] = value
    return members


def _json_error(path: Path, error: duckdb.Error) -> FileError:
    """Find the broken line by reading as people do, line by line."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return FileError("the file needs more memory than an upload may use", code="memory")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(codecs.BOM_UTF8):
                message = "the file begins with a byte order mark: save it as UTF-8 without one"
                return FileError(message, code="broken_row", line=1)
            if not line.strip():
                continue
            try:
                value = load_json(line, object_pairs_hook=read_members)
            except UnicodeDecodeError:
                return FileError("this is not UTF-8 text", code="broken_row", line=number)
            except RepeatedKey as problem:
                return FileError(str(problem), code="broken_row", line=number)
            except ValueError as problem:
                return FileError(f"this is not JSON: {problem}", code="broken_row", line=number)
            if not isinstance(value, dict):
                return FileError("expected one JSON object on each line", code="broken_row", line=number)
    message = str(error).partition("\n")[0].replace(str(path), "the file")
    return FileError(message, code="broken_file")


# --- Parquet --------------------------------------------------------------------------------------


def read_parquet(path: Path, table_schema: Schema, types: Mapping[str, str] | None = None) -> OpenedFile:
    """Open a Parquet file; `types` are those that somebody chose, by column."""
    _ = table_schema
    _check_not_empty(path)
    file, batches = open_parquet(path, path.stat().st_size)
    schema = file.schema_arrow.remove_metadata()
    if types:
        with _refusing_misfits():
            schema = type_schema(schema, types)
        batches = _typed(batches, types)
    return OpenedFile(schema, file.metadata.num_rows, batches, file)


def open_parquet(source: Path | pa.NativeFile, size: int) -> tuple[pq.ParquetFile, Iterator[pa.RecordBatch]]:
    """Open a Parquet file of so many bytes; its rows come once, bounded by what such a file may decode to.

    Raises:
        FileError: it is none, or decodes to too much, which may show only while rows are read.

    """
    try:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")  # nanoseconds hold no more than 584 years
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"this is not a Parquet file: {error}", code="broken_file") from None
    except UnicodeDecodeError:
        raise FileError("the name of a column is not UTF-8", code="broken_file") from None
    _check_width(file.metadata.num_columns)
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    _check_decoded(sum(group.total_byte_size for group in groups), size)  # what the footer claims, which may lie
    sample = next(file.iter_batches(SAMPLED_ROWS, use_threads=False), None)
    row_bytes = 1 if not sample else -(-sum(map(_measure_decoded, sample.columns)) // sample.num_rows)
    batch_rows = max(SAMPLED_ROWS, min(PARQUET_ROWS, _BATCH_BYTES // max(1, row_bytes)))
    batches = _check_int96(source, file, file.iter_batches(batch_rows, use_threads=False))
    return file, _count_decoded(batches, size)


def _check_int96(
    source: Path | pa.NativeFile, file: pq.ParquetFile, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Refuse times of the old INT96 type with nanoseconds: they are read as microseconds."""
    columns = [file.schema.column(number) for number in range(file.metadata.num_columns)]
    paths = [column.path for column in columns if column.physical_type == "INT96"]
    names = [name for name in file.schema_arrow.names if any(f"{path}.".startswith(f"{name}.") for path in paths)]
    fine = pq.ParquetFile(source).iter_batches(PARQUET_ROWS, columns=names, use_threads=False) if names else iter(())
    held = pa.table({name: [] for name in names})
    for batch in batches:
        while names and held.num_rows < batch.num_rows:
            more = pa.Table.from_batches([next(fine)])
            held = pa.concat_tables([held, more]) if held.num_rows else more
        for name in names:
            column = held[name].slice(0, batch.num_rows)
            # both wrap around in the same years
            if not pa.chunked_array([batch.column(name)]).cast(column.type, safe=False).equals(column):
                message = (
                    f"column {name!r} has nanoseconds, which are not kept of the old type INT96: write the file with times "
                    "of nanoseconds (isAdjustedToUTC, NANOS), or round them to microseconds"
                )
                raise FileError(message, code="nanoseconds")
        held = held.slice(batch.num_rows)
        yield batch


def _typed(batches: Iterator[pa.RecordBatch], types: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    with _refusing_misfits():
        yield from cast_batches(batches, types)


def sample_parquet(path: Path, *, shown: int) -> Sample:
    """Read the first rows of a Parquet file.

    Raises:
        FileError: they cannot be read.

    """
    with read_parquet(path, Schema()) as source:
        first = next(source.batches(), None)
        rows = [] if first is None else first.slice(0, shown).to_pylist()
        columns = [(column.name, str(column.type)) for column in source.schema]
    return Sample(columns, [_cut([row[name] for name, _ in columns]) for row in rows])


def _count_decoded(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    decoded = 0
    for batch in batches:
        decoded += sum(map(_measure_decoded, batch.columns))
        _check_decoded(decoded, size)
        yield batch


def _measure_decoded(column: pa.Array) -> int:
    """Return how many bytes the values of a column take, each written out: a dictionary has a value once for all its rows."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        sizes = _measure_values(column.dictionary)
        return int(pc.sum(pc.take(sizes, column.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(map(_measure_decoded, column.flatten()))
    if pa.types.is_map(kind):
        return _measure_decoded(column.keys) + _measure_decoded(column.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return int(column.nbytes - column.flatten().nbytes) + _measure_decoded(column.flatten())
    return int(column.nbytes)


def _measure_values(values: pa.Array) -> pa.Array:
    """Return how many bytes each value of a dictionary takes."""
    kind = values.type
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    ):
        return pc.cast(pc.binary_length(values), pa.int64())
    mean = -(-values.nbytes // max(1, len(values)))
    return pa.repeat(pa.scalar(mean, pa.int64()), len(values))


def _check_decoded(decoded: int, size: int) -> None:
    if decoded > max(LEAST_DECODED_BYTES, size * MOST_TIMES):
        message = (
            f"the file has {size:,} bytes and decodes to more than {MOST_TIMES} times as much: what repeats itself so "
            "often is loaded by a transform that makes it"
        )
        raise FileError(message, code="decodes_to_too_much")


# --- shared ---------------------------------------------------------------------------------------


def _list_types(schema: Schema) -> dict[str, str | None]:
    """Return DuckDB's types for the columns of a table, by folded name."""
    return {fold(field.name): BY_ICEBERG.get(str(field.field_type)) for field in schema.fields}


def _cut(row: Iterable[object]) -> list[str | None]:
    return [None if value is None else str(value)[:SHOWN_CHARACTERS] for value in row]


def _check_width(columns: int) -> None:
    if columns > MOST_COLUMNS:
        message = f"the file has {columns:,} columns, more than the {MOST_COLUMNS:,} that a file may have"
        raise FileError(message, code="too_many_columns")


def _check_not_empty(path: Path) -> None:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            if chunk.strip(b"\xef\xbb\xbf\r\n\t "):
                return
    raise FileError("the file is empty", code="empty_file")


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "temp_directory": "/tmp/upload", "threads": "2"}  # noqa: S108 - private
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _stream(
    connection: duckdb.DuckDBPyConnection, query: str, rows: int, explain: Callable[[duckdb.Error], FileError]
) -> OpenedFile:
    reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
    return OpenedFile(reader.schema, rows, _explained(reader, explain), connection)


def _explained(
    reader: Iterator[pa.RecordBatch], explain: Callable[[duckdb.Error], FileError]
) -> Iterator[pa.RecordBatch]:
    """Pass rows on; some of what is wrong with a file shows only while it is read."""
    try:
        yield from reader
    except duckdb.Error as error:
        raise explain(error) from None
    except pa.ArrowException as error:
        raise explain(duckdb.Error(str(error))) from None


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _name(value: str) -> str:
    escaped = value.replace('"', '""')
    return f'"{escaped}"'
