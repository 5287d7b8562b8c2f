"""A pull request that reverts another one says of each dataset whether it is again what it was before that was merged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, wait_until
from tests.factories.tiers import further
from tests.integration.pulls.conftest import Call

pytestmark = pytest.mark.integration
RAW, TOTALS, EXTRA = "/shop/amounts", "/shop/sums", "/shop/extras"
KEYS = PIPELINE + f'\n[datasets."{TOTALS}"]\nkey = ["id"]\n'


def source(name: str, output: str, factor: int) -> str:
    body = f't = i0.arrow()\nout.write_table(t.append_column("n", pa.compute.multiply(t["amount"], {factor})))'
    return HEAD + "import pyarrow.compute\n\n" + make_transform(name, inputs=[RAW], output=output, body=body)


def merge_a_change(stack: Stack, ask: Call) -> int:
    """Merge a pull request that changes one dataset and adds another one; return its number when master is rebuilt."""
    assert stack.upload(RAW, "id,amount\n1,10\n2,20\n").status_code == 201
    stack.commit({"pipeline.toml": KEYS, "pipelines/sums.py": source("sums", TOTALS, 2)})
    assert stack.build(TOTALS)["state"] == "COMPLETED"
    ask("ines", "POST", "/repositories/shop/branches", json={"name": "thrice"}, expect=201)
    files = {"pipelines/sums.py": source("sums", TOTALS, 3), "pipelines/extras.py": source("extras", EXTRA, 1)}
    stack.commit(files, branch="thrice")
    assert stack.build(TOTALS, EXTRA, branch="thrice")["state"] == "COMPLETED"
    pull = ask("ines", "POST", "/repositories/shop/pulls", json={"title": "Thrice", "source": "thrice"}, expect=201)
    merge(stack, ask, pull["number"])
    number: int = pull["number"]
    return number


def merge(stack: Stack, ask: Call, number: int) -> None:
    answer = ask("mira", "POST", f"/repositories/shop/pulls/{number}/merge", json={"bypass": True}, expect=202)
    assert stack.wait_for_build(answer["build"]["id"])["state"] == "COMPLETED"


def wait_for_words(stack: Stack, page: str, words: str) -> str:
    """Wait until a page says something; return what it says in all."""
    shown: list[str] = [""]

    def says() -> bool:
        shown[0] = " ".join(stack.fragment(page).split())
        return words in shown[0]

    wait_until(says, seconds=40)
    return shown[0]


def counts(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["rows"]["inserted"], row["rows"]["deleted"], row["rows"]["updated"]


@further("integration/pulls/test_reverting.py::test_a_click_takes_back_what_a_merge_brought")
def test_what_a_revert_makes_is_compared_with_what_was_before(stack: Stack, ask: Call) -> None:
    reverted = merge_a_change(stack, ask)
    pull = ask("ines", "POST", f"/repositories/shop/pulls/{reverted}/revert", expect=201)
    number, branch = pull["number"], pull["source"]
    at, page = f"/repositories/shop/pulls/{number}", f"/r/shop/pulls/{number}"
    assert stack.wait_for_publication(pull["head"])["published"]["status"] == "published"
    shown = wait_for_words(stack, page, "The branch has not built it yet")
    assert f"Nothing makes it any more, as before #{reverted}. Its rows stay on master." in shown

    assert stack.build(TOTALS, branch=branch)["state"] == "COMPLETED"
    wait_for_words(stack, page, f"Equal to what was before #{reverted}: the same rows and the same schema.")
    rows = {row["path"]: row for row in ask("olek", "GET", f"{at}/datasets?compared=before", expect=200)["results"]}
    assert (rows[TOTALS]["compared"], counts(rows[TOTALS])) == ("before", (0, 0, 0))
    data = stack.fragment(f"{page}/data?dataset={TOTALS}")
    assert f"against what was before #{reverted}" in data, "one of the comparisons to choose from"
    assert f"against what was before #{reverted}" not in stack.fragment(
        f"/r/shop/pulls/{reverted}/data?dataset={TOTALS}"
    )

    assert stack.upload(RAW, "id,amount\n3,30\n", mode="append").status_code == 201
    assert stack.build(TOTALS, branch=branch)["state"] == "COMPLETED"
    shown = wait_for_words(stack, page, f"Not what was before #{reverted}:")
    assert "Newer inputs and later changes of master are the usual reasons." in shown

    merge(stack, ask, number)
    assert ask("olek", "GET", f"/repositories/shop/pulls/{reverted}", expect=200)["reverted_by"] == number
    assert f"Not what was before #{reverted}:" in " ".join(stack.fragment(page).split()), "the merged one still says so"
