"""Manifest lists and manifests as another process has read them (jobs/engine/read/manifest_files.py): clients wrote them.

That process took them apart under limits, and may have been taken over by them all the same: every field that it hands on
is checked for what it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.typedef import Record

from webapp.catalog.rules.errors import DamagedTable, Unsupported
from webapp.catalog.rules.locations import check_file
from webapp.catalog.rules.scan_files import FIRST_ROW_ID
from webapp.catalog.storage.reader import TableReader
from webapp.runtime.readers import Beyond, Damaged

MANIFEST_FIRST_ROW_ID = 15
LONG = 2**63
DECIMAL_LENGTH = 64
Check = Callable[[Any], Any]


def read_manifest_list(location: str, reader: TableReader, *, table: str) -> list[ManifestFile]:
    """Read the manifests of a snapshot.

    Raises:
        DamagedTable: it cannot be read.
        Unsupported: there is more than is read here.

    """
    return list(_read("list", location, reader, table=table, check=_manifest))


def read_entries(manifest: ManifestFile, reader: TableReader, *, table: str) -> Iterator[ManifestEntry]:
    """Yield the live entries of a manifest, with what they inherit from it.

    Raises:
        DamagedTable: it cannot be read.
        Unsupported: there is more than is read here.

    """
    following: int | None = manifest[MANIFEST_FIRST_ROW_ID]
    for entry in _read("entries", manifest.manifest_path, reader, table=table, check=_entry):
        _inherit(entry, manifest)
        file = entry.data_file
        if following is None:
            file[FIRST_ROW_ID] = None
        elif file[FIRST_ROW_ID] is None and file.content is DataFileContent.DATA:
            file[FIRST_ROW_ID] = following
            following += file.record_count
        yield entry


def _inherit(entry: ManifestEntry, manifest: ManifestFile) -> None:
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    # Files of version 1 have no sequence numbers: they count as 0, and so does their manifest.
    if entry.sequence_number is None:
        entry.sequence_number = manifest.sequence_number or 0
    entry.data_file.spec_id = manifest.partition_spec_id


def _read(ask: str, location: str, reader: TableReader, *, table: str, check: Check) -> Iterator[Any]:
    check_file(location, location=table, what="manifest")
    question: dict[str, Any] = {"ask": ask, "location": location}
    try:
        while True:
            answer = reader.ask(**question)
            yield from [check(record) for record in answer["records"]]
            if answer["is_last"]:
                return
            question = {"ask": "more"}
    except Damaged as error:
        raise DamagedTable(str(error)) from error
    except Beyond as error:
        message = f"The manifest {location} is not read by the server ({error}); plan this scan on the client"
        raise Unsupported(message) from error
    except (ValueError, TypeError, KeyError, InvalidOperation) as error:
        message = f"The manifest {location} is damaged"
        raise DamagedTable(message) from error


# --- what each field must be ----------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -LONG <= value < LONG:
        raise TypeError(value)
    return value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_only(value, "bytes"), validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _only(value: Any, kind: str) -> Any:
    if not isinstance(value, dict) or value.keys() != {kind}:
        raise TypeError(value)
    return value[kind]


def _or_none(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _list_of(check: Check) -> Check:
    def checked(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise TypeError(value)
        return [check(item) for item in value]

    return checked


def _by_column(check: Check) -> Check:
    return lambda value: {_number(key): check(item) for key, item in _only(value, "map")}


def _record_of(kind: type[Record], *checks: Check) -> Check:
    def checked(value: Any) -> Record:
        return kind(*(check(item) for check, item in zip(checks, _only(value, "record"), strict=True)))

    return checked


def _scalar(value: Any) -> Any:
    """Return a value of a partition, of any type."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return _number(value)
        case {"decimal": str(text)} if len(text) <= DECIMAL_LENGTH:
            return Decimal(text)
        case {"uuid": str(text)}:
            return UUID(text)
        case _:
            return _bytes(value)


def _partition(value: Any) -> Record:
    return Record(*_list_of(_scalar)(_only(value, "record")))


_COUNTS = _or_none(_by_column(_number))
_BOUNDS = _or_none(_by_column(_bytes))
_SUMMARY = _record_of(PartitionFieldSummary, _flag, _or_none(_flag), _or_none(_bytes), _or_none(_bytes))
_manifest = _record_of(
    ManifestFile,
    _text,  # path
    _number,  # length
    _number,  # partition spec
    ManifestContent,
    *[_or_none(_number)] * 9,  # sequence numbers, snapshot, counts of files and rows
    _or_none(_list_of(_SUMMARY)),
    _or_none(_bytes),  # key metadata
    _or_none(_number),  # first row
)
_file = _record_of(
    DataFile,
    DataFileContent,
    _text,  # path
    FileFormat,
    _partition,
    _number,  # rows
    _number,  # bytes
    *[_COUNTS] * 4,
    *[_BOUNDS] * 2,
    _or_none(_bytes),  # key metadata
    *[_or_none(_list_of(_number))] * 2,  # offsets of splits, columns of equality
    _or_none(_number),  # sort order
    _or_none(_number),  # first row
    _or_none(_text),  # the data file that deletes are about
    *[_or_none(_number)] * 2,  # where in the file the deletes are
)
_entry = _record_of(ManifestEntry, ManifestEntryStatus, *[_or_none(_number)] * 3, _file)
