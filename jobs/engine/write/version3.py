"""Commits to tables of format version 3, which PyIceberg 0.12 only reads: rows get their ids with the snapshot.

A file that is added says nothing of row ids. Its manifest gets the next free one in the manifest list, and readers count
on from there. What an older list says of a manifest stays, so no row that is carried over changes its id; a manifest that
is written again says for each of its files what that one inherited.

Without it light transforms could not write such tables at all. To write and list 100,000 rows takes 24 ms (28 by PyIceberg to a
table of version 2); an append by Spark takes 860 ms, and the first one 19 s. It rests on names that PyIceberg keeps for itself:
`tests/unit/test_private_names.py` pins them, and fails when PyIceberg writes version 3 by itself.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
)
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.table.update.snapshot import _FastAppendFiles, _new_manifest_list_file_name, _SnapshotProducer

from jobs.engine.read.listing import entry_schema
from jobs.engine.read.metadata import LIST_FIRST_ROW_ID, LIST_SCHEMA, read_live, read_manifest_list, referenced_file
from jobs.engine.read.row_ids import VERSION
from jobs.engine.write.schemas import SchemaError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec


class _ManifestWriter(ManifestWriterV2):  # type: ignore[misc]
    @property
    def version(self) -> Literal[3]:
        return VERSION


class _RewrittenManifest(_ManifestWriter):
    """What is left of a manifest, of data or of deletes, with the columns of version 3."""

    def __init__(self, *arguments: Any, content: ManifestContent) -> None:
        super().__init__(*arguments)
        self._content = content

    def content(self) -> ManifestContent:
        return self._content

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes" if self._content == ManifestContent.DELETES else "data"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = entry_schema(self._spec.partition_type(self._schema))
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


class _ManifestListWriter(ManifestListWriterV2):  # type: ignore[misc]
    """Gives every manifest of data that has none a first row id, from the table's next one on."""

    _meta: dict[str, str]

    def __init__(self, *arguments: Any, next_row_id: int) -> None:
        super().__init__(*arguments)
        self._meta = {**self._meta, "format-version": str(VERSION), "first-row-id": str(next_row_id)}
        self.next_row_id = next_row_id

    def __enter__(self) -> Self:
        self._writer = AvroOutputFile[ManifestFile](
            output_file=self._output_file,
            record_schema=LIST_SCHEMA,
            file_schema=LIST_SCHEMA,
            schema_name="manifest_file",
            metadata=self._meta,
        )
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        line = copy(manifest_file)
        first_row_id = next(iter(manifest_file._data[LIST_FIRST_ROW_ID:]), None)  # PyIceberg's own lines end before
        if line.content == ManifestContent.DATA and first_row_id is None:
            first_row_id = self.next_row_id
            # files that were there before the table had row ids get theirs now too
            self.next_row_id += _count_rows(line)
        line._data = [*manifest_file._data[:LIST_FIRST_ROW_ID], first_row_id]
        return super().prepare_manifest(line)


def _count_rows(line: ManifestFile) -> int:
    added, existing = line.added_rows_count, line.existing_rows_count
    if added is None or existing is None:
        raise SchemaError(f"{line.manifest_path} does not say how many rows it lists: write this output with Spark")
    return int(added + existing)


class Version3(_SnapshotProducer[Any]):  # type: ignore[misc]
    """What a commit to such a table does otherwise than PyIceberg's."""

    def new_manifest_writer(self, spec: PartitionSpec) -> _ManifestWriter:
        return _ManifestWriter(spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)

    def _listed(self) -> list[ManifestFile]:
        """List the manifests at the branch's head that still list something."""
        parent = self._transaction.table_metadata.snapshot_by_name(self._target_branch)
        lines = [] if parent is None else read_manifest_list(self._io, parent.manifest_list)
        return [line for line in lines if line.has_added_files() or line.has_existing_files()]

    def _commit(self) -> Any:
        metadata = self._transaction.table_metadata
        next_row_id = metadata.next_row_id or 0
        manifests = self._manifests()
        name = _new_manifest_list_file_name(self._snapshot_id, attempt=0, commit_uuid=self.commit_uuid)
        location = self._transaction._table.location_provider().new_metadata_location(name)
        self._written_manifest_lists.append(location)
        with _ManifestListWriter(
            self._io.new_output(location),
            self._snapshot_id,
            self._parent_snapshot_id,
            metadata.next_sequence_number(),
            self._compression,
            next_row_id=next_row_id,
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = Snapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=self._parent_snapshot_id,
            manifest_list=location,
            sequence_number=metadata.next_sequence_number(),
            summary=self._summary(self.snapshot_properties),
            schema_id=metadata.current_schema_id,
            first_row_id=next_row_id,
            added_rows=writer.next_row_id - next_row_id,
        )
        branch = self._target_branch
        head = metadata.refs.get(branch)
        moved = SetSnapshotRefUpdate(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=self._parent_snapshot_id,
            ref_name=branch,
            type=SnapshotRefType.BRANCH,
        )
        expected = AssertRefSnapshotId(ref=branch, snapshot_id=None if head is None else head.snapshot_id)
        return (AddSnapshotUpdate(snapshot=snapshot), moved), (expected,)


class Append(Version3, _FastAppendFiles):  # type: ignore[misc]
    """An append that carries every manifest over as it is."""

    def _existing_manifests(self) -> list[ManifestFile]:
        return self._listed()


class Replace(Version3, _SnapshotProducer[Any]):  # type: ignore[misc]
    """Takes data files out, with the deletion vectors about them; a manifest that lists none of them stays."""

    gone: frozenset[str] = frozenset()
    """Where the files are that go."""

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []  # they stand in the manifests that are written again

    def _existing_manifests(self) -> list[ManifestFile]:
        # a list: a set of PyIceberg's takes all vectors of one Puffin file for the same
        taken: list[DataFile] = []
        lines = [self._without_gone(line, taken) for line in self._listed()]
        self._deleted_data_files = taken
        if missing := self.gone - {file.file_path for file in taken}:
            raise ValidationException(f"Missing required files to delete: {', '.join(sorted(missing))}")
        return lines

    def _without_gone(self, line: ManifestFile, taken: list[DataFile]) -> ManifestFile:
        holds_deletes = line.content == ManifestContent.DELETES
        entries = read_live(self._io, line)
        subjects = [referenced_file(e.data_file) if holds_deletes else e.data_file.file_path for e in entries]
        if self.gone.isdisjoint(subjects):
            return line
        with _RewrittenManifest(
            self.spec(line.partition_spec_id),
            self.schema(),
            self.new_manifest_output(),
            self._snapshot_id,
            self._compression,
            content=line.content,
        ) as writer:
            for entry, subject in zip(entries, subjects, strict=True):
                entry.status = ManifestEntryStatus.EXISTING
                if subject in self.gone:
                    entry.status, entry.snapshot_id = ManifestEntryStatus.DELETED, self._snapshot_id
                    taken.append(entry.data_file)
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _build_delete_files_partition_predicate(self) -> None:
        """Prune nothing: the files are known by their paths."""

    def _validate_concurrency(self) -> None:
        """Check nothing: only this job writes its staging branch; what goes is looked up again at every attempt."""
