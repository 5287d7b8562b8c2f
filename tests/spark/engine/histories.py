"""Random histories that Spark writes: rows in all of its statements, columns, partitions, layout, maintenance, branches.

What each version holds is read back through Spark, at once and whole, so nothing of the engine takes part in it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyiceberg.types import ListType, MapType, StructType

from jobs.changelog import read_changelog
from tests.factories import engine as tables
from tests.property.engine_oracle import row_of
from tests.property.test_engine_diff import POOLS

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

Kind = str | dict[str, str] | tuple[dict[str, str]]
"""One of `LEAVES`, a struct of them, or a list of structs of them."""
Row = dict[str, Any]
LEAVES = {
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal": "DECIMAL(9,2)",
    "more decimal": "DECIMAL(18,2)",
    "string": "STRING",
    "binary": "BINARY",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "list": "ARRAY<DOUBLE>",
    "map": "MAP<STRING, DOUBLE>",
}
WIDER = {"int": "long", "float": "double", "decimal": "more decimal"}
KEYS = {"long": [None, 1, 2, 3, 4], "string": [None, "", "a", "é", "e\u0301"]}
PARTS = [None, "a", "b"]
FIELDS = {"part": "identity", "bucket(2, k0)": "bucket[2]", "truncate(1, part)": "truncate[1]"}
"""What a table may be partitioned by, in the words of Spark and of Iceberg."""
NAMES = ["v", "w x", "Y.z", "deep"]
STYLES = {
    "version 1": (1, "copy-on-write"),
    "version 2, copy-on-write": (2, "copy-on-write"),
    "version 2, merge-on-read": (2, "merge-on-read"),
    "version 3, copy-on-write": (3, "copy-on-write"),
    "version 3, merge-on-read": (3, "merge-on-read"),
}


class Line:
    """One branch of the table, as one of Spark's catalogs shows it: its columns, and its versions."""

    def __init__(self, catalog: str, columns: Mapping[str, Kind], states: list[Any]) -> None:
        self.catalog = catalog
        self.columns = deepcopy(dict(columns))
        self.states = list(states)
        """Snapshots, each with its rows by field id."""


