"""Rows of a table at a snapshot, and the rows in which two snapshots may differ, read by the end's schema.

Planned and read by the engine of the row diff: files with delete files of every kind, of every version of the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.conversions import to_json
from pyiceberg.table import Table

from jobs.changelog.plan import OWN_PREFIX
from jobs.engine.plan.planner import plan_step
from jobs.engine.read.fields import literal, quote
from jobs.engine.read.metadata import describe_table
from jobs.engine.read.row_ids import COLUMNS
from jobs.engine.read.scan import ID_COLUMNS, ScanColumn, Scanner, default_value, inherited_ids

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

    from jobs.changelog.keys import Key
    from jobs.changelog.plan import ChangelogStep
    from jobs.engine.read.fields import Field
    from jobs.engine.read.live_files import LiveFile

MEMORY_LIMIT = "1GB"


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database of the job's own that may spill."""
    connection = duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "temp_directory": "/tmp/changelog", "threads": "2"}  # noqa: S108 - private
    )
    connection.execute("SET TimeZone = 'UTC'")
    # a UUID comes out as one, and not as its text
    connection.execute("SET arrow_lossless_conversion = true")
    return connection


def listed(names: Iterable[str], prefix: str = "") -> str:
    """Quote and join names."""
    return ", ".join(f"{prefix}{quote(name)}" for name in names)


def value_of(key: Key, column: str) -> str:
    """Return the value of a key, given its column; of a NULL struct it is NULL."""
    for name in key.path[1:]:
        column = f"struct_extract({column}, {literal(name)})"
    return column


def key_values(keys: Iterable[Key], prefix: str = "") -> list[str]:
    """Return the values of a key in a relation that has the table's columns."""
    return [value_of(key, f"{prefix}{quote(key.column)}") for key in keys]


def key_columns(keys: Sequence[Key], prefix: str = "") -> list[str]:
    """Return columns that hold the values of a key, under names that no column of a table has."""
    return [f"{prefix}{OWN_PREFIX}key_{place}" for place in range(len(keys))]


def as_key_columns(keys: Sequence[Key]) -> str:
    """Make `key_columns` of a relation that has the table's columns."""
    return ", ".join(f"{value} AS {name}" for value, name in zip(key_values(keys), key_columns(keys), strict=True))


def same_key(left_values: Sequence[str], right_values: Sequence[str]) -> str:
    """Compare the values of two keys: NULL is a value."""
    return " AND ".join(
        f"{left} IS NOT DISTINCT FROM {right}" for left, right in zip(left_values, right_values, strict=True)
    )


