"""An installation whose warehouse is in an object store: uploads, light and Spark transforms, previews and row diffs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.factories.builds import HEAD, Stack, make_transform, running_stack, wait_until
from tests.factories.object_store import BUCKET, SECRET, ObjectStore
from tests.factories.tiers import further

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(400),
    further("contract/catalog/test_catalog_object_store.py::test_pyiceberg_works_without_keys_of_its_own"),
]
SPARK = """from transforms.api import transform
from transforms.tables import TableInput, TableOutput


@transform.spark.using(source=TableInput("/shop/light"), output=TableOutput("/shop/spark"))
def multiply(ctx, source, output):
    output.write_dataframe(source.dataframe().selectExpr("a", "a * 10 as tens"))
"""
FOLLOW = """from jobs.engine.read.listing import Listing
from transforms.api import incremental, transform
from transforms.tables import TableInput, TableOutput

begin = Listing.__init__


def begin_with_ended_keys(self, *arguments, **more):
    begin(self, *arguments, **more)
    self.keys = {**self.keys, "s3.session-token": "ended", "s3.session-token-expires-at-ms": "1"}


@incremental()
@transform.spark.using(source=TableInput("/shop/spark"), output=TableOutput("/shop/followed"))
def follow(ctx, source, output):
    Listing.__init__ = begin_with_ended_keys
    output.apply_changelog(source.changelog(["a"]), ["a"])
"""
SPY = """import os
from pathlib import Path

table = out.load()
print("SEEN", table.io.properties.get("s3.session-token") is not None, sorted(os.environ))
fs = table.io.fs_by_scheme("s3", None)
for path in (table.location() + "/data/mine.parquet", table.metadata_location, i0._table.location() + "/data/x"):
    try:
        with fs.open_output_stream(path.removeprefix("s3://")) as stream:
            stream.write(b"mine")
        print("WROTE", path)
    except OSError as error:
        print("REFUSED", path, "ACCESS_DENIED" in str(error))
out.write_table(i0.arrow())
"""
KNOCK = """
import socket

for address in {addresses}:
    try:
        with socket.create_connection(tuple(address), timeout=5):
            print("REACHED", address)
    except OSError as error:
        print("KEPT OUT", address, error)
"""
LONG = """import gc
import time

from jobs.engine.read.file_io import EXPIRES_AT, TOKEN, RenewedProperties


def end_keys(seconds=0):
    ended = {TOKEN: "ended", EXPIRES_AT: str(int((time.time() + seconds) * 1000))}
    for one in gc.get_objects():
        if type(one) is RenewedProperties:
            one._current.update(ended)


def batches():
    yield from i0.arrow().to_batches()
    end_keys()


schema = i0.schema
end_keys(3600)
try:
    i0.arrow()
except OSError:
    print("REFUSED")
end_keys()
changes = i0.changelog_arrow(["a"])
out.write_table(pa.RecordBatchReader.from_batches(schema, batches()))
out.apply_changelog(pa.table({"a": [1, 9], "b": ["new", "more"], "_change_type": ["UPDATE_AFTER", "INSERT"]}), ["a"])
print("CHANGES", changes.num_rows)
"""


CHANGED = {
    "not there as a plain file": "fs.delete_file(path)",
    "bytes long and not": "fs.open_output_stream(path).close()",
}
CHANGE = """out.write_table(i0.arrow())
table = out.load()
fs = table.io.fs_by_scheme("s3", None)
path = next(iter(table.scan().plan_files())).file.file_path.removeprefix("s3://")
"""


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An installation on it, with a Spark server that is still starting."""
    home = tmp_path_factory.mktemp("lake") / "home"
    home.mkdir(mode=0o700)
    # Spark is asked for everything: the rows are few
    with running_stack(
        home,
        spark=True,
        TRIBUTARY_EXECUTOR="spark",
        TRIBUTARY_JOB_DISK_BYTES=str(32 * 1024**2),
        **object_store.environment,
    ) as stack:
        stack.make_repository()
        answer = stack.upload("/shop/raw", "a,b\n1,x\n2,y\n")
        assert answer.status_code == 201, answer.text
        light = make_transform("light", inputs=["/shop/raw"], output="/shop/light", body="out.write_table(i0.arrow())")
        stack.commit({"pipelines/light.py": HEAD + light, "pipelines/spark.py": SPARK, "pipelines/follow.py": FOLLOW})
        yield stack


