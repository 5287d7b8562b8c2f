"""Writing tables with PyIceberg: evolve the branch's schema, then one snapshot, in bounded memory."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
)
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles, _SnapshotProducer
from pyiceberg.types import NestedField

from jobs import exact_times, nulls
from jobs.engine.read.metadata import find_head
from jobs.engine.read.row_ids import has_row_ids, with_row_ids
from jobs.engine.write import version3
from jobs.engine.write.schemas import (
    cast_batches,
    check_required,
    explain_overflow,
    fill_left_out,
    find_equal,
    name_as_stored,
    next_schema,
    storable_schema,
    type_nulls,
    wanted_fields,
)

exact_times.install()
nulls.install()
BATCH_ROWS = 65_536
CHUNK_BYTES = 128 * 1024 * 1024
"""Arrow bytes held before a data file is written."""
_SCHEMA_PATIENCE_S = 120.0
"""Seconds for which a schema change that lost a race is repeated."""


@dataclass(frozen=True)
class Written:
    """One write: what it added, and the snapshot it made."""

    rows: int
    files: int
    bytes: int
    snapshot_id: int


class _ReplaceAll(_SnapshotProducer["_ReplaceAll"]):  # type: ignore[misc]
    """An overwrite that removes everything: PyIceberg's own makes two snapshots of it and keeps delete files."""

    def _live_entries(self) -> list[ManifestEntry]:
        snapshot = find_head(self._transaction.table_metadata)
        if snapshot is None:
            return []
        manifests = snapshot.manifests(self._io)
        return [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(self._io)]

    def _deleted_entries(self) -> list[ManifestEntry]:
        live = self._live_entries()
        self._deleted_data_files = {entry.data_file for entry in live}
        return [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.DELETED,
                snapshot_id=self._snapshot_id,
                sequence_number=entry.sequence_number,
                file_sequence_number=entry.file_sequence_number,
                data_file=entry.data_file,
            )
            for entry in live
            if entry.data_file.content == DataFileContent.DATA
        ]

    def _existing_manifests(self) -> list[ManifestFile]:
        return []

    def _build_delete_files_partition_predicate(self) -> None:
        """Prune nothing: everything goes."""

    def _validate_concurrency(self) -> None:
        """Check nothing: only this job writes its staging branch; what it replaces is read again at every attempt."""


class _ReplaceAllOfVersion3(version3.Version3, _ReplaceAll):
    """The same in a table whose rows have ids."""


def write_table(
    table: Table, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, is_append: bool, job_id: str = ""
) -> Written:
    """Write rows as one snapshot, after the branch's schema has what they need."""
    current = table.schema()
    written = type_nulls(schema, current) if is_append else schema
    stored = storable_schema(written, current, version=table.metadata.format_version)
    evolve_schema(table, wanted_fields(stored), is_append=is_append)
    named = name_as_stored(stored, table.schema())
    rows = fill_left_out(cast_batches(iter(batches), named), table.schema())
    files = _write_files(table, check_required(rows, table.schema()))
    return _written(files, _commit_files(table, files, is_append=is_append, job_id=job_id))


def replace_files(
    table: Table, paths: frozenset[str], batches: Iterable[pa.RecordBatch], *, job_id: str = ""
) -> Written:
    """Put rows in the place of some data files, as one snapshot; the branch's schema is that of the rows.

    Where rows have ids, those that come for others have the columns of `row_ids` besides.
    """
    if not paths:
        files = _write_files(table, iter(batches))
        return _written(files, _commit_files(table, files, is_append=True, job_id=job_id))
    transaction = table.transaction()
    producer: _SnapshotProducer[Any]
    if has_row_ids(table):
        files = _write_files(table, iter(batches), metadata=with_row_ids(table.metadata))
        producer = version3.Replace(
            operation=Operation.OVERWRITE,
            transaction=transaction,
            io=table.io,
            snapshot_properties=_properties(job_id),
        )
        producer.gone = paths
    else:
        files = _write_files(table, iter(batches))
        producer = FileReplacement(
            operation=Operation.OVERWRITE,
            transaction=transaction,
            io=table.io,
            snapshot_properties=_properties(job_id),
        )
        for gone in _list_files(table, paths):
            producer.delete_data_file(gone)
    for file in files:
        producer.append_data_file(file)
    producer.commit()
    transaction.commit_transaction()
    return _written(files, int(producer.snapshot_id))


