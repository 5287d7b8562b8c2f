"""The ids that rows have in tables of format version 3, where files hold them, and what they leave to be inherited.

A row's id and the commit that last changed it stand in two reserved columns of its file. Where these are missing or NULL,
the row inherits them: the first row id of its file and its position there, and the file's sequence number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from jobs.engine.read.fields import Field, Primitive

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

VERSION: Literal[3] = 3
"""The first format version whose rows have ids."""
ROW_ID = Field(2147483540, "_row_id", Primitive("long"))
LAST_UPDATED = Field(2147483539, "_last_updated_sequence_number", Primitive("long"))
COLUMNS = (ROW_ID, LAST_UPDATED)
ARROW_COLUMNS = tuple(pa.field(column.name, pa.int64()) for column in COLUMNS)


def has_row_ids(table: Table) -> bool:
    """Return whether rows that move to another file must take their ids with them."""
    return bool(table.metadata.format_version >= VERSION)


def with_row_ids(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata with the reserved columns in its current schema, to write files by.

    They have no statistics: these would say nothing of the rows that inherit.
    """
    current = metadata.schema()
    reserved = [NestedField(column.id, column.name, LongType(), required=False) for column in COLUMNS]
    wider = Schema(
        *current.fields, *reserved, schema_id=current.schema_id, identifier_field_ids=current.identifier_field_ids
    )
    silent = {f"write.metadata.metrics.column.{column.name}": "none" for column in COLUMNS}
    schemas = [wider if schema.schema_id == current.schema_id else schema for schema in metadata.schemas]
    return metadata.model_copy(update={"schemas": schemas, "properties": {**metadata.properties, **silent}})
