"""Both sides of a pull request on equal inputs: what the code changed, apart from newer data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, wait_until
from tests.factories.tiers import further
from tests.integration.pulls.conftest import Call
from webapp.accounts.models import User
from webapp.builds.models import PublishedSpec
from webapp.datasets.models import DatasetBranch
from webapp.datasets.queries.history import list_names
from webapp.pulls import services
from webapp.pulls.rules.sides import find_difference, is_underneath, read_review_branch, review_branch
from webapp.pulls.services.sides import sweep_reviews

pytestmark = pytest.mark.integration
RAW, SCALED, COPY = "/shop/readings", "/shop/scaled", "/shop/scaled_copy"
BRANCH = "feature/scale"
HIDDEN = "_review/"
KEYS = PIPELINE + "".join(f'\n[datasets."{path}"]\nkey = ["id"]\n' for path in (SCALED, COPY))
COPIES = make_transform("copy", inputs=[SCALED], output=COPY, body="out.write_table(i0.arrow())")


def source(factor: int, *, note: str = "") -> dict[str, str]:
    """Return a transform that multiplies, and one that reads it; neither is changed by what the other one is."""
    body = f't = i0.arrow()\nt = t.append_column("scaled", pa.compute.multiply(t["value"], {factor}))\n'
    body += f't = t.append_column("note", pa.array(["{note}"] * t.num_rows))\n' if note else ""
    scaled = make_transform("scaled", inputs=[RAW], output=SCALED, body=f"{body}out.write_table(t)")
    return {"pipelines/scaled.py": f"{HEAD}import pyarrow.compute\n\n{scaled}", "pipelines/copies.py": HEAD + COPIES}


def upload(stack: Stack, rows: str, *, mode: str = "append") -> None:
    answer = stack.upload(RAW, "id,value\n" + rows, mode=mode)
    assert answer.status_code == 201, answer.text


def diffs_of(ask: Call, at: str, *, compared: str, name: str = "") -> dict[str, dict[str, Any]]:
    """Wait until the row diffs of both datasets are ready and of this comparison; return them by path."""
    rows: dict[str, dict[str, Any]] = {}

    def are_ready() -> bool:
        results = ask("mira", "GET", f"{at}/datasets{f'?compared={name}' if name else ''}", expect=200)["results"]
        rows.update({row["path"]: row for row in results})
        sides = [row for row in results if row["path"] in (SCALED, COPY)]
        return all(row["compared"] == compared and is_ready(row) and is_ready(row["since"]) for row in sides)

    wait_until(are_ready, seconds=40)
    return rows


def is_ready(shown: dict[str, Any] | None) -> bool:
    return shown is None or shown["rows"]["state"] == "ready"


def counts(shown: dict[str, Any]) -> tuple[int, int, int]:
    return shown["rows"]["inserted"], shown["rows"]["deleted"], shown["rows"]["updated"]


def build_sides(stack: Stack, ask: Call, at: str, *sides: str) -> list[str]:
    """Build sides with what is downstream; return the branches that were built."""
    started = ask("ines", "POST", f"{at}/builds", json={"sides": sides, "scope": "affected"}, expect=202)
    for build in started["builds"]:
        assert stack.wait_for_build(build["id"])["state"] == "COMPLETED"
    return [build["branch"] for build in started["builds"]]


@further("integration/pulls/test_sides.py::test_a_branch_that_takes_the_targets_commits_stands_on_their_rows")
def test_what_the_code_does_and_what_the_target_did_are_told_apart(stack: Stack, ask: Call) -> None:
    """The branch changes the first of two transforms in a row while the data and the code on master move."""
    upload(stack, "1,10\n2,20\n3,30\n", mode="snapshot")
    stack.commit({"pipeline.toml": KEYS, **source(2)})
    assert stack.build(SCALED, COPY)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/shop/branches", json={"name": BRANCH}, expect=201)
    stack.commit(source(3), branch=BRANCH)
    assert stack.build(SCALED, COPY, branch=BRANCH)["state"] == "COMPLETED"
    pull = ask("ines", "POST", "/repositories/shop/pulls", json={"title": "Scale", "source": BRANCH}, expect=201)
    at = f"/repositories/shop/pulls/{pull['number']}"
    hidden = review_branch("shop", pull["number"])
    data = f"/r/shop/pulls/{pull['number']}/data?dataset="
    began = diffs_of(ask, at, compared="base")
    assert {path: counts(row) for path, row in began.items()} == {SCALED: (0, 0, 3), COPY: (0, 0, 3)}
    assert not ask("ines", "GET", at, expect=200)["stale"]

    # The branch alone reads newer data: the second dataset differs by it too, through the first.
    upload(stack, "4,40\n")
    assert build_sides(stack, ask, at, "head") == [BRANCH]
    wait_until(lambda: counts(diffs_of(ask, at, compared="base")[COPY]) == (1, 0, 3), seconds=20)
    shown = stack.fragment(data + COPY)
    assert "Not only the code differs." in shown
    assert f"<code>{RAW}</code>" in shown
    assert 'name="scope" value="affected"' in shown

    # The base side on the branch's inputs, and then both on newer ones; master does not move.
    master = stack.rows(SCALED)
    assert build_sides(stack, ask, at, "base") == [hidden]
    equal = diffs_of(ask, at, compared="inputs")
    assert {path: counts(row) for path, row in equal.items()} == {SCALED: (0, 0, 4), COPY: (0, 0, 4)}
    upload(stack, "5,50\n")
    assert build_sides(stack, ask, at, "head", "base") == [BRANCH, hidden]
    wait_until(lambda: diffs_of(ask, at, compared="inputs")[COPY]["from"] != equal[COPY]["from"], seconds=20)
    newest = diffs_of(ask, at, compared="inputs")
    assert {path: counts(row) for path, row in newest.items()} == {SCALED: (0, 0, 5), COPY: (0, 0, 5)}
    assert stack.rows(SCALED) == master
    assert "Only the code differs." in stack.fragment(data + COPY)

    # Nobody sees the branch that keeps it.
    dataset = next(one for one in stack.call("GET", "/datasets?q=scaled")["results"] if one["path"] == SCALED)
    for path in ("", "/branches", "/transactions"):
        assert HIDDEN not in str(stack.call("GET", f"/datasets/{dataset['id']}{path}"))

    # Another pull request is merged: what it did to code and rows is no part of this one.
    upload(stack, "1,10\n2,21\n3,30\n4,40\n", mode="snapshot")
    stack.commit(source(2, note="new"))
    assert stack.build(SCALED)["state"] == "COMPLETED"
    wait_until(lambda: bool(diffs_of(ask, at, compared="inputs")[SCALED]["since"]), seconds=20)
    rows = diffs_of(ask, at, compared="inputs")
    row = rows[SCALED]
    assert (counts(row), row["schema_status"], row["from"]) == ((0, 0, 5), "unchanged", newest[SCALED]["from"])
    assert (counts(row["since"])[0], row["since"]["schema_status"]) == (1, "changed")
    assert row["since"]["both"] >= 2
    assert rows[COPY]["since"] is None
    assert ask("ines", "GET", at, expect=200)["stale"]
    branch = diffs_of(ask, at, compared="base", name="base")[SCALED]
    assert (counts(branch), branch["from"]) == ((2, 0, 3), began[SCALED]["from"])
    against = diffs_of(ask, at, compared="master", name="master")[SCALED]
    assert (against["schema_status"], against["from"]) == ("breaking", row["since"]["to"])
    there = f"{at}/datasets/{row['id']}"
    changed = ask("mira", "GET", f"{there}/rows", expect=200)
    assert changed["compared"] == "inputs"
    both = {line["key"]["id"] for line in changed["rows"] if line["both"]}
    assert {2, 4} <= both
    assert 5 not in both
    assert ask("mira", "GET", f"{there}/schema?compared=master", expect=200)["removed"][0]["name"] == "note"
    assert ask("mira", "GET", f"{there}/rows?compared=since", expect=200)["compared"] == "since"
    ask("mira", "GET", f"{there}/rows?compared=yesterday", expect=400)

    shown = stack.fragment(data + SCALED)
    assert "effect of the code" in shown
    assert "master has moved since this branch left it:" in shown
    assert shown.count("⇄</span>") == len(both)
    assert "schema breaks" not in shown
    assert "What master did since this branch left it." in stack.fragment(f"{data}{SCALED}&compared=since")
    for page in ("", "/schema"):
        assert "effect of the code" in stack.fragment(f"/r/shop/pulls/{pull['number']}{page}")
    assert "note" in stack.fragment(f"/r/shop/pulls/{pull['number']}/schema?compared=master")

    # Both sides anew: the base side is the code that the branch left, which master has no longer.
    upload(stack, "5,50\n")
    assert build_sides(stack, ask, at, "head", "base") == [BRANCH, hidden]
    wait_until(lambda: diffs_of(ask, at, compared="inputs")[COPY]["from"] != rows[COPY]["from"], seconds=20)
    again = diffs_of(ask, at, compared="inputs")
    assert {path: counts(row) for path, row in again.items()} == {SCALED: (0, 0, 5), COPY: (0, 0, 5)}
    assert [row["schema_status"] for row in again.values()] == ["unchanged", "unchanged"]

    for wrong in (["left"], [], "base", [1]):
        ask("ines", "POST", f"{at}/builds", json={"sides": wrong}, expect=422)
    ask("olek", "POST", f"{at}/builds", json={"sides": ["base"]}, expect=403)
    ask("ines", "POST", f"{at}/close", expect=200)


STOCK, PRICED = "/shop/stock", "/shop/priced"
PRICING = """import pyarrow.compute
from pipelines.factor import FACTOR
from pipelines.notes import NOTES

