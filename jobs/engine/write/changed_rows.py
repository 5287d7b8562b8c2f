"""The changed rows of a diff, from the table `changes` to rows.parquet: sorted, numbered and cut to what is stored."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.plan.columns import match_value
from jobs.engine.read.fields import Primitive, holds, literal
from jobs.engine.write.artifact import (
    FIRST,
    FIRST_ROWS,
    ROW_GROUP,
    ROWS,
    SCHEMA,
    SUMMARY,
    stored_columns,
    write_json,
)
from jobs.whole_files import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import duckdb

    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.diff_rules import DiffRules

_SORT_COLUMNS = 32
_FEW_VALUES = 500_000
"""Stored values that are written in some hundredths of a second."""


def write_changed_rows(
    connection: duckdb.DuckDBPyConnection, folder: Path, rules: DiffRules, summary: Mapping[str, Any]
) -> None:
    """Store the changed rows, and before them the first by key as an artifact of their own.

    That one is readable while the whole is sorted and written. Few rows are written as fast as the first of them,
    and once.
    """
    changes = _Changes(rules, summary["mode"] == "identifier", differing_columns(summary))
    first, rows = folder / FIRST, summary["stored_rows"]
    first.mkdir()
    first.chmod(0o777)  # whoever owns the artifact removes it, and need not be the user of this process
    is_small = rows * len(stored_columns(rules.pairs)) <= _FEW_VALUES
    shown = rows if is_small else min(FIRST_ROWS, rows)
    _copy(connection, changes.numbered(shown), first)
    shutil.copyfile(folder / SCHEMA, first / SCHEMA)
    write_json(first / SUMMARY, {**summary, "stored_rows": shown})
    if is_small:
        (folder / ROWS).hardlink_to(first / ROWS)
    else:
        _copy(connection, changes.numbered(rows), folder)


def differing_columns(summary: Mapping[str, Any]) -> frozenset[int]:
    """Return the indexes of the columns in which some row differs."""
    return frozenset(column["index"] for column in summary["columns"] if column["changed"])


def _copy(connection: duckdb.DuckDBPyConnection, rows: str, folder: Path) -> None:
    """Write the result of a query, in its order, as rows.parquet of a folder."""
    with whole_file(folder / ROWS) as target:
        connection.execute("SET preserve_insertion_order = true")
        connection.execute(
            f"COPY ({rows}) TO {literal(str(target))} "
            f"(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {ROW_GROUP})"
        )
        connection.execute("SET preserve_insertion_order = false")


@dataclass(frozen=True)
class _Changes:
    """The table `changes` as it is stored."""

    rules: DiffRules
    is_keyed: bool
    differing: frozenset[int]

    def numbered(self, rows: int) -> str:
        """Return SQL of the first so many changed rows by key, as rows.parquet has them."""
        keys = [f"{match_value(pair)} AS k{place}" for place, pair in enumerate(self._keys)]
        values = _listed([*keys, *(name for name, _ in stored_columns(self.rules.pairs))])
        # what is made of a row is made when its place is known: few are among the first, and sorted rows stay narrow
        packed, unpacked = self._pack()
        ordered = f"SELECT change, copies{packed} FROM changes ORDER BY {self._order()} LIMIT {rows}"
        return (
            f"SELECT row_number() OVER () AS n, change, copies, CAST({self._changed()} AS SMALLINT[]) AS changed{values} "
            f"FROM (SELECT change, copies{unpacked} FROM ({ordered}))"
        )

    @property
    def _keys(self) -> tuple[Pair, ...]:
        return self.rules.key_pairs if self.is_keyed else ()

    def _changed(self) -> str:
        """Return SQL of the indexes of the columns in which a row differs."""
        tests = [
            f"CASE WHEN {self.rules.differs(pair)} THEN {pair.index} END"
            for pair in self.rules.value_pairs
            if pair.index in self.differing
        ]
        if not tests:
            return "[]"
        indexes = f"list_filter([{', '.join(tests)}], lambda x: x IS NOT NULL)"
        return f"CASE WHEN change = 'updated' THEN {indexes} ELSE [] END"

    def _pack(self) -> tuple[str, str]:
        """Return SQL of the stored values to sort, those that both ends share once, and of all out of them."""
        shared = {
            f"{side}{pair.index}"
            for pair in self.rules.unchanged_pairs(self.differing)
            # two zeros are equal and not the same
            if pair.before is not None and not holds(pair.before.type, Primitive, "float", "double")
            for side in "ba"
        }
        packed, unpacked = [], []
        for name, _ in stored_columns(self.rules.pairs):
            side, index = name[0], name[1:]
            if name not in shared:
                packed.append(name)
                unpacked.append(name)
                continue
            if side == "b":
                packed.append(f"CASE WHEN change = 'deleted' THEN b{index} ELSE a{index} END AS v{index}")
            lacking = "inserted" if side == "b" else "deleted"
            unpacked.append(f"CASE WHEN change <> '{lacking}' THEN v{index} END AS {name}")
        return _listed(packed), _listed(unpacked)

    def _order(self) -> str:
        """Order by key, which no two rows share; without one by its columns that exist, the compared ones, the change."""
        if self.is_keyed:
            return _in_order(self._keys)
        first = [pair for pair in self.rules.key_pairs if not pair.unreadable]
        others = [pair for pair in self.rules.pairs if not pair.unreadable and pair not in first]
        chosen = [*first, *sorted(others, key=lambda pair: not pair.compared)][:_SORT_COLUMNS]
        return _in_order(chosen, "change")


def _listed(outputs: Iterable[str]) -> str:
    """Return SQL of outputs that stand after others."""
    return "".join(f", {output}" for output in outputs)


def _in_order(pairs: Iterable[Pair], *others: str) -> str:
    return ", ".join([*(f"{match_value(pair)} NULLS LAST" for pair in pairs), *others])
