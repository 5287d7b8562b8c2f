"""The types that somebody chose for the columns of a file: every value becomes one without loss, or is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from jobs.engine.read.opened import connect
from jobs.engine.read.text_forms import Form, convert_texts, count_facts, explain_misfit, find_first

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


class Misfit(ValueError):
    """A value that is not of the type that somebody chose for its column, or a column that cannot become one."""


def check_names(types: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse types for columns that a file does not have."""
    columns = list(names)
    if unknown := sorted(types.keys() - set(columns)):
        first = ", ".join(columns[:20]) + (", …" if len(columns) > 20 else "")
        message = f"there is no column {unknown[0]!r} to give a type: the file has {first}"
        raise Misfit(message)


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
    with connect() as connection:
        for batch in batches:
            columns = [
                _cast(connection, column, name, types[name], done) if name in types else column
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


def _cast(connection: duckdb.DuckDBPyConnection, column: pa.Array, name: str, word: str, before: int) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column.type):
        return _read_texts(connection, column, name, Form(word, is_chosen=True, missing=()), before)
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
    raise _misfit(before + place, str(column[place].as_py()), name, Form(word, is_chosen=True))


def _read_texts(
    connection: duckdb.DuckDBPyConnection, column: pa.Array, name: str, form: Form, before: int
) -> pa.Array:
    texts = column.cast(pa.string())
    if count_facts(connection, texts, form).get("fit", len(texts)) < len(texts) - texts.null_count:
        place = find_first(connection, texts, form, "fit")
        raise _misfit(before + place, texts[place].as_py(), name, form)
    return convert_texts(connection, texts, form).cast(_ARROW[form.word])


def _try_cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return the values of another type; None where one of them would lose something."""
    try:
        cast = column.cast(target)
        if _is_text(target):
            return cast
        back = cast.cast(column.type, safe=False)
    except pa.ArrowInvalid:
        return None
    differs = pc.fill_null(pc.not_equal(back, column), fill_value=False)
    if pa.types.is_floating(column.type):
        differs = pc.and_(differs, pc.invert(pc.fill_null(pc.is_nan(column), fill_value=False)))
    return None if pc.any(differs).as_py() else cast


def _misfit(before: int, text: str, name: str, form: Form) -> Misfit:
    return Misfit(f"row {before + 1:,}: {explain_misfit(text, name, form)}")
