"""Manifests that say more than they hold: refused by their size, before and after decompression, and by their shape."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from jobs.engine.read import manifest_files
from jobs.engine.read.manifest_files import DamagedManifest, UnreadableManifest, read_live_entries, read_manifest_list
from tests.factories.forks import BOMB_S
from tests.factories.manifests import data_entry, write_manifest, write_manifest_list

MANY = 2**40


@pytest.fixture
def written(tmp_path: Path) -> tuple[str, str]:
    """A manifest list and its only manifest, with one entry."""
    listed, manifest = (tmp_path / "list.avro").as_uri(), (tmp_path / "manifest.avro").as_uri()
    made = write_manifest(manifest, [data_entry("a")], snapshot_id=1, sequence=1)
    write_manifest_list(listed, [made])
    return listed, manifest


def number(value: int) -> bytes:
    """A long in Avro."""
    rest, raw = value << 1, b""
    while rest > 127:
        raw, rest = raw + bytes([rest & 127 | 128]), rest >> 7
    return raw + bytes([rest])


def avro(schema: Any, *blocks: tuple[int, bytes], codec: str = "deflate") -> bytes:
    """A file of these blocks, each with the count that it claims."""
    sync = bytes(16)
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    pairs = b"".join(number(len(name)) + name.encode() + number(len(text)) + text for name, text in meta.items())
    body = b"".join(number(count) + number(len(raw)) + raw + sync for count, raw in blocks)
    return b"Obj\x01" + number(len(meta)) + pairs + number(0) + sync + body


def deflated(size: int) -> bytes:
    press = zlib.compressobj(9, wbits=-15)
    return b"".join([*(press.compress(bytes(2**20)) for _ in range(size // 2**20)), press.flush()])


def test_what_was_written_is_read(written: tuple[str, str]) -> None:
    listed, manifest = written
    assert [item.manifest_path for item in read_manifest_list(listed, PyArrowFileIO())] == [manifest]
    assert [item.data_file.file_path for item in read_live_entries(manifest, PyArrowFileIO())] == ["a"]


@pytest.mark.parametrize("limit", ["LARGEST_FILE", "LARGEST_BLOCK", "MOST_ENTRIES"])
def test_more_than_the_limits_is_refused(written: tuple[str, str], monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(manifest_files, limit, 0 if limit == "MOST_ENTRIES" else 10)
    with pytest.raises(UnreadableManifest):
        read_manifest_list(written[0], PyArrowFileIO())


@pytest.mark.parametrize(
    "kind", ["null", {"type": "record", "fields": []}, {"type": "fixed", "size": 0}, ["null", {"type": "null"}]]
)
def test_a_list_of_nothing_has_no_end_and_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="a list of nothing"):
        manifest_files._check_avro({"type": "record", "fields": [{"type": {"type": "array", "items": kind}}]})


LIST = AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[3], "manifest_file")


@pytest.mark.parametrize(
    ("raw", "refusal"),
    [
        (avro(LIST, (1, deflated(128 * 2**20))), UnreadableManifest),
        (avro(LIST, (MANY, b"\x00"), codec="null"), DamagedManifest),
        (avro(LIST, (1, number(MANY)), codec="null"), DamagedManifest),
        (b"Obj\x01" + number(MANY), DamagedManifest),
        (b"Obj\x01" + number(2) + number(MANY) + b"x", DamagedManifest),
    ],
    ids=["128 MB in a block", "records without end", "a text without end", "members without end", "a name without end"],
)
def test_bombs_are_refused(tmp_path: Path, raw: bytes, refusal: type[Exception]) -> None:
    path = tmp_path / "bomb.avro"
    path.write_bytes(raw)
    began = time.process_time()
    with pytest.raises(refusal):
        read_manifest_list(path.as_uri(), PyArrowFileIO())
    assert time.process_time() - began < BOMB_S
