"""kill -9 of every kind of process in the middle of a build: noticed, ended or resumed, nothing half-done visible."""

from __future__ import annotations

import contextlib
import sqlite3
import time

import pytest

from tests.factories.broker import empty_broker
from tests.factories.builds import HEAD, Stack, make_transform, wait_until
from tests.factories.postgres import find_url
from tests.factories.tiers import further

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def start_slow_build(stack: Stack, name: str, *, seconds: float = 2.5) -> tuple[int, str]:
    """Start a build of a job that writes, then sleeps; return the build and the running job."""
    body = f"import time\nout.write_table(i0.arrow())\nprint('wrote')\ntime.sleep({seconds})"
    source = HEAD + make_transform(name, inputs=["/shop/raw"], output=f"/shop/crash/{name}", body=body)
    source += make_transform(
        f"{name}_next",
        inputs=[f"/shop/crash/{name}"],
        output=f"/shop/crash/{name}_next",
        body="out.write_table(i0.arrow())",
    )
    stack.commit({f"pipelines/{name}.py": source})
    build = stack.start_build(f"/shop/crash/{name}_next", upstream=True)
    job = stack.wait_for_job(build["id"], "RUNNING")
    wait_until(lambda: "wrote" in stack.log(job["id"]), seconds=20)
    return build["id"], job["id"]


def test_job_process_killed(stack: Stack) -> None:
    build_id, job_id = start_slow_build(stack, "job_killed", seconds=6)
    stack.kill_jobs()
    build = stack.wait_for_build(build_id, seconds=20)
    first, second = build["jobs"]
    assert (build["state"], first["state"], second["state"]) == ("FAILED", "FAILED", "ABORTED")
    assert "was killed (signal 9)" in first["reason"]
    assert stack.open_transactions() == []
    assert stack.rows("/shop/crash/job_killed") == []
    assert stack.call("GET", f"/jobs/{job_id}/log")["end"]["reason"] == "failed"


def test_worker_killed_is_noticed_and_the_job_tried_again(stack: Stack) -> None:
    build_id, job_id = start_slow_build(stack, "worker_killed")
    stack.kill("builds")
    killed = time.monotonic()
    assert stack.rows("/shop/crash/worker_killed") == []
    stack.start_part("builds")
    build = stack.wait_for_build(build_id, seconds=60)
    assert time.monotonic() - killed < 60
    assert build["state"] == "COMPLETED", build
    assert [job["attempt"] for job in build["jobs"]] == [2, 1]
    assert len(stack.rows("/shop/crash/worker_killed_next")) == 2
    assert "died while it ran the job" in stack.log(job_id)
    assert stack.open_transactions() == []


@further("integration/builds/test_crashes.py::test_worker_killed_is_noticed_and_the_job_tried_again")
def test_fork_server_killed_and_the_job_tried_again(stack: Stack) -> None:
    build_id, job_id = start_slow_build(stack, "fork_killed")
    stack.kill("fork")
    (stack.home / "run" / "fork.sock").unlink(missing_ok=True)
    wait_until(lambda: "put back" in stack.log(job_id), seconds=20)
    waiting = stack.call("GET", f"/jobs/{job_id}")
    assert waiting["state"] == "RUN_PENDING"
    stack.start_part("fork")
    build = stack.wait_for_build(build_id, seconds=60)
    assert build["state"] == "COMPLETED", build
    assert stack.open_transactions() == []
    wait_until(stack.is_warm, seconds=60)


def test_build_waits_while_the_fork_server_is_down(stack: Stack) -> None:
    source = HEAD + make_transform(
        "patient", inputs=["/shop/raw"], output="/shop/crash/patient", body="out.write_table(i0.arrow())"
    )
    stack.commit({"pipelines/patient.py": source})
    stack.kill("fork")
    (stack.home / "run" / "fork.sock").unlink(missing_ok=True)
    build = stack.start_build("/shop/crash/patient")

    def says_so() -> bool:
        jobs = stack.call("GET", f"/builds/{build['id']}")["jobs"]
        return bool(jobs) and "job runner is not there" in (jobs[0]["reason"] or "")

    wait_until(says_so, seconds=15)
    stack.start_part("fork")
    assert stack.wait_for_build(build["id"], seconds=60)["state"] == "COMPLETED"
    wait_until(stack.is_warm, seconds=60)


