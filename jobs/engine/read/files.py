r"""Reads data files of users: CSV, JSON lines, Parquet. Uploads, seeds and samples on pages all come through here.

A column gets a type only if each of its values, written back in that type, is an equal form of the text that was read
(`text_forms`). Otherwise it is text. Types come from the whole file, and memory stays bounded. An empty CSV field without
quotes is NULL. Words such as `NA` are NULL only in columns whose other values are not text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from jobs.engine.read.column_names import find_twin, fold
from jobs.engine.read.fields import literal, quote
from jobs.engine.read.file_types import Misfit, cast_batches, check_names, type_schema
from jobs.engine.read.json_lines import read_json_lines, sample_json_lines
from jobs.engine.read.opened import (
    MAX_LINE_BYTES,
    SAMPLE_ROWS,
    CsvFormat,
    FileError,
    OpenedFile,
    Sample,
    Warnings,
    check_content,
    check_width,
    connect,
    cut,
    is_blank,
    refuse_empty,
)
from jobs.engine.read.text_forms import (
    STRING,
    WARNINGS,
    Findings,
    Form,
    as_uuids,
    explain_misfit,
    find_collision,
    list_forms,
)

Format = Literal["csv", "jsonl", "parquet"]
BATCH_ROWS = 65_536
GLANCED_ROWS = 20
"""Rows that say which types a column cannot have, before many are looked at closely."""
BUFFER_BYTES = 2 * MAX_LINE_BYTES
"""How much of a CSV file is read at once: DuckDB's own choice, sixteen lines of the longest, is half of its memory."""
LEAST_DECODED_BYTES = 256 * 1024 * 1024
MOST_TIMES = 100
"""A Parquet file may decode to so many times its size, and to `LEAST_DECODED_BYTES` whatever its size."""
PARQUET_ROWS = 8_192
"""Rows that are decoded at a time: fewer than of text, since each may be larger than the whole file."""
_BATCH_BYTES = 16 * 1024 * 1024
SAMPLED_ROWS = 64
_SEPARATORS = (",", ";", "\t", "|")
_SEPARATOR_LINE = re.compile(r'sep=([^\w"\r\n])', re.IGNORECASE)
"""A first line of Excel's, which names the delimiter and is no row."""


def open_file(path: Path, format: Format, form: CsvFormat, table: Schema | None = None) -> OpenedFile:
    """Open a data file.

    Args:
        path: the file.
        format: what it is.
        form: the delimiter and header of a CSV file, and the types of columns, as far as somebody chose them.
        table: the schema of the table that the rows are appended to.

    Raises:
        FileError: it cannot be loaded. What is wrong with a row can also show while the rows are read.

    """
    check_content(path)
    if format == "csv":
        return _read_csv(path, table or Schema(), form)
    if format == "jsonl":
        return read_json_lines(path, table or Schema(), form.types)
    return _read_parquet(path, form.types)


def sample_file(path: Path, format: Format, form: CsvFormat, *, shown: int) -> Sample:
    """Read the first rows of a data file.

    Raises:
        FileError: they cannot be read.

    """
    check_content(path)
    if format == "csv":
        return _sample_csv(path, form, shown=shown)
    if format == "jsonl":
        return sample_json_lines(path, shown=shown)
    return _sample_parquet(path, shown=shown)


# --- CSV ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Head:
    """The beginning of a CSV file."""

    separator: str
    names: Sequence[str]
    has_header: bool
    skipped: int
    """Lines before the header: empty ones, and one that names the delimiter."""
    lines: int
    """Lines of the header itself."""
    has_mark: bool
    """Whether the file begins with a byte order mark."""


@dataclass
class _CsvColumn:
    """A column whose type is being looked for."""

    index: int
    name: str
    forms: list[Form]
    """Those that are left; none of text."""
    tried: Form = field(init=False)
    """The last one, to name in a refusal."""
    findings: Findings = field(init=False)

    def __post_init__(self) -> None:
        self.tried = self.forms[-1]

    @property
    def form(self) -> Form:
        """The first form that is left."""
        return self.forms[0] if self.forms else Form(STRING)


