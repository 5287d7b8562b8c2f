"""The diff process: its answer in every ending, its limits, and object storage."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from jobs.engine.read.metadata import local_path
from jobs.entrypoints import diff as entrypoint
from jobs.protocol import DiffRequest, DiffResult, SideRef, SparkAccess, read_message, write_message
from tests.factories import engine as tables
from tests.factories.builds import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

pytestmark = pytest.mark.integration


def big_table(root: Path, rows: int) -> tuple[SideRef, SideRef]:
    numbers = np.arange(rows)
    content = pa.table({"k": numbers, "v": numbers * 0.5, "t": pa.array([f"text {n}" for n in numbers])})
    table = tables.make_table(root, content.schema)
    table.append(content)
    old = tables.snapshot_of(table)
    table.overwrite(content.set_column(1, "v", pa.array(numbers * 0.5 + (numbers % 3 == 0))))
    return tables.side(table, old), tables.side(table, tables.snapshot_of(table))


def request_for(folder: Path, sides: tuple[SideRef | None, SideRef | None], **options: Any) -> Path:
    folder.mkdir()
    path = folder / "request.json"
    options = {"key": ("k",)} | options
    write_message(path, DiffRequest(*sides, folder=str(folder), result_path=str(folder / "result.json"), **options))
    return path


def answer_of(request: Path) -> DiffResult:
    return read_message(DiffResult, request.parent / "result.json")


def assert_no_artifact(request: Path) -> None:
    assert not (request.parent / "summary.json").exists()
    assert not (request.parent / "rows.parquet").exists()


def test_an_answer_and_an_artifact(tmp_path: Path) -> None:
    request = request_for(tmp_path / "out", big_table(tmp_path, 3000))
    assert entrypoint.main(str(request)) == 0
    answer = answer_of(request)
    assert (answer.status, answer.summary["updated"]) == ("ok", 1000)
    assert json.loads((request.parent / "summary.json").read_text())["updated"] == 1000
    assert not (request.parent / ".spill").exists()


def test_without_an_answer_of_spark_the_process_compares_and_says_so(tmp_path: Path) -> None:
    access = SparkAccess(f"sc://localhost:{find_free_port()}/;token=t", "comparison-1", str(uuid4()), str(tmp_path))
    request = request_for(tmp_path / "out", big_table(tmp_path, 30), embedded_bytes=1, spark=access)
    # in a process of its own: it leaves Spark's functions in the mode of Connect
    process = subprocess.run(
        [sys.executable, "-m", "jobs.entrypoints.diff", str(request)], capture_output=True, text=True, check=True
    )
    summary = answer_of(request).summary
    assert (summary["updated"], summary["executor"]) == (10, "embedded")
    assert "Spark failed (the Spark server does not answer; it may be starting)" in summary["executor_reason"]
    assert "computed in this process because Spark failed" in process.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "no more than the 268 MB that one process compares"),
        ({"embedded_bytes": 1}, "Spark cannot: there is no Spark server here; about"),
        ({"embedded_bytes": 1, "spark_obstacle": "its server is away"}, "Spark cannot: its server is away; about"),
        ({"executor": "embedded"}, "that executor was asked for"),
    ],
)
def test_the_answer_says_why_the_process_compared(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    request = request_for(tmp_path / "out", big_table(tmp_path, 30), **options)
    assert entrypoint.main(str(request)) == 0
    assert reason in answer_of(request).summary["executor_reason"]


def test_rows_that_are_all_new_are_no_work_for_spark(tmp_path: Path) -> None:
    _, after = big_table(tmp_path, 30)
    request = request_for(tmp_path / "out", (None, after), embedded_bytes=1)
    assert entrypoint.main(str(request)) == 0
    assert answer_of(request).summary["executor_reason"] == "only one side has rows of its own, and all of them differ"


def test_an_expired_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = big_table(tmp_path, 10)
    request = request_for(tmp_path / "out", (before, SideRef(after.metadata_location, 1)))
    assert entrypoint.main(str(request)) == 1
    assert (answer_of(request).code, answer_of(request).status) == ("expired", "failed")
    assert "has expired" in capsys.readouterr().err
    assert_no_artifact(request)


def test_a_broken_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "request.json"
    path.write_text("{}")
    assert entrypoint.main(str(path)) == 2
    assert "not a message" in capsys.readouterr().err


def test_the_memory_limit_is_a_named_failure(tmp_path: Path) -> None:
    request = request_for(tmp_path / "out", big_table(tmp_path, 200_000), memory_bytes=10 * 2**20)
    assert entrypoint.main(str(request)) == 1
    assert answer_of(request).code == "memory_limit"
    assert "10 MiB" in answer_of(request).message
    assert_no_artifact(request)


LONG = "x" * 2**20
MANY = 40_000


def swell(type_: pa.DataType, count: int) -> pa.Array:
    """So many values of a type; each text in them is a mebibyte, which a file stores once."""
    if pa.types.is_struct(type_):
        parts = [swell(field.type, count) for field in type_]
        fields = [field.with_type(part.type) for field, part in zip(type_, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields)
    if pa.types.is_map(type_):
        items = swell(type_.item_type, count)
        kind = pa.map_(type_.key_field, type_.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(range(count + 1), swell(type_.key_type, count), items, type=kind)
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        values = swell(type_.value_type, count)
        kind = pa.list_(type_.value_field.with_type(values.type))
        return pa.ListArray.from_arrays(range(count + 1), values, type=kind)
    if pa.types.is_large_string(type_) or pa.types.is_string(type_):
        return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([LONG]))
    return pa.array(range(count)).cast(type_)


def replace_by_bomb(location: str) -> None:
    """Put forty thousand rows in the place of a file's own, of a mebibyte each and stored in a few kilobytes."""
    path = local_path(location)
    fields = pq.read_schema(path)
    columns = [swell(field.type, MANY) for field in fields]
    fields = pa.schema([field.with_type(column.type) for field, column in zip(fields, columns, strict=True)])
    pq.write_table(pa.table(columns, schema=fields), path, compression="zstd", store_schema=False)


