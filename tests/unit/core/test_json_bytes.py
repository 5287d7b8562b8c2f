"""Fast JSON says what the standard library says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.core import json_bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON)
def test_what_is_written_reads_back_exactly(value: object) -> None:
    assert json_bytes.load(json_bytes.dump(value)) == value
    assert json.loads(json_bytes.dump(value)) == value


@pytest.mark.parametrize("value", [2**64, -(2**80), {"x": 10**40}, {1: 2}, (1, (2,))])
def test_numbers_of_any_length_and_keys_that_are_numbers_are_written_as_by_the_standard_library(value: object) -> None:
    assert json_bytes.dump(value) == json.dumps(value, separators=(",", ":")).encode()


def test_text_that_is_no_unicode_is_an_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        json_bytes.dump({"name": "\ud800"})


@pytest.mark.parametrize(
    "text",
    [
        *(b"NaN", b'{"a": Infinity}', b"[-Infinity]"),  # what only Python calls JSON
        *(b"1e400", b'"\\ud800"', b'"\\udc00"', b'"\xff"', b"\xef\xbb\xbf{}", '{"a": 1}'.encode("utf-16")),
    ],
)
def test_what_could_not_be_written_again_is_not_read(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Number|utf-8|truncated"):
        json_bytes.load(text)


def test_the_last_of_two_members_of_one_name_counts() -> None:
    assert json_bytes.load(b'{"a": 1, "a": 2}') == {"a": 2}


def test_load_rejects_deep_nesting() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        json_bytes.load(b"[" * 100_000 + b"]" * 100_000)
