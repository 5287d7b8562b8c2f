"""What the rules of a dataset say of a row."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.comparisons.rules.dataset_rules import ComparisonRules

ROW = {"id": 1, "d": {"a": 2, "e": {"f": 3}}, "nothing": None, "d.x": 4, "text": "d"}


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (("id", "d.a"), {"id": 1, "d.a": 2}),
        (("d.e.f",), {"d.e.f": 3}),
        (("d.x",), {"d.x": 4}),
        (("nothing.a",), {"nothing.a": None}),
        (("id", "other"), None),
        (("d.b",), None),
        (("text.a",), None),
        ((), None),
    ],
)
def test_the_key_of_a_row_is_what_the_row_shows(key: tuple[str, ...], found: dict[str, Any] | None) -> None:
    assert ComparisonRules(key=key).key_of(ROW) == found
