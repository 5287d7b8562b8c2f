"""What came since a reader's last review: rows, schema and code, for each reader by their own."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, wait_until
from tests.integration.pulls.conftest import Call
from tests.integration.pulls.test_compare import sign_in

pytestmark = pytest.mark.integration
ORDERS, DOUBLED = "/shop/orders", "/shop/doubled"
KEYS = f'{PIPELINE}\n[datasets."{DOUBLED}"]\nkey = ["id"]\n'
SINCE, WHOLE = "Only what came since your review", "this branch"


def source(*, first: int) -> dict[str, str]:
    """Return a transform that says twice the amount, and of the first order something else."""
    body = (
        "t = i0.arrow()\n"
        f'said = [{first} if one["id"] == 1 else 2 * one["amount"] for one in t.to_pylist()]\n'
        'out.write_table(t.append_column("doubled", pa.array(said)))'
    )
    return {"pipelines/doubled.py": HEAD + make_transform("doubled", inputs=[ORDERS], output=DOUBLED, body=body)}


@pytest.fixture
def branch(request: pytest.FixtureRequest) -> str:
    """Name a branch of the test's own."""
    return str(request.node.name)[:40]


@pytest.fixture
def at(stack: Stack, ask: Call, branch: str) -> str:
    """Open a pull request that adds a dataset, built, and with a file of notes beside it."""
    stack.call("POST", "/repositories/shop/branches", json={"name": branch}, expect=201)
    stack.commit({"pipeline.toml": KEYS, "notes.md": "first\n", **source(first=20)}, branch=branch)
    assert stack.build(DOUBLED, branch=branch)["state"] == "COMPLETED"
    order = {"title": "Double", "source": branch, "target": "master"}
    return (
        f"/repositories/shop/pulls/{ask('ines', 'POST', '/repositories/shop/pulls', json=order, expect=201)['number']}"
    )


def find_row(ask: Call, who: str, at: str, name: str) -> dict[str, Any]:
    results = ask(who, "GET", f"{at}/datasets" + (f"?compared={name}" if name else ""), expect=200)["results"]
    return next(row for row in results if row["path"] == DOUBLED)


def wait_for(ask: Call, who: str, at: str, name: str, counts: tuple[int, int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {}

    def has_counts() -> bool:
        row.update(find_row(ask, who, at, name))
        rows = row["rows"]
        return rows["state"] == "ready" and (rows["inserted"], rows["deleted"], rows["updated"]) == counts

    wait_until(has_counts, seconds=40)
    return row


def review(ask: Call, at: str, verdict: str) -> None:
    ask("mira", "POST", f"{at}/reviews", json={"verdict": verdict, "body": "Looked at."}, expect=201)


def test_who_has_reviewed_sees_first_what_came_since(stack: Stack, ask: Call, at: str, branch: str) -> None:
    seen = wait_for(ask, "mira", at, "base", (4, 0, 0))["to"]
    assert find_row(ask, "mira", at, "seen")["rows"]["state"] == "not_compared"
    review(ask, at, "approve")
    stack.commit(source(first=21), branch=branch)
    assert stack.build(DOUBLED, branch=branch)["state"] == "COMPLETED"

    since = wait_for(ask, "mira", at, "seen", (0, 0, 1))
    assert since["from"] == seen
    (row,) = ask("mira", "GET", f"{at}/datasets/{since['id']}/rows?compared=seen", expect=200)["rows"]
    assert (row["key"], row["changed"]) == ({"id": 1}, ["doubled"])
    # Nobody else's review: for them there is nothing of that name, and the default is the whole change for everybody.
    assert find_row(ask, "olek", at, "seen")["rows"]["state"] == "not_compared"
    assert ask("olek", "GET", f"{at}/datasets/{since['id']}/rows?compared=seen", expect=200)["rows"] == []
    assert wait_for(ask, "mira", at, "", (4, 0, 0))["compared"] == "base"

    pages = stack.url.removesuffix("/api/v1") + at.replace("/repositories/", "/r/")
    with requests.Session() as mira, requests.Session() as olek:
        sign_in(mira, stack.url.removesuffix("/api/v1"), "mira")
        sign_in(olek, stack.url.removesuffix("/api/v1"), "olek")
        data, whole = (
            mira.get(f"{pages}/data{query}", timeout=30).text for query in ("", f"?dataset={DOUBLED}&compared=base")
        )
        code, all_code = (mira.get(f"{pages}/code{query}", timeout=30).text for query in ("", "?since=all"))
        schema, whole_schema = (mira.get(f"{pages}/schema{query}", timeout=30).text for query in ("", "?compared=base"))
        of_other = olek.get(f"{pages}/data", timeout=30).text, olek.get(f"{pages}/code", timeout=30).text
    assert SINCE in data
    assert "as you reviewed it" in data
    assert "new since your review" in data
    assert "compared=seen" in data  # its exports are of what is shown
    assert SINCE not in whole
    assert "Same as you reviewed" in schema
    assert "Same as you reviewed" not in whole_schema
    assert 'data-column="doubled"' in whole_schema
    assert "What came since you reviewed commit" in code
    assert ("doubled.py" in code, "notes.md" in code) == (True, False)
    assert ("doubled.py" in all_code, "notes.md" in all_code) == (True, True)
    assert '<option value="base">' not in code
    assert '<option value="base">' in all_code
    assert SINCE not in of_other[0]
    assert "Since your review" not in of_other[1]

    review(ask, at, "comment")
    assert find_row(ask, "mira", at, "seen")["rows"]["state"] == "not_compared"
    with requests.Session() as mira:
        sign_in(mira, stack.url.removesuffix("/api/v1"), "mira")
        data, code = (mira.get(f"{pages}/{tab}", timeout=30).text for tab in ("data", "code"))
    assert SINCE not in data
    assert "are as in your review" in data
    assert "Since your review" not in code


def test_files_that_only_follow_the_target_are_left_out(stack: Stack, ask: Call, at: str, branch: str) -> None:
    review(ask, at, "comment")
    stack.commit({"of_master.md": "news\n"})
    ask("ines", "POST", f"{at}/update", json={}, expect=200)
    stack.commit({"notes.md": "second\n"}, branch=branch)
    pages = stack.url.removesuffix("/api/v1") + at.replace("/repositories/", "/r/")

    def is_shown() -> bool:
        code = mira.get(f"{pages}/code", timeout=30).text
        return "notes.md" in code and "What came since you reviewed commit" in code and "of_master.md" not in code

    with requests.Session() as mira:
        sign_in(mira, stack.url.removesuffix("/api/v1"), "mira")
        wait_until(is_shown, seconds=30)
