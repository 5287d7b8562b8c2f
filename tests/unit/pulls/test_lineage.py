"""What the graph of a pull request shows, how its datasets are built, and which columns go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.builds.rules.columns import InputColumns, SpecColumns
from webapp.builds.rules.states import JobState
from webapp.comparisons.diffs.schema import diff_schemas
from webapp.pulls.rules import states
from webapp.pulls.rules.breaks import GoneColumns, judge_gone
from webapp.pulls.rules.lineage import NodeBuild, choose_nodes, judge_build

paths = st.lists(st.sampled_from([f"/x/{letter}" for letter in "abcdefgh"]), unique=True)
BUILT = {"change": states.MODIFIED, "has_data": True, "is_current": True, "is_rebuilt": True, "job": None}


@given(changed=paths, below=paths, hidden=paths, is_complete=st.booleans(), most=st.integers(1, 10))
def test_what_is_changed_comes_first_and_nothing_hidden_is_named(
    changed: list[str], below: list[str], hidden: list[str], is_complete: bool, most: int
) -> None:
    hidden = [path for path in hidden if path not in changed]
    chosen = choose_nodes(changed, below, hidden=hidden, is_complete=is_complete, most=most)
    visible = {*changed, *below} - set(hidden)
    assert chosen.paths[: len(changed)] == tuple(changed[:most])
    assert len(set(chosen.paths)) == len(chosen.paths) <= most
    assert set(chosen.paths) <= visible
    assert chosen.is_cut == (not is_complete or len(visible) > len(chosen.paths))


@pytest.mark.parametrize(
    ("facts", "build"),
    [
        ({}, NodeBuild.CURRENT),
        ({"job": JobState.COMPLETED}, NodeBuild.CURRENT),
        ({"is_current": False}, NodeBuild.OUTDATED),
        ({"has_data": False}, NodeBuild.NOT_BUILT),
        ({"is_rebuilt": False}, NodeBuild.LOADED),
        ({"change": states.AFFECTED, "is_rebuilt": False}, NodeBuild.CURRENT),
        ({"change": states.REMOVED}, NodeBuild.REMOVED),
        ({"job": JobState.WAITING, "has_data": False}, NodeBuild.RUNNING),
        ({"job": JobState.FAILED}, NodeBuild.FAILED),
        ({"job": JobState.ABORTED, "change": states.REMOVED}, NodeBuild.FAILED),
    ],
)
def test_the_newest_build_weighs_more_than_what_is_there(facts: dict[str, Any], build: NodeBuild) -> None:
    assert judge_build(**{**BUILT, **facts}) == build


def test_columns_that_go_are_read_or_named() -> None:
    code = SpecColumns({"/x/a": InputColumns(("day",))}, frozenset({"late"}))
    gone = judge_gone(("day", "late", "wind"), path="/x/a", code=code)
    assert gone == GoneColumns(("day",), ("late",), is_known=True)
    assert judge_gone(("day",), path="/x/a", code=None) == GoneColumns((), (), is_known=False)


def a_field(number: int, name: str, kind: Any = "string") -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False}


def test_names_go_by_removal_and_renaming_the_outermost_alone() -> None:
    inner = {"type": "struct", "fields": [a_field(3, "code"), a_field(4, "name")]}
    before = {"fields": [a_field(1, "day"), a_field(2, "place", inner), a_field(5, "late"), a_field(6, "wind")]}
    without = {"type": "struct", "fields": [a_field(3, "code")]}
    after = {"fields": [a_field(1, "date"), a_field(2, "place", without), a_field(7, "late"), a_field(8, "new")]}
    assert set(diff_schemas(before, after).gone) == {"day", "place.name", "wind"}
    assert diff_schemas(before, {"fields": [a_field(1, "day")]}).gone == ("place", "late", "wind")
    renamed = {"fields": [a_field(1, "day"), a_field(2, "site", inner), a_field(5, "late"), a_field(6, "wind")]}
    assert diff_schemas(before, renamed).gone == ("place",)
