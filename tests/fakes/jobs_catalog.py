"""Tables in memory behind PyIceberg's catalog interface: enough for what reads and writes tables, without a server."""

from __future__ import annotations

import uuid
from pathlib import Path

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata


class MemoryCatalog(NoopCatalog):
    """Commits are applied to the metadata held here; a table comes into being, empty, when it is first loaded."""

    def __init__(self, folder: Path) -> None:
        super().__init__("memory")
        self.folder = folder
        self.tables: dict[tuple[str, ...], TableMetadata] = {}
        self.conflicts = 0
        """How many of the next commits are refused as lost races."""

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        name = tuple(identifier.split(".")) if isinstance(identifier, str) else identifier
        if name not in self.tables:
            return self.make_table(identifier, Schema())
        return Table(name, self.tables[name], "memory", PyArrowFileIO(), self)

    def make_table(self, identifier: str | tuple[str, ...], schema: Schema, *, version: int = 2) -> Table:
        """Make a table of a format version."""
        name = tuple(identifier.split(".")) if isinstance(identifier, str) else identifier
        location, properties = self.folder.joinpath(*name).as_uri(), {"format-version": str(version)}
        self.tables[name] = new_table_metadata(
            schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location, properties, uuid.uuid4()
        )
        return self.load_table(name)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        if self.conflicts:
            self.conflicts -= 1
            raise CommitFailedException("somebody was faster")
        metadata = self.tables[table.name()]
        for requirement in requirements:
            requirement.validate(metadata)
        self.tables[table.name()] = update_table_metadata(metadata, updates)
        return CommitTableResponse(metadata=self.tables[table.name()], metadata_location="memory")
