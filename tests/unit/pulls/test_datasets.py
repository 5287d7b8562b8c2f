"""Which datasets a pull request changes, and the rules by which their rows are compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp.pulls.rules import states
from webapp.pulls.rules.dataset_rules import DatasetRules, read_dataset_rules, rules_from_json
from webapp.pulls.rules.datasets import classify_datasets, find_downstream


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
    assert read_dataset_rules(text)["/x/a"] == DatasetRules(tolerance={"c": {"absolute": 1.0}})


def test_rules_of_a_broken_file_are_none() -> None:
    assert read_dataset_rules("[datasets") == {}
    assert read_dataset_rules('datasets = "x"') == {}
