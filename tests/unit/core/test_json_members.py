"""An object written from the parts of an earlier one is the same text as one written anew."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webapp.core.json_bytes import dump
from webapp.core.json_members import Members

SMALL = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
VALUES = SMALL | st.lists(SMALL, max_size=2) | st.dictionaries(st.sampled_from("xy"), SMALL)
OBJECTS = st.dictionaries(
    st.sampled_from(["a", "b", "log", 'quo"ted', "ü"]), VALUES | st.lists(VALUES, max_size=3), max_size=4
)


def successor(draw: Any, old: dict[str, Any]) -> dict[str, Any]:
    """A next version as a commit makes it: members kept, replaced, made longer, cut, dropped, added."""
    new: dict[str, Any] = {}
    for key, value in old.items():
        what = draw(st.sampled_from(["keep", "replace", "drop", "append", "cut", "copy"]))
        if what == "keep":
            new[key] = value
        elif what == "replace":
            new[key] = draw(VALUES)
        elif what == "copy":
            new[key] = json.loads(json.dumps(value))
        elif what != "drop" and isinstance(value, list):
            new[key] = [*value, draw(VALUES)] if what == "append" else value[1:]
    return {**new, **draw(OBJECTS)} if draw(st.booleans()) else new


@given(OBJECTS, st.data())
def test_every_version_is_written_as_if_it_were_the_first(first: dict[str, Any], data: st.DataObject) -> None:
    values, members = first, Members(first)
    assert members.text == dump(first)
    for _ in range(data.draw(st.integers(0, 3))):
        values = successor(data.draw, values)
        assert b"".join(members.splice(values)) == dump(values)
        members = Members(values, like=members)
        assert members.text == dump(values)


def test_what_stayed_is_not_written_again() -> None:
    """The earlier text is changed under the hand: where the new one shows it, it was copied."""
    kept, log = {"id": 1}, [{"n": 1}, {"n": 2}]
    old = Members({"kept": kept, "log": log, "other": 1})
    old.text = old.text.replace(b'"id"', b'"ID"').replace(b'"n":2', b'"n":7')
    new = Members({"other": 2, "log": [*log, {"n": 3}], "kept": kept}, like=old)
    assert new.text == b'{"other":2,"log":[{"n":1},{"n":7},{"n":3}],"kept":{"ID":1}}'


def test_equal_but_not_the_same_is_written_again() -> None:
    """True equals 1, and yet is other JSON: only identity tells that nothing has changed."""
    old = Members({"a": [1], "b": [1]})
    assert Members({"a": [True], "b": [1.0, 2]}, like=old).text == b'{"a":[true],"b":[1.0,2]}'
