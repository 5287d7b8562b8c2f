"""Schemas of outputs: Arrow to Iceberg, and the next schema of a branch with stable field ids.

Columns match by name; another spelling of a column's name is that column (`column_names.fold`). On *replace* the table gets
exactly the written columns, in their order; a column keeps its field id
where name and type stay, takes back the id that the history gave to that name and type (no live file is left that could
bring old values back), keeps its id where Iceberg can promote the type, and gets a new id otherwise. Another spelling renames
the column, which keeps its id. A column that keeps its id stays required or an identifier field, with its comment and
defaults. On *append* nothing is dropped: new columns go to the end, types may only widen, the table's spelling stays.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, _SetFreshIDs, pre_order_visit
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from jobs.engine.read.column_names import AmbiguousName, find_twin, match_names

NANOSECONDS_VERSION = 3
"""Version of the table format from which on there are timestamp_ns and timestamptz_ns."""
NO_COLUMNS = Schema()


class SchemaError(ValueError):
    """The written columns cannot become columns of the table; the text names the column."""


# --- Arrow ----------------------------------------------------------------------------------------


def storable_schema(schema: pa.Schema, table: Schema = NO_COLUMNS, *, version: int = NANOSECONDS_VERSION) -> pa.Schema:
    """Return the Arrow schema in which a table of these columns and format version can hold written columns.

    Nanoseconds are kept by tables of version 3, except in a column that holds microseconds there.
    """
    _check_names(schema.names, "column")
    if not schema.names:
        raise SchemaError("there are no columns")
    current = {name: field.field_type for name, field in _find_current(table, schema.names).items()}
    storable = _Storable(keeps_nanoseconds=version >= NANOSECONDS_VERSION)
    return pa.schema(
        [pa.field(field.name, storable.find(field.type, field.name, current.get(field.name))) for field in schema]
    )


def type_nulls(schema: pa.Schema, table: Schema) -> pa.Schema:
    """Give columns of nothing but NULLs, which have no type of their own, those of the table's columns."""
    there = table.as_arrow()
    names = match_columns([field.name for field in schema if pa.types.is_null(field.type)], table)
    return pa.schema(
        there.field(names[field.name]).with_name(field.name) if names.get(field.name) in there.names else field
        for field in schema
    )


def _check_names(names: Sequence[str], noun: str, of: str = "") -> None:
    for name in names:
        if not name:
            raise SchemaError(f"a {noun}{of} has no name")
    if (twins := find_twin(names)) is None:
        return
    earlier, later = twins
    if earlier == later:
        raise SchemaError(f"two {noun}s{of} are named {earlier!r}")
    difference = "only in case" if earlier.lower() == later.lower() else "only in how their letters are written"
    raise SchemaError(
        f"{noun}s {earlier!r} and {later!r}{of} differ {difference}, which Spark cannot tell apart: rename one"
    )


