"""Changelogs of a range of a dataset's history through the REST API."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.factories.builds import Stack
from tests.integration.pulls.conftest import Call

pytestmark = pytest.mark.integration
PATH = "/shop/levels"


@pytest.fixture(scope="module")
def levels(stack: Stack) -> dict[str, Any]:
    """Return a dataset with three transactions, of which the last makes a key ambiguous."""
    for text in ("id,v\n1,a\n2,b\n", "id,v\n1,x\n2,b\n3,c\n", "id,v\n1,y\n3,c\n3,c\n"):
        assert stack.upload(PATH, text).status_code == 201
    dataset = stack.call("GET", f"/datasets?path={PATH}")["results"][0]
    found = stack.call("GET", f"/datasets/{dataset['id']}/transactions")["results"][::-1]
    return {"id": dataset["id"], "transactions": found, "where": f"/datasets/{dataset['id']}/changelog"}


def wait(ask: Call, address: str, *, expect: int = 200) -> Any:
    """Ask until the changelog is there, or refused."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            found = ask("olek", "GET", address, expect=200)
        except AssertionError:
            return ask("olek", "GET", address, expect=expect)
        if found["state"] != "running":
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def test_identifier_changelog_of_a_range(ask: Call, levels: dict[str, Any]) -> None:
    first, second, _ = levels["transactions"]

    found = wait(ask, f"{levels['where']}?keys=id&start={first['id']}&end={second['id']}")

    assert [(row["_change_type"], row["id"], row["v"]) for row in found["rows"]] == [
        ("UPDATE_AFTER", 1, "x"),
        ("UPDATE_BEFORE", 1, "a"),
        ("INSERT", 3, "c"),
    ]
    assert {row["_commit_snapshot_id"] for row in found["rows"]} == {str(second["snapshot_id"])}
    assert found["summary"] == {"rows": 3, "counts": {"UPDATE_AFTER": 1, "UPDATE_BEFORE": 1, "INSERT": 1}}
    assert [(one["name"], one["type"]) for one in found["columns"]] == [("id", "long"), ("v", "string")]
    assert (found["start"], found["end"]) == (str(first["snapshot_id"]), str(second["snapshot_id"]))


def test_keys_may_be_named_one_by_one(ask: Call, levels: dict[str, Any]) -> None:
    first, second, _ = levels["transactions"]
    ends = f"start={first['id']}&end={second['id']}"

    found = wait(ask, f"{levels['where']}?keys=id&keys=v&{ends}")

    assert found["keys"] == ["id", "v"]
    assert found["rows"] == wait(ask, f"{levels['where']}?keys=id,v&{ends}")["rows"]


def test_net_changes_from_nothing_in_pages(ask: Call, levels: dict[str, Any]) -> None:
    second = levels["transactions"][1]
    address = f"{levels['where']}?end={second['snapshot_id']}&limit=2"

    found = wait(ask, address)

    assert (found["keys"], found["start"], found["total"]) == (None, None, 3)
    assert len(found["rows"]) == 2
    rest = ask("olek", "GET", f"{address}&cursor={found['next']}", expect=200)
    rows = [*found["rows"], *rest["rows"]]
    assert rest["next"] is None
    assert sorted((row["id"], row["v"]) for row in rows) == [(1, "x"), (2, "b"), (3, "c")]
    assert {row["_change_type"] for row in rows} == {"INSERT"}
    ordinals = {row["id"]: row["_change_ordinal"] for row in rows}
    assert ordinals[2] < ordinals[1] == ordinals[3]


def test_duplicate_keys_are_refused_in_the_documented_words(ask: Call, levels: dict[str, Any]) -> None:
    problem = wait(ask, f"{levels['where']}?keys=id", expect=409)

    assert problem["code"] == "duplicate_rows"
    assert problem["detail"] == "Duplicate rows found for identifier columns ['id'] in changelog view."


def test_what_has_no_answer_is_refused_at_once(ask: Call, levels: dict[str, Any]) -> None:
    first, second, _ = levels["transactions"]
    where = levels["where"]
    for query, status, code, words in (
        ("keys=", 400, "empty_parameter", "'keys' is empty"),
        ("keys=,", 422, "no_columns", "at least one identifier column"),
        ("keys=nope", 422, "no_such_column", "Identifier column 'nope' does not exist; there are id, v."),
        (f"start={second['id']}&end={first['id']}", 409, "not_an_ancestor", "is not an ancestor of snapshot"),
        ("start=7", 404, "expired", "no snapshot 7"),
        ("start=nothing", 404, "not_found", "no transaction nothing"),
        ("images=none", 422, "invalid_input", "images is first or latest"),
    ):
        problem = ask("olek", "GET", f"{where}?{query}", expect=status)
        assert problem["code"] == code, query
        assert words in problem["detail"]
    ask("stranger", "GET", where, expect=404)


def test_a_range_without_changes_is_empty(ask: Call, levels: dict[str, Any]) -> None:
    first = levels["transactions"][0]

    found = wait(ask, f"{levels['where']}?keys=id&start={first['id']}&end={first['id']}")

    assert (found["state"], found["rows"], found["summary"]["rows"]) == ("ready", [], 0)
    assert [one["name"] for one in found["columns"]] == ["id", "v"]


def test_a_field_of_a_struct_is_a_key(stack: Stack, ask: Call) -> None:
    path = "/shop/places"
    for value in ("a", "b"):
        text = '{"place": {"code": 1, "tags": ["x"]}, "v": "%s"}\n{"place": null, "v": "z"}\n' % value
        assert stack.upload(path, text, name="places.jsonl").status_code == 201
    dataset = stack.call("GET", f"/datasets?path={path}")["results"][0]
    first = stack.call("GET", f"/datasets/{dataset['id']}/transactions")["results"][-1]

    found = wait(ask, f"/datasets/{dataset['id']}/changelog?keys=place.code&start={first['id']}")
    assert [(row["_change_type"], row["v"]) for row in found["rows"]] == [("UPDATE_AFTER", "b"), ("UPDATE_BEFORE", "a")]

    blame = wait(ask, f"/datasets/{dataset['id']}/blame?key.place.code=1")
    assert [(one["change"], one["changed"]) for one in blame["changes"]] == [("updated", ["v"]), ("inserted", [])]

    for key, words in (
        ("place.name", "'place.name' does not exist; there are place, v. The fields of place are code, tags."),
        ("place.tags.element", "A name cannot go through place.tags, which is no struct."),
    ):
        for where in (f"changelog?keys={key}", f"blame?key.{key}=1"):
            problem = ask("olek", "GET", f"/datasets/{dataset['id']}/{where}", expect=422)
            assert (problem["code"], words in problem["detail"]) == ("no_such_column", True), problem
