"""The key of one row whose history is asked: its fields by their ids, and the values that they have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jobs.engine.errors import InvalidRulesError
from jobs.engine.plan.columns import part, scan_columns
from jobs.engine.read.bounds import Range, may_overlap, ordered_sql
from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import Primitive, describe, duckdb_type, literal
from jobs.engine.read.paths import field_parts, list_instead, list_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from jobs.engine.plan.planner import DiffPlan
    from jobs.engine.read.bounds import Bound
    from jobs.engine.read.fields import Field


@dataclass(frozen=True)
class KeyPart:
    """One column of the key, or a field inside one, as one end has it."""

    value: str
    """SQL of its value in a row of that end."""
    field: Field
    text: str | None
    """The value that the row has, as text; None is NULL."""

    @property
    def matches(self) -> str:
        """SQL that is true for rows with the value."""
        return f"{self.value} IS NULL" if self.text is None else f"{self.value} = {_typed(self.field, self.text)}"


@dataclass(frozen=True)
class RowKey:
    """The key of one row."""

    values: Mapping[str, str | None]
    ids: Mapping[str, tuple[int, ...]]
    """Key column, or field inside one → field ids from the column down: older schemas may call them otherwise."""

    def parts(self, plan: DiffPlan, side: str) -> list[KeyPart]:
        """Return what one end has of the key."""
        columns = {column.field.id: column for column in scan_columns(plan.pairs, side)}
        parts = []
        for name, (column_id, *inner_ids) in self.ids.items():
            column = columns.get(column_id)
            inner = None if column is None else _descend(column.field, column.alias, inner_ids)
            if inner is not None:
                parts.append(KeyPart(*inner, self.values[name]))
        return parts


def bind_key(values: Mapping[str, str | None], plan: DiffPlan, connection: duckdb.DuckDBPyConnection) -> RowKey:
    """Learn the fields of a key from the newest schema.

    Raises:
        InvalidRulesError: there is no such column, or it cannot have that value.

    """
    fields = plan.after.schema.fields if plan.after.schema is not None else ()
    paths = list_paths(fields, field_parts)
    for name, value in values.items():
        if name not in paths:
            raise InvalidRulesError(f"Key column {name!r} does not exist; {list_instead(name, paths)}")
        column, inner = paths[name][0], paths[name][-1]
        if not isinstance(inner.type, Primitive) or duckdb_type(column.type) is None:
            raise InvalidRulesError(f"Column {name!r} is a {describe(inner.type)}, which cannot be looked up.")
        if value is not None and _compute(connection, f"{_typed(inner, value)} IS NULL"):
            raise InvalidRulesError(f"{value!r} is no {describe(inner.type)}, which column {name!r} holds.")
    return RowKey(values, {name: tuple(outer.id for outer in paths[name]) for name in values})


@dataclass(frozen=True)
class KeyBounds:
    """What the bounds of files are compared with, for the columns of a key whose bounds have an order."""

    key: RowKey
    connection: duckdb.DuckDBPyConnection
    bounds: dict[Field, Bound | None] = field(default_factory=dict)

    def prune(self, plan: DiffPlan) -> DiffPlan:
        """Leave the files that can hold the key; most transactions leave none, and cost nothing more."""
        before, after = (self._ranges(plan, side) for side in "ba")
        return replace(
            plan,
            left=tuple(file for file in plan.left if may_overlap(file.data, before)),
            came=tuple(file for file in plan.came if may_overlap(file.data, after)),
            shifted=tuple(file for file in plan.shifted if may_overlap(file.before.data, before)),
        )

    def _ranges(self, plan: DiffPlan, side: str) -> list[Range]:
        bounds = ((part.field, self._bound(part)) for part in self.key.parts(plan, side))
        return [Range(column, bound, bound) for column, bound in bounds if bound is not None]

    def _bound(self, part: KeyPart) -> Bound | None:
        if part.field not in self.bounds:
            sql = None if part.text is None else ordered_sql(part.field, _typed(part.field, part.text))
            bound = _compute(self.connection, sql) if sql else None
            self.bounds[part.field] = bound if isinstance(bound, int | bytes) else None
        return self.bounds[part.field]


def _compute(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    return first_row(connection, f"SELECT {sql}")[0]


def _typed(column: Field, value: str) -> str:
    """Return SQL of a text as a value of a column; NULL where it is none."""
    type_ = duckdb_type(column.type) or "VARCHAR"
    if type_ == "VARCHAR":
        return literal(value)
    return f"try(from_base64({literal(value)}))" if type_ == "BLOB" else f"TRY_CAST({literal(value)} AS {type_})"


def _descend(column: Field, value: str, ids: list[int]) -> tuple[str, Field] | None:
    """Descend to a field inside a column; return SQL of it and what it is, None where the column does not have it."""
    for field_id in ids:
        inner = next((inner for inner in field_parts(column) if inner.id == field_id), None)
        if inner is None:
            return None
        column, value = inner, part(value, inner)
    return value, column
