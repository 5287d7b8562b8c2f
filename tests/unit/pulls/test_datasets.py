"""Which datasets a pull request changes, and the rules by which their rows are compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.comparisons.rules.dataset_rules import ComparisonRules, combine_rules, read_dataset_rules, rules_from_json
from webapp.pulls.rules import states
from webapp.pulls.rules.datasets import classify_datasets, find_downstream, find_needed, find_upstream
from webapp.pulls.rules.landing import Branches, explain_landing


def test_classify_names_every_kind() -> None:
    changes = classify_datasets(
        head={"/x/a": "1", "/x/b": "2", "/x/c": "1", "/x/new": "1"},
        base={"/x/a": "1", "/x/b": "1", "/x/c": "1", "/x/gone": "1"},
        built={"/x/raw", "/x/c"},
        inputs={"/x/b": {"/x/a"}, "/x/c": {"/x/b"}, "/x/a": {"/x/raw0"}},
    )
    assert changes == {
        "/x/b": states.MODIFIED,
        "/x/c": states.AFFECTED,
        "/x/gone": states.REMOVED,
        "/x/new": states.ADDED,
        "/x/raw": states.MODIFIED,
    }


def test_what_was_only_rebuilt_from_what_was_loaded_is_affected() -> None:
    same, inputs = {"/x/a": "1", "/x/b": "1"}, {"/x/a": {"/x/raw"}, "/x/b": {"/x/other"}}
    built = {"/x/raw", "/x/a", "/x/b"}
    changes = classify_datasets(head=same, base=same, built=built, inputs=inputs, loaded={"/x/raw"})
    assert changes == {"/x/a": states.AFFECTED, "/x/b": states.MODIFIED, "/x/raw": states.MODIFIED}


def test_merging_rebuilds_refreshed_datasets_below_which_something_changes() -> None:
    head = {"/x/a": "1", "/x/b": "1", "/x/c": "2"}
    inputs = {"/x/c": {"/x/a"}}
    changes = classify_datasets(
        head=head,
        base={**head, "/x/c": "1"},
        built={"/x/a", "/x/b", "/x/c"},
        inputs=inputs,
        refreshed={"/x/a", "/x/b"},
    )
    assert changes == {"/x/a": states.REFRESHED, "/x/b": states.REFRESHED, "/x/c": states.MODIFIED}
    assert find_needed(changes, inputs) == {"/x/a"}


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        (
            "/x/raw",
            {"/x/b"},
            "Loaded on side by ada. Data of a branch is never merged: master stays as it is until this is loaded "
            "there too. /x/b is made from it on the branch, and on master from what is there.",
        ),
        (
            "/x/a",
            set(),
            "Built from /x/raw (loaded on side by ada), and no code changes for it: master keeps its rows.",
        ),
        ("/x/a", {"/x/a"}, ""),
        ("/x/b", {"/x/a"}, ""),
        ("/x/elsewhere", set(), ""),
        (
            "/x/lone",
            set(),
            "Loaded on side by ada. Data of a branch is never merged: master has what the JobSpec makes there.",
        ),
    ],
)
def test_why_something_does_not_land(path: str, code: set[str], reason: str) -> None:
    inputs = {"/x/a": {"/x/raw"}, "/x/b": {"/x/a"}, "/x/elsewhere": {"/x/other"}, "/x/lone": set[str]()}
    branches = Branches("master", code, inputs, loaded=dict.fromkeys(["/x/raw", "/x/lone"], "on side by ada"))
    assert explain_landing(path, branches) == reason


def test_classify_of_equal_sides_is_empty() -> None:
    same = {"/x/a": "1"}
    assert classify_datasets(head=same, base=same, built=(), inputs={}) == {}


PATHS = st.sampled_from([f"/x/{name}" for name in "abcdefg"])


@given(st.dictionaries(PATHS, st.frozensets(PATHS, max_size=3)), st.frozensets(PATHS))
def test_downstream_is_closed_and_reached(inputs: dict[str, frozenset[str]], start: frozenset[str]) -> None:
    found = find_downstream(start, inputs)
    reached = found | start
    assert all(output in found for output, read in inputs.items() if read & reached)
    assert all(inputs[output] & reached for output in found)
    for path in reached:
        above = {source for source in inputs if path in find_downstream([source], inputs)}
        assert find_upstream([path], inputs) & inputs.keys() == above


def test_rules_read_key_ignore_tolerance_and_filter() -> None:
    text = (
        '[datasets."/x/a"]\nkey = ["id"]\nignore = ["built_at"]\nfilter = " a > 1 "\n'
        "tolerance = { mean = 1e-9, sum = { absolute = 2, relative = 1e-6 } }\n"
    )
    rules = read_dataset_rules(text)["/x/a"]
    assert rules.as_json() == {
        "key": ["id"],
        "ignore": ["built_at"],
        "tolerance": {"mean": {"absolute": 1e-9}, "sum": {"absolute": 2.0, "relative": 1e-6}},
        "row_filter": "a > 1",
    }
    assert rules_from_json(rules.as_json()) == rules
    assert rules.describe() == [
        "key id",
        "ignored built_at",
        "mean within ±1e-09",
        "sum within ±2 or 0.0001 %",
        "only rows with a > 1",
    ]


def test_rules_without_a_filter_are_named_as_before_there_were_filters() -> None:
    assert read_dataset_rules('[datasets."/x/a"]\n')["/x/a"].as_json() == {"key": [], "ignore": [], "tolerance": {}}


def test_rules_leave_out_what_is_malformed() -> None:
    text = '[datasets."/x/a"]\nkey = "id"\nfilter = 1\ntolerance = { a = "x", b = { percent = 1 }, c = 1 }\n'
    assert read_dataset_rules(text)["/x/a"] == ComparisonRules(tolerance={"c": {"absolute": 1.0}})


def test_rules_of_a_broken_file_are_none() -> None:
    assert read_dataset_rules("[datasets") == {}
    assert read_dataset_rules('datasets = "x"') == {}


WIDE = {"amount": {"absolute": 2.0, "relative": 0.5}}
TIGHT = {"amount": {"absolute": 1.0}, "price": {"absolute": 9.0}}


@pytest.mark.parametrize(
    ("head", "target", "begin", "held"),
    [
        pytest.param({}, {"key": ("id",)}, {}, {"key": ("id",)}, id="the branch is older than the key"),
        pytest.param({"ignore": ("a",)}, {}, {"ignore": ("a",)}, {}, id="the target took a rule back"),
        pytest.param({}, {"key": ("id",)}, {"key": ("id",)}, {"key": ("id",)}, id="the branch removes the key"),
        pytest.param(
            {"key": ("id", "day")}, {"key": ("id",)}, {"key": ("id",)}, {"key": ("id", "day")}, id="its own key"
        ),
        pytest.param({"key": ("day",)}, {"key": ("id",)}, {}, {"key": ("id",)}, id="both have a new key"),
        pytest.param({"ignore": ("a", "b")}, {"ignore": ("b", "c")}, {}, {"ignore": ("b",)}, id="ignored by both"),
        pytest.param(
            {"tolerance": WIDE},
            {"tolerance": TIGHT},
            {},
            {"tolerance": {"amount": {"absolute": 1.0}}},
            id="the tighter",
        ),
        pytest.param({"row_filter": "a > 1"}, {}, {}, {}, id="a filter of the branch alone leaves out nothing"),
        pytest.param(
            {"row_filter": "a > 1"},
            {"row_filter": "b"},
            {},
            {"row_filter": "(b) or (a > 1)"},
            id="what either compares",
        ),
    ],
)
def test_the_stricter_rule_holds(
    head: dict[str, Any], target: dict[str, Any], begin: dict[str, Any], held: dict[str, Any]
) -> None:
    sides = [{"/x/a": ComparisonRules(**rules)} for rules in (head, target, begin)]
    combined = combine_rules(head=sides[0], target=sides[1], begin=sides[2])["/x/a"]
    assert combined.rules == ComparisonRules(**held)
    assert bool(combined.changes) is (head not in (target, begin))
