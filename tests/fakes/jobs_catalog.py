"""One table in memory behind PyIceberg's catalog interface: enough for what writes tables, without a server."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata


class OneTableCatalog(NoopCatalog):
    """Commits are applied to the metadata held here."""

    def __init__(self, folder: Path) -> None:
        super().__init__("memory")
        self.metadata = new_table_metadata(
            Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder.as_uri(), {}, uuid.uuid4()
        )

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        return Table(("nyc", "t"), self.metadata, "memory", PyArrowFileIO(), self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> Any:
        for requirement in requirements:
            requirement.validate(self.metadata)
        self.metadata = update_table_metadata(self.metadata, updates)
        return CommitTableResponse(metadata=self.metadata, metadata_location="memory")
