"""What an executor elsewhere leaves of the rows to compare: those that both ends may have differently.

It may leave too many and must not leave too few. Everything else is done with them as with rows read from files, so rules,
counts, previews and the artifact know nothing of where they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.engine.plan.columns import match_value, part, scan_columns
from jobs.engine.read.fields import ListType, MapType, StructType, duckdb_type, holds, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb
    import pyarrow as pa

    from jobs.engine.measure.measured import Measured
    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.router import Decision
    from jobs.engine.read.fields import Type
    from jobs.engine.read.scan import ScanColumn

HERE, COPIES = {"b": "b_here", "a": "a_here"}, "copies"
_ROWS, _KEYS, _BATCH = "reduced", "reduced_keys", "reduced_batch"


@dataclass(frozen=True)
class Counted:
    """What was counted where the rows were reduced."""

    before: int
    """Rows to compare, as the plan names them."""
    after: int
    shared: int
    """Rows that both ends have in the same files."""
    has_repeats: bool
    """Whether some key has two of the rows to compare at one end."""

    @property
    def whole(self) -> dict[str, int]:
        """All rows of each end."""
        return {"b": self.before + self.shared, "a": self.after + self.shared}


class Reduced:
    """The rows that are left, in tables of the connection, which spills what memory does not hold."""

    keys = _KEYS
    """The table of touched keys that have more than one row at an end, with their numbers there."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        pairs: Iterable[Pair],
        key_pairs: Sequence[Pair],
        *,
        counted: Counted,
    ) -> None:
        self._connection = connection
        self._types = {
            column.alias: column.field.type for pair in pairs for side in "ba" for column in scan_columns([pair], side)
        }
        self._key_names = [f"k{place}" for place in range(len(key_pairs))]
        self.counted = counted
        self._create(key_pairs)

    def _create(self, key_pairs: Sequence[Pair]) -> None:
        columns = "".join(f", {name} {duckdb_type(type_)}" for name, type_ in self._types.items())
        here = ", ".join(f"{name} BOOLEAN" for name in HERE.values())
        self._connection.execute(f"CREATE TEMP TABLE {_ROWS} ({here}, {COPIES} BIGINT{columns})")
        keys = "".join(f"{match_value(pair)} AS k{place}, " for place, pair in enumerate(key_pairs))
        self._connection.execute(
            f"CREATE TEMP TABLE {_KEYS} AS SELECT {keys}0::BIGINT AS before, 0::BIGINT AS after FROM {_ROWS} LIMIT 0"
        )

    @property
    def columns(self) -> list[str]:
        """The columns of rows, beside `HERE` and `COPIES`."""
        return list(self._types)

    def add_rows(self, batches: Iterable[pa.Table]) -> None:
        """Take in rows of both ends: a line says which ends have it, and how often."""
        values = [f"CAST({_in_key_order(type_, name)} AS {duckdb_type(type_)})" for name, type_ in self._types.items()]
        self._insert(_ROWS, [*HERE.values(), COPIES, *values], batches)

    def add_keys(self, batches: Iterable[pa.Table]) -> None:
        """Take in touched keys that are there more than once."""
        self._insert(_KEYS, [*self._key_names, "before", "after"], batches)

    def _insert(self, table: str, values: Sequence[str], batches: Iterable[pa.Table]) -> None:
        for batch in batches:
            self._connection.register(_BATCH, batch)
            self._connection.execute(f"INSERT INTO {table} SELECT {', '.join(values)} FROM {_BATCH}")
            self._connection.unregister(_BATCH)

    def rows(self, columns: Sequence[ScanColumn], side: str) -> str:
        """Return SQL of the rows that are left of one end."""
        names = ", ".join(column.alias for column in columns) or "1 AS nothing"
        has_copies = self._connection.execute(f"SELECT 1 FROM {_ROWS} WHERE {COPIES} > 1 LIMIT 1").fetchone()
        source = f"{_ROWS} r, range(r.{COPIES})" if has_copies else _ROWS
        return f"SELECT {names} FROM {source} WHERE {HERE[side]}"


@dataclass(frozen=True)
class Reduction:
    """What becomes of a diff that may be made elsewhere: who compares the rows, and what others have done of it."""

    decision: Decision
    reduced: Reduced | None = None
    """The rows to compare as another executor left them; None where they are read here."""
    measured: Measured | None = None
    """All rows of both ends where another executor measures them."""


def drop_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Forget what was left: the rows are read from files after all."""
    for table in (_ROWS, _KEYS):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _in_key_order(type_: Type, value: str, depth: int = 0) -> str:
    """Return SQL of a value whose maps are in the order of their keys, as those read from files are."""
    if not holds(type_, MapType):
        return value
    element = f"x{depth}"
    if isinstance(type_, ListType):
        return f"list_transform({value}, lambda {element}: {_in_key_order(type_.element.type, element, depth + 1)})"
    if isinstance(type_, MapType):
        key = _in_key_order(type_.key.type, f"{element}.key", depth + 1)
        inner = _in_key_order(type_.value.type, f"{element}.value", depth + 1)
        entries = f"list_transform(map_entries({value}), lambda {element}: struct_pack(key := {key}, value := {inner}))"
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE map_from_entries(list_sort({entries})) END"
    assert isinstance(type_, StructType)  # noqa: S101 - a primitive holds no map
    parts = [f"{quote(field.name)} := {_in_key_order(field.type, part(value, field), depth)}" for field in type_.fields]
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"
