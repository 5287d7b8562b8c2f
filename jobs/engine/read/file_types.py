"""The types that somebody chose for the columns of a file: every value becomes one without loss, or is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from jobs.engine.read.fields import quote

BY_ICEBERG = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "string": "VARCHAR",
}
"""Iceberg's word → DuckDB's."""
_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
# casting alone would round a number, or take the day of a time
_LOOKS = {"INTEGER": "[+-]?[0-9]+", "BIGINT": "[+-]?[0-9]+", "DATE": "[0-9]{4}-[0-9]{2}-[0-9]{2}"}
_SHOWN = 100


class Misfit(ValueError):
    """A value that is not of the type that somebody chose for its column, or a column that cannot become one."""


def check_names(types: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse types for columns that a file does not have."""
    columns = list(names)
    if unknown := sorted(types.keys() - set(columns)):
        first = ", ".join(columns[:20]) + (", …" if len(columns) > 20 else "")
        message = f"there is no column {unknown[0]!r} to give a type: the file has {first}"
        raise Misfit(message)


def check_texts(
    connection: duckdb.DuckDBPyConnection, source: str, values: Mapping[str, str], words: Mapping[str, str]
) -> None:
    """Refuse the first value of a column of texts that is not of its type.

    Args:
        connection: to DuckDB.
        source: what to read, in SQL, in the order of the file.
        values: column → its text, in SQL.
        words: column → the Iceberg type that somebody chose.

    """
    for name, word in words.items():
        kind, value = BY_ICEBERG[word], values[name]
        fits = f"TRY_CAST({value} AS {kind}) IS NOT NULL"
        if kind in _LOOKS:
            fits += f" AND regexp_full_match({value}, '{_LOOKS[kind]}')"
        query = (
            f"SELECT place, value FROM (SELECT row_number() OVER () AS place, {value} AS value, {fits} AS fits "
            f"FROM {source}) WHERE value IS NOT NULL AND NOT fits ORDER BY place LIMIT 1"
        )
        for row, text in connection.execute(query).fetchall() if kind != "VARCHAR" else ():
            raise _misfit(int(row), text, name, word)


def read_raw(source: str, names: Iterable[str]) -> str:
    """Return, as SQL, columns of JSON lines as texts; `source` reads these columns as JSON."""
    texts = ", ".join(f"{quote(name)}->>'$' AS {quote(name)}" for name in names)
    return f"(SELECT {texts} FROM {source})"


def type_schema(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    """Return a schema with the chosen types.

    Raises:
        Misfit: a column is not there, or cannot become that.

    """
    check_names(types, schema.names)
    fields = [field.with_type(_ARROW[types[field.name]]) if field.name in types else field for field in schema]
    for field in schema:
        if field.name in types and not _may_become(field.type, _ARROW[types[field.name]]):
            message = (
                f"column {field.name!r} is a {field.type}, which cannot become a {types[field.name]}: leave its type to "
                "the file, or load it as it is and change it in a transform"
            )
            raise Misfit(message)
    return pa.schema(fields)


def cast_batches(batches: Iterable[pa.RecordBatch], types: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Give columns the chosen types.

    Raises:
        Misfit: a value would lose something.

    """
    done = 0
    for batch in batches:
        columns = [
            _cast(column, name, types[name], done) if name in types else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        done += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=type_schema(batch.schema, types))


def _may_become(kind: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of one type mean something in the other: a number is no time, and a list nothing else."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(kind) or kind == target or _is_text(kind):
        return True
    if _is_text(target):
        return not pa.types.is_nested(kind)
    return (_is_number(kind) and _is_number(target)) or (_is_time(kind) and _is_time(target))


def _is_text(kind: pa.DataType) -> bool:
    return any(is_it(kind) for is_it in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _is_number(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(is_it(kind) for is_it in kinds)


def _is_time(kind: pa.DataType) -> bool:
    return any(is_it(kind) for is_it in (pa.types.is_date, pa.types.is_timestamp))


def _cast(column: pa.Array, name: str, word: str, before: int) -> pa.Array:
    type_ = _ARROW[word]
    cast = _try_cast(column, type_)
    if cast is not None:
        return cast
    place, length = 0, len(column)
    while length > 1:
        half = length // 2
        if _try_cast(column.slice(place, half), type_) is None:
            length = half
        else:
            place, length = place + half, length - half
    raise _misfit(before + place + 1, column[place].as_py(), name, word)


def _try_cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return the values of another type; None where one of them would lose something."""
    try:
        cast = column.cast(target)
        if _is_text(target) or _is_text(column.type) or pa.types.is_dictionary(column.type):
            return cast
        back = cast.cast(column.type, safe=False)
    except pa.ArrowInvalid:
        return None
    differs = pc.fill_null(pc.not_equal(back, column), fill_value=False)
    if pa.types.is_floating(column.type):
        differs = pc.and_(differs, pc.invert(pc.fill_null(pc.is_nan(column), fill_value=False)))
    return None if pc.any(differs).as_py() else cast


def _misfit(row: int, value: object, name: str, word: str) -> Misfit:
    message = (
        f"row {row:,}: {str(value)[:_SHOWN]!r} in column {name!r} is no {word}: choose another type for the column "
        "(string takes every value) or leave it to the file, or mend the value"
    )
    return Misfit(message)
