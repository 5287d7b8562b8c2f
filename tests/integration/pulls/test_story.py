"""The whole way by REST and Git: branch, change, build, pull request, review, merge, rebuilt master."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, wait_until
from tests.integration.pulls.conftest import Call

pytestmark = pytest.mark.integration

TOTALS = 't = i0.arrow()\nout.write_table(t.append_column("double", pa.compute.multiply(t["amount"], 2)))'
CHANGED = (
    't = i0.arrow()\nkeep = t.filter(pa.compute.greater(t["id"], 1))\n'
    'out.write_table(keep.append_column("double", pa.compute.cast(pa.compute.multiply(keep["amount"], 3), "float64"))'
    '.append_column("note", pa.array(["new"] * keep.num_rows)))'
)
RULES = PIPELINE + '\n[datasets."/shop/totals"]\nkey = ["id"]\n'


def source(body: str) -> str:
    return (
        HEAD
        + "import pyarrow.compute\n\n"
        + make_transform("totals", inputs=["/shop/orders"], output="/shop/totals", body=body)
    )


def wait_ready(ask: Call, pull: int, count: int) -> list[dict[str, Any]]:
    """Wait until so many datasets of a pull request have finished diffs."""
    rows: list[dict[str, Any]] = []

    def is_ready() -> bool:
        rows[:] = ask("mira", "GET", f"/repositories/shop/pulls/{pull}/datasets", expect=200)["results"]
        return sum(row["rows"]["state"] == "ready" for row in rows) >= count

    wait_until(is_ready, seconds=40)
    return rows


def test_story_from_clone_to_rebuilt_master(stack: Stack, ask: Call, tokens: dict[str, str], tmp_path: Path) -> None:
    stack.commit({"pipeline.toml": RULES, "pipelines/totals.py": source(TOTALS)})
    assert stack.build("/shop/totals")["state"] == "COMPLETED"
    before = stack.rows("/shop/totals")

    # The code part by Git over HTTP.
    clone = tmp_path / "shop"
    url = f"http://ines:{tokens['ines']}@127.0.0.1:{stack.port}/git/shop.git"
    run_git(tmp_path, "clone", "-q", url, str(clone))
    run_git(clone, "checkout", "-q", "-b", "feature/triple")
    (clone / "pipelines" / "totals.py").write_text(source(CHANGED))
    run_git(clone, "commit", "-q", "-am", "Triple the amounts")
    run_git(clone, "push", "-q", "origin", "feature/triple")
    branch = quote("feature/triple", safe="")
    head = ask("ines", "GET", f"/repositories/shop/branches/{branch}", expect=200)["head"]
    assert stack.wait_for_publication(head)["published"]["status"] == "published"

    # The plan, then the build on the branch; master does not move.
    order = {"branch": "feature/triple", "targets": ["/shop/totals"]}
    plan = ask("ines", "POST", "/builds", json={**order, "dry_run": True}, expect=200)
    assert plan["chain"] == ["feature/triple", "master"]
    build = ask("ines", "POST", "/builds", json=order, expect=202)
    built = stack.wait_for_build(build["id"])
    assert built["state"] == "COMPLETED"
    assert built["jobs"][0]["inputs"][0]["branch"] == "master"
    assert stack.rows("/shop/totals") == before
    assert len(stack.rows("/shop/totals", branch="feature/triple")) == 3

    # The pull request with its diffs.
    pull = ask(
        "ines",
        "POST",
        "/repositories/shop/pulls",
        json={"title": "Triple", "source": "feature/triple", "body": "Because."},
        expect=201,
    )
    number = pull["number"]
    assert [reason["code"] for reason in pull["blocked_by"]] == ["approval_missing"]
    (row,) = wait_ready(ask, number, 1)
    assert row["change"] == "modified"
    counts = {name: row["rows"][name] for name in ("inserted", "deleted", "updated", "unchanged")}
    assert counts == {"inserted": 0, "deleted": 1, "updated": 3, "unchanged": 0}
    assert row["schema_status"] == "breaking"
    at = f"/repositories/shop/pulls/{number}"
    schema = ask("mira", "GET", f"{at}/datasets/{row['id']}/schema", expect=200)
    assert [one["name"] for one in schema["added"]] == ["note"]
    assert ("double", "long", "double") in {(one["name"], one["from"], one["to"]) for one in schema["modified"]}
    page = ask("mira", "GET", f"{at}/datasets/{row['id']}/rows?change=updated&limit=2", expect=200)
    assert page["mode"] == "identifier"
    assert page["rows"][0]["key"] == {"id": 2}
    assert page["rows"][0]["before"]["double"] == 40
    assert page["rows"][0]["after"]["double"] == 60.0
    rest = ask(
        "mira", "GET", f"{at}/datasets/{row['id']}/rows?change=updated&limit=2&cursor={page['next']}", expect=200
    )
    assert [one["key"]["id"] for one in page["rows"] + rest["rows"]] == [2, 3, 4]
    found = ask("mira", "GET", f"{at}/datasets/{row['id']}/rows?q=id%20%3D%201", expect=200)
    assert [one["change"] for one in found["rows"]] == ["deleted"]
    refused = ask("mira", "GET", f"{at}/datasets/{row['id']}/rows?q=id%20%3D%20one", expect=400)
    assert (refused["code"], "at character 6" in refused["detail"]) == ("bad_search", True)
    assert b"note" in ask("mira", "GET", f"{at}/datasets/{row['id']}/rows.csv", expect=200)
    assert ask("mira", "GET", f"{at}/datasets/{row['id']}/rows.parquet", expect=200)[:4] == b"PAR1"
    assert ask("mira", "GET", f"{at}/files", expect=200)["results"][0]["path"] == "pipelines/totals.py"
    assert len(ask("mira", "GET", f"{at}/commits", expect=200)["results"]) == 1

    # Reviews: nobody approves their own; a reader may not approve; a writer's approval counts.
    ask("ines", "POST", f"{at}/reviews", json={"verdict": "approve"}, expect=403)
    ask("olek", "POST", f"{at}/reviews", json={"verdict": "approve"}, expect=403)
    refused = ask("ines", "POST", f"{at}/merge", json={}, expect=409)
    assert [reason["code"] for reason in refused["blocked_by"]] == ["approval_missing"]
    said = ask(
        "mira",
        "POST",
        f"{at}/comments",
        json={"body": "Why?", "anchor": {"dataset": row["id"], "key": {"id": 2}, "column": "double"}},
        expect=201,
    )
    quoted = {cell["name"]: (cell["before"], cell["after"]) for cell in said["picture"]["cells"]}
    assert (quoted["id"], quoted["double"], said["picture"]["change"]) == ((2, 2), (40, 60.0), "updated")
    sought = ask("mira", "GET", f"{at}/datasets/{row['id']}/rows?row=2&limit=2", expect=200)
    assert 2 in [line["key"]["id"] for line in sought["rows"]]
    ask("mira", "GET", f"{at}/datasets/{row['id']}/rows?row=2&change=deleted", expect=404)
    alike = ask("mira", "GET", f"{at}/datasets/{row['id']}/rows?like=2", expect=200)
    assert [line["key"]["id"] for line in alike["rows"]] == [2, 3, 4]
    ask("mira", "POST", f"{at}/reviews", json={"verdict": "approve", "body": "Fine."}, expect=201)
    assert ask("ines", "GET", at, expect=200)["mergeable"] is True

    # Merge: code at once, data by the build that it starts.
    ask("ines", "POST", f"{at}/merge", json={"expected_head": "0" * 40}, expect=409)
    merged = ask(
        "ines",
        "POST",
        f"{at}/merge",
        json={"method": "merge", "rebuild": "modified", "expected_head": head},
        expect=202,
    )
    assert stack.wait_for_build(merged["build"]["id"])["state"] == "COMPLETED"
    assert stack.rows("/shop/totals") == stack.rows("/shop/totals", branch="feature/triple")

    def is_equal() -> bool:
        outcome = ask("mira", "GET", at, expect=200)["merge"]["outcome"]
        return bool(outcome) and all(one["state"] == "equal" for one in outcome.values())

    wait_until(is_equal, seconds=30)
    shown = ask("mira", "GET", at, expect=200)
    assert shown["state"] == "merged"
    kinds = [entry["kind"] for entry in ask("mira", "GET", f"{at}/timeline", expect=200)["results"]]
    assert kinds[0] == "opened"
    assert {"comment", "review", "merged", "rebuilt"} <= set(kinds)
    run_git(clone, "fetch", "-q", "origin")
    landed = run_git(clone, "rev-parse", "origin/master^{tree}")
    assert landed == run_git(clone, "rev-parse", "feature/triple^{tree}")


def test_approval_becomes_void_when_data_or_code_moves(stack: Stack, ask: Call) -> None:
    number = open_built_pull(stack, ask, "void")
    at = f"/repositories/shop/pulls/{number}"
    ask("mira", "POST", f"{at}/reviews", json={"verdict": "approve"}, expect=201)
    assert ask("ines", "GET", at, expect=200)["mergeable"] is True
    stack.build("/shop/void_out", branch="void", force=True)
    wait_until(lambda: ask("ines", "GET", at, expect=200)["reviews"][0]["void"], seconds=15)
    shown = ask("ines", "GET", at, expect=200)
    assert "/shop/void_out moved" in shown["reviews"][0]["void_reason"]
    assert [reason["code"] for reason in shown["blocked_by"]] == ["approval_missing"]


def test_maintainer_merges_past_a_requirement_and_the_page_says_so(stack: Stack, ask: Call) -> None:
    number = open_built_pull(stack, ask, "bypass")
    at = f"/repositories/shop/pulls/{number}"
    ask("ines", "POST", f"{at}/merge", json={"bypass": True}, expect=403)
    merged = ask("mira", "POST", f"{at}/merge", json={"bypass": True, "method": "squash"}, expect=202)
    assert [one["code"] for one in merged["bypassed"]] == ["approval_missing"]
    assert stack.wait_for_build(merged["build"]["id"])["state"] == "COMPLETED"
    audit = stack.call("GET", "/audit")["results"]
    assert any(entry["verb"] == "bypass_merge_rules" for entry in audit)


def test_conflict_is_named_and_nothing_is_lost(stack: Stack, ask: Call) -> None:
    number = open_built_pull(stack, ask, "clash")
    stack.commit({"pipelines/clash.py": make_source("clash", "9")})
    at = f"/repositories/shop/pulls/{number}"
    reasons = {one["code"]: one["message"] for one in ask("ines", "GET", at, expect=200)["blocked_by"]}
    assert "pipelines/clash.py" in reasons["conflict"]
    ask("mira", "POST", f"{at}/merge", json={"bypass": True}, expect=409)
    assert ask("ines", "GET", at, expect=200)["state"] == "open"
    stack.commit({"pipelines/clash.py": None})


def test_deleted_branch_leaves_a_pull_request_that_says_so(stack: Stack, ask: Call) -> None:
    number = open_built_pull(stack, ask, "gone")
    dataset = ask("ines", "GET", "/datasets?path=/shop/gone_out", expect=200)["results"][0]["id"]
    branches = f"/datasets/{dataset}/branches"
    assert "gone" in {one["name"] for one in ask("ines", "GET", branches, expect=200)["results"]}
    ask("ines", "DELETE", "/repositories/shop/branches/gone", expect=204)
    assert "gone" not in {one["name"] for one in ask("ines", "GET", branches, expect=200)["results"]}
    at = f"/repositories/shop/pulls/{number}"
    shown = ask("ines", "GET", at, expect=200)
    assert [one["code"] for one in shown["blocked_by"]][0] == "source_missing"
    ask("ines", "POST", f"{at}/close", expect=200)
    ask("ines", "POST", f"{at}/reopen", expect=422)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"title": "", "source": "x"}, 422, "invalid_input"),
        ({"title": "t"}, 422, "invalid_input"),
        ({"title": "t", "source": "no-such"}, 422, "invalid_input"),
        ({"title": "t", "source": "master"}, 422, "invalid_input"),
        ({"title": "t", "source": "master", "draft": "yes"}, 422, "invalid_input"),
    ],
)
def test_bad_pull_request_is_refused_by_name(ask: Call, body: dict[str, Any], status: int, code: str) -> None:
    assert ask("ines", "POST", "/repositories/shop/pulls", json=body, expect=status)["code"] == code


def test_strangers_see_nothing(stack: Stack, ask: Call) -> None:
    for path in ("/repositories/shop", "/repositories/shop/pulls", "/repositories/shop/pulls/1"):
        ask("stranger", "GET", path, expect=404)
    assert ask("stranger", "GET", "/repositories", expect=200)["results"] == []
    assert stack.call("GET", "/repositories")["results"]


def make_source(name: str, factor: str) -> str:
    body = f't = i0.arrow()\nout.write_table(t.append_column("n", pa.array([{factor}] * t.num_rows)))'
    return HEAD + make_transform(name, inputs=["/shop/orders"], output=f"/shop/{name}_out", body=body)


def open_built_pull(stack: Stack, ask: Call, name: str) -> int:
    """Open a pull request of a new branch that adds a transform and has built it."""
    ask("ines", "POST", "/repositories/shop/branches", json={"name": name, "start_point": "master"}, expect=201)
    stack.commit({"pipelines/" + name + ".py": make_source(name, "1")}, branch=name)
    assert stack.build(f"/shop/{name}_out", branch=name)["state"] == "COMPLETED"
    made = ask("ines", "POST", "/repositories/shop/pulls", json={"title": name, "source": name}, expect=201)
    number: int = made["number"]
    return number


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=Ines", "-c", "user.email=ines@example.org", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
