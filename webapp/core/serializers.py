"""How a noun becomes JSON: its one serializer writes what rows and values hold, and the API is described from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from rest_framework import serializers
from rest_framework.fields import SkipField, empty

from webapp.core.inputs import Flag, Number, Text

Fields = dict[str, serializers.Field[Any, Any, Any, Any]]

PLAIN = {
    *(serializers.BooleanField, serializers.CharField, serializers.ChoiceField),
    *(serializers.DictField, serializers.FloatField, serializers.IntegerField, serializers.JSONField),
    *(serializers.ListField, Flag, Number, Text),
}
"""Fields that add nothing to a value of their own type; the renderer makes states into text. Times are put into UTC."""


class NounSerializer(serializers.Serializer[Any]):
    """Writes members as the row or value has them, without converting each into the type that it already has: decision 0062.

    A member that is neither required nor ever null is left out where there is nothing to write.
    """

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Return the members; what was kept as JSON is written as it was kept."""
        if isinstance(instance, dict):
            return instance
        written: dict[str, Any] = {}
        for name, read, write, is_optional in self._members:
            try:
                value = read(instance)
            except SkipField:
                continue
            member = value if write is None or value is None else write(value)
            if member is not None or not is_optional:
                written[name] = member
        return written

    @cached_property
    def _members(self) -> list[_Member]:
        return [_describe(field) for field in self._readable_fields]


class _FilledText(serializers.CharField):
    def to_representation(self, value: str) -> str | None:  # type: ignore[override]  # DRF's own are never null
        """Write no empty text."""
        return value or None


class TextOrNull(_FilledText):
    """A text that is null where it is empty."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_null=True, **options)


class OptionalText(_FilledText):
    """A text that is left out where it is empty."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)


class _Member(NamedTuple):
    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None
    """None: the value is written as it is."""
    is_optional: bool


def _describe(field: serializers.Field[Any, Any, Any, Any]) -> _Member:
    is_given = (field.required or field.read_only) and field.default is empty
    return _Member(
        name=str(field.field_name),
        read=attrgetter(str(field.source)) if is_given and len(field.source_attrs) == 1 else field.get_attribute,
        write=None if type(field) in PLAIN else field.to_representation,
        is_optional=not is_given and not field.allow_null and field.default is empty,
    )
