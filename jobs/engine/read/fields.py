"""Iceberg schemas as values: read from metadata JSON, with the DuckDB type that holds each Iceberg type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.errors import UnreadableTableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEEP_NAN = "can_have_nan=true"
"""Of `read_parquet`. Bounds in Parquet files leave NaN out, as Iceberg's own writers do: without it DuckDB takes them for all
values, and answers `v = 0` with NaN where 0 is the only other value."""
_DECIMAL = re.compile(r"^decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)$")
_FIXED = re.compile(r"^fixed\[\s*(\d+)\s*\]$")

_DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz_ns": "TIMESTAMPTZ_NS",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
    "unknown": "VARCHAR",
}


@dataclass(frozen=True)
class Primitive:
    """A type without parts, by its Iceberg name: `long`, `decimal(9,2)`, `fixed[16]`."""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal."""
        match = _DECIMAL.match(self.name)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def is_integer(self) -> bool:
        return self.name in {"int", "long"}

    @property
    def is_float(self) -> bool:
        return self.name in {"float", "double"}

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or self.decimal is not None

    @property
    def is_bytes(self) -> bool:
        return self.name == "binary" or _FIXED.match(self.name) is not None


@dataclass(frozen=True)
class StructType:
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ListType:
    element: Field


@dataclass(frozen=True)
class MapType:
    key: Field
    value: Field


Type = Primitive | StructType | ListType | MapType


@dataclass(frozen=True)
class Field:
    """A column or a part of one. `default` is what rows older than the field read (version 3's initial default)."""

    id: int
    name: str
    type: Type
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class Schema:
    """The columns of one schema of a table."""

    id: int
    fields: tuple[Field, ...]


def read_schema(raw: Mapping[str, Any]) -> Schema:
    """Read a schema out of table metadata."""
    return Schema(id=int(raw.get("schema-id", 0)), fields=tuple(_read_field(field) for field in raw["fields"]))


def _read_field(raw: Mapping[str, Any]) -> Field:
    return Field(
        id=int(raw["id"]),
        name=str(raw["name"]),
        type=_read_type(raw["type"]),
        required=bool(raw.get("required", False)),
        default=raw.get("initial-default"),
    )


def _read_type(raw: Any) -> Type:
    if isinstance(raw, str):
        return Primitive(raw.replace(" ", ""))
    kind = raw.get("type")
    if kind == "struct":
        return StructType(tuple(_read_field(field) for field in raw["fields"]))
    if kind == "list":
        required = bool(raw.get("element-required"))
        return ListType(Field(int(raw["element-id"]), "element", _read_type(raw["element"]), required))
    if kind == "map":
        return MapType(
            Field(int(raw["key-id"]), "key", _read_type(raw["key"]), required=True),
            Field(int(raw["value-id"]), "value", _read_type(raw["value"]), bool(raw.get("value-required"))),
        )
    raise UnreadableTableError(f"The table's schema holds a type of unknown kind: {kind!r}.")


def walk(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Yield every field and its nested fields, parents first."""
    for field in fields:
        yield field
        yield from walk(children(field.type))


def children(type_: Type) -> tuple[Field, ...]:
    if isinstance(type_, StructType):
        return type_.fields
    if isinstance(type_, ListType):
        return (type_.element,)
    if isinstance(type_, MapType):
        return (type_.key, type_.value)
    return ()


def duckdb_type(type_: Type) -> str | None:
    """Return the DuckDB type that holds every value of an Iceberg type exactly; None where there is none."""
    if isinstance(type_, Primitive):
        return _duckdb_primitive(type_)
    parts = [duckdb_type(child.type) for child in children(type_)]
    if not parts or any(part is None for part in parts):
        return None
    if isinstance(type_, ListType):
        return f"{parts[0]}[]"
    if isinstance(type_, MapType):
        return f"MAP({parts[0]}, {parts[1]})"
    return "STRUCT(" + ", ".join(f"{quote(f.name)} {part}" for f, part in zip(type_.fields, parts, strict=True)) + ")"


def _duckdb_primitive(type_: Primitive) -> str | None:
    if type_.decimal is not None:
        precision, scale = type_.decimal
        return f"DECIMAL({precision},{scale})"
    if type_.is_bytes:
        return "BLOB"
    return _DUCKDB_TYPES.get(type_.name)


def describe(type_: Type) -> str:
    """Write the type as people do: `struct<a: long, b: list<string>>`."""
    if isinstance(type_, Primitive):
        return type_.name
    if isinstance(type_, ListType):
        return f"list<{describe(type_.element.type)}>"
    if isinstance(type_, MapType):
        return f"map<{describe(type_.key.type)}, {describe(type_.value.type)}>"
    return "struct<" + ", ".join(f"{field.name}: {describe(field.type)}" for field in type_.fields) + ">"


def quote(name: str) -> str:
    """Quote a name as a DuckDB identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Write a text as a DuckDB string literal; the parser takes no NUL inside quotes."""
    if "\0" in text:
        return f"decode(unhex('{text.encode().hex()}'))"
    return "'" + text.replace("'", "''") + "'"


def holds(type_: Type, kind: Any, *names: str) -> bool:
    """Return whether a type, or one of its parts, is of a kind; a primitive of one of the names, if some are given."""
    if isinstance(type_, kind) and (not names or (isinstance(type_, Primitive) and type_.name in names)):
        return True
    if isinstance(type_, ListType):
        return holds(type_.element.type, kind, *names)
    if isinstance(type_, MapType):
        return holds(type_.key.type, kind, *names) or holds(type_.value.type, kind, *names)
    return not isinstance(type_, Primitive) and any(holds(field.type, kind, *names) for field in type_.fields)