def _read_csv(path: Path, table: Schema, form: CsvFormat) -> OpenedFile:
    warnings = Warnings()
    head = _read_head(path, form, warnings)
    connection = connect()
    source = _csv_source(path, head)
    explain = partial(_csv_error, path, head)
    types = {fold(column.name): str(column.field_type) for column in table.fields}
    try:
        with _refusing_misfits():
            check_names(form.types, head.names)
        columns = [
            _CsvColumn(index, name, list_forms(types.get(fold(name)), form.types.get(name)))
            for index, name in enumerate(head.names)
        ]
        rows = _find_types(connection, source, columns)
        if rows == 0 and form.types.keys() != set(head.names):
            message = "the file has a header and no rows: it can be loaded once each column is given a type"
            raise FileError(message, code="empty_file")
        _check_columns(connection, source, columns, partial(_find_line, path, head))
        _collect_warnings(connection, source, columns, partial(_find_line, path, head), warnings)
    except duckdb.Error as error:
        raise explain(error) from None
    casts = ", ".join(f"{column.form.convert(quote(column.name))} AS {quote(column.name)}" for column in columns)
    reader = connection.sql(f"SELECT {casts} FROM {source}").to_arrow_reader(BATCH_ROWS)
    uuids = [index for index, column in enumerate(columns) if column.form.word == "uuid"]
    schema, batches = _restore_uuids(reader, uuids)
    return OpenedFile(schema, rows, _explained(batches, explain), connection=connection, warnings=warnings)


def _sample_csv(path: Path, form: CsvFormat, *, shown: int) -> Sample:
    """Read the first rows of a CSV file as texts, and find their types."""
    warnings = Warnings()
    head = _read_head(path, form, warnings)
    source = f"(SELECT * FROM {_csv_source(path, head)} LIMIT {SAMPLE_ROWS})"
    columns = [_CsvColumn(index, name, list_forms(None, None)) for index, name in enumerate(head.names)]
    with connect() as connection:
        try:
            _find_types(connection, source, columns)
            _collect_warnings(connection, source, columns, partial(_find_line, path, head), warnings)
            rows = connection.execute(f"SELECT * FROM {source} LIMIT {int(shown)}").fetchall()
        except duckdb.Error as error:
            raise _csv_error(path, head, error) from None
    types = [(column.name, column.form.word) for column in columns]
    return Sample(types, [cut(row) for row in rows], head.separator, warnings.sentences())


def _csv_source(path: Path, head: _Head) -> str:
    # after a byte order mark, DuckDB finds the end of a quoted header of several lines only if it takes it for a row
    is_row = head.has_header and head.has_mark and head.lines > 1 and not head.skipped
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in head.names)
    source = (
        f"read_csv({literal(str(path))}, auto_detect=false, header={'true' if head.has_header and not is_row else 'false'}, "
        f"skip={head.skipped}, delim={literal(head.separator)}, quote='\"', escape='\"', strict_mode=true, "
        f"null_padding=false, allow_quoted_nulls=false, max_line_size={MAX_LINE_BYTES}, buffer_size={BUFFER_BYTES}, "
        f"columns={{{columns}}})"
    )
    return f"(SELECT * FROM {source} OFFSET 1)" if is_row else source


@contextmanager
def _refusing_misfits() -> Iterator[None]:
    try:
        yield
    except Misfit as error:
        raise FileError(str(error), code="type") from None


def _read_head(path: Path, form: CsvFormat, warnings: Warnings) -> _Head:
    if is_blank(path):
        raise refuse_empty()
    try:
        skipped, named, record = _read_first_record(path)
    except UnicodeDecodeError:
        raise FileError("the file is not UTF-8 text", code="broken_row", line=_undecodable_line(path)) from None
    if "\0" in record:
        raise FileError("this is not a CSV file", code="broken_file", line=skipped + 1)
    separator = form.delimiter or named or _find_separator(record)
    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader(io.StringIO(record, newline=""), delimiter=separator, strict=True)
    try:
        written = next(reader, [])
    except csv.Error as error:
        raise FileError(f"the header cannot be read: {error}", code="broken_row", line=skipped + 1) from None
    check_width(len(written))
    names = [name.strip() for name in written]
    with path.open("rb") as file:
        has_mark = file.read(3) == b"\xef\xbb\xbf"
    head = partial(_Head, separator, has_header=form.has_header, skipped=skipped, has_mark=has_mark)
    if not form.has_header:
        return head(names=[f"column_{number}" for number in range(1, len(names) + 1)], lines=0)
    for number, (name, text) in enumerate(zip(names, written, strict=True), 1):
        if not name:
            raise FileError(f"column {number} has no name in the header", code="bad_header", line=skipped + 1)
        if name != text:
            warnings.add(name, "the header has spaces around its name, which are left out")
    if (twins := find_twin(names)) is not None:
        raise FileError(f"the header names column {twins[1]!r} twice", code="bad_header", line=skipped + 1)
    return head(names=names, lines=reader.line_num)


