"""Iceberg schemas, partition specs and sort orders in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Type = str | Mapping[str, Any]
Json = Mapping[str, Any]
MOST_NAMES = 8
MOST_ADDED = 3
MOST_COMPARED = 20


@dataclass(frozen=True)
class SchemaColumn:
    """One column or nested field of a schema."""

    id: int
    name: str
    type: str
    required: bool
    doc: str
    depth: int


@dataclass(frozen=True)
class SentencePart:
    """A piece of a sentence; code is set in another face."""

    text: str
    is_code: bool = False


def type_text(type_: Type) -> str:
    """Return a type as one line: list<long>, map<string, double>, struct<a: int>."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "list":
        return f"list<{type_text(type_['element'])}>"
    if type_["type"] == "map":
        return f"map<{type_text(type_['key'])}, {type_text(type_['value'])}>"
    fields = ", ".join(f"{field['name']}: {type_text(field['type'])}" for field in type_["fields"])
    return f"struct<{fields}>"


def list_columns(schema: Json) -> list[SchemaColumn]:
    """Return the columns in their order, the fields of nested types below them."""
    return list(_walk(schema["fields"], 0))


def _walk(fields: Iterable[Json], depth: int) -> Iterator[SchemaColumn]:
    for field in fields:
        yield SchemaColumn(
            id=field["id"],
            name=field["name"],
            type=_short(field["type"]),
            required=bool(field["required"]),
            doc=field.get("doc") or "",
            depth=depth,
        )
        yield from _walk(_children(field["type"]), depth + 1)


def _short(type_: Type) -> str:
    """Return a type without what is written out below it."""
    text = type_text(type_)
    return text if isinstance(type_, str) or not list(_children(type_)) else str(type_["type"])


def _children(type_: Type) -> list[Json]:
    if isinstance(type_, str):
        return []
    if type_["type"] == "struct":
        return list(type_["fields"])
    if type_["type"] == "list" and not isinstance(type_["element"], str):
        return [_element("element", type_["element-id"], type_["element"], required=type_["element-required"])]
    if type_["type"] == "map" and not (isinstance(type_["key"], str) and isinstance(type_["value"], str)):
        return [
            _element("key", type_["key-id"], type_["key"], required=True),
            _element("value", type_["value-id"], type_["value"], required=type_["value-required"]),
        ]
    return []


def _element(name: str, number: int, type_: Type, *, required: bool) -> Json:
    return {"id": number, "name": name, "type": type_, "required": required}


def describe_schema(schema: Json, earlier: Sequence[Json]) -> list[SentencePart]:
    """Return a schema by what it adds to the closest earlier one, or by its column names.

    Compared are the table's first schema and the newest before this one: histories grow long.
    """
    fields = {_identity(field): field for field in schema["fields"]}
    best, most = None, 0
    for other in (*earlier[:1], *earlier[1:][-MOST_COMPARED:]):
        identities = {_identity(field) for field in other["fields"]}
        shared = len(identities & fields.keys())
        if shared == len(identities) and 0 < len(fields) - shared <= MOST_ADDED and shared > most:
            best, most = other, shared
    if best is None:
        return [SentencePart(_list_names([field["name"] for field in schema["fields"]]))]
    identities = {_identity(field) for field in best["fields"]}
    parts = [SentencePart(f"schema {best['schema-id']} and ")]
    added = [field for identity, field in fields.items() if identity not in identities]
    for number, field in enumerate(added):
        need = "required" if field["required"] else "optional"
        parts += [SentencePart(", ")] if number else []
        parts += [
            SentencePart(field["name"], is_code=True),
            SentencePart(f" {type_text(field['type'])}, {need} (field {field['id']})"),
        ]
    return parts


def _identity(field: Json) -> tuple[int, str, str, bool]:
    return field["id"], field["name"], type_text(field["type"]), bool(field["required"])


def _list_names(names: Sequence[str]) -> str:
    if not names:
        return "no columns"
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def describe_spec(spec: Json, names: Mapping[int, str]) -> str:
    """Return a partition spec: month(day), bucket[16](id); unpartitioned without fields."""
    return ", ".join(_transform(field, names) for field in spec["fields"]) or "unpartitioned"


def describe_order(order: Json, names: Mapping[int, str]) -> str:
    """Return a sort order: day, carrier desc; unsorted without fields."""
    return ", ".join(_sort_field(field, names) for field in order["fields"]) or "unsorted"


def _sort_field(field: Json, names: Mapping[int, str]) -> str:
    direction = " desc" if field["direction"] == "desc" else ""
    usual = "nulls-last" if direction else "nulls-first"
    nulls = "" if field["null-order"] == usual else f" {field['null-order'].replace('-', ' ')}"
    return _transform(field, names) + direction + nulls


def _transform(field: Json, names: Mapping[int, str]) -> str:
    source = field.get("source-id") or next(iter(field.get("source-ids", ())), 0)
    name = names.get(source, f"field {source}")
    return name if field["transform"] == "identity" else f"{field['transform']}({name})"


def name_fields(schemas: Iterable[Json]) -> dict[int, str]:
    """Return the name of every field id in the history, the newest schema's last word."""
    return {column.id: column.name for schema in schemas for column in list_columns(schema)}


_DEFAULTS = ("initial-default", "write-default")


def drop_defaults(schema: Mapping[str, Any], is_hidden: Callable[[str], bool]) -> dict[str, Any]:
    """Return a schema without the default values of hidden columns, and of the fields inside them."""
    fields = [_drop(field) if is_hidden(field["name"]) else field for field in schema["fields"]]
    return {**schema, "fields": fields}


def _drop(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop(item) for name, item in value.items() if name not in _DEFAULTS}
    return [_drop(item) for item in value] if isinstance(value, list) else value