class SparkHistory:
    """A table that Spark made and changes, step by step, on main and on a branch."""

    def __init__(self, session: Any, load: Callable[[str, str], Table], style: str, dice: random.Random) -> None:
        columns = any_columns(dice)
        self.session, self.dice = session, dice
        self.folder = Path(tempfile.mkdtemp(prefix="histories-"))
        self.name = f"n{uuid4().hex[:8]}.t"
        self.lines = {"main": Line("main", columns, [(None, [])])}
        self._load = load
        version, mode = STYLES[style]
        modes = ", ".join(f"'write.{kind}.mode'='{mode}'" for kind in ("delete", "update", "merge"))
        listed = ", ".join(f"{quote(name)} {sql_type(kind)}" for name, kind in columns.items())
        self.sql(f"CREATE NAMESPACE main.{self.name.split('.')[0]}")
        self.sql(f"CREATE TABLE main.{self.name} ({listed}) TBLPROPERTIES ('format-version'='{version}', {modes})")

    def sql(self, statement: str) -> None:
        print(statement)
        self.session.sql(statement)

    # --- steps ----------------------------------------------------------------------------------------

    def step(self, kind: str, *, on_branch: bool = False) -> None:
        """Do one of `STEPS` to main or to the branch, which begins with rows of its own."""
        name = "branch" if on_branch else "main"
        if name not in self.lines:
            main = self.lines["main"]
            self.lines[name] = Line(name, main.columns, main.states)
            kind = "insert"
        line = self.lines[name]
        STEPS[kind](self, line, f"{name}.{self.name}")
        self._note_versions()

    def insert(self, line: Line, table: str) -> None:
        self.sql(f"INSERT INTO {table} BY NAME SELECT * FROM {self.given(line)}")

    def update(self, line: Line, table: str) -> None:
        names = [name for name, kind in line.columns.items() if isinstance(kind, str)]
        name = self.dice.choice(names)
        value = literal(line.columns[name], draw(line, name, self.dice))
        self.sql(f"UPDATE {table} SET {quote(name)} = {value} WHERE {self.some_key(line)}")

    def delete(self, line: Line, table: str) -> None:
        self.sql(f"DELETE FROM {table} WHERE {self.some_key(line)}")

    def merge(self, line: Line, table: str) -> None:
        view = self.given(line, unique=True)
        self.sql(
            f"MERGE INTO {table} t USING {view} s ON t.k0 <=> s.k0 WHEN MATCHED AND pmod(hash(s.k0), 3) = "
            f"{self.dice.randrange(3)} THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def overwrite(self, line: Line, table: str) -> None:
        self.sql(f"INSERT OVERWRITE {table} BY NAME SELECT * FROM {self.given(line)}")

    def overwrite_parts(self, line: Line, table: str) -> None:
        self.session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        try:
            self.overwrite(line, table)
        finally:
            self.session.conf.unset("spark.sql.sources.partitionOverwriteMode")

    def overwrite_equal(self, line: Line, table: str) -> None:
        self.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")

    def add(self, line: Line, table: str) -> None:
        free = [name for name in NAMES if name not in line.columns]
        nested = [(n, kind) for n, kind in line.columns.items() if not isinstance(kind, str)]
        if nested and self.dice.random() < 0.5:
            name, kind = self.dice.choice(nested)
            parts, path = inside(name, kind)
            part = self.dice.choice(["z", "y"])
            if part not in parts:
                parts[part] = self.dice.choice(["int", "string"])
                self.sql(f"ALTER TABLE {table} ADD COLUMN {path}.{part} {sql_type(parts[part])}")
        elif free:
            name, kind = self.dice.choice(free), any_kind(self.dice)
            place = self.dice.choice(["", " FIRST", " AFTER k0"])
            self.sql(f"ALTER TABLE {table} ADD COLUMN {quote(name)} {sql_type(kind)}{place}")
            line.columns[name] = kind

    def drop(self, line: Line, table: str) -> None:
        names = [name for name in line.columns if name in NAMES]
        if not names:
            return
        name = self.dice.choice(names)
        parts, path = inside(name, line.columns[name])
        if len(parts) > 1 and self.dice.random() < 0.5:
            part = self.dice.choice(sorted(parts))
            del parts[part]
            self.sql(f"ALTER TABLE {table} DROP COLUMN {path}.{part}")
        else:
            del line.columns[name]
            self.sql(f"ALTER TABLE {table} DROP COLUMN {quote(name)}")

    def retype(self, line: Line, table: str) -> None:
        names = [name for name in line.columns if name in NAMES]
        if names:
            name = self.dice.choice(names)
            line.columns[name] = any_kind(self.dice)
            self.sql(f"ALTER TABLE {table} DROP COLUMN {quote(name)}")
            self.sql(f"ALTER TABLE {table} ADD COLUMN {quote(name)} {sql_type(line.columns[name])}")

    def rename(self, line: Line, table: str) -> None:
        names = [name for name in line.columns if name in NAMES]
        free = [name for name in NAMES if name not in line.columns]
        if names and free:
            old, new = self.dice.choice(names), self.dice.choice(free)
            line.columns = {new if name == old else name: kind for name, kind in line.columns.items()}
            self.sql(f"ALTER TABLE {table} RENAME COLUMN {quote(old)} TO {quote(new)}")

    def widen(self, line: Line, table: str) -> None:
        for name, kind in list(line.columns.items()):
            if isinstance(kind, str) and kind in WIDER and name in NAMES:
                line.columns[name] = WIDER[kind]
                self.sql(f"ALTER TABLE {table} ALTER COLUMN {quote(name)} TYPE {LEAVES[WIDER[kind]]}")
            parts, path = inside(name, kind)
            for part in [part for part in parts if parts[part] in WIDER and self.dice.random() < 0.7]:
                parts[part] = WIDER[parts[part]]
                self.sql(f"ALTER TABLE {table} ALTER COLUMN {path}.{part} TYPE {LEAVES[parts[part]]}")

    def reorder(self, line: Line, table: str) -> None:
        name = self.dice.choice(sorted(line.columns))
        others = [quote(other) for other in sorted(line.columns) if other != name]
        place = self.dice.choice(["FIRST", *(f"AFTER {other}" for other in others)])
        self.sql(f"ALTER TABLE {table} ALTER COLUMN {quote(name)} {place}")

    def partition(self, line: Line, table: str) -> None:
        field = self.dice.choice(sorted(FIELDS))
        there = {str(found.transform) for found in self._load(line.catalog, self.name).spec().fields}
        word = "DROP" if FIELDS[field] in there else "ADD"
        self.sql(f"ALTER TABLE {table} {word} PARTITION FIELD {field}")

    def order(self, _line: Line, table: str) -> None:
        self.sql(f"ALTER TABLE {table} WRITE {self.dice.choice(['ORDERED BY k0 DESC', 'UNORDERED'])}")

    def compact(self, line: Line, _table: str) -> None:
        call = self.dice.choice(
            [
                "rewrite_data_files(table => '{}', options => map('rewrite-all', 'true'))",
                "rewrite_manifests(table => '{}')",
                "rewrite_position_delete_files(table => '{}', options => map('rewrite-all', 'true'))",
            ]
        )
        if line.states[-1][0] is not None:
            self.sql(f"CALL {line.catalog}.system.{call.format(self.name)}")

    def roll_back(self, line: Line, _table: str) -> None:
        older = list_line(self._load(line.catalog, self.name))[:-1]
        if older and line.catalog == "main":
            self.sql(f"CALL main.system.rollback_to_snapshot('{self.name}', {self.dice.choice(older)})")

    def expire(self, line: Line, _table: str) -> None:
        """Keep the first version by a tag, and let those between it and the last ones expire."""
        kept = [snapshot for snapshot, _ in line.states if snapshot is not None]
        if line.catalog == "main" and kept:
            self.sql(f"ALTER TABLE main.{self.name} CREATE OR REPLACE TAG kept AS OF VERSION {kept[0]}")
            self.sql(
                f"CALL main.system.expire_snapshots(table => '{self.name}', retain_last => 1, "
                "older_than => TIMESTAMP '2100-01-01 00:00:00')"
            )

    # --- what the steps are made of -------------------------------------------------------------------

    def given(self, line: Line, *, unique: bool = False) -> str:
        """A view of some random rows of a branch's columns."""
        rows = [{name: draw(line, name, self.dice) for name in line.columns} for _ in range(self.dice.randrange(1, 5))]
        if unique:
            rows = list({row_of(row, ["k0"]): row for row in rows}.values())
        print(f"given: {rows}")
        view = f"given_{uuid4().hex}"
        self.session.createDataFrame(tables.arrow_rows(self._load(line.catalog, self.name), rows)).createTempView(view)
        return view

    def some_key(self, line: Line) -> str:
        return f"k0 <=> {literal(line.columns['k0'], draw(line, 'k0', self.dice))}"

    # --- versions -------------------------------------------------------------------------------------

    def _note_versions(self) -> None:
        for line in self.lines.values():
            table = self._load(line.catalog, self.name)
            there = {None, *(snapshot.snapshot_id for snapshot in table.metadata.snapshots)}
            head = tables.snapshot_of(table)
            line.states = [state for state in line.states if state[0] in there]
            passed = [snapshot for snapshot, _ in line.states]
            if head in passed:
                line.states = line.states[: passed.index(head) + 1]
            else:
                rows = self.session.table(f"{line.catalog}.{self.name}").toArrow().to_pylist()
                line.states.append((head, [by_id(table.schema(), row) for row in rows]))

    def seen(self) -> list[Seen]:
        """Every branch by the columns that it has now, from its beginning and from a version beyond expired ones."""
        found = []
        for line in self.lines.values():
            table = self._load(line.catalog, self.name)
            unbroken = {None, *list_line(table)}
            found.append(Seen(self.folder, table, [state for state in line.states if state[0] in unbroken]))
            beyond = [state for state in line.states if state[0] not in unbroken]
            # version 1 counts snapshots by what is left of their line
            if beyond and table.metadata.format_version > 1:
                found.append(Seen(self.folder, table, [beyond[-1], *found[-1].kept[1:]]))
        return found


class Seen:
    """A branch as the laws see it; what tells of it is set by the test."""

    def __init__(self, folder: Path, table: Table, states: list[Any]) -> None:
        self.folder, self.table, self.kept = folder, table, states
        schema = table.schema()
        self.columns = sorted((field.name for field in schema.fields), key=lambda name: name != "k0")
        self.states = [(snapshot, [by_name(schema, row) for row in rows]) for snapshot, rows in states]
        self.read: Callable[..., Any] = read_changelog

    def make(self) -> Table:
        """An empty table with the same columns, which PyIceberg writes."""
        return tables.make_table(Path(tempfile.mkdtemp(dir=self.folder)), self.table.schema())

    def told(self, first: int, last: int, **more: Any) -> Any:
        """The changelog from one version to another."""
        return self.read(self.table, start=self.states[first][0], end=self.states[last][0], **more)

    def place_of(self, ordinal: int) -> int:
        """The version of an ordinal: by sequence numbers, in version 1 by the place in the line."""
        if self.table.metadata.format_version == 1:
            return ordinal
        numbers = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in self.table.metadata.snapshots}
        return [numbers.get(snapshot) for snapshot, _ in self.states[1:]].index(ordinal + 1)


