"""Rules bound to columns, without a table: what is the key, what differs, what stays the same, what has no effect."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from jobs.engine.plan.columns import Pair
from jobs.engine.plan.diff_rules import DiffRules, bind_keys
from jobs.engine.plan.rules import read_filter
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import Field, Primitive, StructType


def pair(index: int, name: str, kind: str = "long", **options: Any) -> Pair:
    """A column that both ends have under one name."""
    found = Field(index + 1, name, Primitive(kind), required=False)
    return Pair(index, name, found, found, **options)


def test_the_key_is_in_the_order_of_its_names_and_its_fields_stand_in_columns() -> None:
    place = Field(9, "place", StructType((Field(10, "code", Primitive("string"), required=False),)), required=False)
    pairs = (pair(0, "id"), Pair(1, "place", place, place), pair(2, "v"))
    rules = DiffRules(pairs, named_keys=bind_keys(["place.code", "nothing", "id"], pairs))
    assert list(rules.named_keys) == ["place.code", "nothing", "id"]
    assert [key.name for key in rules.key_pairs] == ["place.code", "id"]
    assert rules.key_values("a") == ["struct_extract(a1, 'code')", "a0"]
    # the struct may differ in its other fields
    assert [value.name for value in rules.value_pairs] == ["place", "v"]


@pytest.mark.parametrize(
    ("before", "after", "limits", "is_different"),
    [
        ("1", "2", {}, True),
        ("1", "2", {"absolute": 1.0}, False),
        ("1", "3", {"absolute": 1.0}, True),
        ("100", "101", {"relative": 0.01}, False),
        ("1", "NULL", {"absolute": 1.0}, True),
        ("NULL", "NULL", {}, False),
    ],
)
def test_values_differ_beyond_their_tolerance(
    before: str, after: str, limits: dict[str, float], *, is_different: bool
) -> None:
    rules = DiffRules((pair(0, "v"),), tolerances={"v": limits} if limits else {})
    with duckdb.connect() as connection:
        values = f"SELECT {before}::BIGINT AS b0, {after}::BIGINT AS a0"
        assert first_row(connection, f"SELECT {rules.differs(rules.pairs[0])} FROM ({values})") == (is_different,)


def test_a_filter_chooses_rows_of_either_end() -> None:
    rules = DiffRules((pair(0, "k"),), row_filter=read_filter("k > 1"))
    with duckdb.connect() as connection:
        for side in "ba":
            rows = rules.choose(f"SELECT unnest([1, 2, 3]) AS {side}0", side)
            assert first_row(connection, f"SELECT count(*) FROM ({rows})") == (2,)
        assert first_row(connection, "SELECT 1 WHERE false") == ()


def test_columns_with_a_tolerance_are_never_taken_for_the_same() -> None:
    pairs = (pair(0, "k"), pair(1, "near"), pair(2, "same"), pair(3, "other"), pair(4, "left", is_ignored=True))
    rules = DiffRules(pairs, tolerances={"near": {"absolute": 1.0}})
    assert [found.name for found in rules.unchanged_pairs({3})] == ["k", "same"]


def test_rules_without_effect_are_named() -> None:
    pairs = (pair(0, "name", "string"), pair(1, "odd", "variant"))
    rules = DiffRules(pairs, ignored=("x",), tolerances={"y": {"absolute": 1.0}, "name": {"absolute": 1.0}})
    assert rules.describe_useless() == [
        "The rules name 'x' as ignored column, but neither side has that column.",
        "The rules name 'y' as column with a tolerance, but neither side has that column.",
        "The tolerance of 'name' has no effect: it is not a number on both sides.",
        "Column 'odd' is not compared: this engine does not read its type.",
    ]
