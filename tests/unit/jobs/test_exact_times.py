"""Times of nanoseconds, and those of the old Parquet type INT96, are kept or refused, never changed."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StructType, TimestampType

from jobs.changelog import apply_changelog
from jobs.engine.query.preview import describe_outputs
from jobs.engine.read.files import FileError, open_parquet
from jobs.engine.read.first_rows import read_rows
from jobs.engine.write.schemas import SchemaError
from jobs.engine.write.writer import write_table
from jobs.protocol import DescribePreviewRequest, PreviewedTable, RowsRequest
from tests.factories import engine as tables
from tests.factories.forks import in_child
from tests.fakes.jobs_catalog import MemoryCatalog

pytestmark = pytest.mark.slow
FINE = [1_700_000_000_123_456_789, -1, None]
FAR = [dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.datetime(1500, 1, 1), dt.datetime(1, 1, 1), None]


def fine(values: list[int | None], zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp("ns", zone))


def write(table: Table, *, is_append: bool, **columns: Any) -> None:
    data = pa.table(columns)
    write_table(table, data.schema, data.to_batches(), is_append=is_append)


def types_of(table: Table) -> list[str]:
    return [str(field.field_type) for field in table.schema().fields]


def read_column(table: Table, name: str) -> list[int | None]:
    rows = table.scan().to_arrow()
    numbers: list[int | None] = rows[name].cast(pa.timestamp("ns")).cast(pa.int64()).to_pylist()
    return [number for _, number in sorted(zip(rows["id"].to_pylist(), numbers, strict=True))]


def test_version_3_keeps_nanoseconds(tmp_path: Path) -> None:
    """The first write makes the type, later ones keep it: appends, changelogs, replacements, also of microseconds."""

    def work() -> None:
        table = MemoryCatalog(tmp_path).make_table("x.t", Schema(), version=3)
        inner = pa.array([{"a": value} for value in FINE], pa.struct([("a", pa.timestamp("ns"))]))
        nested = {"s": inner, "l": pa.array([[value] for value in FINE], pa.list_(pa.timestamp("ns")))}
        write(table, is_append=False, id=[1, 2, 3], at=fine(FINE), tz=fine(FINE, "UTC"), **nested)
        made = types_of(table)
        assert made[1:3] == ["timestamp_ns", "timestamptz_ns"]
        assert all("timestamp_ns" in kind for kind in made[3:])
        coarse = pa.array([dt.datetime(2000, 1, 1)], pa.timestamp("ms"))
        write(table, is_append=True, id=[4], at=coarse)
        log = pa.table({"id": [2, 5], "at": fine([7, 8]), "_change_type": ["UPDATE_AFTER", "INSERT"]})
        apply_changelog(table, log, ["id"], from_empty=False)
        assert types_of(table) == made
        assert read_column(table, "at") == [FINE[0], 7, None, 946_684_800 * 10**9, 8]
        with pytest.raises(SchemaError, match="column 'at' cannot be stored"):
            write(table, is_append=True, id=[6], at=pa.array([dt.datetime(9999, 1, 1)]))
        write(table, is_append=False, id=[1], at=coarse)
        assert types_of(table) == made[:2]

    in_child(work)


@pytest.mark.parametrize("version", [2, 3])
def test_microseconds_do_not_take_nanoseconds(tmp_path: Path, version: int) -> None:
    """A table of version 2 has no type for them; nor does a column of version 3 that has microseconds change its type."""

    def work() -> None:
        table = MemoryCatalog(tmp_path).make_table("x.t", Schema(), version=version)
        write(table, is_append=False, id=[1], at=pa.array([dt.datetime(2000, 1, 1)]))
        for is_append in (True, False):
            write(table, is_append=is_append, id=[2], at=fine([1_000]))
            for refused in (fine([1]), fine([-1])):
                with pytest.raises(SchemaError, match=r"column 'at' has nanoseconds \(19\d\d-.*write them as text"):
                    write(table, is_append=is_append, id=[3], at=refused)
        assert types_of(table) == ["long", "timestamp"]
        assert read_column(table, "at") == [1_000]

    in_child(work)


def test_preview_refuses_what_a_build_would(tmp_path: Path) -> None:
    def work() -> list[Any]:
        answers = []
        for number, value in enumerate((1, 1_000)):
            after = tmp_path / f"{number}.parquet"
            pq.write_table(pa.table({"at": fine([value])}), after)
            request = DescribePreviewRequest((PreviewedTable("/a/b", str(after)),), str(tmp_path), "", 10, 10**6)
            [described] = describe_outputs(request)
            schema = described["schema"]
            answers.append(described["schema_problem"][:30] if schema is None else schema["fields"][0]["type"])
        return answers

    assert in_child(work) == ["column 'at' has nanoseconds (1", "timestamp"]


def test_defaults_of_nanoseconds_are_read_and_written() -> None:
    """PyIceberg has no reader for them, so that no such table could be opened."""
    text = "2020-01-01T10:00:00.123456789"
    kinds = {"timestamp_ns": text, "timestamptz_ns": f"{text}+00:00"}
    fields = [
        {"id": number, "name": kind, "type": kind, "required": False, "initial-default": value, "write-default": value}
        for number, (kind, value) in enumerate(kinds.items(), 1)
    ]
    schema = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})
    assert schema.fields[0].initial_default == 1_577_872_800_123_456_789
    assert schema.model_dump()["fields"] == tuple(fields) or list(schema.model_dump()["fields"]) == fields


# --- INT96 ----------------------------------------------------------------------------------------


def old_file(columns: dict[str, pa.Array], **options: Any) -> bytes:
    """A Parquet file as Spark and Hive wrote them."""
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, use_deprecated_int96_timestamps=True, **options)
    return file.getvalue()


def read_file(content: bytes) -> Iterator[pa.RecordBatch]:
    return open_parquet(pa.BufferReader(content), len(content))[1]


def test_files_with_int96_are_read_in_all_years() -> None:
    """Batches and row groups begin at other rows, and columns inside others count too."""

    def work() -> None:
        at = pa.array(FAR * 5_000, pa.timestamp("us"))
        inner = pa.array([{"a": value} for value in at.to_pylist()], pa.struct([("a", pa.timestamp("us"))]))
        columns = {"at": at, "s": inner, "n": pa.array(range(len(at)))}
        rows = pa.Table.from_batches(read_file(old_file(columns, row_group_size=7_001)))
        assert rows.equals(pa.table(columns))

    in_child(work)


def test_int96_with_nanoseconds_is_refused() -> None:
    def work() -> None:
        list(read_file(old_file({"at": fine([1_000] * 9_000)})))
        with pytest.raises(FileError, match="column 'at' has nanoseconds"):
            list(read_file(old_file({"at": fine([1_000] * 9_000 + [1_001])})))

    in_child(work)


def test_tables_with_int96_are_read_in_all_years(tmp_path: Path) -> None:
    """By light transforms and on the Preview tab, in files that another engine has added."""

    def work() -> list[Any]:
        fields = (
            NestedField(2, "at", TimestampType()),
            NestedField(3, "s", StructType(NestedField(4, "a", TimestampType()))),
        )
        table = tables.make_table(tmp_path, Schema(NestedField(1, "id", LongType()), *fields))
        rows = [{"id": number, "at": value, "s": {"a": value}} for number, value in enumerate(FAR)]
        table.append(tables.arrow_rows(table, rows))
        [file] = tables.data_files(table)
        old = pa.Table.from_pylist(rows, schema_to_pyarrow(table.schema()))
        pq.write_table(old, file.file_path.removeprefix("file://"), use_deprecated_int96_timestamps=True)
        scanned = table.scan(row_filter="at > '2000-01-01T00:00:00'").to_arrow()["at"].to_pylist()
        request = RowsRequest(table.metadata.model_dump(), ("at", "s"), 0, 10, "", "", (), {}, 100)
        shown = read_rows(request, table.io)[0]
        sorted_ = read_rows(RowsRequest(table.metadata.model_dump(), ("at",), 0, 1, "at", "", (), {}, 100), table.io)[0]
        assert table.scan().to_arrow()["s"].to_pylist() == [{"a": value} for value in FAR]
        return [scanned, shown[0], sorted_[0]]

    last = FAR[0]
    assert in_child(work) == [[last], [last.isoformat(), {"a": last.isoformat()}], ["0001-01-01T00:00:00"]]
