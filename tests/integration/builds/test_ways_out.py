"""Branches of a dataset that do not fit the chain: the refusal says what to do, and that works by REST and on pages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.builds import HEAD, Stack, make_transform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def code(path: str, value: int) -> str:
    return HEAD + make_transform("made", output=path, body=f'out.write_table(pa.table({{"a": [{value}]}}))')


def build_in_the_wrong_order(stack: Stack, name: str) -> tuple[str, str, str]:
    """Return a dataset and two branches of which the younger one was built first, so that it came off master."""
    path, one, two = f"/shop/{name}/made", f"{name}-one", f"{name}-two"
    file = f"pipelines/{name}.py"
    stack.commit({file: code(path, 0)})
    for branch, start in ((one, "master"), (two, one)):
        stack.call("POST", "/repositories/shop/branches", json={"name": branch, "start_point": start}, expect=201)
    stack.build(path)
    for value, branch in ((2, two), (1, one), (3, two)):
        stack.commit({file: code(path, value)}, branch=branch)
        if value != 3:
            assert stack.build(path, branch=branch)["state"] == "COMPLETED"
    return path, one, two


def refuse(stack: Stack, path: str, branch: str) -> dict[str, Any]:
    """Return the problem document of a plan."""
    answer = stack.request("POST", "/builds", json={"branch": branch, "targets": [path], "dry_run": True})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == "chain_incompatible"
    return problem


def follow(stack: Stack, way: dict[str, Any]) -> Any:
    """Send a request that a refusal offers."""
    return stack.call(way["method"], way["path"].removeprefix("/api/v1"), json=way["body"])


def test_rest_offers_requests_that_let_the_build_run(stack: Stack) -> None:
    path, one, two = build_in_the_wrong_order(stack, "lines")
    failed = stack.build(path, branch=two)
    assert (failed["state"], failed["code"]) == ("FAILED", "chain_incompatible")
    assert f"Branch {two} of {path} does not come from {one}" in failed["reason"]
    assert f"Set the parent of {two} there to {one}" in failed["reason"]
    problem = refuse(stack, path, two)
    assert (problem["path"], problem["branches"], problem["parent"]) == (path, [two, one], one)
    reparent, remove = problem["ways_out"]
    assert (reparent["method"], reparent["body"], remove["method"]) == ("PATCH", {"parent": one}, "DELETE")
    before = stack.rows(path, branch=two)
    assert follow(stack, reparent)["parent"] == one
    assert stack.rows(path, branch=two) == before
    assert stack.build(path, branch=two)["state"] == "COMPLETED"
    assert stack.rows(path, branch=two) == [{"a": 3}]
    records = stack.call("GET", "/audit?verb=set_dataset_branch_parent")["results"]
    moves = [record["detail"] for record in records if record["object"] == f"{path}@{two}"]
    assert moves == [{"from": "master", "to": one}]


def test_deleting_the_branch_lets_the_build_run(stack: Stack) -> None:
    path, one, two = build_in_the_wrong_order(stack, "gone")
    remove = refuse(stack, path, two)["ways_out"][1]
    follow(stack, remove)
    assert stack.build(path, branch=two)["state"] == "COMPLETED"
    assert stack.rows(path, branch=two) == [{"a": 3}]
    dataset = stack.call("GET", f"/datasets?path={path}")["results"][0]["id"]
    assert stack.call("GET", f"/datasets/{dataset}/branches/{two}")["parent"] == one


def test_pages_offer_the_new_parent_by_a_button(stack: Stack) -> None:
    path, one, two = build_in_the_wrong_order(stack, "paged")
    failed = stack.build(path, branch=two)
    plan = f"/builds/new?repository=shop&branch={two}&chosen=1&target={path}"
    banner = f"Branch {two} of {path} does not come from {one}."
    host = f"http://127.0.0.1:{stack.port}"
    for address in (plan, f"/builds/{failed['id']}"):
        page = stack.browser.get(f"{host}{address}", timeout=30).text
        assert banner in page
        assert f"Set parent to {one}" in page
    dataset = stack.call("GET", f"/datasets?path={path}")["results"][0]["id"]
    form = {
        "name": two,
        "parent": one,
        "csrfmiddlewaretoken": stack.browser.cookies[f"tributary_csrf_{stack.port}"],
    }
    sent = stack.browser.post(
        f"{host}/datasets/{dataset}/branches/parent", data=form, headers={"Referer": host}, timeout=30
    )
    assert f"The parent of {two} is {one}." in sent.text
    assert "Set parent" in sent.text
    for address in (plan, f"/builds/{failed['id']}"):
        assert banner not in stack.browser.get(f"{host}{address}", timeout=30).text