def _read_first_record(path: Path) -> tuple[int, str, str]:
    """Return the number of lines before the first record, the delimiter that one of them names, and the record's lines."""
    skipped, named, record, is_open = 0, "", "", False
    with path.open(encoding="utf-8-sig", newline="") as file:
        while len(record) < MAX_LINE_BYTES and (line := file.readline(MAX_LINE_BYTES)):
            match = _SEPARATOR_LINE.fullmatch(line.rstrip("\r\n"))
            if not record and not named and match:
                skipped, named = skipped + 1, match[1]
            elif not record and not line.strip("\r\n"):
                skipped += 1
            else:
                record += line
                is_open ^= line.count('"') % 2 == 1
                if not is_open:
                    break
    return skipped, named, record


def _find_separator(record: str) -> str:
    outside = re.sub('"[^"]*"', "", record)
    return max(_SEPARATORS, key=lambda mark: (outside.count(mark), -_SEPARATORS.index(mark)))


def _find_types(connection: duckdb.DuckDBPyConnection, source: str, columns: Sequence[_CsvColumn]) -> int:
    """Find the type of each column, and return the number of rows.

    A look at the first rows says which forms each column can have. The scans of the whole file then ask about the first of
    them alone, and again about the next one if a value does not fit.
    """
    for rows in (GLANCED_ROWS, SAMPLE_ROWS):
        _drop_forms(connection, f"(SELECT * FROM {source} LIMIT {rows})", columns, at_a_glance=rows == GLANCED_ROWS)
    pending: Sequence[_CsvColumn] = columns
    rows = 0
    while pending:
        rows = _measure(connection, source, pending)
        pending = [column for column in pending if column.forms and not _keeps_form(connection, source, column)]
        for column in pending:
            column.forms.pop(0)
    return rows


def _drop_forms(
    connection: duckdb.DuckDBPyConnection, head: str, columns: Sequence[_CsvColumn], *, at_a_glance: bool
) -> None:
    """Drop the forms that some of the first rows do not have; at a glance, those of inferred types alone."""
    pending = [
        (column, form)
        for column in columns
        for form in column.forms
        if form.word != STRING and (form.is_inferred or not at_a_glance)
    ]
    misfits = []
    for column, form in pending:
        fits = form.glance if at_a_glance else form.fits
        misfits.append(
            f"count_if(NOT coalesce({fits(_value(column, form))}, false) AND {_value(column, form)} IS NOT NULL)"
        )
    if misfits:
        counts = connection.execute(f"SELECT {', '.join(misfits)} FROM {_with_values(head, pending)}").fetchall()[0]
        for (column, form), count in zip(pending, counts, strict=True):
            if count:
                column.forms.remove(form)


def _measure(connection: duckdb.DuckDBPyConnection, source: str, columns: Sequence[_CsvColumn]) -> int:
    """Scan once for the facts about each column's first form; return the number of rows."""
    pending = [(column, column.form) for column in columns]
    parts = ["count(*)"]
    for column, form in pending:
        column.findings = Findings(form)
        facts = form.facts(_value(column, form))
        column.findings.facts = dict.fromkeys(facts, 0)
        parts += [f"count({_value(column, form)})", *facts.values()]
    counts = connection.execute(f"SELECT {', '.join(parts)} FROM {_with_values(source, pending)}").fetchall()[0]
    rows, *numbers = (int(count or 0) for count in counts)
    left = iter(numbers)
    for column, _ in pending:
        column.findings.present = next(left)
        column.findings.add({name: next(left) for name in column.findings.facts})
    return rows


def _value(column: _CsvColumn, form: Form) -> str:
    """Return the name of the texts of a column that are values, in `_with_values`."""
    return f"{'t' if form.word == STRING else 'n' if form.is_number else 'v'}{column.index}"


def _with_values(source: str, pending: Sequence[tuple[_CsvColumn, Form]]) -> str:
    """Return the SQL of the texts that are asked about, under short names: they are written many times."""
    values = {_value(column, form): form.value(quote(column.name)) for column, form in pending}
    return f"(SELECT {', '.join(f'{value} AS {name}' for name, value in values.items())} FROM {source})"


