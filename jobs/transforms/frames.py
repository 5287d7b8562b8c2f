"""pandas frames of Arrow tables and back, without losing values or types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pandas as pd
    from pyiceberg.schema import Schema


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a frame with NumPy's types, except where these would lose something.

    Integers with a NULL become nullable integers, and numbers with a NaN nullable floats, in which NULL is another value.
    Decimals and UUIDs keep their Arrow type, from which NumPy has only objects.
    """
    if not table.num_columns:
        return table.to_pandas()
    import pandas as pd

    columns = {name: _to_series(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    return pd.DataFrame(columns, copy=False)


def _to_series(column: pa.ChunkedArray) -> pd.Series:
    import pandas as pd

    kind = column.type
    nullable = {
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
    }
    is_exact = not (
        (pa.types.is_integer(kind) and column.null_count)
        or (pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py())
    )
    if pa.types.is_decimal(kind) or kind == pa.uuid():
        return pd.Series(pd.arrays.ArrowExtensionArray(column), copy=False)
    # NULLs inside lists have no type of their own
    return column.to_pandas(types_mapper=None if is_exact else nullable.get, integer_object_nulls=True)


def from_pandas(frame: pd.DataFrame, schema: Schema | None = None) -> pa.Table:
    """Return the rows of a frame without its index.

    pandas does not know all types: of objects it tells the type by their values. A column gets the type that it has in
    `schema`, that of the table that is written, if this changes no value.
    """
    data = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    there = {} if schema is None else {field.name: field.type for field in schema.as_arrow()}
    for place, (name, column) in enumerate(zip(data.column_names, data.columns, strict=True)):
        if name in there and frame.dtypes.iloc[place].kind in "Of":
            data = data.set_column(place, name, _as_stored(column, there[name]))
    return data


def _as_stored(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), target)])
    if column.type == target or not _may_be(column, target):
        return column
    try:
        stored = column.cast(target)
        is_same = stored.cast(column.type).equals(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column
    return stored if is_same else column


def _may_be(column: pa.ChunkedArray, target: pa.DataType) -> bool:
    """Return whether pandas may have made one type of another."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pa.types.is_integer(target) and column.null_count)
    if pa.types.is_decimal(target):
        return bool(pa.types.is_decimal(kind) or pa.types.is_integer(kind))
    if pa.types.is_binary(kind):
        return bool(pa.types.is_fixed_size_binary(target) or target == pa.uuid())
    return bool(pa.types.is_nested(kind) and pa.types.is_nested(target))
