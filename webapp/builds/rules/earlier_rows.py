"""Whether rows that a build has read would read differently now that the columns of their table have changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.catalog.rules.iceberg import Schema


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    """Full name, such as place.zip."""
    type: str
    """Type; of a nested type only its kind."""
    parent: int | None
    """Field id of the nested field that contains it."""
    required: bool
    default: Any


def find_change(old: Schema, new: Schema, *, returning: Collection[int] = ()) -> str:
    """Return the first change of columns by which rows read by `old` read differently by `new`, or an empty text.

    Fields are matched by id, as readers match them. A new optional column without a default is safe: earlier rows have
    NULL there. Descriptions, write defaults and identifier fields change no row. Everything else counts: other names,
    types or order, removed fields, and new fields inside a nested column.

    Args:
        old: the schema by which the rows were read.
        new: the schema by which they would be read now.
        returning: fields of `new` that files of the earlier rows may have values of, though `old` lacks them.

    """
    before, after = dict(_walk(old["fields"])), dict(_walk(new["fields"]))
    for number, field in before.items():
        now = after.get(number)
        if now is None:
            return _explain_removal(field, after)
        if now.name != field.name:
            return f"column {field.name!r} was renamed to {now.name!r}"
        if now.type != field.type:
            return f"column {field.name!r} was {field.type} and is {now.type}"
        if now.default != field.default:
            return f"column {field.name!r} has another default for earlier rows"
    for number, field in after.items():
        if number not in before and (change := _explain_addition(field, before, is_back=number in returning)):
            return change
    order = [number for number in after if number in before]
    return "the columns have another order" if order != list(before) else ""


def list_added(old: Schema, new: Schema) -> set[int]:
    """Return the ids of the fields that only `new` has."""
    return list_fields(new) - list_fields(old)


def list_fields(schema: Schema) -> set[int]:
    """Return the ids of all fields, nested ones included."""
    return {number for number, _ in _walk(schema["fields"])}


def _explain_removal(field: _Field, after: Mapping[int, _Field]) -> str:
    if any(now.name == field.name for now in after.values()):
        return f"column {field.name!r} was replaced by another one of its name"
    return f"column {field.name!r} was removed"


def _explain_addition(field: _Field, before: Mapping[int, _Field], *, is_back: bool) -> str:
    if field.parent is not None:
        # A field of a new column is covered by that column.
        return f"column {field.name!r} was added" if field.parent in before else ""
    if field.default is not None:
        return f"new column {field.name!r} has a default for earlier rows"
    if field.required:
        return f"new column {field.name!r} is required"
    return f"column {field.name!r} is back with its earlier values" if is_back else ""


def _walk(fields: Any, parent: int | None = None, path: str = "") -> Iterator[tuple[int, _Field]]:
    """Yield all fields by id, outer before inner, in the order of the columns."""
    for field in fields:
        name, kind = f"{path}{field['name']}", field["type"]
        yield (
            field["id"],
            _Field(name, _name_type(kind), parent, bool(field["required"]), field.get("initial-default")),
        )
        if not isinstance(kind, str):
            yield from _walk(_list_parts(kind), field["id"], f"{name}.")


def _name_type(kind: Any) -> str:
    return kind.replace(" ", "") if isinstance(kind, str) else str(kind["type"])


def _list_parts(kind: Mapping[str, Any]) -> list[dict[str, Any]]:
    if kind["type"] == "struct":
        return list(kind["fields"])
    names = ("element",) if kind["type"] == "list" else ("key", "value")
    return [
        {
            "id": kind[f"{name}-id"],
            "name": name,
            "type": kind[name],
            "required": kind.get(f"{name}-required", True),
        }
        for name in names
    ]
