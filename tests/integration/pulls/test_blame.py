"""Who changed one row of a dataset, through the REST API and the page."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform
from tests.factories.pages import read_page
from tests.integration.pulls.conftest import Call
from tests.integration.pulls.test_compare import sign_in

pytestmark = pytest.mark.integration
PATH = "/shop/counted"


@pytest.fixture(scope="module")
def stock(stack: Stack) -> dict[str, Any]:
    """Return a dataset that uploads and then a build on a branch have written."""
    for text in ("sku,n\na,1\nb,1\n", "sku,n\na,2\nb,1\n", "sku,n\na,2\nb,1\n"):
        assert stack.upload(PATH, text).status_code == 201
    dataset = stack.call("GET", f"/datasets?path={PATH}")["results"][0]
    stack.call(
        "POST", "/repositories/shop/branches", json={"name": "feature/stock", "start_point": "master"}, expect=201
    )
    body = 'out.write_table(pa.table({"sku": ["b", None], "n": pa.array([1, 9], pa.int64())}))'
    code = HEAD + make_transform("stocktake", output=PATH, body=body)
    rules = f'{PIPELINE}[datasets."{PATH}"]\nkey = ["sku"]\n'
    made = stack.commit({"pipeline.toml": rules, "pipelines/stock.py": code}, branch="feature/stock")
    build = stack.build(PATH, branch="feature/stock")
    assert build["state"] == "COMPLETED", build
    return {"id": dataset["id"], "where": f"/datasets/{dataset['id']}/blame", "sha": made["sha"], "build": build["id"]}


def wait(ask: Call, address: str) -> Any:
    """Ask until the walk is over."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = ask("olek", "GET", address, expect=200)
        if found["state"] != "running":
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def test_a_row_from_its_upload_to_the_build_that_removed_it(ask: Call, stock: dict[str, Any]) -> None:
    found = wait(ask, f"{stock['where']}?branch=feature/stock&key.sku=a")

    assert found["state"] == "ready", found
    assert [(one["change"], one["before"], one["after"], one["changed"]) for one in found["changes"]] == [
        ("deleted", {"sku": "a", "n": 2}, None, []),
        ("updated", {"sku": "a", "n": 1}, {"sku": "a", "n": 2}, ["n"]),
        ("inserted", None, {"sku": "a", "n": 1}, []),
    ]
    removed, uploaded = found["changes"][0], found["changes"][1]
    assert removed["job"]["commit"] == stock["sha"]
    assert removed["job"]["build"] == stock["build"]
    assert removed["job"]["function"].endswith("stocktake")
    assert removed["transaction"]["branch"] == "feature/stock"
    assert (uploaded["transaction"]["branch"], uploaded["transaction"]["by"]) == ("master", "admin")
    assert (found["looked_at"], found["next"], found["ended"]) == (4, None, None)


def test_a_null_key_and_a_row_that_never_was(ask: Call, stock: dict[str, Any]) -> None:
    found = wait(ask, f"{stock['where']}?branch=feature/stock&null=sku")
    assert [(one["change"], one["after"]) for one in found["changes"]] == [("inserted", {"sku": None, "n": 9})]
    assert wait(ask, f"{stock['where']}?key.sku=nowhere")["changes"] == []


def test_a_walk_goes_on_from_its_cursor(ask: Call, stock: dict[str, Any]) -> None:
    whole = wait(ask, f"{stock['where']}?branch=feature/stock&key.sku=a")
    older = whole["changes"][1]["transaction"]["id"]

    rest = wait(ask, f"{stock['where']}?branch=feature/stock&key.sku=a&cursor={older}")

    assert [one["change"] for one in rest["changes"]] == ["updated", "inserted"]
    assert ask("olek", "GET", f"{stock['where']}?key.sku=a&cursor=nothing", expect=404)["code"] == "bad_cursor"


def test_refusals_name_what_is_wrong(ask: Call, stock: dict[str, Any]) -> None:
    assert ask("olek", "GET", stock["where"], expect=422)["code"] == "no_key"
    problem = ask("olek", "GET", f"{stock['where']}?key.nope=1", expect=422)
    assert "'nope' does not exist; there are sku, n" in problem["detail"]
    ask("olek", "GET", f"{stock['where']}?key.n=many", expect=200)
    deadline = time.monotonic() + 60
    answer: Any = None
    while time.monotonic() < deadline:
        try:
            answer = ask("olek", "GET", f"{stock['where']}?key.n=many", expect=422)
            break
        except AssertionError:
            time.sleep(0.2)
    assert answer["detail"] == "'many' is no long, which column 'n' holds."
    ask("stranger", "GET", f"{stock['where']}?key.sku=a", expect=404)


def test_the_page_shows_both_images_and_who_made_them(stack: Stack, ask: Call, stock: dict[str, Any]) -> None:
    wait(ask, f"{stock['where']}?branch=feature/stock&key.sku=a")
    site = stack.url.removesuffix("/api/v1")
    with requests.Session() as browser:
        sign_in(browser, site, "olek")
        address = f"{site}/datasets/{stock['id']}/blame"
        page = read_page(browser.get(address, params={"branch": "feature/stock", "key.sku": "a"}, timeout=30))
        empty = read_page(browser.get(address, params={"branch": "feature/stock"}, timeout=30))
        refused = read_page(browser.get(address, params={"key.nope": "1"}, timeout=30))
    assert "Removed</h2>" in page
    assert f"/r/shop/commit/{stock['sha']}" in page
    assert "That is the whole history." in page
    assert 'name="key.sku"' in empty
    assert "Which row?" in empty
    assert "does not exist" in refused
