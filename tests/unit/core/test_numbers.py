"""Which texts are whole numbers."""

from __future__ import annotations

import pytest

from webapp.core.numbers import read_count


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("2147483647", 2**31 - 1)])
def test_digits_are_numbers(text: str, number: int) -> None:
    assert read_count(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "1e3", "²", "١", "2147483648", "9" * 5000, "x"])
def test_everything_else_is_none(text: str) -> None:
    assert read_count(text) is None