@dataclass(frozen=True)
class _Storable:
    """Finds the types in which a table holds written ones."""

    keeps_nanoseconds: bool

    def find(self, kind: pa.DataType, where: str, current: IcebergType | None) -> pa.DataType:
        """Return the type for a column or a part of one; `current` is the type that it has in the table."""
        nested = self._find_nested(kind, where, current)
        if nested is not None:
            return nested
        if kind == pa.uuid():
            return kind
        if isinstance(kind, pa.BaseExtensionType):
            return self.find(kind.storage_type, where, current)
        if pa.types.is_dictionary(kind):
            return self.find(kind.value_type, where, current)
        for recognise, stored in _STORED_AS:
            if recognise(kind):
                return stored
        if pa.types.is_timestamp(kind):
            return pa.timestamp(self._find_unit(kind, current), tz="UTC" if kind.tz else None)
        if pa.types.is_decimal(kind):
            if kind.precision > 38:
                raise SchemaError(f"column {where!r} has type {kind}; decimals hold at most 38 digits")
            return pa.decimal128(kind.precision, kind.scale)
        if pa.types.is_null(kind):
            raise SchemaError(f"column {where!r} has no type, only nulls: cast it to the type it should have")
        if not (pa.types.is_boolean(kind) or pa.types.is_fixed_size_binary(kind)):
            raise SchemaError(f"column {where!r} has type {kind}, which a table cannot hold")
        return kind

    def _find_unit(self, kind: pa.DataType, current: IcebergType | None) -> str:
        if isinstance(current, TimestampNanoType | TimestamptzNanoType):
            return "ns"
        is_coarse = isinstance(current, TimestampType | TimestamptzType)
        return "ns" if kind.unit == "ns" and self.keeps_nanoseconds and not is_coarse else "us"

    def _find_nested(self, kind: pa.DataType, where: str, current: IcebergType | None) -> pa.DataType | None:
        if pa.types.is_struct(kind):
            _check_names([field.name for field in kind], "field", f" of column {where!r}")
            parts = {part.name: part.field_type for part in current.fields} if isinstance(current, StructType) else {}
            return pa.struct(
                [(field.name, self.find(field.type, f"{where}.{field.name}", parts.get(field.name))) for field in kind]
            )
        if pa.types.is_map(kind):
            key, value = (current.key_type, current.value_type) if isinstance(current, MapType) else (None, None)
            return pa.map_(
                self.find(kind.key_type, f"{where}.key", key), self.find(kind.item_type, f"{where}.value", value)
            )
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        if is_list or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
            element = current.element_type if isinstance(current, ListType) else None
            return pa.large_list(self.find(kind.value_type, f"{where}.element", element))
        return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


_STORED_AS = (
    (lambda kind: pa.types.is_integer(kind) and (kind.bit_width < 32 or kind == pa.int32()), pa.int32()),
    (pa.types.is_integer, pa.int64()),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), pa.float32()),
    (pa.types.is_float64, pa.float64()),
    (_is_text, pa.large_string()),
    (_is_bytes, pa.large_binary()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.time64("us")),
)


def cast_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Bring every batch to one schema. Raises SchemaError over a value that would lose something, and over bad text."""
    holds_text = [_holds_text(field.type) for field in schema]
    for batch in batches:
        columns = [_cast(batch.column(index), field) for index, field in enumerate(schema)]
        for field, column in itertools.compress(zip(schema, columns, strict=True), holds_text):
            _check_text(column, field)
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def fill_left_out(batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    """Give rows of an append the write default of each column that is not written."""
    there = schema.as_arrow()
    for batch in batches:
        for field in schema.fields:
            if field.write_default is not None and field.name not in batch.schema.names:
                value = pa.scalar(field.write_default, there.field(field.name).type)
                batch = batch.append_column(field.name, pa.repeat(value, batch.num_rows))  # noqa: PLW2901 - it grows
        yield batch


def check_required(batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    """Refuse a NULL where the table requires a value: no client could read the file that holds it."""
    required = [field for field in schema.fields if _requires(field)]
    for batch in batches:
        for field in required:
            if field.name in batch.schema.names:
                _check_required(batch.column(field.name), field, field.name)
        yield batch


def _requires(field: NestedField) -> bool:
    parts = field.field_type.fields if isinstance(field.field_type, StructType) else ()
    return field.required or any(map(_requires, parts))


def _check_required(values: pa.Array, field: NestedField, name: str) -> None:
    if field.required and values.null_count:
        message = (
            f"column {name!r} is required in the table and has no value in a row: fill it, or make it optional there"
        )
        raise SchemaError(message)
    if isinstance(field.field_type, StructType):
        present = values.drop_null()
        for part in filter(_requires, field.field_type.fields):
            _check_required(pc.struct_field(present, part.name), part, f"{name}.{part.name}")


def _check_text(column: pa.Array, field: pa.Field) -> None:
    """Refuse a text that is not UTF-8: a Parquet file may hold one, and no client could read it from the table."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"column {field.name!r} has a text that is not UTF-8: {error}") from error


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(index).type) for index in range(kind.num_fields))
    return _is_text(kind)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        lost = re.search(r"from timestamp\[ns.* would lose data: (-?\d+)", str(error))
        if lost is not None:
            value = pa.scalar(int(lost[1]), pa.timestamp("ns")).cast(pa.string()).as_py()
            raise SchemaError(
                f"column {field.name!r} has nanoseconds ({value}), which its type timestamp does not hold: round them to "
                "microseconds, write them as text (for a file, choose the type string), or use timestamp_ns, which tables "
                "of format version 3 have"
            ) from error
        raise SchemaError(f"column {field.name!r} cannot be stored as {field.type}: {error}") from error