def assert_refused(
    folder: Path, before: SideRef, after: SideRef, *, says: str = "more than 1,000 times as much"
) -> None:
    folder.mkdir()
    for number, ends in enumerate(((before, after), (after, before))):
        request = request_for(folder / str(number), ends, time_limit_s=60)
        assert entrypoint.main(str(request)) == 1
        answer = answer_of(request)
        assert (answer.code, says in answer.message) == ("memory_limit", True), answer.message
        assert_no_artifact(request)


def bomb_table(folder: Path, type_: pa.DataType | None = None) -> Table:
    """A table of two rows, with a text or something that holds texts."""
    schema = pa.schema({"k": pa.int64(), "t": type_ or pa.string()})
    table = tables.make_table(folder, schema)
    table.append(pa.table({"k": [1, 2], "t": pa.nulls(2, schema.field("t").type)}, schema=schema))
    return table


NESTED = {
    "text": pa.string(),
    "struct": pa.struct({"a b": pa.int64(), "c": pa.struct({"d": pa.string()})}),
    "list": pa.list_(pa.string()),
    "all kinds": pa.list_(pa.struct({"a": pa.int64(), "b c": pa.map_(pa.int64(), pa.list_(pa.string()))})),
}


@pytest.mark.parametrize("kind", NESTED)
def test_a_small_file_that_decodes_to_far_too_much_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    table = bomb_table(tmp_path, NESTED[kind])
    old = tables.snapshot_of(table)
    rows = pa.table({"k": range(MANY), "t": pa.nulls(MANY, NESTED[kind])}, schema=table.schema().as_arrow())
    [listed] = tables.write_files(table, rows)
    replace_by_bomb(listed.file_path)
    table = tables.replace(table, [], [listed])
    assert_refused(tmp_path / "out", tables.side(table, old), tables.side(table, tables.snapshot_of(table)))


