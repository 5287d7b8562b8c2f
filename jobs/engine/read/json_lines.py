"""Reads files of JSON lines: one object on each line, a column for each member.

A file is read twice: once to find what the values at each place are, once to make rows of them. Numbers keep their text
until it is known whether a number can hold all of them. Places with values of several kinds become text.
"""

from __future__ import annotations

import codecs
import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.schema import Schema

from jobs.engine.read.column_names import find_twin, fold
from jobs.engine.read.file_types import Misfit, check_names
from jobs.engine.read.opened import (
    MAX_LINE_BYTES,
    SAMPLE_ROWS,
    FileError,
    OpenedFile,
    Sample,
    Warnings,
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
    convert_texts,
    count_facts,
    explain_misfit,
    find_first,
    list_forms,
)

LOOKED_AT_BYTES = 4 * 1024 * 1024
"""Bytes that a sample reads at most."""
_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_ROWS = 32_768
"""Rows that are decoded at a time."""
_BATCH_VALUES = 4_000_000
_FIRST = 10
"""Texts that are looked at before it is asked whether all of them are dates."""
_MOST_DEPTH = 100
"""Levels of objects and lists within one another."""
_EXACT = 2**53
"""Whole numbers up to this one are doubles."""
_EXACT_LENGTH = 16
"""Length of numbers without an exponent whose digits, 15 at most, a double always keeps."""
_TIMES = tuple(Form(word, is_inferred=True, missing=()) for word in ("date", "timestamp", "timestamptz"))
_ARROW_TIMES = {"date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}
_WORDS = {pa.bool_(): "boolean", pa.int64(): "long", pa.float64(): "double", pa.string(): STRING}
_WORDS |= {kind: word for word, kind in _ARROW_TIMES.items()}


class RepeatedKey(ValueError):
    """A key that occurs twice in one object; the message says which."""


def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, each of whose keys occurs once.

    Raises:
        RepeatedKey: one occurs again.

    """
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        message = f"the key {twice!r} occurs twice in one object"
        raise RepeatedKey(message)
    return members


class _Number(str):
    """The text of a number with a point or an exponent, or of one that JSON does not have, such as NaN."""

    __slots__ = ()


_decode = json.JSONDecoder(object_pairs_hook=read_members, parse_float=_Number, parse_constant=_Number).decode


class _NestingError(Exception):
    """A value has more levels than a file may have."""


@dataclass
class _Batch:
    """Some rows of a file, each with the number of its line."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


@dataclass
class _JsonPlace:
    """What the values at one place of the objects are."""

    kinds: set[type] = field(default_factory=set)
    least: int = 0
    most: int = 0
    is_inexact: bool = False
    """Whether one of the numbers is none that a double holds."""
    times: list[Findings] = field(default_factory=lambda: [Findings(form) for form in _TIMES])
    """The types of dates and times that all texts so far fit."""
    first_offset: int = 0
    """The line of the first time that is not in UTC, as far as it is known."""
    members: dict[str, _JsonPlace] = field(default_factory=dict)
    element: _JsonPlace | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether values of several kinds are here, which only text holds together."""
        return len({int if kind is _Number else kind for kind in self.kinds}) > 1

    @property
    def time(self) -> Findings | None:
        """The type of dates or times that all values are, if there is one."""
        return self.times[0] if self.kinds == {str} and self.times else None

    @cached_property
    def type(self) -> pa.DataType:
        """The type that holds all values; asked for when all of them have been seen."""
        if self.is_mixed or not self.kinds:
            return pa.string()
        if _Number in self.kinds:
            return pa.string() if self.is_inexact else pa.float64()
        if int in self.kinds:
            return pa.int64() if self.least >= -(2**63) and self.most < 2**63 else pa.string()
        if bool in self.kinds:
            return pa.bool_()
        if list in self.kinds:
            return pa.list_(self.element.type if self.element else pa.string())
        if dict in self.kinds and self.members:
            return pa.struct([(name, place.type) for name, place in self.members.items()])
        return _ARROW_TIMES[self.time.form.word] if self.time else pa.string()

    def walk(self, path: str) -> Iterator[tuple[str, _JsonPlace]]:
        """Yield this place and those inside it, each with its path."""
        yield path, self
        for name, place in self.members.items():
            yield from place.walk(f"{path}.{name}")
        if self.element is not None:
            yield from self.element.walk(path)


class _TextColumn:
    """A member of the objects whose type is given: by a user, or by the table that is appended to."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.findings = [Findings(form) for form in forms]
        self.first: dict[tuple[str, str], tuple[int, str]] = {}
        """The line and the text of the first value of a fact, by the form's type and the fact."""

    @property
    def fitting(self) -> Findings | None:
        """The first form that holds all values."""
        return next((findings for findings in self.findings if findings.fits), None)


class _Shape:
    """The columns of a file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: Schema, types: Mapping[str, str]) -> None:
        self.rows = 0
        self._connection = connection
        self._table = {fold(column.name): str(column.field_type) for column in table.fields}
        self._types = types
        self._columns: dict[str, _TextColumn | _JsonPlace] = {}
        """By their names, in the order in which these first occurred."""
        self._places = 0

    def look(self, batch: _Batch) -> None:
        """Take note of the values of some rows."""
        self.rows += len(batch.rows)
        names = dict.fromkeys(chain.from_iterable(batch.rows))
        for name in names:
            if name not in self._columns:
                name.encode()
                self._columns[name] = self._add(name)
        for name in names:
            column, values = self._columns[name], [row.get(name) for row in batch.rows]
            if isinstance(column, _TextColumn):
                self._look_at_texts(column, values, batch.lines)
            else:
                self._look_at(column, values, batch.lines)

    def _add(self, name: str) -> _TextColumn | _JsonPlace:
        self._count_place()
        forms = list_forms(self._table.get(fold(name)), self._types.get(name), missing=())
        return _JsonPlace() if forms[0].is_inferred else _TextColumn(forms)

    def _count_place(self) -> None:
        self._places += 1
        check_width(self._places)

    def _look_at_texts(self, column: _TextColumn, values: Sequence[Any], lines: Sequence[int]) -> None:
        texts = pa.array(map(_write, values), pa.string())
        for findings in column.findings:
            facts = count_facts(self._connection, texts, findings.form)
            present = len(texts) - texts.null_count
            findings.present += present
            findings.add(facts)
            seen = {fact: facts[fact] for fact in WARNINGS if facts.get(fact)}
            if facts.get("fit", present) < present:
                seen["fit"] = 1
            for fact in seen:
                key = findings.form.word, fact
                if key not in column.first:
                    place = find_first(self._connection, texts, findings.form, fact)
                    column.first[key] = lines[place], texts[place].as_py()

    def _look_at(self, place: _JsonPlace, values: list[Any], lines: Sequence[int] = (), depth: int = 0) -> None:
        """Take note of the values at one place; those of the rows themselves have lines."""
        if depth > _MOST_DEPTH:
            raise _NestingError
        kinds = set(map(type, values)) - {type(None)}
        place.kinds |= kinds
        if int in kinds:
            self._look_at_whole_numbers(place, [value for value in values if type(value) is int])
        if _Number in kinds:
            self._look_at_numbers(place, [value for value in values if type(value) is _Number])
        if str in kinds and place.times:
            self._look_at_times(place, values, lines)
        if dict in kinds:
            inner: dict[str, list[Any]] = {}
            for value in values:
                if type(value) is dict:
                    for name, member in value.items():
                        inner.setdefault(name, []).append(member)
            for name in inner.keys() - place.members.keys():
                self._count_place()
                name.encode()
            for name, members in inner.items():
                self._look_at(place.members.setdefault(name, _JsonPlace()), members, depth=depth + 1)
        if list in kinds:
            place.element = place.element or _JsonPlace()
            elements = list(chain.from_iterable(value for value in values if type(value) is list))
            self._look_at(place.element, elements, depth=depth + 1)

    def _look_at_whole_numbers(self, place: _JsonPlace, values: list[int]) -> None:
        least, most = min(values), max(values)
        place.least, place.most = min(place.least, least), max(place.most, most)
        if least < -_EXACT or most > _EXACT:
            self._look_at_digits(place, [str(value) for value in values if abs(value) > _EXACT])

    def _look_at_numbers(self, place: _JsonPlace, texts: list[str]) -> None:
        unsure = [text for text in texts if len(text) > _EXACT_LENGTH or "e" in text or "E" in text]
        if unsure:
            self._look_at_digits(place, unsure)

    def _look_at_digits(self, place: _JsonPlace, texts: list[str]) -> None:
        fit = count_facts(self._connection, pa.array(texts, pa.string()), Form("double", missing=()))["fit"]
        place.is_inexact |= fit < len(texts)

    def _look_at_times(self, place: _JsonPlace, values: Sequence[Any], lines: Sequence[int]) -> None:
        if place.kinds != {str} or not all(value is None or value[4:5] == "-" for value in values[:_FIRST]):
            place.times = []
            return
        texts = pa.array(values, pa.string())
        for findings in list(place.times):
            facts = count_facts(self._connection, texts, findings.form)
            findings.add(facts)
            if facts["fit"] < len(texts) - texts.null_count:
                place.times.remove(findings)
            elif facts.get("offset") and lines and not place.first_offset:
                place.first_offset = lines[find_first(self._connection, texts, findings.form, "offset")]

    def decide(self) -> tuple[pa.Schema, Warnings]:
        """Return the columns that hold all rows.

        Raises:
            FileError: a value does not have the type that is given for its column, or two columns have one name.

        """
        if not self.rows:
            self._columns = {name: self._add(name) for name in self._types}
        if (twins := find_twin(self._columns)) is not None:
            message = f"the keys {twins[0]!r} and {twins[1]!r} name one column: write one of them in all lines"
            raise FileError(message, code="bad_header")
        try:
            check_names(self._types, self._columns)
        except Misfit as error:
            raise FileError(str(error), code="type") from None
        warnings = Warnings()
        kinds = []
        for name, column in self._columns.items():
            if isinstance(column, _TextColumn):
                kinds.append(convert_texts(self._connection, pa.array([], pa.string()), _decide(name, column)).type)
                _warn_of_texts(name, column, warnings)
            else:
                kinds.append(column.type)
                _warn(name, column, warnings)
        return pa.schema(list(zip(self._columns, kinds, strict=True))), warnings

    def make_rows(self, batch: _Batch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the columns of the file."""
        step = max(1, _BATCH_VALUES // len(self._columns))
        for start in range(0, len(batch.rows), step):
            rows = batch.rows[start : start + step]
            yield pa.RecordBatch.from_arrays([self._make(name, rows) for name in self._columns], schema=schema)

    def _make(self, name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
        column, values = self._columns[name], [row.get(name) for row in rows]
        if isinstance(column, _JsonPlace):
            return self._make_array(column, values)
        return convert_texts(self._connection, pa.array(map(_write, values), pa.string()), _decide(name, column))

    def _make_array(self, place: _JsonPlace, values: list[Any]) -> pa.Array:
        if pa.types.is_struct(place.type):
            arrays = [
                self._make_array(inner, [None if value is None else value.get(name) for value in values])
                for name, inner in place.members.items()
            ]
            is_null = pa.array([value is None for value in values], pa.bool_())
            return pa.StructArray.from_arrays(arrays, fields=list(place.type), mask=is_null)
        if pa.types.is_list(place.type):
            ends = list(accumulate((len(value or ()) for value in values), initial=0))
            offsets = [None if value is None else end for value, end in zip(values, ends, strict=False)] + ends[-1:]
            elements = list(chain.from_iterable(value or () for value in values))
            inner = self._make_array(place.element or _JsonPlace(), elements)
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=place.type)
        if place.time is not None:
            return convert_texts(self._connection, pa.array(values, pa.string()), place.time.form)
        if pa.types.is_string(place.type):
            return pa.array(values if place.kinds <= {str} else map(_write, values), pa.string())
        if pa.types.is_floating(place.type):
            values = [None if value is None else float(value) for value in values]
        return pa.array(values, place.type)


def read_json_lines(path: Path, table: Schema, types: Mapping[str, str]) -> OpenedFile:
    """Open a file of JSON lines.

    Args:
        path: the file.
        table: the schema of the table that the rows are appended to.
        types: column → Iceberg type, for those that a user chose.

    Raises:
        FileError: it cannot be loaded.

    """
    if is_blank(path) and not types:
        raise refuse_empty()
    connection = connect()
    shape = _Shape(connection, table, types)
    for batch in _read_batches(path):
        with _naming_line(batch):
            shape.look(batch)
    schema, warnings = shape.decide()

    def make() -> Iterator[pa.RecordBatch]:
        for batch in _read_batches(path):
            with _naming_line(batch):
                yield from shape.make_rows(batch, schema)

    return OpenedFile(schema, shape.rows, make(), connection=connection, warnings=warnings)


def sample_json_lines(path: Path, *, shown: int) -> Sample:
    """Read the first objects of a file of JSON lines.

    Raises:
        FileError: they cannot be read.

    """
    if is_blank(path):
        raise refuse_empty()
    with connect() as connection:
        shape = _Shape(connection, Schema(), {})
        batch = next(_read_batches(path, most_rows=SAMPLE_ROWS, most_bytes=LOOKED_AT_BYTES))
        with _naming_line(batch):
            shape.look(batch)
        schema, warnings = shape.decide()
    rows = [[_write(row.get(name)) for name in schema.names] for row in batch.rows[:shown]]
    columns = [(column.name, _WORDS.get(column.type, str(column.type))) for column in schema]
    return Sample(columns, [cut(row) for row in rows], warnings=warnings.sentences())


def _decide(name: str, column: _TextColumn) -> Form:
    if (fitting := column.fitting) is not None:
        return fitting.form
    form = column.findings[-1].form
    line, text = column.first[form.word, "fit"]
    raise FileError(explain_misfit(text, name, form), code="type" if form.is_chosen else "schema", line=line)


def _warn_of_texts(name: str, column: _TextColumn, warnings: Warnings) -> None:
    fitting = column.fitting
    for fact, explain in WARNINGS.items():
        if fitting is not None and (count := fitting.facts.get(fact)):
            warnings.add(name, explain(count, column.first[fitting.form.word, fact][0]))


def _warn(name: str, column: _JsonPlace, warnings: Warnings) -> None:
    for path, place in column.walk(name):
        where = "" if path == name else f"{path}: "
        if place.is_mixed:
            warnings.add(name, f"{where}the values are of several kinds, and all are kept as text")
        elif place.kinds & {int, _Number} and pa.types.is_string(place.type):
            warnings.add(
                name, f"{where}a number has more digits than a column of numbers holds, so all are kept as text"
            )
        elif place.time is not None and (count := place.time.facts.get("offset")):
            warnings.add(name, where + WARNINGS["offset"](count, place.first_offset))


# --- lines ----------------------------------------------------------------------------------------


def _read_batches(path: Path, *, most_rows: int = _BATCH_ROWS, most_bytes: int = _BATCH_BYTES) -> Iterator[_Batch]:
    """Yield the rows of a file, so many at a time.

    Raises:
        FileError: a line is no object.

    """
    with path.open("rb") as file:
        lines = enumerate(iter(partial(file.readline, MAX_LINE_BYTES), b""), 1)
        while (batch := _read_batch(lines, most_rows, most_bytes)).rows:
            yield batch


def _read_batch(lines: Iterator[tuple[int, bytes]], most_rows: int, most_bytes: int) -> _Batch:
    batch, size = _Batch(), 0
    with _without_collector():
        for number, line in lines:
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content.strip():
                batch.rows.append(_read_line(content, number))
                batch.lines.append(number)
                size += len(content)
                if len(batch.rows) >= most_rows or size >= most_bytes:
                    break
    return batch


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking for cycles among decoded values, which have none: it takes as long as the decoding."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read_line(line: bytes, number: int) -> dict[str, Any]:
    try:
        row = _decode(line.decode())
    except UnicodeDecodeError:
        raise FileError("this is not UTF-8 text", code="broken_row", line=number) from None
    except RepeatedKey as problem:
        raise FileError(str(problem), code="broken_row", line=number) from None
    except RecursionError:
        raise _refuse_depth(number) from None
    except ValueError as problem:
        message = f"this is not JSON: {problem}"
        if len(line) >= MAX_LINE_BYTES:
            message = f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB"
        raise FileError(message, code="broken_row", line=number) from None
    if not isinstance(row, dict):
        raise FileError("expected one JSON object on each line", code="broken_row", line=number)
    return row


@contextmanager
def _naming_line(batch: _Batch) -> Iterator[None]:
    """Refuse what shows only when values are looked at, with its line."""
    try:
        yield
    except (_NestingError, RecursionError):
        number = next(number for row, number in zip(batch.rows, batch.lines, strict=True) if _is_deep(row))
        raise _refuse_depth(number) from None
    except UnicodeEncodeError:
        number = next(number for row, number in zip(batch.rows, batch.lines, strict=True) if not _is_text(row))
        message = "a text has half of a character that UTF-16 writes in two (\\ud800 to \\udfff)"
        raise FileError(message, code="broken_row", line=number) from None


def _refuse_depth(line: int) -> FileError:
    message = f"objects and lists are nested more than {_MOST_DEPTH} levels deep"
    return FileError(message, code="broken_row", line=line)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MOST_DEPTH + 2):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _is_text(row: Mapping[str, Any]) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _write(value: Any) -> str | None:
    """Return the text of a value: of a text itself, of others as JSON writes them."""
    return value if value is None or isinstance(value, str) else _write_json(value)


def _write_json(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{_write_json(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_write_json, value))}]"
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