def explain_overflow(rows: pa.Table) -> SchemaError:
    """Return the refusal of rows with a date or time that nothing but Arrow can hold, which names the column."""
    for name in rows.column_names:
        try:
            for batch in rows.select([name]).to_batches(max_chunksize=1000):
                batch.to_pylist()
        except OverflowError:
            return SchemaError(f"column {name!r} has a date or time outside the years 1 to 9999")
    return SchemaError("a date or time lies outside the years 1 to 9999")


def wanted_fields(schema: pa.Schema) -> tuple[NestedField, ...]:
    """Return storable Arrow columns as Iceberg fields without ids, all optional."""
    return tuple(_pyarrow_to_schema_without_ids(schema, format_version=NANOSECONDS_VERSION).fields)


# --- the next schema of a branch ------------------------------------------------------------------


def next_schema(metadata: TableMetadata, columns: Sequence[NestedField], *, is_append: bool) -> Schema | None:
    """Return the schema that the branch needs to hold these columns, None where it has it already."""
    ids = itertools.count(metadata.last_column_id + 1)
    current = metadata.schema()
    fields = _appended(current, columns, ids) if is_append else _replaced(metadata, columns, ids)
    identifiers = _kept_identifiers(current, fields)
    schema = Schema(
        *fields, schema_id=1 + max(old.schema_id for old in metadata.schemas), identifier_field_ids=identifiers
    )
    _check_sources(metadata, schema)
    return None if _same_schema(schema, current) else schema


def _kept_identifiers(current: Schema, fields: Sequence[NestedField]) -> list[int]:
    """Return the identifier fields that a schema of these fields still has."""
    return [number for number in _list_required(fields) if number in current.identifier_field_ids]


def _list_required(fields: Sequence[NestedField]) -> Iterator[int]:
    """Yield the ids of fields that always have a value; only such can be identifier fields."""
    for field in fields:
        if field.required:
            yield field.field_id
            yield from _list_required(field.field_type.fields if isinstance(field.field_type, StructType) else ())


def find_equal(metadata: TableMetadata, schema: Schema) -> int | None:
    """Return the id of a schema in the history that is the same."""
    return next((old.schema_id for old in metadata.schemas if _same_schema(old, schema)), None)


def _same_schema(left: Schema, right: Schema) -> bool:
    return left.fields == right.fields and set(left.identifier_field_ids) == set(right.identifier_field_ids)


def _replaced(metadata: TableMetadata, columns: Sequence[NestedField], ids: Iterator[int]) -> list[NestedField]:
    current = _find_current(metadata.schema(), [field.name for field in columns])
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    history = [field for schema in newest_first for field in schema.fields]
    written = {field.name: field.field_type for field in columns}
    same = {name: old for name, old in current.items() if same_type(old.field_type, written[name])}
    taken = {old.field_id for old in same.values()}
    fields: list[NestedField] = []
    for field in columns:
        old = current.get(field.name)
        if field.name in same:
            fields.append(_changed(same[field.name], name=field.name))
            continue
        remembered = next(
            (
                old
                for old in history
                if old.name == field.name and old.field_id not in taken and same_type(old.field_type, field.field_type)
            ),
            None,
        )
        if remembered is not None:
            # written data never promises that a value is there; what a reader relies on is checked by expectations
            fields.append(_changed(remembered, required=False))
        elif old is not None and old.field_id not in taken and can_promote(old.field_type, field.field_type):
            fields.append(_changed(old, name=field.name, field_type=field.field_type))
        else:
            fields.append(_fresh(field, ids))
        taken.add(fields[-1].field_id)
    return fields


