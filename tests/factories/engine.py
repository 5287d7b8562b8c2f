"""Iceberg tables in a folder, for tests of the diff engine: no catalog service, and delete files made by hand."""

from __future__ import annotations

import binascii
import json
import struct
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import _dataframe_to_data_files, parquet_files_to_data_files, schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, StaticTable, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import Record
from pyroaring import BitMap

from jobs.engine.compare.diff import run_diff
from jobs.engine.read.listing import entry_schema
from jobs.engine.write.writer import FileReplacement
from jobs.protocol import DiffRequest, SideRef
from tests.factories.forks import in_child

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema

_POSITION_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class FolderCatalog(NoopCatalog):
    """Keeps the current metadata file of each table in memory."""

    def __init__(self, root: Path) -> None:
        super().__init__("folder")
        self.root = root
        self.current: dict[str, str] = {}
        self.io: dict[str, dict[str, str]] = {}

    def create_table(  # type: ignore[override]
        self,
        identifier: str,
        schema: Schema | pa.Schema,
        *,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        version = int((properties or {}).get("format-version", "2"))
        metadata = new_table_metadata(
            location=location or f"file://{self.root}/{identifier}",
            schema=self._convert_schema_if_needed(schema, version),  # type: ignore[arg-type]
            partition_spec=partition_spec,
            sort_order=UNSORTED_SORT_ORDER,
            properties=dict(properties or {}),
        )
        return self._store(identifier, metadata)

    def _store(self, identifier: str, metadata: Any) -> Table:
        location = f"{metadata.location}/metadata/{uuid.uuid4()}.metadata.json"
        io = load_file_io(dict(metadata.properties), location)
        ToOutputFile.table_metadata(metadata, io.new_output(location))
        self.io[identifier] = dict(metadata.properties)
        self.current[identifier] = location
        return self.load_table(identifier)

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        location = self.current[name]
        io = load_file_io(self.io[name], location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table(tuple(name.split(".")), metadata, location, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        name = ".".join(table.name())
        current = self.load_table(name)
        for requirement in requirements:
            requirement.validate(current.metadata)
        stored = self._store(name, update_table_metadata(current.metadata, updates))
        return CommitTableResponse(metadata=stored.metadata, metadata_location=stored.metadata_location)


def make_table(root: Path, schema: Schema | pa.Schema, name: str = "n.t", **options: Any) -> Table:
    """An empty table of its own."""
    return FolderCatalog(root).create_table(name, schema, **options)


def arrow_rows(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as Arrow in the table's current schema."""
    return pa.Table.from_pylist(list(rows), schema=schema_to_pyarrow(table.schema(), include_field_ids=False))


def snapshot_of(table: Table) -> int | None:
    current = table.current_snapshot()
    return current.snapshot_id if current is not None else None


def side(table: Table, snapshot_id: int | None, schema_id: int | None = None) -> SideRef:
    return SideRef(table.metadata_location, snapshot_id, schema_id)


def diff(folder: Path, before: SideRef | None, after: SideRef | None, **options: Any) -> dict[str, Any]:
    """Run the engine, embedded unless `reduce` asks Spark; returns the summary with the stored rows under `rows`."""
    target = folder / uuid.uuid4().hex
    target.mkdir(parents=True)
    key, reduce = options.pop("key", None), options.pop("reduce", None)
    request = DiffRequest(
        before, after, str(target), str(target / "result.json"), key=tuple(key) if key else None, **options
    )
    summary = run_diff(request, reduce=reduce)
    return {**summary, "folder": target, "rows": pq.read_table(target / "rows.parquet").to_pylist()}


# --- delete files by hand -------------------------------------------------------------------------


class _DeleteManifestWriter(ManifestWriterV2):
    """A manifest of delete files, which PyIceberg itself never writes, with the fields of version 3."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = entry_schema(self._spec.partition_type(self._schema))
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def data_files(table: Table, snapshot_id: int | None = None) -> list[DataFile]:
    """The live data files of a snapshot."""
    snapshot = table.snapshot_by_id(snapshot_id) if snapshot_id is not None else table.current_snapshot()
    assert snapshot is not None
    manifests = [m for m in snapshot.manifests(table.io) if m.content == ManifestContent.DATA]
    return [entry.data_file for m in manifests for entry in m.fetch_manifest_entry(table.io)]


def delete_positions(table: Table, positions: Mapping[str, Iterable[int]]) -> Table:
    """Commit one position delete file for rows of several data files."""
    return _commit_deletes(table, [position_deletes(table, positions)])


def delete_equal(table: Table, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Commit one equality delete file."""
    return _commit_deletes(table, [equality_deletes(table, columns, rows)])


def delete_vectors(table: Table, positions: Mapping[str, Iterable[int]]) -> Table:
    """Commit deletion vectors of version 3; each replaces what was there for its file."""
    return _commit_deletes(table, vectors(table, positions))


def vectors(table: Table, positions: Mapping[str, Iterable[int]]) -> list[DataFile]:
    """Deletion vectors of version 3, one Puffin file for all."""
    blobs = {path: vector_blob(_split(positions[path])) for path in sorted(positions)}
    return write_vectors(table, blobs, {path: len(set(positions[path])) for path in positions})


def write_vectors(table: Table, blobs: Mapping[str, bytes], records: Mapping[str, int]) -> list[DataFile]:
    """The same, of vectors as they are stored, and of the numbers of rows that a manifest says they name."""
    location = f"{table.metadata.location}/data/{uuid.uuid4()}.puffin"
    content, offsets = b"PFA1", {}
    for path, blob in blobs.items():
        offsets[path] = len(content)
        content += blob
    footer = json.dumps({"blobs": [], "properties": {}}).encode()
    content += b"PFA1" + footer + struct.pack("<I", len(footer)) + b"\0\0\0\0PFA1"
    Path(location.removeprefix("file://")).write_bytes(content)
    return [
        _delete_file(
            location,
            DataFileContent.POSITION_DELETES,
            records[path],
            puffin={"referenced": path, "offset": offsets[path], "length": len(blob)},
        )
        for path, blob in blobs.items()
    ]


def _split(positions: Iterable[int]) -> dict[int, BitMap]:
    by_high: dict[int, BitMap] = {}
    for position in positions:
        by_high.setdefault(position >> 32, BitMap()).add(position & 0xFFFFFFFF)
    return by_high


def vector_blob(bitmaps: Mapping[int, BitMap]) -> bytes:
    """A deletion vector as it is stored, of a bitmap for each upper half of its positions."""
    body = b"\xd1\xd3\x39\x64" + struct.pack("<q", len(bitmaps))
    for high, bitmap in sorted(bitmaps.items()):
        body += struct.pack("<I", high) + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", binascii.crc32(body))


def _write_parquet(table: Table, content: pa.Table) -> str:
    location = f"{table.metadata.location}/data/{uuid.uuid4()}-deletes.parquet"
    Path(location.removeprefix("file://")).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, location.removeprefix("file://"))
    return location


def _delete_file(
    path: str,
    content: DataFileContent,
    records: int,
    *,
    equality_ids: list[int] | None = None,
    puffin: Mapping[str, Any] | None = None,
) -> DataFile:
    vector = puffin or {}
    file = DataFile.from_args(
        _table_format_version=3,
        content=content,
        file_path=path,
        file_format=FileFormat.PUFFIN if puffin is not None else FileFormat.PARQUET,
        partition=Record(),
        record_count=records,
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        equality_ids=equality_ids,
        referenced_data_file=vector.get("referenced"),
        content_offset=vector.get("offset"),
        content_size_in_bytes=vector.get("length"),
    )
    file.spec_id = 0
    return file


# --- commits by hand ------------------------------------------------------------------------------


def write_files(table: Table, content: pa.Table, writer: str = "pyiceberg") -> list[DataFile]:
    """Data files with these rows, as one of several programs writes them; only PyIceberg's have field ids.

    The others need the table's property `schema.name-mapping.default`.
    """
    if writer == "pyiceberg":
        return list(_dataframe_to_data_files(table.metadata, content, table.io))
    location = f"{table.metadata.location}/data/{uuid.uuid4()}-{writer}.parquet"
    path = Path(location.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    if writer == "duckdb":
        with duckdb.connect(config={"threads": "1"}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("content", content)
            connection.execute(f"COPY content TO '{path}' (FORMAT parquet)")
    elif writer == "polars":
        in_child(lambda: pl.from_arrow(content).write_parquet(path))
    else:
        pq.write_table(content, path, version="1.0", use_dictionary=False, data_page_version="2.0")
    return list(parquet_files_to_data_files(table.io, table.metadata, iter([location])))


def replace(table: Table, gone: Iterable[DataFile], come: Iterable[DataFile]) -> Table:
    """Commit other data files in the place of some, as one snapshot."""
    transaction = table.transaction()
    producer = FileReplacement(operation=Operation.OVERWRITE, transaction=transaction, io=table.io)
    for file in gone:
        producer.delete_data_file(file)
    for file in come:
        producer.append_data_file(file)
    producer.commit()
    transaction.commit_transaction()
    return table


def change_rows(table: Table, deletes: Sequence[DataFile], come: Sequence[DataFile]) -> Table:
    """Commit delete files and data files as one snapshot, as merge-on-read does."""
    return _commit_deletes(table, deletes, come)


def position_deletes(table: Table, positions: Mapping[str, Iterable[int]]) -> DataFile:
    """One position delete file for rows of several data files."""
    rows = [{"file_path": path, "pos": pos} for path in sorted(positions) for pos in sorted(positions[path])]
    path = _write_parquet(table, pa.Table.from_pylist(rows, schema=_POSITION_SCHEMA))
    return _delete_file(path, DataFileContent.POSITION_DELETES, len(rows))


def equality_deletes(table: Table, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> DataFile:
    """One equality delete file."""
    wanted = schema_to_pyarrow(table.schema().select(*columns), include_field_ids=True)
    content = pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema=wanted)
    path = _write_parquet(table, content)
    ids = [table.schema().find_field(name).field_id for name in columns]
    return _delete_file(path, DataFileContent.EQUALITY_DELETES, len(rows), equality_ids=ids)


def as_version_3(table: Table) -> Table:
    """The same table as one of format version 3, which PyIceberg reads and does not write."""
    raw = json.loads(Path(table.metadata_location.removeprefix("file://")).read_bytes())
    raw |= {"format-version": 3, "next-row-id": 0}
    target = f"{table.metadata.location}/metadata/{uuid.uuid4()}.metadata.json"
    Path(target.removeprefix("file://")).write_text(json.dumps(raw), encoding="utf-8")
    return StaticTable.from_metadata(target)


def _commit_deletes(table: Table, files: Sequence[DataFile], come: Sequence[DataFile] = ()) -> Table:
    """Add a snapshot with one more delete manifest, straight into the metadata JSON."""
    location = table.metadata_location
    raw = json.loads(Path(location.removeprefix("file://")).read_bytes())
    snapshot_id = uuid.uuid4().int >> 66
    sequence = raw["last-sequence-number"] + 1
    added = [_write_delete_manifest(table, files, snapshot_id)] if files else []
    if come:
        added.append(_write_data_manifest(table, come, snapshot_id))
    current = table.current_snapshot()
    assert current is not None
    inherited = current.manifests(table.io)
    list_location = f"{table.metadata.location}/metadata/snap-{snapshot_id}.avro"
    with write_manifest_list(
        format_version=2,
        output_file=table.io.new_output(list_location),
        snapshot_id=snapshot_id,
        parent_snapshot_id=current.snapshot_id,
        sequence_number=sequence,
        avro_compression="deflate",
    ) as target:
        target.add_manifests([*inherited, *added])
    raw["last-sequence-number"] = sequence
    raw["current-snapshot-id"] = snapshot_id
    raw["snapshots"].append(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": current.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": current.timestamp_ms + 1,
            "manifest-list": list_location,
            "summary": {"operation": "overwrite" if come else "delete"},
            "schema-id": table.metadata.current_schema_id,
        }
    )
    raw.setdefault("refs", {})["main"] = {"snapshot-id": snapshot_id, "type": "branch"}
    target_path = f"{table.metadata.location}/metadata/{uuid.uuid4()}.metadata.json"
    Path(target_path.removeprefix("file://")).write_text(json.dumps(raw), encoding="utf-8")
    catalog = table.catalog
    assert isinstance(catalog, FolderCatalog)
    name = ".".join(table.name())
    catalog.current[name] = target_path
    return catalog.load_table(name)


def _write_delete_manifest(table: Table, files: Sequence[DataFile], snapshot_id: int) -> ManifestFile:
    location = f"{table.metadata.location}/metadata/{uuid.uuid4()}-deletes.avro"
    output = table.io.new_output(location)
    with _DeleteManifestWriter(table.spec(), table.schema(), output, snapshot_id, "deflate") as writer:
        for file in files:
            writer.add(
                ManifestEntry.from_args(
                    _table_format_version=3,
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
            )
    return writer.to_manifest_file()


def _write_data_manifest(table: Table, files: Sequence[DataFile], snapshot_id: int) -> ManifestFile:
    output = table.io.new_output(f"{table.metadata.location}/metadata/{uuid.uuid4()}-data.avro")
    with ManifestWriterV2(table.spec(), table.schema(), output, snapshot_id, "deflate") as writer:
        for file in files:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            writer.add(entry)
    return writer.to_manifest_file()
