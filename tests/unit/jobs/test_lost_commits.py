"""Writers repeat a commit that lost a race, and a job that gives up says so in a way that it is run again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, ServiceUnavailableError

from jobs.engine.failures import name_kind
from jobs.engine.write.writer import write_table
from jobs.entrypoints import upload
from jobs.protocol import (
    CATALOG_BUSY,
    CLOCK_BEHIND,
    LOST_COMMIT,
    JobResult,
    UploadManifest,
    read_message,
    write_message,
)
from tests.factories.forks import in_child
from tests.fakes.jobs_catalog import MemoryCatalog
from webapp.catalog.rules.access import COMMIT_RETRIES

pytestmark = pytest.mark.slow
ROWS = pa.table({"a": [1]})


@pytest.mark.parametrize("is_append", [False, True])
def test_write_table_outlasts_lost_races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_append: bool) -> None:
    """Twelve in a row, for the schema and again for the rows: more than PyIceberg's five attempts and the old eight."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)

    def work() -> Any:
        catalog = MemoryCatalog(tmp_path)
        with catalog.load_table("x.t").transaction() as transaction:
            transaction.set_properties(COMMIT_RETRIES)
        table = catalog.load_table("x.t")
        for columns in (ROWS, ROWS.append_column("b", pa.array([2])), ROWS.append_column("b", pa.array([3]))):
            catalog.conflicts = 12
            write_table(table, columns.schema, columns.to_batches(), is_append=is_append)
        return catalog.conflicts, sorted(row.get("b") or 0 for row in table.scan().to_arrow().to_pylist())

    assert in_child(work) == (0, [0, 2, 3] if is_append else [3])


@pytest.mark.parametrize(
    ("error", "code"),
    [(CommitFailedException("older"), LOST_COMMIT), (ServiceUnavailableError("busy"), CATALOG_BUSY)],
)
def test_upload_reports_a_lost_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    def fail(_manifest: object) -> None:
        raise error

    monkeypatch.setattr(upload, "upload", fail)
    monkeypatch.setattr(upload, "leave_room", lambda _bytes: None)
    manifest = UploadManifest(
        job_id="j",
        catalog_uri="http://localhost",
        token="t",
        branch="_job/j",
        build_branch="master",
        path="/x/t",
        table="x.t",
        files=(),
        result_path=str(tmp_path / "result.json"),
    )
    write_message(tmp_path / "manifest.json", manifest)
    assert upload.main(str(tmp_path / "manifest.json")) == upload.FAILED
    result = read_message(JobResult, tmp_path / "result.json")
    assert result.error is not None
    assert result.error.code == code


def test_name_kind_finds_a_lost_commit_in_what_spark_says() -> None:
    text = "[INTERNAL] Writing job aborted\nCaused by: org.apache.iceberg.exceptions.CommitFailedException: older"
    lost = type("SparkConnectGrpcException", (Exception,), {"__module__": "pyspark.errors.exceptions.connect"})
    assert name_kind(lost(text)) == LOST_COMMIT
    assert name_kind(lost("another")) == "SparkConnectGrpcException"
    late = "ValidationException: Invalid update timestamp 5: before last snapshot log entry at 70005"
    assert name_kind(lost(late)) == CLOCK_BEHIND
    assert name_kind(ValueError(late)) == "ValueError"
    assert name_kind(ValueError(text)) == "ValueError"