def list_line(table: Table) -> list[int]:
    """The snapshots that lead to the head without a gap, oldest first."""
    found, snapshot = [], table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot.snapshot_id)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.metadata.snapshot_by_id(parent)
    return found[::-1]


def by_id(schema: Schema, row: Row) -> dict[int, Any]:
    """A row by field id, its parts too."""
    return {field.field_id: _by_id(field.field_type, row[field.name]) for field in schema.fields}


def _by_id(kind: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.field_id: _by_id(field.field_type, value[field.name]) for field in kind.fields}
    if isinstance(kind, ListType):
        return [_by_id(kind.element_type, item) for item in value]
    return value


def by_name(schema: Schema | StructType, row: Mapping[int, Any]) -> Row:
    """What a row is by other columns: lacking ones are NULL."""
    return {field.name: _by_name(field.field_type, row.get(field.field_id)) for field in schema.fields}


def _by_name(kind: IcebergType, value: Any) -> Any:
    if isinstance(kind, StructType) and value is not None:
        return by_name(kind, value)
    if isinstance(kind, ListType) and value is not None:
        return [_by_name(kind.element_type, item) for item in value]
    assert not isinstance(kind, MapType) or value is None or isinstance(value, list)
    return value


# --- kinds and values -----------------------------------------------------------------------------