@pytest.mark.parametrize("kind", ["positions", "equality"])
def test_a_small_file_of_deletes_that_decodes_to_far_too_much_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    table = bomb_table(tmp_path)
    old = tables.snapshot_of(table)
    [file] = tables.data_files(table)
    if kind == "positions":
        deletes = tables.position_deletes(table, {file.file_path: [0]})
    else:
        deletes = tables.equality_deletes(table, ["t"], [{"t": "gone"}])
    replace_by_bomb(deletes.file_path)
    table = tables.change_rows(table, [deletes], [])
    assert_refused(tmp_path / "out", tables.side(table, old), tables.side(table, tables.snapshot_of(table)))


@pytest.mark.parametrize(("says", "code"), [(2**31, "memory_limit"), (1, "unreadable")])
def test_a_deletion_vector_that_names_too_many_rows_is_refused(tmp_path: Path, says: int, code: str) -> None:
    table = bomb_table(tmp_path)
    old = tables.snapshot_of(table)
    [file] = tables.data_files(table)
    rows = BitMap(range(2**31))
    rows.run_optimize()
    blob = tables.vector_blob({0: rows, 2**31 - 1: BitMap([1])})
    assert len(blob) < 2**20
    [vector] = tables.write_vectors(table, {file.file_path: blob}, {file.file_path: says})
    table = tables.change_rows(table, [vector], [])
    ends = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    request = request_for(tmp_path / "out", ends, time_limit_s=60)
    assert entrypoint.main(str(request)) == 1
    assert answer_of(request).code == code, answer_of(request).message


def test_little_memory_spills_and_gives_the_same(tmp_path: Path) -> None:
    sides = big_table(tmp_path, 200_000)
    found = []
    for name, memory in (("small", 48), ("large", 512)):
        request = request_for(tmp_path / name, sides, memory_bytes=memory * 2**20)
        assert entrypoint.main(str(request)) == 0
        summary = dict(answer_of(request).summary)
        summary.pop("timings_s")
        found.append(summary)
    assert found[0] == found[1]


def test_the_time_limit_is_a_named_failure(tmp_path: Path) -> None:
    request = request_for(tmp_path / "out", big_table(tmp_path, 200_000), time_limit_s=0.01)
    assert entrypoint.main(str(request)) == 1
    assert answer_of(request).code == "time_limit"
    assert_no_artifact(request)


def test_sigterm_cancels_in_the_middle(tmp_path: Path) -> None:
    request = request_for(tmp_path / "out", big_table(tmp_path, 600_000), key=None, threads=1)
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs.entrypoints.diff", str(request)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while '"comparing"' not in read_text(request.parent / "progress.json") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1, errors
    assert answer_of(request).code == "cancelled"
    assert_no_artifact(request)


def read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    """An S3 stand-in on the loopback address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    properties = {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=properties["s3.endpoint"],
        aws_access_key_id="key",
        aws_secret_access_key="secret",  # noqa: S106 - the stand-in takes any
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="lake")
    yield properties
    server.stop()


def test_tables_in_object_storage(tmp_path: Path, bucket: dict[str, str]) -> None:
    content = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})
    table = tables.make_table(tmp_path, content.schema, location="s3://lake/n/t", properties=bucket)
    table.append(content)
    old = tables.snapshot_of(table)
    table.overwrite(pa.table({"k": [1, 2, 4], "v": ["a", "B", "d"]}))
    sides = tables.side(table, old), tables.side(table, tables.snapshot_of(table))
    summary = tables.diff(tmp_path, *sides, key=["k"], io=bucket)
    assert (summary["inserted"], summary["deleted"], summary["updated"]) == (1, 1, 1)
