"""The life of builds on a real installation: success, freshness, failure, time, cancellation, queueing, isolation."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.factories.builds import HEAD, Stack, make_transform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
COPY = "out.write_table(i0.arrow())"


def module(*transforms: str) -> str:
    return HEAD + "".join(transforms)


def jobs_by_output(build: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {output["path"]: job for job in build["jobs"] for output in job["outputs"]}


def make_branch(stack: Stack, name: str) -> None:
    stack.call("POST", "/repositories/shop/branches", json={"name": name, "start_point": "master"}, expect=201)


def test_trivial_build_is_quick_and_the_second_is_skipped(stack: Stack) -> None:
    body = "t = i0.arrow()\nprint('hello from the job')\nout.write_table(t.append_column('c', pa.array([5, 6])))"
    published = stack.commit(
        {
            "pipelines/trivial.py": module(
                make_transform("trivial", inputs=["/shop/raw"], output="/shop/trivial", body=body)
            )
        }
    )
    assert published["published"]["status"] == "published", published
    started = time.monotonic()
    first = stack.build("/shop/trivial")
    took = time.monotonic() - started
    assert first["state"] == "COMPLETED", first
    (job,) = first["jobs"]
    assert (job["state"], job["skipped"], job["why"]) == ("COMPLETED", False, "/shop/trivial was never built")
    assert [(each["path"], each["branch"], each["fallback"]) for each in job["inputs"]] == [
        ("/shop/raw", "master", False)
    ]
    assert job["outputs"][0]["state"] == "COMMITTED"
    assert "hello from the job" in stack.log(job["id"])
    assert stack.rows("/shop/trivial") == [{"a": 1, "b": "x", "c": 5}, {"a": 2, "b": "y", "c": 6}]
    started = time.monotonic()
    second = stack.build("/shop/trivial")
    again = time.monotonic() - started
    assert second["state"] == "COMPLETED"
    assert [(each["state"], each["skipped"]) for each in second["jobs"]] == [("COMPLETED", True)]
    assert second["jobs"][0]["outputs"][0]["transaction"] is None
    print(f"trivial build {took:.2f} s, all skipped {again:.2f} s")
    assert took < 6  # the goal on an idle machine is 3 s
    assert again < 2  # and 1 s


def test_build_on_a_branch_reads_by_fallback_and_leaves_master_alone(stack: Stack) -> None:
    stack.commit(
        {
            "pipelines/iso.py": module(
                make_transform("base", inputs=["/shop/raw"], output="/shop/iso/base", body=COPY),
                make_transform("top", inputs=["/shop/iso/base"], output="/shop/iso/top", body=COPY),
            )
        }
    )
    assert stack.build("/shop/iso/top", upstream=True)["state"] == "COMPLETED"
    make_branch(stack, "iso")
    changed = module(
        make_transform("base", inputs=["/shop/raw"], output="/shop/iso/base", body=COPY),
        make_transform(
            "top",
            inputs=["/shop/iso/base"],
            output="/shop/iso/top",
            body="out.write_table(i0.arrow().append_column('new', pa.array([True, False])))",
        ),
    )
    stack.commit({"pipelines/iso.py": changed}, branch="iso")
    build = stack.build("/shop/iso/top", upstream=True, branch="iso")
    assert build["state"] == "COMPLETED", build
    assert build["chain"] == ["iso", "master"]
    jobs = jobs_by_output(build)
    assert jobs["/shop/iso/base"]["skipped"] is True
    assert jobs["/shop/iso/base"]["why"] == "Same code and input transactions as on master"
    top = jobs["/shop/iso/top"]
    assert top["why"].startswith("Code changed in ")
    assert [(each["branch"], each["fallback"]) for each in top["inputs"]] == [("master", True)]
    assert stack.rows("/shop/iso/top", branch="iso")[0] == {"a": 1, "b": "x", "new": True}
    assert stack.rows("/shop/iso/top") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    made = stack.query(
        "SELECT d.path || '@' || b.name FROM datasets_datasetbranch b JOIN datasets_dataset d ON d.id = b.dataset_id WHERE b.name = 'iso'"
    )
    assert made == ["/shop/iso/top@iso"]


def test_failed_job_aborts_what_needs_it_and_nothing_else(stack: Stack) -> None:
    stack.commit(
        {
            "pipelines/fail.py": module(
                make_transform(
                    "bad",
                    inputs=["/shop/raw"],
                    output="/shop/fail/bad",
                    body="out.write_table(i0.arrow())\nraise ValueError('no good')",
                ),
                make_transform("below", inputs=["/shop/fail/bad"], output="/shop/fail/below", body=COPY),
                make_transform("apart", inputs=["/shop/raw"], output="/shop/fail/apart", body=COPY),
            )
        }
    )
    build = stack.build("/shop/fail/below", "/shop/fail/apart", "/shop/fail/bad")
    assert (build["state"], build["code"]) == ("FAILED", "job_failed")
    jobs = jobs_by_output(build)
    bad = jobs["/shop/fail/bad"]
    assert bad["state"] == "FAILED"
    assert bad["reason"] == "ValueError: no good (pipelines/fail.py:8)"
    assert bad["error"]["file"] == "pipelines/fail.py"
    assert jobs["/shop/fail/below"]["state"] == "ABORTED"
    assert jobs["/shop/fail/below"]["reason"] == f"Not run: job {bad['number']} failed, so /shop/fail/bad was not built"
    assert jobs["/shop/fail/apart"]["state"] == "COMPLETED"
    assert stack.open_transactions() == []
    assert stack.rows("/shop/fail/bad") == []
    again = stack.call("POST", f"/builds/{build['id']}/retry", expect=202)
    retried = stack.wait_for_build(again["id"])
    assert jobs_by_output(retried)["/shop/fail/apart"]["skipped"] is True
    assert retried["retry_of"] == build["id"]


def test_job_that_takes_too_long_is_ended(stack: Stack) -> None:
    body = "import time\nwhile True:\n    time.sleep(0.1)"
    stack.commit(
        {"pipelines/slow.py": module(make_transform("slow", inputs=["/shop/raw"], output="/shop/slow", body=body))}
    )
    build = stack.build("/shop/slow")
    (job,) = build["jobs"]
    assert (build["state"], job["state"], job["error"]["code"]) == ("FAILED", "FAILED", "timeout")
    assert f"longer than the {stack.more['TRIBUTARY_JOB_SECONDS']} seconds" in job["reason"]
    assert stack.open_transactions() == []


def test_cancelled_job_is_gone_within_seconds_even_when_it_ignores_the_signal(stack: Stack) -> None:
    body = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf now')\n"
        "while True:\n    time.sleep(0.1)"
    )
    stack.commit(
        {
            "pipelines/deaf.py": module(
                make_transform("deaf", inputs=["/shop/raw"], output="/shop/deaf", body=body),
                make_transform("behind", inputs=["/shop/deaf"], output="/shop/behind", body=COPY),
            )
        }
    )
    started = stack.start_build("/shop/behind", upstream=True)
    job = stack.wait_for_job(started["id"], "RUNNING")
    time.sleep(0.5)
    began = time.monotonic()
    stack.call("POST", f"/builds/{started['id']}/cancel", expect=202)
    build = stack.wait_for_build(started["id"], seconds=8)
    assert time.monotonic() - began < 6
    assert build["state"] == "ABORTED"
    assert {each["state"] for each in build["jobs"]} == {"ABORTED"}
    assert "deaf now" in stack.log(job["id"])
    assert stack.call("GET", f"/jobs/{job['id']}/log")["done"] is True
    assert stack.open_transactions() == []
    answer = stack.request("POST", f"/builds/{started['id']}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "build_over")


def test_two_builds_of_one_dataset_on_one_branch_queue(stack: Stack) -> None:
    body = "import time\ntime.sleep(2)\nout.write_table(i0.arrow())"
    stack.commit(
        {"pipelines/queue.py": module(make_transform("queue", inputs=["/shop/raw"], output="/shop/queue", body=body))}
    )
    first = stack.start_build("/shop/queue")
    stack.wait_for_job(first["id"], "RUNNING")
    second = stack.start_build("/shop/queue")
    third = stack.start_build("/shop/queue")
    time.sleep(0.8)
    waiting = stack.call("GET", f"/builds/{second['id']}")
    assert (waiting["state"], waiting["reason"]) == (
        "RESOLVING",
        f"Waits for build {first['id']}, which is writing /shop/queue on master.",
    )
    ended = [stack.wait_for_build(each["id"]) for each in (first, second, third)]
    assert [each["state"] for each in ended] == ["COMPLETED"] * 3
    assert [each["jobs"][0]["skipped"] for each in ended] == [False, True, True]


def test_output_is_committed_together_or_not_at_all(stack: Stack) -> None:
    source = (
        HEAD
        + "from transforms.api import Check\nfrom transforms import expectations as E\n"
        + '@transform.using(i0=TableInput("/shop/raw"), one=TableOutput("/shop/pair/one"),\n'
        + '    two=TableOutput("/shop/pair/two", checks=[Check(E.primary_key("a"), "one row an a", on_error="FAIL"),\n'
        + '        Check(E.row_count(min=1), "some rows")]))\n'
        + "def pair(i0, one, two):\n    t = i0.arrow()\n    one.write_table(t)\n    two.write_table(pa.concat_tables([t, t]))\n"
    )
    stack.commit({"pipelines/pair.py": source})
    build = stack.build("/shop/pair/one")
    assert build["state"] == "FAILED"
    assert "one row an a" in build["jobs"][0]["reason"]
    assert stack.log(build["jobs"][0]["id"]).count("some rows") == 1
    assert stack.rows("/shop/pair/one") == []
    assert stack.open_transactions() == []


def test_required_incremental_build_goes_on_from_the_last_or_says_why_not(stack: Stack) -> None:
    stack.upload("/shop/grown", "a\n1\n")
    source = make_transform("grow", inputs=["/shop/grown"], output="/shop/growing", body=COPY)
    required = source.replace("@transform", "@incremental(require_incremental=True)\n@transform", 1)
    head = HEAD.replace("import transform\n", "import incremental, transform\n")
    stack.commit({"pipelines/grow.py": head + required})
    first = stack.build("/shop/growing")
    assert first["state"] == "COMPLETED", first
    assert "full build: nothing was built before" in stack.log(first["jobs"][0]["id"])

    stack.upload("/shop/grown", "a\n2\n", mode="append")
    second = stack.build("/shop/growing")
    assert second["state"] == "COMPLETED", second
    assert "full build" not in stack.log(second["jobs"][0]["id"])
    assert sorted(row["a"] for row in stack.rows("/shop/growing")) == [1, 2]

    stack.commit({"pipelines/grow.py": head + required.replace("i0.arrow()", "i0.arrow().slice(0)")})
    third = stack.build("/shop/growing")
    assert third["state"] == "FAILED", third
    assert third["jobs"][0]["error"]["message"].endswith(
        "this build cannot be incremental: something other than this code wrote the outputs last"
    )
    assert sorted(row["a"] for row in stack.rows("/shop/growing")) == [1, 2]


def test_a_changelog_begins_from_nothing_where_its_input_was_set_back(stack: Stack) -> None:
    stack.upload("/shop/levels", "id,v\n1,a\n")
    body = 'log = i0.changelog_arrow(["id"])\nprint("told", log["_change_type"].to_pylist())\nout.apply_changelog(log, ["id"])'
    source = make_transform("follow", inputs=["/shop/levels"], output="/shop/followed", body=body)
    stack.commit({"pipelines/follow.py": HEAD + source})
    stack.upload("/shop/levels", "id,v\n2,b\n", mode="append")
    assert stack.build("/shop/followed")["state"] == "COMPLETED"

    table = stack.load("/shop/levels")
    first, last = table.metadata.snapshots
    with table.manage_snapshots() as change:
        change.rollback_to_snapshot(first.snapshot_id)
    build = stack.build("/shop/followed")
    assert build["state"] == "COMPLETED", build
    assert "told ['INSERT']" in stack.log(build["jobs"][0]["id"])
    assert stack.rows("/shop/followed") == [{"id": 1, "v": "a"}]

    dataset = stack.call("GET", "/datasets?path=/shop/levels")["results"][0]["id"]
    asked = stack.request("GET", f"/datasets/{dataset}/changelog?start={last.snapshot_id}&end={first.snapshot_id}")
    assert (asked.status_code, asked.json()["code"]) == (409, "not_an_ancestor")


def test_an_error_of_signs_that_no_database_keeps_ends_its_job_and_its_publication(stack: Stack) -> None:
    make_branch(stack, "life/signs")
    error = 'raise ValueError("half " + chr(0xD800) + " and nul " + chr(0))\n'
    told = "half \ufffd and nul \ufffd"
    source = HEAD + make_transform("signs", inputs=["/shop/raw"], output="/shop/signs", body=error)
    stack.commit({"pipelines/signs.py": source}, branch="life/signs")
    build = stack.build("/shop/signs", branch="life/signs")
    (job,) = build["jobs"]
    assert (build["state"], job["attempt"]) == ("FAILED", 1)
    assert told in job["reason"]
    published = stack.commit({"pipelines/signs.py": error}, branch="life/signs")["published"]
    assert published["status"] == "failed"
    assert told in published["errors"][0]["message"]


def test_a_seed_is_built_like_a_transform_and_only_when_it_changed(stack: Stack) -> None:
    file, types = (
        "seeds/shop/codes.csv",
        '[pipeline]\nfolders = ["/shop"]\n[seeds."/shop/codes"]\ntypes = { zip = "string" }\n',
    )
    stack.commit({file: "zip,city\n10001,New York\n94103,\n", "pipeline.toml": types})
    (job,) = stack.build("/shop/codes")["jobs"]
    assert (job["state"], job["function"], job["file"]) == ("COMPLETED", file, file)
    assert stack.rows("/shop/codes") == [{"zip": "10001", "city": "New York"}, {"zip": "94103", "city": None}]

    make_branch(stack, "codes")
    stack.commit({"notes.md": "nothing of the seed"}, branch="codes")
    assert [job["skipped"] for job in stack.build("/shop/codes", branch="codes")["jobs"]] == [True]
    stack.commit({file: "zip,city\n10001,New York\n94103,San Francisco\n"}, branch="codes")
    assert stack.build("/shop/codes", branch="codes")["state"] == "COMPLETED"
    assert stack.rows("/shop/codes", branch="codes")[1] == {"zip": "94103", "city": "San Francisco"}
    assert stack.rows("/shop/codes")[1] == {"zip": "94103", "city": None}

    stack.commit({file: "zip,city\n", "pipeline.toml": types.replace(" }", ', city = "string" }')}, branch="codes")
    assert stack.build("/shop/codes", branch="codes")["state"] == "COMPLETED"
    assert stack.rows("/shop/codes", branch="codes") == []

    stack.commit({file: "zip,city\n10001,New York\n94103,San Francisco,USA\n"}, branch="codes")
    failed = stack.build("/shop/codes", branch="codes")
    assert failed["state"] == "FAILED"
    assert f"{file}: line 3: " in failed["jobs"][0]["reason"]
