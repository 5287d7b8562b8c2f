"""Reads bodies and query parameters of REST requests.

A body has known members only, each of exactly the type that its serializer declares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from django.http import QueryDict
from rest_framework import serializers

from webapp.core.errors import BadRequest, InvalidInput

MOST_NAMED = 20
"""Unknown members or parameters that one refusal names."""
LONGEST_NAME = 100
"""Characters of an unknown name in a refusal."""


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


class NullIsAbsent(serializers.Serializer[Any]):
    """A body in which a member that is null counts as left out: it has the default."""

    def to_internal_value(self, data: Any) -> Any:
        """Read what is there."""
        if isinstance(data, Mapping):
            data = {name: value for name, value in data.items() if value is not None}
        return super().to_internal_value(data)


class Unknown(NamedTuple):
    """A member that its object does not have."""

    name: str
    hint: str
    place: str = ""
    """Path of the inner object, such as `changes[0]`; empty for the body itself."""

    @property
    def path(self) -> str:
        """Return the path of the member."""
        return f"{self.place}.{self.name}" if self.place else self.name


def read_input(serializer: type[serializers.Serializer[Any]], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated fields of a body.

    Raises:
        BadRequest: the body or an inner object has an unknown member; `errors` names it.
        InvalidInput: a field is missing or has the wrong shape; `errors` names it.

    """
    checked = serializer(data=dict(data))
    refuse_unknown(_list_unknown(checked, data, ""))
    if not checked.is_valid():
        errors = {name: [str(problem) for problem in _flat(problems)] for name, problems in checked.errors.items()}
        name, problems = next(iter(errors.items()))
        message = f"{name}: {problems[0]}"
        raise InvalidInput(message, errors=errors)
    return dict(checked.validated_data)


def refuse_unknown(unknown: Iterable[Unknown]) -> None:
    """Refuse members that a body or form has and its address does not know.

    Raises:
        BadRequest: there is one; `errors` names it, with the nearest known name.

    """
    members = list(islice(unknown, MOST_NAMED))
    if members:
        first = members[0]
        message = f"Unknown member {first.name!r}{f' in {first.place}' if first.place else ''}. {first.hint}"
        raise BadRequest(message, code="unknown_member", errors={member.path: [member.hint] for member in members})


def check_parameters(
    query: QueryDict,
    *,
    names: Collection[str] | None,
    repeatable: Collection[str],
    may_be_empty: Callable[[str], bool],
) -> None:
    """Reject query parameters that are empty, repeated or unknown: a misspelled or unset one would get the default.

    Args:
        query: the parameters of a request.
        names: those that the operation takes; `key.<column>` stands for all that begin with `key.`. None: any.
        repeatable: those that can be given more than once.
        may_be_empty: whether an empty parameter has a meaning.

    Raises:
        BadRequest: there is one; `errors` names it.

    """
    for name, values in query.lists():
        shown = show_name(name)
        if len(values) > 1 and name not in repeatable:
            message = f"The parameter {shown!r} is given {len(values)} times. Give it once."
            raise BadRequest(message, code="repeated_parameter", errors={shown: ["Repeated."]})
        if "" in values and not may_be_empty(name):
            message = f"The parameter {shown!r} is empty. Give it a value, or leave it out."
            raise BadRequest(message, code="empty_parameter", errors={shown: ["Empty."]})
    unknown = [] if names is None else [name for name in query if not _is_parameter(name, names)]
    if unknown:
        hints = {show_name(name): [_name_nearest(show_name(name), names or ())] for name in unknown[:MOST_NAMED]}
        shown, [hint] = next(iter(hints.items()))
        raise BadRequest(f"Unknown parameter {shown!r}. {hint}", code="unknown_parameter", errors=hints)


def _is_parameter(name: str, names: Collection[str]) -> bool:
    prefixes = tuple(pattern.partition("<")[0] for pattern in names if "<" in pattern)
    return name in names or name.startswith(prefixes)


def show_name(name: str) -> str:
    """Return a name as refusals show it: short, on one line, and valid Unicode."""
    return name[:LONGEST_NAME].encode(errors="replace").decode()


def _name_nearest(name: str, candidates: Collection[str]) -> str:
    """Name the known member or parameter that was probably meant, or all of them."""
    if not candidates:
        return "None is taken here."
    by_spelling = {_normalize(candidate): candidate for candidate in candidates}
    nearest = get_close_matches(_normalize(name), by_spelling, n=1)
    return f"Did you mean {by_spelling[nearest[0]]!r}?" if nearest else f"Known: {', '.join(sorted(candidates))}."


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")


def _list_unknown(field: Any, value: Any, place: str) -> Iterator[Unknown]:
    """List the unknown members of a value and of the objects inside it."""
    if isinstance(field, serializers.ListSerializer | serializers.ListField):
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from _list_unknown(field.child, item, f"{place}[{number}]")
    elif isinstance(field, serializers.Serializer) and isinstance(value, Mapping):
        fields = {name: inner for name, inner in field.fields.items() if not inner.read_only}
        for name, item in value.items():
            if name in fields:
                yield from _list_unknown(fields[name], item, f"{place}.{name}" if place else name)
            else:
                shown = show_name(name)
                yield Unknown(shown, _name_nearest(shown, fields), place)


def _flat(problems: Any) -> list[Any]:
    if isinstance(problems, dict):
        return [f"{key}: {item}" for key, value in problems.items() for item in _flat(value)]
    if isinstance(problems, list):
        return [item for problem in problems for item in _flat(problem)]
    return [problems]
