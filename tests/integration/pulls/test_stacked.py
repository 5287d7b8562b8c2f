"""A branch off a branch: what the lower one has built counts for the upper one, which would skip it as fresh."""

from __future__ import annotations

import pytest

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, wait_until
from tests.integration.pulls.conftest import Call

pytestmark = pytest.mark.integration


def source(name: str) -> dict[str, str]:
    transform = make_transform(
        name, inputs=["/shop/orders"], output=f"/shop/{name}", body="out.write_table(i0.arrow())"
    )
    return {f"pipelines/{name}.py": HEAD + transform}


def test_a_result_of_the_branch_below_is_current(stack: Stack, ask: Call) -> None:
    branches, pulls = "/repositories/shop/branches", "/repositories/shop/pulls"
    ask("ines", "POST", branches, json={"name": "lower", "start_point": "master"}, expect=201)
    stack.commit({"pipeline.toml": PIPELINE, **source("low")}, branch="lower")
    assert stack.build("/shop/low", branch="lower")["state"] == "COMPLETED"
    ask("ines", "POST", branches, json={"name": "upper", "start_point": "lower"}, expect=201)
    stack.commit(source("high"), branch="upper")
    built = stack.build("/shop/low", "/shop/high", branch="upper")
    assert [job["skipped"] for job in built["jobs"] if job["function"].endswith(":low")] == [True]

    order = {"title": "Both", "source": "upper", "target": "master"}
    pull = ask("ines", "POST", pulls, json=order, expect=201)
    assert [one["code"] for one in pull["blocked_by"]] == ["approval_missing"]
    here = f"{pulls}/{pull['number']}"
    rows = {row["path"]: row for row in ask("ines", "GET", f"{here}/datasets", expect=200)["results"]}
    assert {path: row["current"] for path, row in rows.items()} == {"/shop/high": True, "/shop/low": True}
    lower = stack.call("GET", f"/datasets/{rows['/shop/low']['id']}/branches/lower")
    assert rows["/shop/low"]["to"] == lower["transaction"]["id"]

    # Other code than the branch below has: what that branch made does not count.
    changed = {path: text.replace("i0.arrow()", "i0.arrow().slice(1)") for path, text in source("low").items()}
    stack.commit(changed, branch="upper")

    def is_missing() -> bool:
        return "build_missing" in [one["code"] for one in ask("ines", "GET", here, expect=200)["blocked_by"]]

    wait_until(is_missing, seconds=30)
