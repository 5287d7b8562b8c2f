"""A branch answers for what it changes: datasets that the target left out of date are apart from these."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform
from tests.factories.pages import list_ticked
from tests.integration.pulls.conftest import Call

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
RAW, OWN, BELOW, OTHER = (f"/shop/fresh/{name}" for name in ("raw", "own", "below", "other"))
COPY = "out.write_table(i0.arrow())"


def write_pipeline(own: str = COPY) -> dict[str, str]:
    transforms = (
        make_transform("fresh_own", inputs=[RAW], output=OWN, body=own),
        make_transform("fresh_below", inputs=[OWN], output=BELOW, body=COPY),
        make_transform("fresh_other", inputs=[RAW], output=OTHER, body=COPY),
    )
    return {"pipeline.toml": PIPELINE, "pipelines/fresh.py": HEAD + "".join(transforms)}


def read_whole(stack: Stack, path: str, **query: str) -> str:
    return stack.browser.get(stack.url.removesuffix("/api/v1") + path, params=query, timeout=30).text


def read_new_build(stack: Stack, **query: str) -> str:
    return read_whole(stack, "/builds/new", repository="shop", **query)


def list_here(page: str) -> list[str]:
    return [path for path in list_ticked(page) if path.startswith("/shop/fresh/")]


def test_branch_builds_and_answers_for_its_own_changes(stack: Stack, ask: Call) -> None:
    stack.commit(write_pipeline())
    assert stack.upload(RAW, "k,v\na,1\n").status_code == 201
    assert stack.build(OWN, BELOW, OTHER)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/shop/branches", json={"name": "fresh", "start_point": "master"}, expect=201)
    stack.commit(write_pipeline(own="out.write_table(i0.arrow().slice(0, 1))"), branch="fresh")
    assert stack.upload(RAW, "k,v\na,1\nb,2\nc,3\n").status_code == 201

    page = read_new_build(stack, branch="fresh")
    assert list_here(page) == [OWN]  # what is below is stale once this is built
    apart = page[page.index("Out of date, not changed here") :]
    assert OTHER in apart
    assert OWN not in apart
    everything = read_new_build(stack, branch="fresh", chosen="1", pick="stale")
    assert list_here(everything) == [OWN, OTHER]
    assert set(list_here(read_new_build(stack))) == {OWN, OTHER}

    assert stack.build(OWN, BELOW, OTHER, branch="fresh")["state"] == "COMPLETED"
    pull = stack.call("POST", "/repositories/shop/pulls", json={"title": "Own", "source": "fresh"}, expect=201)
    here = f"/repositories/shop/pulls/{pull['number']}"
    rows: dict[str, Any] = {}

    def is_compared() -> bool:
        rows.update({row["path"]: row for row in ask("mira", "GET", f"{here}/datasets", expect=200)["results"]})
        return all(row["rows"]["state"] == "ready" for row in rows.values())

    stack.wait(is_compared, seconds=60)
    assert {path: row["change"] for path, row in rows.items()} == {
        OWN: "modified",
        BELOW: "affected",
        OTHER: "refreshed",
    }
    assert {path: row["lands"] for path, row in rows.items()} == {OWN: True, BELOW: True, OTHER: False}
    data = read_whole(stack, f"/r/shop/pulls/{pull['number']}/data")
    assert data.index("Only rebuilt here") > data.index("Downstream only")
    assert "rows in 2 datasets" in data


TAKEN, TAKEN_RAW = "/shop/fresh/taken", "/shop/fresh/taken_raw"


def test_banner_names_rows_of_the_target_until_the_branch_is_built(stack: Stack, ask: Call) -> None:
    def commit(price: str, *, name: str = "n", branch: str = "master") -> None:
        parts = {"pipelines/price.py": f"PRICE = {price}\n", "pipelines/label.py": f"LABEL = {name!r}\n"}
        body = "out.write_table(i0.arrow().append_column(LABEL, pa.array([PRICE] * i0.arrow().num_rows)))"
        source = HEAD + "from pipelines.price import PRICE\nfrom pipelines.label import LABEL\n\n"
        source += make_transform("taken", inputs=[TAKEN_RAW], output=TAKEN, body=body)
        stack.commit({"pipeline.toml": PIPELINE, "pipelines/taken.py": source, **parts}, branch=branch)

    commit("1")
    assert stack.upload(TAKEN_RAW, "k,v\na,1\n").status_code == 201
    assert stack.build(TAKEN)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/shop/branches", json={"name": "taken", "start_point": "master"}, expect=201)
    stack.commit({"pipelines/price.py": "PRICE = 2\n"}, branch="taken")
    assert stack.build(TAKEN, branch="taken")["state"] == "COMPLETED"
    stack.commit({"pipelines/label.py": "LABEL = 'm'\n"})
    assert stack.build(TAKEN)["state"] == "COMPLETED"
    pull = stack.call("POST", "/repositories/shop/pulls", json={"title": "Taken", "source": "taken"}, expect=201)
    page = f"/r/shop/pulls/{pull['number']}/data?dataset={TAKEN}"

    def says(text: str) -> bool:
        return text in " ".join(stack.fragment(page).split())

    stack.wait(lambda: says("no part of what is shown here"), seconds=60)
    site = stack.url.removesuffix("/api/v1")
    update = f"{site}/r/shop/pulls/{pull['number']}/update"
    head = ask("mira", "GET", f"/repositories/shop/pulls/{pull['number']}", expect=200)["head"]
    form = {"expected_head": head, "csrfmiddlewaretoken": stack.browser.cookies[f"tributary_csrf_{stack.port}"]}
    stack.browser.post(update, data=form, headers={"Referer": site}, timeout=30).raise_for_status()
    stack.wait(lambda: says("until the branch is built, this comparison shows that, too, backwards"), seconds=60)
    assert not says("no part of what is shown here")
    assert not says("Not all of this is the branch's own work.")
    assert stack.build(TAKEN, branch="taken")["state"] == "COMPLETED"
    stack.wait(lambda: not says("until the branch is built"), seconds=60)
