"""Column ids: given out once, never to two different columns, and found again by a column that comes back."""

from collections.abc import Mapping
from typing import Any

from webapp.catalog.rules.errors import CommitFailed
from webapp.catalog.rules.iceberg import Metadata, Schema
from webapp.catalog.rules.metadata import list_defaults, walk_fields

Column = tuple[str, str, str]  # full name, the type or the kind of nesting, and the initial default


def column(name: str, kind: Any, default: Any) -> Column:
    """Return what makes two fields the same column: full name, type (of a nested type only its kind), initial default.

    Rows that were written before a column was added read its initial default, so that another one is another column.
    """
    return name, kind if isinstance(kind, str) else str(kind.get("type")), "" if default is None else repr(default)


def known_columns(metadata: Metadata) -> dict[int, set[Column]]:
    """Return every column id of the table's history with the columns it stood for."""
    columns: dict[int, set[Column]] = {}
    for schema in metadata["schemas"]:
        defaults = dict(list_defaults(schema))
        for number, name, kind in walk_fields(schema):
            columns.setdefault(number, set()).add(column(name, kind, defaults.get(number)))
    return columns


def check_field_ids(metadata: Metadata, schema: Schema) -> None:
    """Refuse, for a retry, a new schema that gives a column an id which stands for another column in the history.

    The ids of the current schema may be renamed or retyped. Any other known id has to be the same column coming back:
    else two branches would give one id to two columns, and a reader of one would take the other's values.
    """
    current = {
        number
        for candidate in metadata["schemas"]
        if candidate["schema-id"] == metadata["current-schema-id"]
        for number, _, _ in walk_fields(candidate)
    }
    columns: dict[int, set[Column]] | None = None
    defaults = dict(list_defaults(schema))
    for number, name, kind in walk_fields(schema):
        if number in current or number > metadata["last-column-id"]:
            continue
        columns = known_columns(metadata) if columns is None else columns
        if number in columns and column(name, kind, defaults.get(number)) not in columns[number]:
            taken = ", ".join(
                sorted(
                    f"{other} ({text}{default and f', default {default}'})" for other, text, default in columns[number]
                )
            )
            message = f"Column id {number} of new column {name} already stands for {taken} in the table's history"
            raise CommitFailed(message)


class FieldIds:
    """Gives the columns of one schema their ids, in the order of Iceberg's reference implementation."""

    def __init__(self, *, last_id: int, numbers: Mapping[Column, int] | None = None) -> None:
        self.last_id = last_id
        self.new_by_old: dict[int, int] = {}
        self._numbers = dict(numbers or {})

    @classmethod
    def after(cls, metadata: Metadata) -> "FieldIds":
        """Make ids for a schema that replaces everything on a branch: a column of the history keeps its id."""
        by_column = {name: number for number, names in sorted(known_columns(metadata).items()) for name in names}
        return cls(last_id=metadata["last-column-id"], numbers=by_column)

    def assign(self, schema: Schema) -> Schema:
        """Return the schema with new ids throughout."""
        fresh: Schema = self._type(schema, "")
        identifiers = schema.get("identifier-field-ids")
        if identifiers:
            fresh["identifier-field-ids"] = [self.new_by_old.get(number, number) for number in identifiers]
        return fresh

    def _type(self, kind: Any, path: str) -> Any:
        if isinstance(kind, str):
            return kind
        match kind["type"]:
            case "struct":
                numbered = [
                    {
                        **item,
                        "id": self._next(item["id"], path, item["name"], item["type"], item.get("initial-default")),
                    }
                    for item in kind["fields"]
                ]
                return {
                    **kind,
                    "fields": [
                        {**item, "type": self._type(item["type"], _join(path, item["name"]))} for item in numbered
                    ],
                }
            case "list":
                number = self._next(kind["element-id"], path, "element", kind["element"])
                return {**kind, "element-id": number, "element": self._type(kind["element"], _join(path, "element"))}
            case _:
                key = self._next(kind["key-id"], path, "key", kind["key"])
                value = self._next(kind["value-id"], path, "value", kind["value"])
                return {
                    **kind,
                    "key-id": key,
                    "value-id": value,
                    "key": self._type(kind["key"], _join(path, "key")),
                    "value": self._type(kind["value"], _join(path, "value")),
                }

    def _next(self, old: int, path: str, name: str, kind: Any, default: Any = None) -> int:
        number = self._numbers.pop(column(_join(path, name), kind, default), None)
        if number is None or number in self.new_by_old.values():
            self.last_id += 1
            number = self.last_id
        self.new_by_old[old] = number
        return number


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
