"""The fork server rehearses what every job does, and can still fork."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField
from pyiceberg.utils.concurrent import ExecutorFactory
from requests import Session

from jobs.engine.read import manifest_files
from jobs.entrypoints import light_rehearsal
from jobs.entrypoints.rehearsal import rehearse


def test_rehearse_leaves_no_thread_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExecutorFactory, "_instance", None)
    monkeypatch.setattr(Session, "send", lambda *_, **__: pytest.fail("sent a request"))
    before = set(threading.enumerate())
    rehearse()
    assert set(threading.enumerate()) == before
    assert ExecutorFactory._instance is None


def test_light_rehearsal_reads_schemas_that_tables_have(tmp_path: Path) -> None:
    io, entries, manifests = PyArrowFileIO(), f"{tmp_path}/entries.avro", f"{tmp_path}/list.avro"
    schema = Schema(NestedField(1, "a", LongType()))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{tmp_path}/a.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
    )
    with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, schema, io.new_output(entries), 1, "gzip") as writer:
        writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=file))
    with write_manifest_list(2, io.new_output(manifests), 1, None, 1, "gzip") as lists:
        lists.add_manifests([writer.to_manifest_file()])
    manifest_files._resolve.cache_clear()
    light_rehearsal.rehearse()
    before = manifest_files._resolve.cache_info().misses
    assert len(manifest_files.read_manifest_list(manifests, io)) == 1
    assert list(manifest_files.read_live_entries(entries, io))
    assert manifest_files._resolve.cache_info().misses == before == 2
