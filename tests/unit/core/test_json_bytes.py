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
def test_what_the_fast_writer_declines_is_written_all_the_same(value: object) -> None:
    assert json_bytes.dump(value) == json.dumps(value, separators=(",", ":")).encode()


def test_text_that_is_no_unicode_is_an_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        json_bytes.dump({"name": "\ud800"})


@pytest.mark.parametrize("text", [b"NaN", b'{"a": Infinity}', b"[-Infinity]"])
def test_constants_of_python_are_no_json(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        json_bytes.load(text)