class ChangelogSource:
    """One table, read through one database by the schema that its branch has now."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        self._connection = connection
        self._metadata = describe_table(table)
        self._io = table.io
        self._scanner = Scanner(connection, self._metadata, table.io.properties)
        self._schema = self._metadata.schemas[table.schema().schema_id]

    def differing(self, step: ChangelogStep) -> tuple[str, str]:
        """Return queries for the rows that may have left and those that may have come; good until the next call."""
        columns = self._columns()
        sides = (("before", step.left), ("after", step.came))
        queries = []
        for name, files in sides:
            self._scanner.load_positions(f"dead_{name}", [*files, *(getattr(file, name) for file in step.shifted)])
        for name, files in sides:
            parts = [self._scanner.live_rows(files, columns, dead=f"dead_{name}")]
            if step.shifted:
                parts.append(self._scanner.moved_rows(step.shifted, columns, gone=name == "before"))
            queries.append(self._named(" UNION ALL ".join(parts)))
        return queries[0], queries[1]

    def all_keys(self, snapshot_id: int | None, keys: Sequence[Key]) -> str:
        """Return the query for the keys of all that a snapshot holds; None is the empty table. Good until the next call."""
        return self.keys_of(self.files(snapshot_id), keys)

    def files(self, snapshot_id: int | None) -> tuple[LiveFile, ...]:
        """Return the files of a snapshot."""
        return plan_step(self._io, self._metadata, self._schema, before=None, after=snapshot_id).came

    def rows_of(self, files: Sequence[LiveFile], names: Sequence[str] | None = None) -> str:
        """Return the query for the rows that the deletes leave in some files; good until the next call."""
        self._scanner.load_positions("dead_whole", files)
        return self._named(self._scanner.live_rows(files, self._columns(names), dead="dead_whole"), names)

    def tracked_rows_of(self, files: Sequence[LiveFile]) -> str:
        """Return `rows_of` with the ids of the rows and the commits that last changed them."""
        self._scanner.load_positions("dead_whole", files)
        rows = self._scanner.live_rows(files, [*self._columns(), *ID_COLUMNS], dead="dead_whole", is_located=True)
        self._scanner.load_origins("origins", [file.data for file in files])
        ids = zip(inherited_ids("located", "origins"), COLUMNS, strict=True)
        values = ", ".join(f"{value} AS {column.name}" for value, column in ids)
        joined = f"SELECT located.* REPLACE ({values}) FROM ({rows}) located JOIN origins ON origins.file = located.scan_file"
        outputs = [f"v{place} AS {quote(field.name)}" for place, field in self._chosen(None)]
        return f"SELECT {', '.join([*outputs, *(column.name for column in COLUMNS)])} FROM ({joined})"

    def keys_of(self, files: Sequence[LiveFile], keys: Sequence[Key]) -> str:
        """Return the query for the keys of the rows that the deletes leave in some files; good until the next call."""
        columns = list(dict.fromkeys(key.column for key in keys))
        return f"SELECT {as_key_columns(keys)} FROM ({self.rows_of(files, columns)})"

    def holding(self, files: Sequence[LiveFile], keys: Sequence[Key], relation: str) -> list[LiveFile]:
        """Return the files with rows whose key stands in `relation`, which has it in columns of its own."""
        self._scanner.load_positions("dead_whole", files)
        columns = list(dict.fromkeys(key.column for key in keys))
        rows = self._scanner.live_rows(files, self._columns(columns), dead="dead_whole", is_located=True)
        aliases = {field.name: f"v{place}" for place, field in self._chosen(columns)}
        match = same_key(
            [value_of(key, f"{OWN_PREFIX}row.{aliases[key.column]}") for key in keys], key_columns(keys, "sought.")
        )
        hits = self._connection.execute(
            f"SELECT DISTINCT scan_file FROM ({rows}) {OWN_PREFIX}row "
            f"WHERE EXISTS (SELECT 1 FROM {relation} sought WHERE {match})"
        ).fetchall()
        paths = {row[0] for row in hits}
        return [file for file in files if self._scanner.shown_path(file.data.path) in paths]

    def carried(self, column: NestedField, row: str, *, is_there: str) -> str:
        """Return SQL of a value that nobody says: that of the row `row` if there is one, else what new rows have."""
        old = next(field for field in self._schema.fields if field.name == column.name)
        default = column.write_default
        new = replace(old, default=None if default is None else to_json(column.field_type, default))
        return f"CASE WHEN {is_there} THEN {row}.{quote(column.name)} ELSE {default_value(new)} END"

    def nothing(self) -> str:
        """Return the query for no rows of all columns."""
        return self.rows_of(())

    def _columns(self, names: Sequence[str] | None = None) -> list[ScanColumn]:
        return [ScanColumn(f"v{place}", field) for place, field in self._chosen(names)]

    def _chosen(self, names: Sequence[str] | None) -> list[tuple[int, Field]]:
        numbered = list(enumerate(self._schema.fields))
        if names is None:
            return numbered
        return [next((place, field) for place, field in numbered if field.name == name) for name in names]

    def _named(self, rows: str, names: Sequence[str] | None = None) -> str:
        outputs = [f"v{place} AS {quote(field.name)}" for place, field in self._chosen(names)]
        return f"SELECT {', '.join(outputs) or '1 AS nothing'} FROM ({rows})"
