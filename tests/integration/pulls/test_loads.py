"""Data that was loaded on a branch lands by choice: merging loads the same files on the target, in the merge's build."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, wait_until
from tests.factories.tiers import further
from tests.integration.pulls.conftest import Call

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
RATES, SUMS = "/shop/loads/rates", "/shop/loads/sums"


@pytest.fixture(scope="module")
def pull(stack: Stack) -> str:
    """A pull request whose branch has no commit: two files in place of master's rows, and what is made of them."""
    source = HEAD + make_transform("sums", inputs=[RATES], output=SUMS, body="out.write_table(i0.arrow())")
    stack.commit({"pipeline.toml": PIPELINE, "pipelines/sums.py": source})
    assert stack.upload(RATES, "k,v\na,1\n").status_code == 201
    assert stack.build(SUMS)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/shop/branches", json={"name": "rates", "start_point": "master"}, expect=201)
    refused = stack.call("POST", "/repositories/shop/pulls", json={"title": "New rates", "source": "rates"}, expect=422)
    assert "nobody has loaded files on rates" in refused["detail"]
    for content, name, more in (("k;v\n007;2\n", "new.csv", {"delimiter": "semicolon", "types": '{"k": "string"}'}),
                                ("k,v\n008,3\n", "more.csv", {"mode": "append"})):  # fmt: skip
        assert stack.upload(RATES, content, branch="rates", name=name, **more).status_code == 201
    assert stack.build(SUMS, branch="rates")["state"] == "COMPLETED"
    new = stack.fragment("/r/shop/pulls/new?source=rates")
    assert f"Load {RATES}" in new
    assert "rates has no code that master lacks; it brings data alone." in new
    opened = stack.call("POST", "/repositories/shop/pulls", json={"title": "New rates", "source": "rates"}, expect=201)
    return f"/repositories/shop/pulls/{opened['number']}"


def choose(ask: Call, pull: str, *, load: bool = True, who: str = "mira", expect: int = 200, **more: str) -> Any:
    return ask(who, "POST", f"{pull}/uploads", json={"dataset": RATES, "load": load, **more}, expect=expect)


def kill_and_try_again(stack: Stack, ask: Call, build_id: int) -> Any:
    """Kill the job that loads once it has begun; it may have been faster."""

    def has_begun() -> bool:
        jobs = stack.call("GET", f"/builds/{build_id}")["jobs"]
        return bool(jobs) and jobs[0]["state"] not in ("WAITING", "RUN_PENDING")

    stack.wait(has_begun, seconds=40)
    stack.kill_jobs()
    build = stack.wait_for_build(build_id)
    if build["state"] == "FAILED":
        build = stack.wait_for_build(ask("mira", "POST", f"/builds/{build_id}/retry", expect=202)["id"])
    return build


@further("integration/pulls/test_chosen_loads.py::test_a_box_on_the_page_is_ticked_and_the_merge_loads")
def test_files_of_a_branch_land_by_choice(stack: Stack, ask: Call, pull: str) -> None:
    (loaded,) = ask("olek", "GET", f"{pull}/uploads", expect=200)["results"]
    assert [(upload["file"], upload["mode"], upload["rows"]) for upload in loaded["uploads"]] == [
        ("new.csv", "snapshot", 1),
        ("more.csv", "append", 1),
    ]
    assert (loaded["load"], loaded["problem"], loaded["target_moved"]) == (True, None, False)
    assert choose(ask, pull, load=False)["load"] is False
    assert "nothing_to_merge" in [reason["code"] for reason in ask("mira", "GET", pull, expect=200)["blocked_by"]]
    choose(ask, pull, who="olek", expect=403)
    choose(ask, pull, expect=409, expected_transaction="elsewhere")
    ask("mira", "POST", f"{pull}/reviews", json={"verdict": "approve"}, expect=201)
    assert choose(ask, pull)["load"] is True
    shown = ask("mira", "GET", pull, expect=200)
    assert [reason["code"] for reason in shown["blocked_by"]] == ["approval_missing"]
    assert shown["reviews"][-1]["void_reason"] == f"whether merging loads the files of {RATES} was chosen anew"
    rows = {row["path"]: row for row in ask("mira", "GET", f"{pull}/datasets", expect=200)["results"]}
    assert {path: rows[path]["lands"] for path in (RATES, SUMS)} == {RATES: True, SUMS: True}

    # Master moves: somebody has to decide again.
    assert stack.upload(RATES, "k,v\nz,9\n").status_code == 201
    blocked = ask("ines", "POST", f"{pull}/merge", json={}, expect=409)["blocked_by"]
    assert {reason["code"] for reason in blocked} == {"approval_missing", "load_conflict"}
    assert f"{RATES} on master was loaded by admin after" in str(blocked)
    (loaded,) = ask("mira", "GET", f"{pull}/uploads", expect=200)["results"]
    assert (loaded["target_moved"], loaded["undecided"]) == (True, True)
    choose(ask, pull, expected_target=loaded["target_transaction"])
    ask("mira", "POST", f"{pull}/reviews", json={"verdict": "approve"}, expect=201)

    # Only who may load on master merges; the job is killed, and what is tried again loads nothing twice.
    assert ask("ines", "POST", f"{pull}/merge", json={}, expect=403)["code"] == "role_too_low"
    merged = ask("mira", "POST", f"{pull}/merge", json={}, expect=202)
    assert merged["loads"] == [{"path": RATES, "files": ["new.csv", "more.csv"]}]
    build = kill_and_try_again(stack, ask, merged["build"]["id"])
    assert build["state"] == "COMPLETED", build
    assert [(job["kind"], job["outputs"][0]["path"]) for job in build["jobs"]] == [("upload", RATES), ("run", SUMS)]
    for path in (RATES, SUMS):
        assert sorted((row["k"], row["v"]) for row in stack.rows(path)) == [("007", 2), ("008", 3)]

    def is_equal() -> bool:
        outcome = ask("mira", "GET", pull, expect=200)["merge"]["outcome"]
        return {path: result["state"] for path, result in outcome.items()} == {RATES: "equal", SUMS: "equal"}

    wait_until(is_equal, seconds=40)
    again = stack.call("POST", "/repositories/shop/pulls", json={"title": "Again", "source": "rates"}, expect=422)
    assert "there is nothing to merge" in again["detail"]
    page = stack.fragment(pull.replace("/repositories", "/r") + "/merge-box")
    assert "Loaded new.csv, more.csv again. Equal to what was reviewed" in page
