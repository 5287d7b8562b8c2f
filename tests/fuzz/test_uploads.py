"""Uploaded files at random, by a seed: each is loaded whole, or refused with a reason, and nothing ends over it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.engine.read.files import open_file
from jobs.engine.read.opened import CsvFormat, FileError
from jobs.engine.write.schemas import SchemaError, cast_batches, storable_schema
from jobs.entrypoints import upload
from tests.factories.builds import Stack, running_stack
from tests.fuzz.uploads import File, load, make_file

pytestmark = [pytest.mark.integration]
INSTALLED = 1000
"""Files that an installation is given."""
SEED = int(os.environ.get("TRIBUTARY_FUZZ_SEED") or random.SystemRandom().randrange(10**6)) * 10**6
AT_ONCE = 250
"""Files that one process loads."""
REFUSALS = {
    "bad_header", "broken_file", "broken_row", "decodes_to_too_much", "empty_file", "memory", "schema",
    "too_many_columns",
}  # fmt: skip


def load_files(first: int, count: int, folder: Path) -> list[dict[str, Any]]:
    """Load files in processes of their own; return what came of each."""
    reports = []
    while count > 0:
        command = [sys.executable, "-m", "tests.fuzz.uploads", str(first), str(min(AT_ONCE, count))]
        ended = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder)}, check=False
        )
        lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"seed"')]
        done = [line for line in lines if "kind" in line]
        if len(done) < min(AT_ONCE, count):
            # It died at the last one that it began; the others come after.
            why = f"died with {ended.returncode}: {ended.stderr[-1000:]}"
            done.append({"seed": lines[-1]["seed"] if lines else first, "kind": "died", "wrong": why})
        reports += done
        first, count = first + len(done), count - len(done)
    return reports


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.soak)])
@pytest.mark.timeout(3 * 3600)
def test_every_file_is_loaded_whole_or_refused_with_a_reason(tmp_path: Path, count: int) -> None:
    reports = load_files(SEED, count, tmp_path)
    kinds = Counter(file["kind"] for file in reports)
    print(f"seed {SEED}: {count} files, {dict(kinds)}")
    assert [file for file in reports if file["wrong"]] == []
    assert kinds.keys() <= {"loaded", *REFUSALS}
    assert len(reports) == count
    assert kinds["loaded"] > count / 50, kinds


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_a_time_that_clients_cannot_hold_is_refused_by_its_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    # The limit on what a job maps would stay with this process, which has other tests to run.
    monkeypatch.setattr(upload, "leave_room", lambda _size: None)
    days_before_year_1 = pa.array([-719_528], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"at": days_before_year_1.cast(kind)}), tmp_path / "file")
    report = load(File("rows.parquet", (tmp_path / "file").read_bytes()), tmp_path, mode="snapshot")
    assert report == {"code": 1, "kind": "schema", "wrong": ""}
    assert "column 'at' has a date or time outside the years 1 to 9999" in (tmp_path / "result.json").read_text()


def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": [1]}), tmp_path / "rows.parquet", store_schema=False)
    content = (tmp_path / "rows.parquet").read_bytes().replace(b"name", b"n\x80me")
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(FileError, match="the name of a column is not UTF-8"):
        open_file(tmp_path / "rows.parquet", "parquet", CsvFormat())


NOT_UTF8 = pa.array([b"a", b"\xff", b"z"]).view(pa.string())


@pytest.mark.parametrize(
    "texts",
    [
        NOT_UTF8,
        NOT_UTF8.cast(pa.binary()).cast(pa.large_binary()).view(pa.large_string()),
        pa.StructArray.from_arrays([NOT_UTF8], ["inner"]),
        pa.ListArray.from_arrays([0, 1, 2, 3], NOT_UTF8),
        pa.MapArray.from_arrays([0, 1, 2, 3], NOT_UTF8, pa.array([1, 2, 3])),
    ],
    ids=["text", "large", "struct", "list", "map"],
)
def test_a_text_that_is_not_utf8_is_refused_by_its_column(texts: pa.Array) -> None:
    # The text between the least and the greatest has no part in the statistics of a file: only who reads it meets it.
    rows = pa.record_batch({"name": texts})
    with pytest.raises(SchemaError, match="column 'name' has a text that is not UTF-8"):
        list(cast_batches(iter([rows]), storable_schema(rows.schema)))


def test_an_upload_of_a_text_that_is_not_utf8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "leave_room", lambda _size: None)
    pq.write_table(pa.table({"name": NOT_UTF8}), tmp_path / "rows.parquet")
    content = (tmp_path / "rows.parquet").read_bytes()
    report = load(File("rows.parquet", content), tmp_path, mode="snapshot")
    assert report == {"code": 1, "kind": "schema", "wrong": ""}
    assert "column 'name' has a text that is not UTF-8" in (tmp_path / "result.json").read_text()


def test_a_second_too_large_for_microseconds_does_not_become_another_day() -> None:
    rows = pa.record_batch({"at": pa.array([2**50], pa.timestamp("s"))})
    with pytest.raises(SchemaError, match="column 'at' cannot be stored"):
        list(cast_batches(iter([rows]), storable_schema(rows.schema)))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("uploads") / "home"
    home.mkdir(mode=0o700)
    with running_stack(home) as running:
        running.make_repository()
        yield running


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_an_installation_goes_on_whatever_is_uploaded(stack: Stack) -> None:
    dice = random.Random(SEED)
    path = "/shop/fuzzed"
    parts = {name: part.pid for name, part in stack.parts.items()}
    assert stack.upload(path, "c0,c1\n1,a\n").status_code == 201
    loaded, statuses = 1, Counter[int]()
    for number in range(INSTALLED):
        file = make_file(SEED + number)
        answer = stack.upload(path, file.content, name=file.name, mode=dice.choice(("snapshot", "append")))
        statuses[answer.status_code] += 1
        loaded += answer.status_code == 201
        assert answer.status_code in (201, 422), (file.name, answer.status_code, answer.text[:500])
        assert answer.status_code == 201 or answer.json()["code"] in REFUSALS, (file.name, answer.text[:500])
    print(f"seed {SEED}: {INSTALLED} uploads, {dict(statuses)}")
    assert {name: part.pid for name, part in stack.parts.items() if part.poll() is None} == parts
    assert stack.open_transactions() == []
    (dataset,) = stack.call("GET", f"/datasets?path={path}")["results"]
    states = Counter(stack.query(f"SELECT state FROM datasets_transaction WHERE dataset_id = {dataset['id']}"))  # noqa: S608
    assert states == Counter(COMMITTED=loaded, ABORTED=INSTALLED + 1 - loaded)
    total = stack.call("GET", f"/datasets/{dataset['id']}/preview")["total"]
    assert len(stack.rows(path)) == total
    assert not list((stack.home / "uploads").iterdir())
    for name in parts:
        assert "Traceback" not in (stack.home / f"{name}.log").read_text(errors="replace"), name
