"""Keys of rows as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.comparisons.rules.row_keys import read_key, write_key


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["2013-07-10", "UA"], "2013-07-10, UA"),
        ([7, None, True], "7, null, true"),
        (["Smith, J.", "null", ""], '"Smith, J.", "null", ""'),
        (['5" pipe', "a[0]", " padded "], '"5"" pipe", "a[0]", " padded "'),
        (["New  York"], "New  York"),
    ],
)
def test_keys_are_written_plainly_where_they_can_be(values: list[object], text: str) -> None:
    assert write_key(values) == text


@pytest.mark.parametrize("text", ["", "a,", ",a", "a b, ,c", 'a"b', '"a', "[a]"])
def test_what_is_no_key_is_none(text: str) -> None:
    assert read_key(text) is None


@given(st.lists(st.none() | st.text(), min_size=1))
def test_a_key_is_read_as_it_was_written(values: list[str | None]) -> None:
    assert read_key(write_key(values)) == values