"""
PRICED_BODY = """t = i0.arrow()
t = t.append_column("price", pa.compute.multiply(t["value"], FACTOR))
for note in NOTES:
    t = t.append_column(note, pa.array([note] * t.num_rows))
out.write_table(t)"""


def test_a_branch_that_takes_the_targets_commits_stands_on_their_rows(stack: Stack, ask: Call) -> None:
    """What master's code and data did, and the branch has taken by a merge and a build, is no change of the branch."""
    branch, pulls = "feature/price", "/repositories/shop/pulls"
    assert stack.upload(STOCK, "id,value\n1,10\n2,20\n3,30\n", mode="snapshot").status_code == 201
    priced = make_transform("priced", inputs=[STOCK], output=PRICED, body=PRICED_BODY)
    pipeline = PIPELINE + f'\n[datasets."{PRICED}"]\nkey = ["id"]\n'
    parts = {"pipelines/factor.py": "FACTOR = 2\n", "pipelines/notes.py": "NOTES = []\n"}
    stack.commit({"pipeline.toml": pipeline, "pipelines/priced.py": HEAD + PRICING + priced, **parts})
    assert stack.build(PRICED)["state"] == "COMPLETED"
    ask("ines", "POST", "/repositories/shop/branches", json={"name": branch, "start_point": "master"}, expect=201)
    stack.commit({"pipelines/factor.py": "FACTOR = 3\n"}, branch=branch)
    assert stack.build(PRICED, branch=branch)["state"] == "COMPLETED"
    pull = ask("ines", "POST", pulls, json={"title": "Price", "source": branch}, expect=201)
    at = f"{pulls}/{pull['number']}"
    page = f"/r/shop/pulls/{pull['number']}/data?dataset={PRICED}"

    def shown(*, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        row: dict[str, Any] = {}

        def is_there() -> bool:
            rows = ask("mira", "GET", f"{at}/datasets", expect=200)["results"]
            row.update(next(one for one in rows if one["path"] == PRICED))
            return is_ready(row) and is_ready(row["since"]) and until(row)

        wait_until(is_there, seconds=40)
        return row

    began = shown(until=lambda row: row["since"] is None)
    assert (counts(began), began["schema_status"]) == ((0, 0, 3), "unchanged")

    stack.commit({"pipelines/notes.py": 'NOTES = ["note"]\n'})
    assert stack.build(PRICED)["state"] == "COMPLETED"
    moved = shown(until=lambda row: row["since"] is not None)
    assert (moved["from"], counts(moved), moved["since"]["schema_status"]) == (began["from"], (0, 0, 3), "changed")
    assert "master has moved since this branch left it:" in stack.fragment(page)

    # Newer rows, too, so that no transaction of the target's code is made of the same inputs.
    assert stack.upload(STOCK, "id,value\n4,40\n", mode="append").status_code == 201
    order = {"title": "Take master", "source": "master", "target": branch}
    taking = ask("ines", "POST", pulls, json=order, expect=201)
    ask("ines", "POST", f"{pulls}/{taking['number']}/merge", json={"method": "merge"}, expect=202)
    taken = shown(until=lambda row: row["to"] != moved["to"] and row["current"])
    assert (taken["compared"], taken["from"]) == ("base", moved["since"]["to"])
    assert (counts(taken), taken["schema_status"], taken["since"]) == ((1, 0, 3), "unchanged", None)
    assert not ask("ines", "GET", at, expect=200)["stale"]
    assert "since this branch left it" not in stack.fragment(page)
    ask("ines", "POST", f"{at}/close", expect=200)


@further("integration/pulls/test_sides.py::test_a_branch_that_takes_the_targets_commits_stands_on_their_rows")
def test_rows_of_taken_commits_that_nothing_compares_are_not_blamed_on_the_branch(stack: Stack, ask: Call) -> None:
    """Master's only rebuild of the commits that a branch has taken reads newer data than the branch has."""
    branch, pulls, counted = "feature/weigh", "/repositories/shop/pulls", "/shop/weighed"
    assert stack.upload("/shop/weights", "id,value\n1,10\n2,20\n3,30\n", mode="snapshot").status_code == 201
    imports = PRICING.replace("factor", "mass").replace("pipelines.notes", "pipelines.labels")
    weighed = make_transform("weighed", inputs=["/shop/weights"], output=counted, body=PRICED_BODY)
    pipeline = PIPELINE + f'\n[datasets."{counted}"]\nkey = ["id"]\n'
    parts = {"pipelines/mass.py": "FACTOR = 2\n", "pipelines/labels.py": "NOTES = []\n"}
    stack.commit({"pipeline.toml": pipeline, "pipelines/weighed.py": HEAD + imports + weighed, **parts})
    assert stack.build(counted)["state"] == "COMPLETED"
    ask("ines", "POST", "/repositories/shop/branches", json={"name": branch, "start_point": "master"}, expect=201)
    stack.commit({"pipelines/mass.py": "FACTOR = 3\n"}, branch=branch)
    assert stack.build(counted, branch=branch)["state"] == "COMPLETED"
    pull = ask("ines", "POST", pulls, json={"title": "Weigh", "source": branch}, expect=201)
    at, page = f"{pulls}/{pull['number']}", f"/r/shop/pulls/{pull['number']}/data?dataset={counted}"

    def shown(*, until: Callable[[dict[str, Any]], bool], name: str = "") -> dict[str, Any]:
        row: dict[str, Any] = {}

        def is_there() -> bool:
            rows = ask("mira", "GET", f"{at}/datasets{name}", expect=200)["results"]
            row.clear()
            row.update(next(one for one in rows if one["path"] == counted))
            return is_ready(row) and is_ready(row["since"]) and until(row)

        wait_until(is_there, seconds=40)
        return row

    began = shown(until=lambda row: row["since"] is None)
    assert "compared_note" not in began
    assert "the branch's own work" not in stack.fragment(page)

    # The branch takes a column of master's, and builds it before master does.
    stack.commit({"pipelines/labels.py": 'NOTES = ["note"]\n'})
    taking = ask("ines", "POST", pulls, json={"title": "Take", "source": "master", "target": branch}, expect=201)
    order = {"method": "merge", "bypass": True}
    stack.call("POST", f"{pulls}/{taking['number']}/merge", json=order, expect=202)
    taken = shown(until=lambda row: row["to"] != began["to"] and row["current"])
    assert (taken["compared"], taken["from"], taken["schema_status"]) == ("base", began["from"], "changed")
    assert "were made by other code of master than feature/weigh contains" in taken["compared_note"]
    assert "master has no rows that this code made of the same data" in taken["compared_note"]

    # Master reads newer rows and rows that it has changed: there is still nothing to stand on.
    text = "id,value\n1,10\n2,21\n3,31\n4,40\n"
    assert stack.upload("/shop/weights", text, mode="snapshot").status_code == 201
    assert stack.build(counted)["state"] == "COMPLETED"
    moved = shown(until=lambda row: row["since"] is not None)
    assert (moved["from"], moved["compared_note"]) == (began["from"], taken["compared_note"])
    fragment = stack.fragment(page)
    assert "Not all of this is the branch's own work." in fragment
    assert "part of that may be shown here, too" in fragment
    assert "no part of what is shown here" not in fragment
    assert fragment.count("Build master's code on the branch's inputs") == 1
    assert "Not all of this is the branch's own work." in stack.fragment(f"/r/shop/pulls/{pull['number']}/schema")

    assert build_sides(stack, ask, at, "base") == [review_branch("shop", pull["number"])]
    told = shown(until=lambda row: row["compared"] == "inputs")
    assert (counts(told), told["schema_status"], told.get("compared_note")) == ((0, 0, 3), "unchanged", None)
    assert "the branch's own work" not in stack.fragment(page)
    note = shown(until=lambda row: True, name="?compared=base")["compared_note"]
    assert "has no rows that this code made" not in note

    # Rows that both changed are counted and marked: neither row 1, which the branch alone changed, nor master's row 4.
    sentences = {
        "inputs": "master also changed <b>2</b> of these rows",
        "base": "master also changed <b>2</b> of these rows",
        "master": "Both changed <b>2</b> of these rows",
        "since": "This branch also changed <b>2</b> of these rows",
    }
    for name, sentence in sentences.items():
        lines = ask("mira", "GET", f"{at}/datasets/{told['id']}/rows?compared={name}", expect=200)["rows"]
        assert {line["key"]["id"] for line in lines if line["both"]} == {2, 3}, name
        assert shown(until=lambda row: True, name=f"?compared={name}")["since"]["both"] == 2
        fragment = stack.fragment(f"{page}&compared={name}")
        assert sentence in fragment
        assert fragment.count("⇄</span>") == 2
    ask("ines", "POST", f"{at}/close", expect=200)


@pytest.mark.django_db
def test_base_sides_of_what_is_no_longer_open_are_removed(home: Path, admin: User, monkeypatch: Any) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
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
    PublishedSpec.objects.create(
        repository=repository,
        branch=hidden.name,
        sha="0" * 40,
        changed_sha="0" * 40,
        function="a:a",
        file="a.py",
        line=1,
        profile="light",
        digest="1",
        spec={},
    )

    assert sweep_reviews() == 0
    services.close_pull(pull=pull, by=ines)
    assert PublishedSpec.objects.filter(branch=hidden.name).exists()
    assert sweep_reviews() == 1
    assert not PublishedSpec.objects.filter(branch=hidden.name).exists()
    assert not DatasetBranch.objects.filter(pk=hidden.pk).exists()


READ: dict[str, dict[str, str]] = {
    "c1": {"/a/b": "b1", "/a/y": "y1"},
    "c2": {"/a/b": "b2", "/a/y": "y1", "/a/new": "n1"},
    "b1": {"/a/x": "x1", "/a/z": "z1"},
    "b2": {"/a/x": "x1", "/a/z": "z2"},
}


def read(transactions: Collection[str]) -> dict[str, dict[str, str]]:
    return {pk: READ[pk] for pk in transactions}


def test_drift_is_looked_for_through_what_the_branch_changes() -> None:
    through = find_difference("c1", "c2", inputs_of=read, ours=["/a/b"])
    assert through.drift == ["/a/z"]
    assert through.base == {"/a/b": {"b1"}}
    assert find_difference("c1", "c2", inputs_of=read, ours=[]).drift == ["/a/b"]


def test_a_transaction_made_of_newer_data_is_not_underneath() -> None:
    def is_below(*lines: tuple[str, str]) -> bool:
        return is_underneath("c1", "c2", inputs_of=read, ours=["/a/b"], leads_to=lambda *pair: pair in lines)

    assert is_below(("z1", "z2"))
    assert not is_below(("z2", "z1"))


def test_names_of_base_sides_are_read_back() -> None:
    assert read_review_branch(review_branch("shop", 12)) == ("shop", 12)
    assert [read_review_branch(name) for name in ("_review/shop/0/base", "_review/a/b/1/base", "x")] == [None] * 3