def _find_current(schema: Schema, written: Sequence[str]) -> dict[str, NestedField]:
    """Return for each written name the column that the table has now, in whatever spelling."""
    current = {field.name: field for field in schema.fields}
    columns_there: dict[str, NestedField] = {}
    for name in written:
        try:
            there = match_names([name], current)[name]
        except AmbiguousName:
            continue  # every column of the table is replaced, and this one goes on from none of them
        if there in current:
            columns_there[name] = current[there]
    return columns_there


def _appended(current: Schema, columns: Sequence[NestedField], ids: Iterator[int]) -> list[NestedField]:
    names = match_columns([field.name for field in columns], current)
    written = {names[field.name]: field for field in columns}
    fields: list[NestedField] = []
    for old in current.fields:
        field = written.pop(old.name, None)
        if field is None:
            if old.required and old.write_default is None:
                raise SchemaError(f"column {old.name!r} is required and missing in what is appended")
            fields.append(old)
        elif same_type(old.field_type, field.field_type) or can_promote(field.field_type, old.field_type):
            fields.append(old)
        elif can_promote(old.field_type, field.field_type):
            fields.append(_changed(old, field_type=field.field_type))
        else:
            raise SchemaError(
                f"column {old.name!r} is {old.field_type} in the table and {field.field_type} in what is appended; "
                "cast it, or replace the table"
            )
    return fields + [_fresh(field, ids) for field in columns if field.name in written]


def match_columns(names: Sequence[str], schema: Schema) -> dict[str, str]:
    """Return the table's spelling of each written column; raises SchemaError where that could be several."""
    try:
        return match_names(names, [field.name for field in schema.fields])
    except AmbiguousName as error:
        raise SchemaError(str(error)) from None


def name_as_stored(stored: pa.Schema, schema: Schema) -> pa.Schema:
    """Return written columns under the names that the table has for them."""
    names = match_columns(stored.names, schema)
    return pa.schema([field.with_name(names[field.name]) for field in stored])


def _changed(field: NestedField, **changes: Any) -> NestedField:
    """Return a column with its id, comment and defaults, and with other facts."""
    changed: NestedField = field.model_copy(update=changes)
    return changed


def _fresh(field: NestedField, ids: Iterator[int]) -> NestedField:
    field_id = next(ids)
    kind = pre_order_visit(Schema(NestedField(0, "_", field.field_type)), _SetFreshIDs(_after_first(ids)))
    return NestedField(field_id, field.name, kind.fields[0].field_type, required=False, doc=field.doc)


def _after_first(ids: Iterator[int]) -> object:
    """Give nested fields ids from `ids`, but spend none on the wrapper that stands around the type."""
    numbers = itertools.chain((0,), ids)
    return lambda: next(numbers)


def _check_sources(metadata: TableMetadata, schema: Schema) -> None:
    """Refuse a schema without a column that partitions or sorts the table: clients could not load it."""
    current = metadata.schema()
    present = {field.field_id for field in schema.fields}
    for verb, fields in (("partitions", metadata.spec().fields), ("sorts", metadata.sort_order().fields)):
        for part in fields:
            source = current.find_column_name(part.source_id)
            if part.source_id not in present and source is not None and "." not in source:
                raise SchemaError(f"column {source!r} {verb} the table, so it can neither go nor change its type")


def same_type(left: IcebergType, right: IcebergType) -> bool:
    """Compare two types without their ids."""
    if isinstance(left, StructType) and isinstance(right, StructType):
        return [field.name for field in left.fields] == [field.name for field in right.fields] and all(
            same_type(left_field.field_type, right_field.field_type)
            for left_field, right_field in zip(left.fields, right.fields, strict=True)
        )
    if isinstance(left, ListType) and isinstance(right, ListType):
        return same_type(left.element_type, right.element_type)
    if isinstance(left, MapType) and isinstance(right, MapType):
        return same_type(left.key_type, right.key_type) and same_type(left.value_type, right.value_type)
    return bool(left == right)


def can_promote(old: IcebergType, new: IcebergType) -> bool:
    """Return whether Iceberg reads values of type `old` as `new`."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    return (isinstance(old, IntegerType) and isinstance(new, LongType)) or (
        isinstance(old, FloatType) and isinstance(new, DoubleType)
    )
