"""What a request's body holds, read once: the members that a serializer names, of just the types that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from webapp.core.errors import InvalidInput


class Text(serializers.CharField):
    """A text; a number is none."""

    def to_internal_value(self, data: Any) -> str:
        """Refuse what is no text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """True or false, and no word or number for it."""

    def to_internal_value(self, data: Any) -> bool:
        """Refuse what only means true or false."""
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Number(serializers.IntegerField):
    """A whole number, and no text of one."""

    def to_internal_value(self, data: Any) -> int:
        """Refuse what is no number."""
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(data)


class ExactBody(serializers.Serializer[Any]):
    """A body that has no other members than those of its serializer."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse a member that is unknown: whoever sent it means something by it."""
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, Mapping) else []
        if unknown:
            names = ", ".join(sorted(self.fields))
            raise serializers.ValidationError({name: [f"Unknown: {names} are known."] for name in unknown})
        return super().to_internal_value(data)


class NullIsAbsent(serializers.Serializer[Any]):
    """A body in which a member that is null counts as left out: it has the default."""

    def to_internal_value(self, data: Mapping[str, Any]) -> Any:
        """Read what is there."""
        return super().to_internal_value({name: value for name, value in data.items() if value is not None})


def read_input(serializer: type[serializers.Serializer[Any]], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated fields of a body.

    Raises:
        InvalidInput: a field is missing or has the wrong shape; `errors` names it.

    """
    checked = serializer(data=dict(data))
    if not checked.is_valid():
        errors = {name: [str(problem) for problem in _flat(problems)] for name, problems in checked.errors.items()}
        name, problems = next(iter(errors.items()))
        message = f"{name}: {problems[0]}"
        raise InvalidInput(message, errors=errors)
    return dict(checked.validated_data)


def _flat(problems: Any) -> list[Any]:
    if isinstance(problems, dict):
        return [f"{key}: {item}" for key, value in problems.items() for item in _flat(value)]
    if isinstance(problems, list):
        return [item for problem in problems for item in _flat(problem)]
    return [problems]
