"""A client removes the transaction that a running job is pinned to, on a real installation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError

from tests.factories.builds import HEAD, ROOT, Stack, make_transform
from tests.factories.spark import QUICK, new_session, rest_catalog
from tests.factories.tiers import further

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
WAIT = """import time
print('began', flush=True)
for _ in range(60):
    try:
        table = i0._connections.catalog.load_table("shop.{name}.raw")
    except Exception:
        break
    if table.current_snapshot().summary["total-records"] == "1":
        break
    time.sleep({seconds} / 60)
out.write_table(i0.arrow())"""
LOSE = """
import pathlib, time
from webapp.catalog.services import branches
flag = pathlib.Path("{flag}")
while not flag.exists():
    time.sleep(0.05)
gone = int(flag.read_text())
branches._change_all(
    ["shop.lost.raw"],
    lambda base: {{**base, "snapshots": [each for each in base["snapshots"] if each["snapshot-id"] != gone]}},
    by=None,
)
"""


def start_late_build(stack: Stack, name: str, *, seconds: int) -> tuple[int, dict[str, Any], int]:
    """Start a job that reads late, and let its input move on; return build, job and the snapshot that it is pinned to."""
    raw, made = f"/shop/{name}/raw", f"/shop/{name}/made"
    assert stack.upload(raw, "a\n1\n2\n").status_code == 201
    (pinned,) = stack.history(raw)
    transform = make_transform(f"{name}_late", inputs=[raw], output=made, body=WAIT.format(name=name, seconds=seconds))
    stack.commit({f"pipelines/{name}.py": HEAD + transform})
    build = stack.start_build(made)["id"]
    job = stack.wait_for_job(build, "RUNNING")
    stack.wait(lambda: "began" in stack.log(job["id"]), seconds=30)
    assert stack.upload(raw, "a\n3\n", mode="snapshot").status_code == 201
    return build, job, pinned


def test_catalog_keeps_the_input_of_a_running_job(stack: Stack) -> None:
    build, _, pinned = start_late_build(stack, "kept", seconds=3)
    table = stack.load("/shop/kept/raw")
    with pytest.raises(BadRequestError, match=f"Cannot remove snapshot {pinned} .*job 1 of build {build} reads it"):
        table.maintenance.expire_snapshots().by_id(pinned).commit()
    assert stack.wait_for_build(build)["state"] == "COMPLETED"
    assert stack.rows("/shop/kept/made") == [{"a": 1}, {"a": 2}]
    table.maintenance.expire_snapshots().by_id(pinned).commit()
    assert stack.build("/shop/kept/made")["jobs"][0]["why"] == "Newer data in /shop/kept/raw"
    assert stack.rows("/shop/kept/made") == [{"a": 3}]


def test_job_whose_input_is_gone_reads_the_newest(stack: Stack, tmp_path: Path) -> None:
    flag = tmp_path / "snapshot"
    # It takes seconds to start, and the job may run for eight.
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", LOSE.format(flag=flag)]
    with subprocess.Popen(command, cwd=ROOT, env=stack.environment) as loser:
        build, job, pinned = start_late_build(stack, "lost", seconds=6)
        (before,) = job["inputs"]
        # the job has the snapshot's metadata already, and would read files that are still there
        for task in stack.load("/shop/lost/raw").scan(snapshot_id=pinned).plan_files():
            Path(task.file.file_path.removeprefix("file:")).unlink()
        (tmp_path / "written").write_text(str(pinned))
        (tmp_path / "written").rename(flag)
        assert loser.wait(timeout=60) == 0
    ended = stack.wait_for_build(build)
    assert ended["state"] == "COMPLETED", (ended["reason"], ended["notes"])
    ((after,),) = [each["inputs"] for each in ended["jobs"]]
    gone = f"/shop/lost/raw: transaction {before['transaction']} on branch master is gone"
    assert after["transaction"] != before["transaction"]
    assert [note.startswith(gone) for note in ended["notes"]] == [True]
    log = stack.log(job["id"])
    assert f"put back: {gone}" in log
    assert f"Job 1 reads transaction {after['transaction']} instead." in log
    assert " 0 rows" not in log
    assert stack.rows("/shop/lost/made") == [{"a": 3}]
    assert stack.build("/shop/lost/made")["jobs"][0]["skipped"] is True


@pytest.mark.spark
@further("integration/builds/test_expired_inputs.py::test_catalog_keeps_the_input_of_a_running_job")
def test_spark_hears_what_needs_a_snapshot(stack: Stack) -> None:
    raw, made = "/shop/sparked/raw", "/shop/sparked/made"
    assert stack.upload(raw, "a\n1\n").status_code == 201
    copy = make_transform("sparked", inputs=[raw], output=made, body="out.write_table(i0.arrow())")
    stack.commit({"pipelines/sparked.py": HEAD + copy})
    session = new_session({**QUICK, **rest_catalog("main_", f"http://127.0.0.1:{stack.port}/iceberg", stack.token)})
    expire = "call main_.system.expire_snapshots(table => 'shop.sparked.raw', retain_last => 1, older_than => timestamp '2999-01-01')"
    stack.kill("builds")
    try:
        build = stack.start_build(made)["id"]
        stack.wait_for_job(build, "RUN_PENDING")
        stack.load(raw).append(pa.table({"a": [2]}))
        with pytest.raises(Exception, match=f"job 1 of build {build} reads it"):  # noqa: PT011 - Py4J and Spark have many
            session.sql(expire).collect()
    finally:
        stack.start_part("builds")
    assert stack.wait_for_build(build)["state"] == "COMPLETED"
    assert stack.rows(made) == [{"a": 1}]
    session.sql(expire).collect()
    assert len(stack.load(raw).metadata.snapshots) == 1