def any_kind(dice: random.Random) -> Kind:
    """Something that a column may hold."""
    leaf = dice.choice([kind for kind in LEAVES if kind != "more decimal"])
    parts = {"x": dice.choice(["int", "float"]), "y": "string"}
    return dice.choice([leaf, leaf, leaf, parts, (parts,)])


def any_columns(dice: random.Random) -> dict[str, Kind]:
    """A key, what the table may be partitioned by, and some more."""
    names = dice.sample(NAMES, dice.randrange(1, 4))
    return {"k0": dice.choice(sorted(KEYS)), "part": "string", **{name: any_kind(dice) for name in names}}


def sql_type(kind: Kind) -> str:
    """A kind in Spark's words."""
    if isinstance(kind, str):
        return LEAVES[kind]
    if isinstance(kind, dict):
        return f"STRUCT<{', '.join(f'{name}: {LEAVES[part]}' for name, part in kind.items())}>"
    return f"ARRAY<{sql_type(kind[0])}>"


def inside(name: str, kind: Kind) -> tuple[dict[str, str], str]:
    """The parts of a column, and what leads to them."""
    if isinstance(kind, str):
        return {}, ""
    return (kind, quote(name)) if isinstance(kind, dict) else (kind[0], f"{quote(name)}.element")


def draw(line: Line, name: str, dice: random.Random) -> Any:
    """A value of a column."""
    kind = line.columns[name]
    if name == "k0" and isinstance(kind, str):
        return dice.choice(KEYS[kind])
    return dice.choice(PARTS) if name == "part" else _draw(kind, dice)


def _draw(kind: Kind, dice: random.Random) -> Any:
    if isinstance(kind, str):
        return dice.choice(POOLS["decimal" if kind == "more decimal" else kind][1])
    if dice.random() < 0.2:
        return None
    if isinstance(kind, dict):
        return {name: _draw(part, dice) for name, part in kind.items()}
    return [_draw(kind[0], dice) for _ in range(dice.randrange(3))]


def literal(kind: Kind, value: Any) -> str:
    """A value as Spark reads it; only NULL of what has parts."""
    if value is None or kind in ("list", "map") or not isinstance(kind, str):
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return f"decode(X'{value.encode().hex()}', 'UTF-8')"
    return f"CAST('{value}' AS {LEAVES[kind]})"


def quote(name: str) -> str:
    """A name as Spark reads it."""
    return f"`{name}`"


STEPS: dict[str, Callable[[SparkHistory, Line, str], None]] = {
    "insert": SparkHistory.insert,
    "update": SparkHistory.update,
    "delete": SparkHistory.delete,
    "merge": SparkHistory.merge,
    "overwrite": SparkHistory.overwrite,
    "overwrite parts": SparkHistory.overwrite_parts,
    "overwrite equal": SparkHistory.overwrite_equal,
    "add": SparkHistory.add,
    "drop": SparkHistory.drop,
    "retype": SparkHistory.retype,
    "rename": SparkHistory.rename,
    "widen": SparkHistory.widen,
    "reorder": SparkHistory.reorder,
    "partition": SparkHistory.partition,
    "order": SparkHistory.order,
    "compact": SparkHistory.compact,
    "roll back": SparkHistory.roll_back,
    "expire": SparkHistory.expire,
}
