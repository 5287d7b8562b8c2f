"""Pull requests that are green apart and fail together, in a running installation: master never sees the two."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.builds import HEAD, Stack, make_transform, wait_until
from tests.factories.tiers import further
from tests.integration.pulls.conftest import Call

pytestmark = pytest.mark.integration
RATES, READER, APART = "/shop/queue_rates", "/shop/queue_reader", "/shop/queue_apart"
FILES, SUMS = "/shop/queue_files", "/shop/queue_sums"
PULLS = "/repositories/shop/pulls"


def source(name: str, *, reads: str, makes: str, body: str) -> dict[str, str | None]:
    return {f"pipelines/{name}.py": HEAD + make_transform(name, inputs=[reads], output=makes, body=body)}


def propose(stack: Stack, ask: Call, branch: str, path: str, files: dict[str, str | None]) -> int:
    """Open a pull request off master whose branch is built, and have it approved."""
    stack.call("POST", "/repositories/shop/branches", json={"name": branch, "start_point": "master"}, expect=201)
    stack.commit(files, branch=branch)
    assert stack.build(path, branch=branch)["state"] == "COMPLETED"
    asked = {"title": branch, "source": branch, "target": "master"}
    number: int = ask("ines", "POST", PULLS, json=asked, expect=201)["number"]
    return number


def approve(ask: Call, number: int) -> None:
    wait_until(lambda: blockers(ask, number) <= {"approval_missing"}, seconds=60)
    ask("mira", "POST", f"{PULLS}/{number}/reviews", json={"verdict": "approve"}, expect=201)


def blockers(ask: Call, number: int) -> set[str]:
    return {blocker["code"] for blocker in ask("ines", "GET", f"{PULLS}/{number}", expect=200)["blocked_by"]}


def wait_for_end(ask: Call, number: int) -> dict[str, Any]:
    """Wait until nobody asks for a merge any more; return its pull request, read after that."""

    def read() -> dict[str, Any]:
        return dict(ask("ines", "GET", f"{PULLS}/{number}", expect=200))

    wait_until(lambda: read()["queued"] is None, seconds=180, every=0.5)
    return read()


@further(
    "integration/pulls/test_merge_queue.py::test_each_is_tested_on_top_of_those_before_it_and_again_when_one_is_ejected"
)
def test_two_that_are_green_apart_never_make_master_red(stack: Stack, ask: Call) -> None:
    keep = 'out.write_table(i0.arrow().select(["id", "amount"]))'
    stack.commit(source("queue_rates", reads="/shop/orders", makes=RATES, body=keep))
    assert stack.build(RATES)["state"] == "COMPLETED"
    rename = 'out.write_table(i0.arrow().select(["id", "amount"]).rename_columns(["id", "price"]))'
    read = 'out.write_table(i0.arrow().select(["amount"]))'
    renames = propose(
        stack, ask, "queue/rename", RATES, source("queue_rates", reads="/shop/orders", makes=RATES, body=rename)
    )
    reads = propose(stack, ask, "queue/read", READER, source("queue_reader", reads=RATES, makes=READER, body=read))
    apart = propose(
        stack, ask, "queue/apart", APART, source("queue_apart", reads="/shop/orders", makes=APART, body=keep)
    )
    for number in (renames, reads, apart):
        approve(ask, number)

    ask("ines", "POST", f"{PULLS}/{renames}/queue", json={}, expect=202)
    assert wait_for_end(ask, renames)["state"] == "merged", "its branch was built with all that master has"
    for number in (reads, apart):
        ask("ines", "POST", f"{PULLS}/{number}/queue", json={}, expect=202)

    ejected = wait_for_end(ask, reads)
    assert ejected["state"] == "open"
    entries = ask("ines", "GET", f"{PULLS}/{reads}/timeline", expect=200)["results"]
    [event] = [entry for entry in entries if entry["kind"] == "ejected"]
    assert READER in event["data"]["reason"]
    assert "amount" in event["data"]["reason"]

    landed = wait_for_end(ask, apart)
    assert landed["state"] == "merged"
    assert stack.wait_for_build(landed["merge"]["build"]["id"])["state"] == "COMPLETED"
    assert len(stack.rows(APART)) == 4
    builds = stack.call("GET", "/builds?branch=master&limit=20")["results"]
    assert [build["state"] for build in builds if {RATES, READER, APART} & set(build["targets"])].count("FAILED") == 0


@further("integration/pulls/test_chosen_loads.py::test_the_queue_tests_what_is_loaded_and_holds_the_choice")
def test_files_that_land_before_are_there_for_what_is_tested_behind_them(stack: Stack, ask: Call) -> None:
    assert stack.upload(FILES, "k,v\na,1\n").status_code == 201
    sums = source("queue_sums", reads=FILES, makes=SUMS, body="out.write_table(i0.arrow())")
    code = propose(stack, ask, "queue/sums", SUMS, sums)
    stack.call("POST", "/repositories/shop/branches", json={"name": "queue/files", "start_point": "master"}, expect=201)
    assert stack.upload(FILES, "k,v\nb,2\n", branch="queue/files").status_code == 201
    files = ask("ines", "POST", PULLS, json={"title": "Files", "source": "queue/files"}, expect=201)["number"]
    ask("ines", "POST", f"{PULLS}/{files}/uploads", json={"dataset": FILES, "load": True}, expect=200)
    for number in (files, code):
        approve(ask, number)
        wait_until(lambda: not blockers(ask, number), seconds=60)
    for number in (files, code):
        ask("mira", "POST", f"{PULLS}/{number}/queue", json={}, expect=202)
    landed = [wait_for_end(ask, number) for number in (files, code)]
    assert [pull["state"] for pull in landed] == ["merged", "merged"]
    read = {
        build["branch"].split("/")[0]: stack.call("GET", f"/builds/{build['id']}")["jobs"][0]["inputs"][0][
            "transaction"
        ]
        for build in stack.call("GET", "/builds?limit=50")["results"]
        if SUMS in build["targets"] and build["branch"] != "master"
    }
    assert read["_queue"] != read["queue"], "the rows that its branch was built with are not what it lands on"
    assert stack.wait_for_build(landed[1]["merge"]["build"]["id"])["state"] == "COMPLETED"
    assert [(row["k"], row["v"]) for row in stack.rows(SUMS)] == [("b", 2)]
