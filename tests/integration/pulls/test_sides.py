"""Both sides of a pull request on equal inputs: what the code changed, apart from newer data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from tests.factories.builds import HEAD, Stack, make_transform, wait_until
from tests.integration.pulls.conftest import Call
from webapp.accounts.models import User
from webapp.datasets.models import DatasetBranch
from webapp.datasets.queries.history import list_names
from webapp.pulls import services
from webapp.pulls.rules.sides import find_drift, read_review_branch, review_branch
from webapp.pulls.services.sides import sweep_reviews

pytestmark = pytest.mark.integration
RAW, SCALED = "/shop/readings", "/shop/scaled"
BRANCH = "feature/scale"
HIDDEN = "_review/"


def source(factor: int) -> str:
    body = f't = i0.arrow()\nout.write_table(t.append_column("scaled", pa.compute.multiply(t["value"], {factor})))'
    return HEAD + "import pyarrow.compute\n\n" + make_transform("scaled", inputs=[RAW], output=SCALED, body=body)


def upload(stack: Stack, rows: str) -> None:
    answer = stack.upload(RAW, "id,value\n" + rows)
    assert answer.status_code == 201, answer.text


def diff_of(ask: Call, at: str, *, past: dict[str, Any] | None = None, ends: tuple[str, ...] = ()) -> dict[str, Any]:
    """Wait until the row diff of the one dataset is ready, and these of its two ends are others than in the past one."""
    row: dict[str, Any] = {}

    def is_ready() -> bool:
        row.update(ask("mira", "GET", f"{at}/datasets", expect=200)["results"][0])
        moved = past is None or all(row[end] != past[end] for end in ends)
        return bool(row["rows"]["state"] == "ready" and moved)

    wait_until(is_ready, seconds=40)
    return row


def counts(row: dict[str, Any]) -> tuple[int, int, int]:
    rows = row["rows"]
    return rows["inserted"] + rows["updated"], rows["deleted"] + rows["updated"], rows["unchanged"]


def test_the_base_side_is_the_targets_code_on_the_branchs_inputs(stack: Stack, ask: Call) -> None:
    upload(stack, "1,10\n2,20\n")
    stack.commit({"pipelines/scaled.py": source(2)})
    assert stack.build(SCALED)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/shop/branches", json={"name": BRANCH}, expect=201)
    stack.commit({"pipelines/scaled.py": source(3)}, branch=BRANCH)
    assert stack.build(SCALED, branch=BRANCH)["state"] == "COMPLETED"
    pull = ask("ines", "POST", "/repositories/shop/pulls", json={"title": "Scale", "source": BRANCH}, expect=201)
    at = f"/repositories/shop/pulls/{pull['number']}"
    row = diff_of(ask, at)
    assert counts(row) == (2, 2, 0)

    # Newer data on master: now the difference is more than the code.
    upload(stack, "1,10\n2,20\n3,30\n4,40\n")
    assert stack.build(SCALED)["state"] == "COMPLETED"
    drifted = diff_of(ask, at, past=dict(row), ends=("from",))
    assert counts(drifted) == (2, 4, 0)
    page = f"/r/shop/pulls/{pull['number']}/data"
    assert "Not only the code differs." in stack.fragment(page)

    # The base side on the branch's inputs; master does not move.
    master = stack.rows(SCALED)
    started = ask("ines", "POST", f"{at}/builds", json={"sides": ["base"]}, expect=202)
    assert [one["branch"] for one in started["builds"]] == [review_branch("shop", pull["number"])]
    assert stack.wait_for_build(started["id"])["state"] == "COMPLETED"
    equal = diff_of(ask, at, past=drifted, ends=("from",))
    assert counts(equal) == (2, 2, 0)
    assert stack.rows(SCALED) == master
    shown = stack.fragment(page)
    assert "Only the code differs." in shown
    assert "What newer data changed on master" in shown

    # Nobody sees the branch that keeps it.
    dataset = next(one for one in stack.call("GET", "/datasets?q=scaled")["results"] if one["path"] == SCALED)
    for path in ("", "/branches", "/transactions"):
        assert HIDDEN not in str(stack.call("GET", f"/datasets/{dataset['id']}{path}"))

    # Both sides anew read the newest data; master's own version is what the base side would be.
    both = ask("ines", "POST", f"{at}/builds", json={"sides": ["head", "base"]}, expect=202)
    assert [one["branch"] for one in both["builds"]] == [BRANCH, review_branch("shop", pull["number"])]
    for build in both["builds"]:
        assert stack.wait_for_build(build["id"])["state"] == "COMPLETED"
    newest = diff_of(ask, at, past=equal, ends=("from", "to"))
    assert (counts(newest), newest["from"]) == ((4, 4, 0), drifted["from"])

    for wrong in (["left"], [], "base", [1]):
        ask("ines", "POST", f"{at}/builds", json={"sides": wrong}, expect=422)
    ask("olek", "POST", f"{at}/builds", json={"sides": ["base"]}, expect=403)
    ask("ines", "POST", f"{at}/close", expect=200)


@pytest.mark.django_db
def test_base_sides_of_what_is_no_longer_open_are_removed(home: Path, admin: User, monkeypatch: Any) -> None:
    monkeypatch.setattr("webapp.core.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines")
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"a.txt": "a\n"}, branch="feature", by=ines)
    pull = services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    dataset = make_datasets.a_dataset("/shop/kept", by=admin)
    hidden = DatasetBranch.objects.create(
        dataset=dataset, name=review_branch("shop", 1), name_lower="_review/shop/1/base"
    )
    assert list_names(dataset) == ["master"]

    assert sweep_reviews() == 0
    services.close_pull(pull=pull, by=ines)
    assert sweep_reviews() == 1
    assert not DatasetBranch.objects.filter(pk=hidden.pk).exists()


def test_drift_is_what_both_sides_read_in_different_versions() -> None:
    before, after = {"/a/x": "1", "/a/y": "2", "/a/own": "3"}, {"/a/x": "1", "/a/y": "9", "/a/own": "4", "/a/new": "5"}
    assert find_drift(before, after, ours=["/a/own"]) == ["/a/y"]
    assert read_review_branch(review_branch("shop", 12)) == ("shop", 12)
    assert [read_review_branch(name) for name in ("_review/shop/0/base", "_review/a/b/1/base", "x")] == [None] * 3
