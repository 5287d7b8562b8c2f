"""Writes and reads an empty table, so that what libraries work out once is there before jobs are forked.

PyIceberg and pydantic keep schemas, readers and dispatch tables from their first use on; every job would make them again.
Only fixed values are used, the files are removed, and no thread is left, since the fork server must be able to fork.
"""

from __future__ import annotations

import tempfile

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.utils.concurrent import ExecutorFactory
from requests import Request

from jobs.engine.read.catalog import open_catalog
from jobs.engine.write.writer import write_table

ENDPOINT = "GET /v1/{prefix}/namespaces"


class _UncheckedCatalog(NoopCatalog):  # type: ignore[misc]
    """Commits whatever it is given."""

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        metadata = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        for message in (*requirements, *updates):
            message.model_dump_json()
        return CommitTableResponse(metadata=metadata, **{"metadata-location": table.metadata_location})


def rehearse() -> None:
    """Write a table twice, read its manifests, and prepare a request."""
    with tempfile.TemporaryDirectory() as folder:
        io = PyArrowFileIO()
        table = _open_table(folder, io)
        columns = pa.schema([("a", pa.int64()), ("b", pa.string())])
        for _ in range(2):
            write_table(table, columns, [], is_append=False, job_id="rehearsal")
        for manifest in table.metadata.snapshots[-1].manifests(io):
            manifest.fetch_manifest_entry(io)
    catalog = open_catalog(uri="http://localhost", token="none", branch="none", endpoints=(ENDPOINT,))  # noqa: S106
    catalog._session.prepare_request(Request("GET", "http://localhost/"))
    executor, ExecutorFactory._instance = ExecutorFactory._instance, None
    if executor is not None:
        executor.shutdown()


def _open_table(folder: str, io: PyArrowFileIO) -> Table:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType()))
    metadata = new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder, {"format-version": "2"}
    )
    place = f"{folder}/0.json"
    answer = f'{{"metadata-location": "{place}", "metadata": {metadata.model_dump_json()}, "config": {{}}}}'
    response = TableResponse.model_validate_json(answer)
    return Table(("shop", "t"), response.metadata, place, io, _UncheckedCatalog("rehearsal"))