def dataset_of(lake: Stack, path: str) -> str:
    found = lake.call("GET", f"/datasets?path={path}")["results"]
    return str(found[0]["id"])


def built(lake: Stack, *targets: str, **more: Any) -> dict[str, Any]:
    build = lake.build(*targets, seconds=240, **more)
    assert build["state"] == "COMPLETED", (build, [lake.log(job["id"]) for job in build["jobs"]])
    return build


def test_a_light_and_a_spark_transform_build_what_is_then_shown_and_compared(
    lake: Stack, object_store: ObjectStore
) -> None:
    built(lake, "/shop/spark", upstream=True)
    assert sorted(lake.rows("/shop/spark"), key=str) == [{"a": 1, "tens": 10}, {"a": 2, "tens": 20}]
    number = dataset_of(lake, "/shop/spark")
    preview = lake.call("GET", f"/datasets/{number}/preview?branch=master")
    assert sorted(preview["rows"], key=str) == [{"a": 1, "tens": 10}, {"a": 2, "tens": 20}]
    first = lake.call("GET", f"/datasets/{number}/transactions?branch=master")["results"][0]["id"]
    assert lake.upload("/shop/raw", "a,b\n1,x\n3,z\n").status_code == 201
    built(lake, "/shop/spark", upstream=True)
    found: dict[str, Any] = {}

    def is_compared() -> bool:
        found.update(lake.call("GET", f"/datasets/{number}/compare?from={first}&to=master"))
        return found["state"] not in {"queued", "running", "not_compared"}

    wait_until(is_compared, seconds=240, every=0.5)  # Spark starts anew for it
    changes = sorted((row["change"], row["key"] or row["before"] or row["after"]) for row in found["rows"])
    assert found["state"] == "ready", found
    assert [change for change, _ in changes] == ["deleted", "inserted"], found
    assert found["summary"]["executor"] == "spark", found["summary"]["executor_reason"]
    assert not list((lake.home / "spark" / "listings").iterdir())
    log: dict[str, Any] = {}

    def is_told() -> bool:
        log.update(lake.call("GET", f"/datasets/{number}/changelog?branch=master"))
        return log["state"] not in {"queued", "running"}

    wait_until(is_told, seconds=60, every=0.5)
    assert log["state"] == "ready", log
    blame: dict[str, Any] = {}

    def is_blamed() -> bool:
        blame.update(lake.call("GET", f"/datasets/{number}/blame?branch=master&key.a=3"))
        return blame["state"] != "running"

    wait_until(is_blamed, seconds=60, every=0.5)
    assert [(one["change"], one["after"]) for one in blame["changes"]] == [("inserted", {"a": 3, "tens": 30})], blame
    assert SECRET not in "".join(path.read_text(errors="replace") for path in (lake.home / "diffs").rglob("*.json"))
    assert not list(lake.home.rglob("request.json"))
    logs = "".join(path.read_text(errors="replace") for path in (lake.home / "logs").rglob("*") if path.is_file())
    assert "session-token" not in logs
    assert SECRET not in logs


@pytest.mark.soak
def test_spark_computes_what_changed_and_merges_it_with_keys_that_have_ended(lake: Stack) -> None:
    """The store refuses such keys, so Spark has asked the catalog for others."""
    for content, expected in (("a,b\n1,x\n2,y\n", {1, 2}), ("a,b\n1,x\n4,z\n", {1, 4})):
        assert lake.upload("/shop/raw", content).status_code == 201
        build = built(lake, "/shop/followed", upstream=True)
        assert {row["a"] for row in lake.rows("/shop/followed")} == expected
        log = lake.log(build["jobs"][-1]["id"])
        assert "computed by Spark because" in log
        assert SECRET not in log
    assert not list((lake.home / "spark" / "listings").iterdir())