class FileReplacement(_OverwriteFiles):  # type: ignore[misc]
    """PyIceberg's overwrite of some files, whose threads do not look at one another's manifests.

    Its evaluator keeps the manifest that it looks at, and all threads share one of a spec: with several manifests of a
    partitioned table it now and then says of one what holds for another, and the files there count as missing. It is like
    https://github.com/apache/iceberg-python/pull/115.
    """

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        of_thread = threading.local()  # one for each manifest would bind all partitions anew

        def evaluate(manifest: ManifestFile) -> bool:
            if not hasattr(of_thread, "evaluate"):
                of_thread.evaluate = super(FileReplacement, self)._build_manifest_evaluator(spec_id)
            return bool(of_thread.evaluate(manifest))

        return evaluate


def _list_files(table: Table, paths: frozenset[str]) -> list[DataFile]:
    snapshot = find_head(table.metadata)
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    return [
        entry.data_file
        for entry in entries
        if entry.data_file.content == DataFileContent.DATA and entry.data_file.file_path in paths
    ]


def _write_files(
    table: Table, batches: Iterator[pa.RecordBatch], *, metadata: TableMetadata | None = None
) -> list[DataFile]:
    files: list[DataFile] = []
    write_uuid, counter = uuid.uuid4(), count()
    for chunk in _chunks(batches):
        try:
            files.extend(_dataframe_to_data_files(metadata or table.metadata, chunk, table.io, write_uuid, counter))
        except OverflowError:
            raise explain_overflow(chunk) from None
    return files


def _written(files: Sequence[DataFile], snapshot_id: int) -> Written:
    return Written(
        rows=sum(file.record_count for file in files),
        files=len(files),
        bytes=sum(file.file_size_in_bytes for file in files),
        snapshot_id=snapshot_id,
    )


def evolve_schema(table: Table, columns: Sequence[NestedField], *, is_append: bool) -> bool:
    """Give the branch the schema that these columns need; return whether anything changed.

    A commit of its own, repeated from fresh metadata: clients resend the same ids after a conflict, and another branch
    may have taken them meanwhile.
    """
    deadline = time.monotonic() + _SCHEMA_PATIENCE_S
    for attempt in count():
        schema = next_schema(table.metadata, columns, is_append=is_append)
        if schema is None:
            return False
        schema_id = find_equal(table.metadata, schema)
        transaction = table.transaction()
        requirements = (
            AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=table.metadata.last_column_id),
        )
        if schema_id is None:
            updates = (AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=-1))
            transaction._stage(updates, requirements)
        else:
            transaction._stage((SetCurrentSchemaUpdate(schema_id=schema_id),), requirements[:1])
        try:
            transaction.commit_transaction()
        except CommitFailedException:
            if time.monotonic() > deadline:
                raise
            time.sleep(min(0.05 * 2 ** min(attempt, 5), 1) * random.uniform(0.5, 1))  # noqa: S311 - jitter
            table.refresh()
        else:
            return True
    raise AssertionError  # `count` never ends


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        for piece in _pieces(batch):
            held.append(piece)
            size += piece.nbytes
            if size >= CHUNK_BYTES:
                yield pa.Table.from_batches(held)
                held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch that alone is larger than a chunk."""
    parts = max(1, -(-batch.nbytes // CHUNK_BYTES))
    step = -(-batch.num_rows // parts)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _properties(job_id: str) -> dict[str, str]:
    return {"tributary.job": job_id} if job_id else {}


def _commit_files(table: Table, files: Sequence[DataFile], *, is_append: bool, job_id: str) -> int:
    transaction = table.transaction()
    is_version_3 = has_row_ids(table)
    kinds = (version3.Append, _ReplaceAllOfVersion3) if is_version_3 else (_FastAppendFiles, _ReplaceAll)
    producer = kinds[0 if is_append else 1](
        operation=Operation.APPEND if is_append or find_head(table.metadata) is None else Operation.OVERWRITE,
        transaction=transaction,
        io=table.io,
        snapshot_properties=_properties(job_id),
    )
    for file in files:
        producer.append_data_file(file)
    producer.commit()
    transaction.commit_transaction()
    return int(producer.snapshot_id)
