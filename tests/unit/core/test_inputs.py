"""Bodies that are not of the shape that a serializer names are refused by the name of what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework import serializers

from webapp.core.errors import BadRequest, InvalidInput
from webapp.core.inputs import Text, read_input


class Part(serializers.Serializer[Any]):
    """An object inside a body."""

    path = Text()


class Whole(serializers.Serializer[Any]):
    """A body with a list of objects."""

    parts = Part(many=True)


@pytest.mark.parametrize("part", [True, 1, None, "path", ["path"], [["path"]]])
def test_what_is_no_object_inside_a_body_is_refused_by_name(part: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^parts: ") as refusal:
        read_input(Whole, {"parts": [part]})
    assert "path: path" not in str(refusal.value)


def test_an_unknown_member_of_an_inner_object_is_named() -> None:
    with pytest.raises(BadRequest, match=r"Unknown member 'rows' in parts\[0\]\. Known: path\.") as refusal:
        read_input(Whole, {"parts": [{"path": "a", "rows": 1}]})
    assert refusal.value.errors == {"parts[0].rows": ["Known: path."]}


@pytest.mark.parametrize("wrong", ["parst", "Parts", "PARTS", "part", "part-s"])
def test_the_nearest_known_member_is_named(wrong: str) -> None:
    with pytest.raises(BadRequest, match=f"Unknown member '{wrong}'\\. Did you mean 'parts'\\?"):
        read_input(Whole, {"parts": [{"path": "a"}], wrong: 1})


def test_a_body_of_the_right_shape_is_read() -> None:
    assert read_input(Whole, {"parts": [{"path": "a"}]}) == {"parts": [{"path": "a"}]}