def test_lost_messages_are_rung_again(stack: Stack) -> None:
    source = HEAD + make_transform(
        "lost", inputs=["/shop/raw"], output="/shop/crash/lost", body="out.write_table(i0.arrow())"
    )
    stack.commit({"pipelines/lost.py": source})
    stack.kill("quick")
    builds = [stack.start_build("/shop/crash/lost")["id"] for _ in range(5)]
    assert empty_broker(stack.home)
    stack.start_part("quick")
    ended = [stack.wait_for_build(each, seconds=60) for each in builds]
    assert {each["state"] for each in ended} == {"COMPLETED"}
    assert sum(not job["skipped"] for each in ended for job in each["jobs"]) == 1


def test_commit_whose_publication_was_cut_off_is_published_after_all(stack: Stack) -> None:
    stack.kill("quick")
    source = HEAD + make_transform(
        "cut", inputs=["/shop/raw"], output="/shop/crash/cut", body="out.write_table(i0.arrow())"
    )
    change = {"path": "pipelines/cut.py", "content": source}
    made = stack.call(
        "POST",
        "/repositories/shop/commits",
        json={"branch": "master", "message": "Cut off", "changes": [change]},
        expect=201,
    )
    assert empty_broker(stack.home)
    build = stack.start_build("/shop/crash/cut")
    stack.start_part("quick")
    published = stack.wait_for_publication(made["sha"])
    assert published["published"]["status"] == "published"
    assert stack.wait_for_build(build["id"], seconds=60)["state"] == "COMPLETED"


FOLLOWING = """
from pyiceberg.catalog.rest import RestCatalog
import time


@incremental()
@transform.using(i0=TableInput("/shop/follow/raw"), out=TableOutput("/shop/follow/{name}"))
def {name}(i0, out):
    changes = i0.changelog_arrow(["a"])
    commit = RestCatalog.commit_table

    def slow(catalog, *more):
        print("before commit")
        time.sleep({before})
        made = commit(catalog, *more)
        print("after commit")
        time.sleep({after})
        return made

    RestCatalog.commit_table = slow
    out.apply_changelog(changes, ["a"])
    print("applied", changes.num_rows)
"""


@further("property/test_jobs_changelog.py::test_applying_leads_where_the_source_went_and_twice_is_once")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_changelog_whose_job_is_killed_around_its_commit_is_applied_once(stack: Stack, moment: str) -> None:
    name, path = f"follow_{moment}", f"/shop/follow/follow_{moment}"
    pauses = {"before": 0, "after": 0, moment: 1.5}
    source = HEAD.replace("import transform\n", "import incremental, transform\n")
    loaded = stack.upload("/shop/follow/raw", "a,b\n1,x\n2,y\n")
    assert loaded.status_code == 201, loaded.text
    stack.commit({f"pipelines/{name}.py": source + FOLLOWING.format(name=name, **pauses)})
    first = stack.build(path)
    assert first["state"] == "COMPLETED", [first, *(stack.log(job["id"]) for job in first["jobs"])]
    assert stack.upload("/shop/follow/raw", "a,b\n1,z\n3,w\n").status_code == 201
    build = stack.start_build(path)
    job = stack.wait_for_job(build["id"], "RUNNING")
    wait_until(lambda: f"{moment} commit" in stack.log(job["id"]), seconds=20, every=0.02)
    stack.kill_jobs()
    assert stack.wait_for_build(build["id"], seconds=20)["state"] == "FAILED"
    old = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert sorted(stack.rows(path), key=str) == old
    again = stack.build(path)
    (retried,) = again["jobs"]
    assert again["state"] == "COMPLETED", again
    assert "applied 4" in stack.log(retried["id"])
    assert sorted(stack.rows(path), key=str) == [{"a": 1, "b": "z"}, {"a": 3, "b": "w"}]
    # one snapshot for the first build and one for the changes; what the killed job wrote is on no branch
    assert len(stack.history(path)) == 2
    assert stack.open_transactions() == []


@pytest.mark.skipif(find_url() is not None, reason="SQLite's one write lock")
def test_a_job_at_whose_end_the_database_is_busy_is_neither_failed_nor_run_twice(stack: Stack) -> None:
    """Somebody keeps the write lock for longer than a writer waits, and than a lease lasts, around the job's end."""
    build_id, job_id = start_slow_build(stack, "busy", seconds=1)
    with contextlib.closing(sqlite3.connect(stack.home / "db.sqlite3", timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(23)
        database.execute("ROLLBACK")
    build = stack.wait_for_build(build_id, seconds=90)
    assert build["state"] == "COMPLETED", (build, stack.log(job_id))
    assert stack.query(f"SELECT lost FROM builds_job WHERE id = '{job_id}'") == [0]
    assert len(stack.rows("/shop/crash/busy_next")) == 2
    assert stack.open_transactions() == []
