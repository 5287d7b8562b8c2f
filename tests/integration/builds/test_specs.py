"""Publication and resolution: what a commit publishes, what keeps the old JobSpecs, what cannot be planned."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.builds import HEAD, Stack, make_transform
from tests.factories.crowds import read_peak_mib

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
COPY = "out.write_table(i0.arrow())"


@pytest.fixture
def branch(stack: Stack, request: pytest.FixtureRequest) -> str:
    """Return a branch of this test alone."""
    name = f"specs/{request.node.name}"[:80].replace("[", "-").replace("]", "")
    stack.call("POST", "/repositories/shop/branches", json={"name": name, "start_point": "master"}, expect=201)
    return name


def list_outputs(stack: Stack, branch: str) -> dict[str, dict[str, Any]]:
    found = stack.call("GET", "/repositories/shop/jobspecs", params={"branch": branch, "limit": 250})["results"]
    return {output["path"]: spec for spec in found for output in spec["outputs"]}


def test_commit_publishes_and_deletion_unpublishes(stack: Stack, branch: str) -> None:
    one = make_transform("one", inputs=["/shop/raw"], output="/shop/sp/one", body=COPY)
    two = make_transform("two", inputs=["/shop/raw"], output="/shop/sp/two", body=COPY)
    stack.commit({"pipelines/sp1.py": HEAD + one, "pipelines/sp2.py": HEAD + two}, branch=branch)
    before = list_outputs(stack, branch)
    assert before["/shop/sp/one"]["branch"] == branch
    made = stack.commit({"pipelines/sp1.py": None, "pipelines/unrelated.py": "x = 1\n"}, branch=branch)
    after = list_outputs(stack, branch)
    assert "/shop/sp/one" not in after
    assert after["/shop/sp/two"]["digest"] == before["/shop/sp/two"]["digest"]
    assert after["/shop/sp/two"]["changed_sha"] == before["/shop/sp/two"]["changed_sha"]
    assert after["/shop/sp/two"]["sha"] == made["sha"]


def test_code_that_does_not_import_keeps_the_old_jobspecs(stack: Stack, branch: str) -> None:
    good = HEAD + make_transform("kept", inputs=["/shop/raw"], output="/shop/sp/kept", body=COPY)
    stack.commit({"pipelines/kept.py": good}, branch=branch)
    made = stack.commit({"pipelines/kept.py": good + "\nimport nowhere\n"}, branch=branch)
    assert made["published"]["status"] == "failed"
    (error,) = made["published"]["errors"]
    assert error["file"] == "pipelines/kept.py"
    assert error["line"] == good.count("\n") + 2
    assert "nowhere" in error["message"]
    assert "/shop/sp/kept" in list_outputs(stack, branch)
    build = stack.build("/shop/sp/kept", branch=branch)
    assert build["state"] == "COMPLETED"
    assert "The last good JobSpecs are used." in build["notes"][0]


def test_two_transforms_for_one_dataset_are_refused(stack: Stack, branch: str) -> None:
    source = HEAD + "".join(
        make_transform(name, inputs=["/shop/raw"], output="/shop/sp/twice", body=COPY) for name in ("left", "right")
    )
    made = stack.commit({"pipelines/twice.py": source}, branch=branch)
    assert made["published"]["status"] == "failed"
    assert "/shop/sp/twice" in made["published"]["errors"][0]["message"]


def test_names_that_no_column_holds_are_refused(stack: Stack, branch: str) -> None:
    source = HEAD + make_transform("long" * 101, output="/shop/sp/long", body="pass")
    source += make_transform("there", output=f"/shop/{'x' * 400}", body="pass")
    published = stack.commit({"pipelines/long.py": source}, branch=branch)["published"]
    assert published["status"] == "failed"
    assert "signs are more than the 400 that are stored" in published["errors"][0]["message"]


def test_dataset_of_another_repository_is_refused_by_name(stack: Stack) -> None:
    stack.make_repository("rival")
    files = {
        "pipeline.toml": '[pipeline]\npackages = ["pipelines"]\nfolders = ["/rival"]\n',
        "pipelines/steal.py": HEAD
        + make_transform("steal", inputs=[], output="/shop/raw2", body="out.write_table(pa.table({'a': [1]}))"),
    }
    made = stack.commit(files, repository="rival")
    assert made["published"]["status"] == "failed"
    assert "repository shop" in made["published"]["errors"][0]["message"]


def test_cycle_is_refused_at_the_commit(stack: Stack, branch: str) -> None:
    source = HEAD + make_transform("a", inputs=["/shop/sp/cy2"], output="/shop/sp/cy1", body=COPY)
    source += make_transform("b", inputs=["/shop/sp/cy1"], output="/shop/sp/cy2", body=COPY)
    made = stack.commit({"pipelines/cycle.py": source}, branch=branch)
    assert made["published"]["status"] == "failed"
    assert "/shop/sp/cy1" in made["published"]["errors"][0]["message"]


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("/shop/sp/nothing", "unknown_target", ["/shop/sp/nothing"]),
        ("/shop/sp/hungry", "input_missing", ["/shop/sp/gone", "hungry"]),
        ("/shop/sp/elsewhere", "branch_mismatch", ["develop"]),
    ],
)
def test_what_cannot_be_planned_says_why(stack: Stack, branch: str, target: str, code: str, words: list[str]) -> None:
    source = HEAD + make_transform("hungry", inputs=["/shop/sp/gone"], output="/shop/sp/hungry", body=COPY)
    source += (
        '@transform.using(i0=TableInput("/shop/raw", branch="develop"), out=TableOutput("/shop/sp/elsewhere"))\n'
        "def elsewhere(i0, out):\n    out.write_table(i0.arrow())\n"
    )
    made = stack.commit({"pipelines/unplannable.py": source}, branch=branch)
    assert made["published"]["status"] == "published", made
    order = {"branch": branch, "targets": [target]}
    dry = stack.request("POST", "/builds", json={**order, "dry_run": True})
    assert (dry.status_code, dry.json()["code"]) == (422, code)
    build = stack.build(target, branch=branch)
    assert (build["state"], build["code"], build["jobs"]) == ("FAILED", code, [])
    for word in [*words, branch if code == "branch_mismatch" else ""]:
        assert word in build["reason"]
        assert word in dry.json()["detail"]
    assert stack.open_transactions() == []


def test_dry_run_answers_with_the_plan_and_changes_nothing(stack: Stack, branch: str) -> None:
    stack.commit(
        {"pipelines/dry.py": HEAD + make_transform("dry", inputs=["/shop/raw"], output="/shop/sp/dry", body=COPY)},
        branch=branch,
    )
    count = stack.query("SELECT count(*) FROM builds_build")
    answer = stack.call(
        "POST", "/builds", json={"branch": branch, "targets": ["/shop/sp/dry"], "dry_run": True}, expect=200
    )
    (job,) = answer["plan"]["jobs"]
    assert answer["chain"] == [branch, "master"]
    assert job["inputs"][0]["fallback"] is True
    assert job["outputs"] == [{"name": "out", "path": "/shop/sp/dry", "branch": branch, "is_new": True, "parent": None}]
    assert job["why"] == "New JobSpec on this branch"
    assert "1. /shop/sp/dry: runs." in answer["explanation"]
    assert stack.query("SELECT count(*) FROM builds_build") == count
    assert stack.call("GET", "/datasets?path=/shop/sp/dry")["results"] == []


def test_lineage_shows_both_directions_with_freshness(stack: Stack, branch: str) -> None:
    source = HEAD + make_transform("mid", inputs=["/shop/raw"], output="/shop/sp/mid", body=COPY)
    source += make_transform("end", inputs=["/shop/sp/mid"], output="/shop/sp/end", body=COPY)
    stack.commit({"pipelines/lineage.py": source}, branch=branch)
    stack.build("/shop/sp/mid", branch=branch)
    dataset = stack.call("GET", "/datasets?path=/shop/sp/mid")["results"][0]
    graph = stack.call("GET", f"/datasets/{dataset['id']}/lineage", params={"branch": branch})
    states = {node["path"]: (node["depth"], node["state"]) for node in graph["nodes"]}
    assert states == {"/shop/raw": (-1, "source"), "/shop/sp/mid": (0, "fresh"), "/shop/sp/end": (1, "stale")}
    assert graph["edges"] == [
        {"from": "/shop/raw", "to": "/shop/sp/mid"},
        {"from": "/shop/sp/mid", "to": "/shop/sp/end"},
    ]


def test_what_modules_print_is_not_kept_in_memory(stack: Stack, branch: str) -> None:
    worker = stack.parts["quick"].pid
    before = read_peak_mib(worker)
    source = 'import sys\nfor _ in range(1_000_000):\n    sys.stdout.write("x" * 100 + "\\n")\n'
    made = stack.commit({"pipelines/talks.py": source}, branch=branch)
    assert made["published"]["status"] == "published"
    assert read_peak_mib(worker) < before + 60
