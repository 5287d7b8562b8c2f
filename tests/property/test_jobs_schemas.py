"""Laws of the schemas that writing gives to a branch, over random histories."""

from __future__ import annotations

import uuid

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, update_table_metadata

from jobs.engine.write.schemas import (
    SchemaError,
    find_equal,
    next_schema,
    same_type,
    storable_schema,
    wanted_fields,
)

SIMPLE = st.sampled_from(
    [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.decimal128(9, 2)]
)
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.dictionaries(st.sampled_from("xyz"), inner, min_size=1).map(lambda parts: pa.struct(list(parts.items()))),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=4,
)
SCHEMAS = st.dictionaries(st.sampled_from("abcdef"), TYPES, min_size=1, max_size=5).map(
    lambda columns: storable_schema(pa.schema(list(columns.items())))
)
HISTORIES = st.lists(SCHEMAS, min_size=1, max_size=6)


def empty() -> TableMetadata:
    return new_table_metadata(
        Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///t", {}, uuid.uuid4()
    )


def write(metadata: TableMetadata, schema: pa.Schema, *, is_append: bool = False) -> TableMetadata:
    """Evolve as the writer does."""
    wanted = next_schema(metadata, wanted_fields(schema), is_append=is_append)
    if wanted is None:
        return metadata
    known = find_equal(metadata, wanted)
    updates = (
        (AddSchemaUpdate(schema=wanted), SetCurrentSchemaUpdate(schema_id=-1))
        if known is None
        else (SetCurrentSchemaUpdate(schema_id=known),)
    )
    return update_table_metadata(metadata, updates)


def ids_of(schema: Schema) -> list[int]:
    return list(schema._lazy_id_to_field)  # noqa: SLF001 - nested fields included


@given(HISTORIES)
def test_replace_gives_exactly_the_written_columns(history: list[pa.Schema]) -> None:
    metadata = empty()
    for schema in history:
        metadata = write(metadata, schema)
        current = metadata.schema()
        wanted = wanted_fields(schema)
        assert [field.name for field in current.fields] == [field.name for field in wanted]
        assert all(same_type(one.field_type, two.field_type) for one, two in zip(current.fields, wanted, strict=True))
        assert not any(field.required for field in current.fields)


@given(HISTORIES)
def test_ids_are_unique_and_counted(history: list[pa.Schema]) -> None:
    metadata = empty()
    for schema in history:
        metadata = write(metadata, schema)
        found = ids_of(metadata.schema())
        assert len(found) == len(set(found))
        assert max(found) <= metadata.last_column_id


@given(HISTORIES)
def test_an_id_never_means_another_column(history: list[pa.Schema]) -> None:
    metadata = empty()
    for schema in history:
        metadata = write(metadata, schema)
    names: dict[int, str] = {}
    for schema in metadata.schemas:
        for field in schema.fields:
            assert names.setdefault(field.field_id, field.name) == field.name


@given(HISTORIES, st.data())
def test_a_column_gets_its_id_back(history: list[pa.Schema], data: st.DataObject) -> None:
    """What was tried on a branch keeps its ids when it is built again elsewhere."""
    metadata = empty()
    for schema in history:
        metadata = write(metadata, schema)
    again = data.draw(st.sampled_from(history))
    evolved = write(metadata, again)
    known = {field.field_id for schema in metadata.schemas for field in schema.fields}
    assert {field.field_id for field in evolved.schema().fields} <= known
    assert evolved.last_column_id == metadata.last_column_id


@given(HISTORIES)
def test_writing_the_same_again_changes_nothing(history: list[pa.Schema]) -> None:
    metadata = empty()
    for schema in history:
        metadata = write(metadata, schema)
        assert write(metadata, schema) is metadata


@given(HISTORIES)
def test_append_keeps_every_column_or_says_why_not(history: list[pa.Schema]) -> None:
    metadata = empty()
    for schema in history:
        before = metadata.schema()
        try:
            metadata = write(metadata, schema, is_append=True)
        except SchemaError as error:
            assert "column" in str(error)
            continue
        after = metadata.schema()
        assert [(field.field_id, field.name) for field in after.fields[: len(before.fields)]] == [
            (field.field_id, field.name) for field in before.fields
        ]
        assert {field.name for field in after.fields} == {field.name for field in before.fields} | set(schema.names)