def test_a_job_gets_keys_for_new_files_of_its_outputs_and_nothing_else(lake: Stack, object_store: ObjectStore) -> None:
    with socket.create_server(("0.0.0.0", 0)) as neighbour:  # noqa: S104  # on each address by which a job could come
        port = neighbour.getsockname()[1]
        addresses = [["127.0.0.1", port], [socket.gethostname(), port], ["192.0.2.1", 80]]
        body = SPY + KNOCK.format(addresses=addresses)
        lake.commit(
            {"pipelines/spy.py": HEAD + make_transform("spy", inputs=["/shop/raw"], output="/shop/spy", body=body)}
        )
        build = built(lake, "/shop/spy")
        neighbour.setblocking(False)
        with pytest.raises(BlockingIOError):
            neighbour.accept()
    log = lake.log(build["jobs"][0]["id"])
    assert log.count("KEPT OUT") == len(addresses), log
    assert "SEEN True" in log
    assert "AWS_" not in log
    assert "TRIBUTARY_" not in log
    assert SECRET not in log
    assert "WROTE" not in log
    assert [line.rpartition(" ")[2] for line in log.splitlines() if "REFUSED" in line] == ["True"] * 3, log
    assert any(f"/data/job-{build['jobs'][0]['id']}-1/" in key for key in object_store.list())
    # What the job was shown for its own files is nobody else's business.
    assert "write.data.path" not in str(lake.call("GET", f"/datasets/{dataset_of(lake, '/shop/spy')}"))


@pytest.mark.parametrize("what", CHANGED)
def test_what_a_job_has_changed_in_the_store_after_it_was_committed_is_not_published(lake: Stack, what: str) -> None:
    body = CHANGE + CHANGED[what]
    lake.commit(
        {
            "pipelines/changed.py": HEAD
            + make_transform("changed", inputs=["/shop/raw"], output="/shop/changed", body=body)
        }
    )
    build = lake.build("/shop/changed", seconds=120)
    (job,) = build["jobs"]
    assert build["state"] == "FAILED", lake.log(job["id"])
    assert what in job["reason"], (job, lake.log(job["id"]))
    assert lake.open_transactions() == []


def test_a_job_that_puts_more_into_the_store_than_it_may_fails_by_name_and_leaves_nothing(
    lake: Stack, object_store: ObjectStore
) -> None:
    body = """import os
out.write_table(pa.table({"a": [os.urandom(1024 * 1024) for _ in range(48)]}))"""
    lake.commit({"pipelines/large.py": HEAD + make_transform("large", output="/shop/large", body=body)})
    build = lake.build("/shop/large", seconds=120)
    (job,) = build["jobs"]
    assert build["state"] == "FAILED", lake.log(job["id"])
    assert "wrote more than 32.0 MB" in job["reason"]
    assert "TRIBUTARY_JOB_DISK_BYTES" in job["reason"]
    prefix = f"{object_store.warehouse}/shop/large".removeprefix(f"s3://{BUCKET}/")
    answer = object_store.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    assert [item["Key"] for item in answer["Contents"] if "/job-" in item["Key"]] == []


def test_a_job_outlives_the_keys_that_it_was_given(lake: Stack, object_store: ObjectStore) -> None:
    assert lake.upload("/shop/long/raw", "a,b\n1,x\n2,y\n").status_code == 201
    source = HEAD + make_transform("long", inputs=["/shop/long/raw"], output="/shop/long/copied", body=LONG)
    lake.commit({"pipelines/long.py": source})
    build = built(lake, "/shop/long/copied")
    log = lake.log(build["jobs"][0]["id"])
    # the store refuses keys that have ended, and there were others in time
    assert log.count("REFUSED") == 1, log
    assert "CHANGES 2" in log
    assert SECRET not in log
    rows = sorted(lake.rows("/shop/long/copied"), key=str)
    assert rows == [{"a": 1, "b": "new"}, {"a": 2, "b": "y"}, {"a": 9, "b": "more"}]


def test_a_store_that_is_away_delays_work_and_loses_none(lake: Stack, object_store: ObjectStore) -> None:
    built(lake, "/shop/light")
    before = lake.rows("/shop/light")
    object_store.stop()
    number = dataset_of(lake, "/shop/light")
    assert lake.request("GET", f"/datasets/{number}/preview?branch=master").status_code == 503
    refused = lake.request("POST", "/datasets", json={"path": "/shop/later"})
    assert refused.status_code == 503
    assert refused.headers["Retry-After"]
    build = lake.start_build("/shop/light", force=True)
    lake.wait(lambda: "object store" in (lake.call("GET", f"/builds/{build['id']}")["reason"] or ""), seconds=60)
    time.sleep(3)
    assert lake.call("GET", f"/builds/{build['id']}")["state"] == "RESOLVING"
    object_store.start()
    finished = lake.wait_for_build(build["id"], seconds=120)
    assert finished["state"] == "COMPLETED", (finished, [lake.log(job["id"]) for job in finished["jobs"]])
    assert lake.open_transactions() == []
    assert lake.rows("/shop/light") == before
    assert lake.request("POST", "/datasets", json={"path": "/shop/later"}).status_code == 201
