"""Repositories as they begin: what their READMEs say to do first works."""

from __future__ import annotations

import pytest

from tests.factories.builds import Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
ORDERS = """id,day,country,amount
1,2026-01-05,NO,120.50
2,2026-01-05,PT,20.00
4,2026-01-07,JP,410.00
7,2026-01-13,NO,500.00
"""


def begin(stack: Stack, name: str, template: str) -> None:
    """Make a repository, and wait until its first commit is published."""
    stack.call("POST", "/repositories", json={"name": name, "template": template}, expect=201)
    (commit,) = stack.call("GET", f"/repositories/{name}/commits")["results"]
    assert stack.wait_for_publication(commit["sha"], repository=name)["published"]["status"] == "published"


def test_a_first_transform_sums_a_seed_up(stack: Stack) -> None:
    begin(stack, "firsts", "seed")
    build = stack.build("/firsts/by_country", upstream=True, seconds=90)
    assert build["state"] == "COMPLETED", build
    rows = {row["country"]: (row["orders"], float(row["amount"])) for row in stack.rows("/firsts/by_country")}
    assert rows == {"JP": (2, 509.0), "NO": (2, 155.75), "PT": (2, 144.9)}


def test_a_table_is_kept_up_to_date_by_a_changelog(stack: Stack) -> None:
    begin(stack, "kept", "changelog")
    assert stack.build("/kept/current", upstream=True, seconds=90)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/kept/branches", json={"name": "change"}, expect=201)
    stack.commit({"seeds/kept/orders.csv": ORDERS}, branch="change", repository="kept")
    build = stack.build("/kept/current", branch="change", upstream=True, seconds=90)
    assert build["state"] == "COMPLETED", build
    on_branch = {row["id"]: row["is_large"] for row in stack.rows("/kept/current", branch="change")}
    assert on_branch == {1: True, 2: False, 4: True, 7: True}
    assert len(stack.rows("/kept/current")) == 6
    (job,) = [job for job in build["jobs"] if job["function"] == "pipelines.current:compute"]
    # One changed row is two, before and after; one is new, three are gone.
    assert "applied 6 changes to /kept/current" in stack.log(job["id"])
