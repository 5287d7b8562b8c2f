"""Changelogs and diffs of random histories over random schemas, however their files were written and by whom."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.name_mapping import create_mapping_from_schema

from jobs.changelog import read_changelog
from tests.factories import engine as tables
from tests.factories.tiers import thin
from tests.property import engine_oracle as oracle
from tests.property.changelog_laws import Row, bag, check
from tests.property.test_engine_diff import DEEPEST, KEY_POOLS, POOLS, field, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

pytestmark = pytest.mark.slow
STYLES = ["version 1", "rewritten whole", "rewritten files", "positions", "equality", "vectors"]
WRITERS = ["pyiceberg", "pyarrow", "duckdb", "polars"]
PLAIN = {"long", "int", "double", "float", "string", "boolean", "date", "timestamp", "binary"}
"""What Polars stores in Iceberg's types."""
UNEQUAL = {"double", "float", "struct", "list", "map", "deep", DEEPEST}
"""What no equality delete may name."""
QUICK = settings(max_examples=2, suppress_health_check=list(HealthCheck), database=None)
LONG = settings(QUICK, max_examples=60)


# --- histories ------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, str], list[str], list[tuple[str, list[Row]]]]:
    """The columns' kinds, the keys, and versions with the program that writes each."""
    keys = draw(st.lists(st.sampled_from(sorted(KEY_POOLS)), min_size=1, max_size=2))
    values = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=0, max_size=5))
    kinds = {f"k{place}": kind for place, kind in enumerate(keys)} | {f"V {p}": kind for p, kind in enumerate(values)}
    names = [f"k{place}" for place in range(len(keys))]
    loose = rows_of(kinds, frozenset(names), most=5)
    unique = loose.map(lambda rows: list({oracle.row_of(row, names): row for row in rows}.values()))
    versions = draw(
        st.lists(st.tuples(st.sampled_from(WRITERS), draw(st.sampled_from([loose, unique]))), min_size=2, max_size=4)
    )
    return kinds, names, versions


class History:
    """A table that went through some versions, one snapshot each; and the rows of each version."""

    def __init__(
        self, folder: Path, style: str, kinds: dict[str, str], versions: Sequence[tuple[str, list[Row]]]
    ) -> None:
        self.folder, self.style, self.kinds = folder, style, kinds
        self.columns = list(kinds)
        fields = (field(place + 1, name, kind) for place, (name, kind) in enumerate(kinds.items()))
        # the ids that a table gives, which the mapping of names has to know
        self.schema = assign_fresh_schema_ids(Schema(*fields))
        self.table = self.make()
        self.files: dict[str, list[Row | None]] = {}
        self.states: list[tuple[int | None, list[Row]]] = [(None, [])]
        for writer, rows in versions:
            self.write("pyarrow" if writer == "polars" and set(kinds.values()) - PLAIN else writer, rows)
        if style == "vectors":
            self.table = tables.as_version_3(self.table)

    def make(self) -> Table:
        mapping = create_mapping_from_schema(self.schema).model_dump_json()
        version = "1" if self.style == "version 1" else "2"
        properties = {"format-version": version, "schema.name-mapping.default": mapping}
        return tables.make_table(Path(tempfile.mkdtemp(dir=self.folder)), self.schema, properties=properties)

    def write(self, writer: str, rows: list[Row]) -> None:
        if len(self.states) > 1 and self.style in {"positions", "equality", "vectors"}:
            self.change(writer, rows)
        else:
            self.rewrite(writer, rows)
        self.states.append((tables.snapshot_of(self.table), rows))

    def rewrite(self, writer: str, rows: list[Row]) -> None:
        """Copy on write: files that hold a row too many go, what is missing then comes."""
        missing, gone = bag(self, rows), []
        for path, held in self.files.items():
            content = bag(self, [row for row in held if row is not None])
            if self.style != "rewritten whole" and content <= missing:
                missing -= content
            else:
                gone.append(path)
        leaving = [file for file in tables.data_files(self.table) if file.file_path in gone] if gone else []
        self.files = {path: held for path, held in self.files.items() if path not in gone}
        tables.replace(self.table, leaving, self.add(writer, self.take(rows, missing)))

    def change(self, writer: str, rows: list[Row]) -> None:
        """Merge on read: rows too many are deleted where they stand, what is missing then comes."""
        spare = bag(self, rows)
        dead: dict[str, list[int]] = {}
        first = self.columns[0]
        by_value = self.style == "equality" and self.kinds[first] not in UNEQUAL
        held = [row for held in self.files.values() for row in held if row is not None]
        changed = {row[0] for row in (bag(self, held) - spare) + (spare - bag(self, held))}
        for path, places in self.files.items():
            for place, row in enumerate(places):
                canonical = () if row is None else oracle.row_of(row, self.columns)
                if not canonical or (canonical[0] in changed if by_value else not spare[canonical]):
                    dead.setdefault(path, []).append(place)
                else:
                    spare[canonical] -= 1
        fresh = {path: [p for p in places if self.files[path][p] is not None] for path, places in dead.items()}
        deletes = self.delete(
            {path: places for path, places in fresh.items() if places}, dead, changed if by_value else None
        )
        for path, places in dead.items():
            for place in places:
                self.files[path][place] = None
        self.table = tables.change_rows(self.table, deletes, self.add(writer, self.take(rows, +spare)))

    def delete(self, fresh: dict[str, list[int]], dead: dict[str, list[int]], values: set[Any] | None) -> list[Any]:
        if not fresh:
            return []
        first = self.columns[0]
        if values is not None:
            plain = [row for held in self.files.values() for row in held if row is not None]
            named = {oracle.canon(row[first]): row for row in plain if oracle.canon(row[first]) in values}
            return [tables.equality_deletes(self.table, [first], list(named.values()))]
        if self.style == "vectors":
            # a vector holds all that its file ever lost
            return tables.vectors(self.table, {path: dead[path] for path in fresh})
        return [tables.position_deletes(self.table, fresh)]

    def take(self, rows: list[Row], wanted: Counter[Any]) -> list[Row]:
        left, taken = wanted.copy(), []
        for row in rows:
            canonical = oracle.row_of(row, self.columns)
            if left[canonical] > 0:
                left[canonical] -= 1
                taken.append(row)
        return taken

    def add(self, writer: str, rows: list[Row]) -> list[Any]:
        if not rows:
            return []
        files = tables.write_files(self.table, tables.arrow_rows(self.table, rows), writer)
        (file,) = files
        self.files[file.file_path] = list(rows)
        return files

    def told(self, first: int, last: int, **more: Any) -> Any:
        return read_changelog(self.table, start=self.states[first][0], end=self.states[last][0], **more)

    @staticmethod
    def place_of(ordinal: int) -> int:
        return ordinal


def check_any(style: str, given_history: Any) -> None:
    kinds, keys, versions = given_history
    with tempfile.TemporaryDirectory() as folder:
        check(History(Path(folder), style, kinds, versions), keys)


@pytest.mark.parametrize("style", thin(STYLES, every_run=["rewritten files", "positions", "vectors"]))
def test_changes_are_those_of_the_versions_rows(style: str) -> None:
    QUICK(given(histories())(lambda found: check_any(style, found)))()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("style", STYLES)
def test_changes_are_those_of_the_versions_rows_at_length(style: str) -> None:
    LONG(given(histories())(lambda found: check_any(style, found)))()