def _keeps_form(connection: duckdb.DuckDBPyConnection, source: str, column: _CsvColumn) -> bool:
    """Return whether the whole column can have its first form."""
    findings = column.findings
    if not findings.fits or findings.form.word != "double" or not findings.form.is_inferred:
        return findings.fits
    if not findings.is_number_by_its_texts:
        return False
    return not findings.may_share_values or not connection.execute(find_collision(source, column.name)).fetchall()


def _check_columns(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    columns: Sequence[_CsvColumn],
    find_line: Callable[[int], int],
) -> None:
    """Refuse the first value that is not of the type that a user chose, or that the table has."""
    for column in columns:
        if not column.forms and not column.tried.is_inferred:
            row, text = _find_first(connection, source, column.name, column.tried, "fit")
            message = explain_misfit(text, column.name, column.tried)
            raise FileError(message, code="type" if column.tried.is_chosen else "schema", line=find_line(row))


def _collect_warnings(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    columns: Sequence[_CsvColumn],
    find_line: Callable[[int], int],
    warnings: Warnings,
) -> None:
    for column in columns:
        for fact, explain in WARNINGS.items():
            if count := column.findings.facts.get(fact, 0):
                row, _ = _find_first(connection, source, column.name, column.form, fact)
                warnings.add(column.name, explain(count, find_line(row)))


def _find_first(
    connection: duckdb.DuckDBPyConnection, source: str, name: str, form: Form, fact: str
) -> tuple[int, str]:
    """Return the number of the first row that a fact counts, and its text."""
    value = form.value(quote(name))
    query = (
        f"SELECT place, value FROM (SELECT row_number() OVER () AS place, {value} AS value FROM {source}) "
        f"WHERE value IS NOT NULL AND {form.first(fact, 'value')} ORDER BY place LIMIT 1"
    )
    row, text = connection.execute(query).fetchall()[0]
    return int(row), str(text)


def _find_line(path: Path, head: _Head, row: int) -> int:
    """Return the line on which a row begins: quoted values may span several, and empty lines are no rows."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for _ in range(head.skipped):
            file.readline()
        line, rows = head.skipped, 0 if not head.has_header else -1
        reader = csv.reader(file, delimiter=head.separator)
        for values in reader:
            first, line = line + 1, head.skipped + reader.line_num
            rows += bool(values) or len(head.names) == 1
            if rows == row:
                return first
    return 0


def _restore_uuids(reader: pa.RecordBatchReader, columns: Sequence[int]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    schema = reader.schema
    for index in columns:
        schema = schema.set(index, schema.field(index).with_type(pa.uuid()))

    def restore() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = [as_uuids(column) if index in columns else column for index, column in enumerate(batch.columns)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, restore() if columns else iter(reader)


def _csv_error(path: Path, head: _Head, error: duckdb.Error) -> FileError:
    """Find the broken row again with the line numbers that an editor shows."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return FileError("the file needs more memory than an upload may use", code="memory")
    line, width = head.skipped, len(head.names)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for _ in range(head.skipped):
                file.readline()
            reader = csv.reader(file, delimiter=head.separator, strict=True)
            for row in reader:
                first, line = line + 1, head.skipped + reader.line_num
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


def _undecodable_line(path: Path) -> int:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


# --- Parquet --------------------------------------------------------------------------------------


def _read_parquet(path: Path, types: Mapping[str, str]) -> OpenedFile:
    """Open a Parquet file; `types` are those that somebody chose, by column."""
    if is_blank(path):
        raise refuse_empty()
    file, batches = open_parquet(path, path.stat().st_size)
    schema = file.schema_arrow.remove_metadata()
    if types:
        with _refusing_misfits():
            schema = type_schema(schema, types)
        batches = _typed(batches, types)
    return OpenedFile(schema, file.metadata.num_rows, batches)


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
    check_width(file.metadata.num_columns)
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


def _sample_parquet(path: Path, *, shown: int) -> Sample:
    with _read_parquet(path, {}) as source:
        first = next(source.batches(), None)
        rows = [] if first is None else first.slice(0, shown).to_pylist()
        columns = [(column.name, str(column.type)) for column in source.schema]
    return Sample(columns, [cut([row[name] for name, _ in columns]) for row in rows])


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
