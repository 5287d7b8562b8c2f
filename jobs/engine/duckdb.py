"""The embedded executor: one plan in, one artifact out, in bounded memory with spill.

Identifier mode is one full outer join of the rows that can have left with the rows that can have come, which is exact
as long as no key has two rows among them; that is checked first, by hash, before a bad key could blow the join up.
With repeated keys the net changes are computed and, where no touched key has two rows at either end, retagged as
updates; else the diff stays net and says which keys are in the way. Touched keys are looked up among the rows that
the plan left out, key columns only, so that the verdict does not depend on how the table is laid out in files.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine import artifact, statistics
from jobs.engine.columns import comparable
from jobs.engine.errors import DiskLimitError, MemoryLimitError, UnreadableTableError
from jobs.engine.fields import Primitive, duckdb_type, literal
from jobs.engine.planner import plan_diff
from jobs.engine.rules import check_tolerance, filter_columns, filter_pairs, filter_sql, is_near, read_filter
from jobs.engine.scan import Column, Scanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression

    from jobs.engine.columns import Pair
    from jobs.engine.planner import DiffPlan, End, LiveFile
    from jobs.protocol import DiffRequest

_EXAMPLES = 5
_SORT_COLUMNS = 32
_WEIGHTS = {"b": "-1", "a": "1"}
"""What a row of each end counts in the net changes."""


@dataclass
class Embedded:
    """One diff in one DuckDB connection."""

    request: DiffRequest
    folder: Path
    progress: artifact.Progress
    connection: duckdb.DuckDBPyConnection
    plan: DiffPlan = field(init=False)
    filter: BooleanExpression | None = None
    scanners: dict[str, Scanner] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    # --- the whole --------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Compute and store the diff; returns the summary."""
        self.progress.enter("planning")
        request = self.request
        check_tolerance(request.tolerance)
        self.filter = read_filter(request.row_filter)
        self.plan = plan_diff(
            before=request.before,
            after=request.after,
            key=request.key or (),
            ignore=request.ignore,
            filtered=filter_columns(self.filter),
            io_properties=request.io,
        )
        artifact.write_json(
            self.folder / artifact.SCHEMA, artifact.describe_schema(self.plan, request.before, request.after)
        )
        self.progress.enter(
            "comparing",
            files=self.plan.files,
            bytes=self.plan.bytes,
            rows=self.plan.rows,
            executor="embedded",
        )
        self._create_views()
        mode, trouble = self._compare()
        summary = self._summary(mode, trouble)
        self.progress.enter("writing", summary=summary)
        self._write_first_rows(mode, summary)
        self._write_rows(mode, self.folder, summary["stored_rows"])
        self.progress.enter("statistics")
        found = statistics.collect(
            self, rows=summary["before_rows"] + summary["after_rows"], matches=summary["columns"]
        )
        artifact.write_json(self.folder / artifact.STATISTICS, found)
        self.progress.enter("ready")
        summary["timings_s"] = self.progress.timings
        artifact.write_json(self.folder / artifact.SUMMARY, summary)
        return summary

    def one(self, sql: str) -> tuple[Any, ...]:
        """The first row of a query that has one."""
        row = self.connection.execute(sql).fetchone()
        return row if row is not None else ()

    # --- both sides -------------------------------------------------------------------------------

    def scanner(self, end: End) -> Scanner | None:
        """The reader of one end's files; both ends share it when they share their metadata."""
        if end.metadata is None:
            return None
        if end.metadata.location not in self.scanners:
            self.scanners[end.metadata.location] = Scanner(self.connection, end.metadata, self.request.io)
        return self.scanners[end.metadata.location]

    def columns(self, side: str, pairs: Iterable[Pair] | None = None) -> list[Column]:
        """The columns of one side, `b<i>` or `a<i>`."""
        chosen = self.plan.pairs if pairs is None else pairs
        found = ((pair, pair.before if side == "b" else pair.after) for pair in chosen)
        return [
            Column(f"{side}{pair.index}", side_field)
            for pair, side_field in found
            if side_field is not None and not pair.unreadable
        ]

    def _create_views(self) -> None:
        plan = self.plan
        ends = (("before", plan.before, plan.left), ("after", plan.after, plan.came))
        for name, end, files in ends:
            scanner = self.scanner(end)
            if scanner is None:
                self.connection.execute(f"CREATE TEMP VIEW {name}_rows AS SELECT 1 AS nothing WHERE false")
            else:
                scanner.load_positions(f"dead_{name}", [*files, *(getattr(file, name) for file in plan.shifted)])
        for name, end, files in ends:
            scanner = self.scanner(end)
            if scanner is None:
                continue
            columns = self.columns(name[0])
            parts = [scanner.live_rows(files, columns, dead=f"dead_{name}")] if files else []
            if plan.shifted:
                parts.append(scanner.moved_rows(plan.shifted, columns, gone=name == "before"))
            body = " UNION ALL ".join(parts) or scanner.live_rows((), columns, dead=f"dead_{name}")
            self.connection.execute(f"CREATE TEMP VIEW {name}_rows AS {self._chosen(body, name[0])}")

    def _chosen(self, rows: str, side: str, names: str = "*") -> str:
        """The rows that the filter chooses."""
        if self.filter is None:
            return rows
        test = filter_sql(self.filter, self._filter_pairs, side)
        return f"SELECT {names} FROM ({rows}) f WHERE {test}"

    @property
    def _filter_pairs(self) -> dict[str, Pair]:
        return filter_pairs(filter_columns(self.filter), self.plan.pairs)

    def whole(self, side: str, pairs: Iterable[Pair]) -> str:
        """Every row of one end, chosen columns only."""
        rows, columns = ("before_rows" if side == "b" else "after_rows"), self.columns(side, pairs)
        names = ", ".join(column.alias for column in columns) or "1 AS nothing"
        return f"SELECT {names} FROM {rows} UNION ALL {self.untouched(side, columns)}"

    def untouched(self, side: str, columns: Sequence[Column]) -> str:
        """Rows of one end that the plan left out, because both ends have them in the same file."""
        end = self.plan.before if side == "b" else self.plan.after
        scanner = self.scanner(end)
        if scanner is None:
            nothing = ", ".join(f"CAST(NULL AS {duckdb_type(c.field.type)}) AS {c.alias}" for c in columns)
            return f"SELECT {nothing or '1 AS nothing'} WHERE false"
        shared = self.shared_files()
        needed = [*columns]
        needed += [c for c in self.columns(side, self._filter_pairs.values()) if c not in needed]
        parts = [scanner.live_rows(shared, needed, dead="dead_shared")]
        if self.plan.shifted:
            parts.append(scanner.kept_rows(self.plan.shifted, needed))
        names = ", ".join(column.alias for column in columns) or "1 AS nothing"
        return self._chosen(" UNION ALL ".join(parts), side, names)

    def shared_files(self) -> tuple[LiveFile, ...]:
        """The carried-over files, with their deleted positions loaded."""
        shared = self.plan.shared()
        if not self._has_table("dead_shared"):
            scanner = self.scanner(self.plan.before)
            if scanner is not None:
                scanner.load_positions("dead_shared", shared)
        return shared

    def _has_table(self, name: str) -> bool:
        return bool(self.one(f"SELECT count(*) FROM duckdb_tables() WHERE table_name = {literal(name)}")[0])

    # --- comparing --------------------------------------------------------------------------------

    @property
    def key_pairs(self) -> list[Pair]:
        """The key columns in the order in which the rules name them."""
        found = []
        for name in self.request.key or ():
            named = [p for p in self.plan.pairs if name in {f.name for f in (p.after, p.before) if f is not None}]
            # the end's name counts where a rename gave the old name to another column
            named.sort(key=lambda pair: pair.after is None or pair.after.name != name)
            found += named[:1]
        return found

    @property
    def value_pairs(self) -> list[Pair]:
        """Compared columns that are not part of the key."""
        keys = {pair.index for pair in self.key_pairs}
        return [pair for pair in self.plan.pairs if pair.compared and pair.index not in keys]

    def _compare(self) -> tuple[str, dict[str, Any] | None]:
        """Fill the table `changes`; returns the mode and what is wrong with the key."""
        self._check_rules()
        missing = self._missing_keys()
        if not self._sides():
            self._net_changes("changes")
            return ("identifier" if self.key_pairs else "net"), None
        if not self.request.key or missing is not None:
            self._net_changes("changes")
            return "net", missing
        if not self._has_repeats():
            self._join_rows("before_rows", "after_rows")
            trouble = self._repeated_keys(among_contributed=False)
        else:
            self._net_changes("net")
            self._touch("net")
            trouble = self._repeated_keys(among_contributed=True)
            if trouble is None:
                self._join_rows(
                    "(SELECT * FROM net WHERE change = 'deleted')", "(SELECT * FROM net WHERE change = 'inserted')"
                )
        if trouble is None:
            return "identifier", self._null_keys()
        self.connection.execute("DROP TABLE IF EXISTS changes")
        if self._has_table("net"):
            self.connection.execute("ALTER TABLE net RENAME TO changes")
        else:
            self._net_changes("changes")
        return "net", trouble

    def _check_rules(self) -> None:
        names = {name for pair in self.plan.pairs for name in self._names(pair)}
        asked = {
            "ignored column": self.request.ignore,
            "column with a tolerance": tuple(self.request.tolerance),
        }
        for what, columns in asked.items():
            for name in columns:
                if name not in names:
                    self.warnings.append(f"The rules name {name!r} as {what}, but neither side has that column.")
        for pair in self.plan.pairs:
            if pair.unreadable:
                self.warnings.append(f"Column {pair.name!r} is not compared: this engine does not read its type.")
            elif pair.compared and self._tolerance(pair) and not self._is_number(pair):
                self.warnings.append(f"The tolerance of {pair.name!r} has no effect: it is not a number on both sides.")

    @staticmethod
    def _names(pair: Pair) -> set[str]:
        return {side.name for side in (pair.before, pair.after) if side is not None}

    def _missing_keys(self) -> dict[str, Any] | None:
        """Key columns that a side with rows lacks, or that cannot be compared."""
        known = {name for pair in self.plan.pairs for name in self._names(pair)}
        lost: dict[str, list[str]] = {"before": [], "after": []}
        for side in ("before", "after"):
            if not self._has_rows(side):
                continue
            lost[side] = [name for name in self.request.key or () if name not in known]
            lost[side] += [p.name for p in self.key_pairs if getattr(p, side) is None or p.unreadable]
        if not any(lost.values()):
            return None
        columns = sorted({name for names in lost.values() for name in names})
        where = " and ".join(side for side, names in lost.items() if names)
        listed = ", ".join(columns)
        return {
            "kind": "missing",
            "columns": columns,
            "before": {"missing": lost["before"]},
            "after": {"missing": lost["after"]},
            "message": f"The key column {listed} is missing on the side {where}; shown without a key."
            if len(columns) == 1
            else f"The key columns {listed} are missing on the side {where}; shown without a key.",
        }

    def _key_values(self, side: str) -> list[str]:
        """SQL of the key of one side, comparable with the other's."""
        values = []
        for pair in self.key_pairs:
            if pair.before is None or pair.after is None:
                values.append(f"{side}{pair.index}")
                continue
            pairwise = comparable(pair.before.type, pair.after.type, f"b{pair.index}", f"a{pair.index}")
            values.append(pairwise[0] if side == "b" else pairwise[1])
        return values

    def _has_rows(self, side: str) -> bool:
        """Whether an end lists any data: a new dataset's other end may lack even the columns."""
        own = self.plan.left if side == "before" else self.plan.came
        return bool(own or self.plan.shifted or self.plan.shared_records)

    def _sides(self) -> list[tuple[str, str]]:
        """The ends that have data, with the view of the rows to compare."""
        return [(side[0], f"{side}_rows") for side in ("before", "after") if self._has_rows(side)]

    def _has_repeats(self) -> bool:
        """Whether two of the rows to compare may have one key: equal hashes, which equal keys always have."""
        for side, rows in self._sides():
            hashed = f"SELECT hash({', '.join(self._key_values(side))}) AS h FROM {rows}"
            found = self.connection.execute(f"SELECT 1 FROM ({hashed}) GROUP BY h HAVING count(*) > 1 LIMIT 1")
            if found.fetchone() is not None:
                return True
        return False

    def _join_rows(self, before: str, after: str) -> None:
        """Pair rows by key; keep those without a partner and those whose values differ."""
        columns = artifact.stored_columns(self.plan.pairs)
        if not self._has_rows("before") or not self._has_rows("after"):
            source, change = (before, "deleted") if self._has_rows("before") else (after, "inserted")
            have = "a" if change == "inserted" else "b"
            values = self._outputs(columns, have)
            self.connection.execute(
                f"CREATE TEMP TABLE changes AS SELECT '{change}' AS change, 1::BIGINT AS copies{values} FROM {source}"
            )
            return
        matches = " AND ".join(
            f"{left} IS NOT DISTINCT FROM {right}"
            for left, right in zip(self._key_values("b"), self._key_values("a"), strict=True)
        )
        differs = " OR ".join(["b.here IS NULL", "a.here IS NULL", *(self.differs(pair) for pair in self.value_pairs)])
        names = "".join(f", {name}" for name, _ in columns)
        self.connection.execute(
            "CREATE TEMP TABLE changes AS SELECT CASE WHEN b.here IS NULL THEN 'inserted' "
            "WHEN a.here IS NULL THEN 'deleted' ELSE 'updated' END AS change, 1::BIGINT AS copies"
            f"{names} FROM (SELECT {self._own(columns, 'b')} true AS here FROM {before}) b "
            f"FULL OUTER JOIN (SELECT {self._own(columns, 'a')} true AS here FROM {after}) a ON {matches} WHERE {differs}"
        )

    @staticmethod
    def _own(columns: list[tuple[str, str]], side: str) -> str:
        return "".join(f"{name}, " for name, _ in columns if name[0] == side)

    @staticmethod
    def _outputs(columns: list[tuple[str, str]], have: str) -> str:
        return "".join(
            f", {name}" if name[0] == have else f", CAST(NULL AS {type_}) AS {name}" for name, type_ in columns
        )

    def _tolerance(self, pair: Pair) -> Mapping[str, float]:
        return next((limits for name, limits in self.request.tolerance.items() if name in self._names(pair)), {})

    @staticmethod
    def _is_number(pair: Pair) -> bool:
        return all(
            side is not None and isinstance(side.type, Primitive) and side.type.is_number
            for side in (pair.before, pair.after)
        )

    def differs(self, pair: Pair) -> str:
        """SQL that is true where the two values of a column are not the same."""
        assert pair.before is not None  # noqa: S101 - compared pairs have both
        assert pair.after is not None  # noqa: S101
        left, right = comparable(pair.before.type, pair.after.type, f"b{pair.index}", f"a{pair.index}")
        different = f"{left} IS DISTINCT FROM {right}"
        limits = self._tolerance(pair)
        if not limits or not self._is_number(pair):
            return f"({different})"
        near = is_near(pair, absolute=limits.get("absolute"), relative=limits.get("relative"))
        return f"({different} AND NOT coalesce({near}, false))"

    # --- net changes ------------------------------------------------------------------------------

    def _net_changes(self, table: str) -> None:
        """Each distinct row by the difference of its counts, duplicates counted."""
        columns = artifact.stored_columns(self.plan.pairs)
        empty = "".join(f", CAST(NULL AS {type_}) AS {name}" for name, type_ in columns)
        sides = self._sides()
        if not sides:
            self.connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT '' AS change, 1::BIGINT AS copies{empty} WHERE false"
            )
            return
        groups, rest = self._net_columns(columns)
        parts = []
        for side, rows in sides:
            outputs = [f"{values[side]} AS {name}" for name, values in groups.items()]
            outputs += [self._outputs([column], side)[2:] for column in rest]
            outputs.append(f"{_WEIGHTS[side]} AS weight")
            parts.append(f"SELECT {', '.join(outputs)} FROM {rows}")
        chosen = "".join(f", any_value({name}) FILTER (weight = {_WEIGHTS[name[0]]}) AS {name}" for name, _ in rest)
        kept = {name for name, _ in rest}
        values = "".join(
            f", CASE WHEN sign(total) = {_WEIGHTS[name[0]]} THEN {name if name in kept else f'g{name[1:]}'} END AS {name}"
            for name, _ in columns
        )
        names = ", ".join(groups)
        self.connection.execute(
            f"CREATE TEMP TABLE {table} AS SELECT CASE WHEN total < 0 THEN 'deleted' ELSE 'inserted' END AS change, "
            f"abs(total)::BIGINT AS copies{values} FROM (SELECT {names}, sum(weight) AS total{chosen} "
            f"FROM ({' UNION ALL '.join(parts)}) GROUP BY {names} HAVING sum(weight) <> 0)"
        )

    def _net_columns(self, columns: list[tuple[str, str]]) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
        """What rows are grouped by, as SQL per side, and the stored columns whose values the groups do not hold.

        A column of one type at both ends is its own group, which keeps wide rows narrow.
        """
        groups: dict[str, dict[str, str]] = {}
        held: set[str] = set()
        for pair in self.plan.pairs:
            if not pair.compared or pair.before is None or pair.after is None:
                continue
            names = f"b{pair.index}", f"a{pair.index}"
            groups[f"g{pair.index}"] = dict(
                zip("ba", comparable(pair.before.type, pair.after.type, *names), strict=True)
            )
            if pair.before.type == pair.after.type:
                held.update(names)
        if not groups:
            # with no column in common nothing can be the same: each side's rows are all of its columns
            groups["g_side"] = {"b": "'b'", "a": "'a'"}
            for name, type_ in columns:
                nothing = f"CAST(NULL AS {type_})"
                groups[f"g_{name}"] = {side: name if name[0] == side else nothing for side in "ba"}
        return groups, [column for column in columns if column[0] not in held]

    # --- keys -------------------------------------------------------------------------------------

    def _touch(self, table: str) -> None:
        """The distinct keys of the changes."""
        values = ", ".join(f"{artifact.match_value(pair)} AS k{i}" for i, pair in enumerate(self.key_pairs))
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE touched AS SELECT DISTINCT {values} FROM {table}")

    def _repeated_keys(self, *, among_contributed: bool) -> dict[str, Any] | None:
        """Touched keys that have more than one row at an end, else None."""
        if not among_contributed:
            if not self.plan.shared_records and not self.plan.shifted:
                return None
            self._touch("changes")
        if not self.one("SELECT count(*) FROM touched")[0]:
            return None
        parts = [self._key_counts(side, rows) for side, rows in self._sides()]
        parts.append(self._untouched_counts())
        keys = [f"k{i}" for i in range(len(self.key_pairs))]
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE repeated AS SELECT {', '.join(keys)}, sum(before)::BIGINT AS before, "
            f"sum(after)::BIGINT AS after FROM ({' UNION ALL '.join(parts)}) GROUP BY {', '.join(keys)} "
            "HAVING sum(before) > 1 OR sum(after) > 1"
        )
        if not self.one("SELECT count(*) FROM repeated")[0]:
            return None
        return self._describe_repeats()

    def _key_counts(self, side: str, rows: str) -> str:
        values = ", ".join(f"{value} AS k{i}" for i, value in enumerate(self._key_values(side)))
        before, after = (1, 0) if side == "b" else (0, 1)
        return f"SELECT *, {before} AS before, {after} AS after FROM (SELECT {values} FROM {rows}) r WHERE {self._is_touched('r')}"

    def _untouched_counts(self) -> str:
        """Keys of rows that both ends share: one more row at each end."""
        rows = self.untouched("b", self.columns("b", self.key_pairs))
        values = ", ".join(f"{value} AS k{i}" for i, value in enumerate(self._key_values("b")))
        bounds = self._bounds()
        return (
            "SELECT *, 1 AS before, 1 AS after FROM "
            f"(SELECT {values} FROM ({rows}) u) r WHERE {bounds}{self._is_touched('r')}"
        )

    def _bounds(self) -> str:
        """The range of the first key column, which lets whole row groups be skipped unread."""
        pair = self.key_pairs[0]
        if pair.before is None or not isinstance(pair.before.type, Primitive):
            return ""
        low, high, nulls = self.one("SELECT min(k0)::VARCHAR, max(k0)::VARCHAR, count(*) - count(k0) FROM touched")
        if low is None or nulls or pair.before.type.is_float or pair.before.type.is_bytes:
            return ""
        type_ = self.one("SELECT typeof(k0) FROM touched LIMIT 1")[0]
        return f"r.k0 BETWEEN CAST({literal(low)} AS {type_}) AND CAST({literal(high)} AS {type_}) AND "

    def _is_touched(self, alias: str) -> str:
        match = " AND ".join(f"t.k{i} IS NOT DISTINCT FROM {alias}.k{i}" for i in range(len(self.key_pairs)))
        return f"EXISTS (SELECT 1 FROM touched t WHERE {match})"

    def _describe_repeats(self) -> dict[str, Any]:
        columns = [pair.name for pair in self.key_pairs]
        sides = {side: self._describe_side(side) for side in ("before", "after")}
        return {
            "kind": "duplicates",
            "columns": columns,
            **sides,
            "message": f"Duplicate rows found for identifier columns {columns!r} in changelog view.",
        }

    def _describe_side(self, side: str) -> dict[str, Any]:
        count, rows = self.one(f"SELECT count(*), coalesce(sum({side}), 0)::BIGINT FROM repeated WHERE {side} > 1")
        keys = ", ".join(f"CAST(k{i} AS VARCHAR)" for i in range(len(self.key_pairs)))
        order = ", ".join(f"k{i}" for i in range(len(self.key_pairs)))
        examples = self.connection.execute(
            f"SELECT {side}, {keys} FROM repeated WHERE {side} > 1 ORDER BY {order} LIMIT {_EXAMPLES}"
        ).fetchall()
        names = [pair.name for pair in self.key_pairs]
        return {
            "keys": count,
            "rows": rows,
            "examples": [{"key": dict(zip(names, key, strict=True)), "rows": found} for found, *key in examples],
        }

    def _null_keys(self) -> dict[str, Any] | None:
        """Changed rows with a NULL in their key: matched like any value, and said."""
        some = " OR ".join(f"{artifact.match_value(pair)} IS NULL" for pair in self.key_pairs)
        before, after = self.one(
            "SELECT count(*) FILTER (change <> 'inserted'), count(*) FILTER (change <> 'deleted') "
            f"FROM changes WHERE {some}"
        )
        if not before and not after:
            return None
        columns = [pair.name for pair in self.key_pairs]
        return {
            "kind": "nulls",
            "columns": columns,
            "before": {"rows": before},
            "after": {"rows": after},
            "message": f"Changed rows have NULL in the key {columns!r}: {before} before, {after} after. NULL counts as a value.",
        }

    # --- results ----------------------------------------------------------------------------------

    def _summary(self, mode: str, trouble: dict[str, Any] | None) -> dict[str, Any]:
        inserted, deleted, updated, distinct = self.one(
            "SELECT coalesce(sum(copies) FILTER (change = 'inserted'), 0)::BIGINT, "
            "coalesce(sum(copies) FILTER (change = 'deleted'), 0)::BIGINT, "
            "count(*) FILTER (change = 'updated'), count(*) FROM changes"
        )
        compared = {side: self.one(f"SELECT count(*) FROM {rows}")[0] for side, rows in self._sides()}
        same = self._shared_live_rows()
        before, after = (compared.get(side, 0) + same for side in ("b", "a"))
        unchanged = before - deleted - updated
        if unchanged != after - inserted - updated or unchanged < 0:
            raise UnreadableTableError(
                f"The counts do not add up ({before} rows before, {after} after, {inserted} inserted, {deleted} "
                f"deleted, {updated} updated): a file of the table does not hold what its manifest says."
            )
        matches = self._column_matches(mode, unchanged + updated)
        return {
            "version": artifact.VERSION,
            "mode": mode,
            "key": [pair.name for pair in self.key_pairs] if mode == "identifier" else None,
            "asked_key": list(self.request.key or ()) or None,
            "key_trouble": trouble,
            "inserted": inserted,
            "deleted": deleted,
            "updated": updated,
            "unchanged": unchanged,
            "before_rows": before,
            "after_rows": after,
            "cells_changed": sum(column["changed"] for column in matches if column["changed"] is not None),
            "columns": matches,
            "stored_rows": min(distinct, self.request.row_limit),
            "is_complete": distinct <= self.request.row_limit,
            "warnings": self.warnings,
            "row_filter": self.request.row_filter,
            "ignored": [pair.name for pair in self.plan.pairs if pair.is_ignored],
            "executor": "embedded",
            "files_read": self.plan.files,
            "bytes_read": self.plan.bytes,
            "rows_read": sum(compared.values()),
            "manifests_read": self.plan.manifests_read,
            "manifests_shared": self.plan.manifests_shared,
        }

    def _shared_live_rows(self) -> int:
        """Rows that both ends have in the same files."""
        if self.filter is None and not self.plan.shared_has_deletes and not self.plan.shifted:
            return self.plan.shared_records
        return int(self.one(f"SELECT count(*) FROM ({self.untouched('b', [])})")[0])

    def _column_matches(self, mode: str, common: int) -> list[dict[str, Any]]:
        """Per column how many of the common rows have another value."""
        compared = {pair.index for pair in self.value_pairs} if mode == "identifier" else set()
        counts: dict[int, int] = {}
        if compared:
            tests = [f"count(*) FILTER ({self.differs(pair)})" for pair in self.value_pairs]
            row = self.one(f"SELECT {', '.join(tests)} FROM changes WHERE change = 'updated'")
            counts = dict(zip((pair.index for pair in self.value_pairs), row, strict=True))
        return [
            {
                "index": pair.index,
                "name": pair.name,
                "changed": counts.get(pair.index),
                "match_rate": 1 - counts[pair.index] / common if pair.index in counts and common else None,
            }
            for pair in self.plan.pairs
        ]

    def _write_first_rows(self, mode: str, summary: dict[str, Any]) -> None:
        """Store the first rows by key as an artifact of their own: readable while the whole is sorted and written."""
        folder = self.folder / artifact.FIRST
        folder.mkdir()
        folder.chmod(0o777)  # whoever owns the artifact removes it, and need not be the user of this process
        rows = min(artifact.FIRST_ROWS, summary["stored_rows"])
        self._write_rows(mode, folder, rows)
        shutil.copyfile(self.folder / artifact.SCHEMA, folder / artifact.SCHEMA)
        artifact.write_json(folder / artifact.SUMMARY, {**summary, "stored_rows": rows})

    def _write_rows(self, mode: str, folder: Path, rows: int) -> None:
        """Store the first so many changed rows by key."""
        pairs = self.plan.pairs
        stored = ", ".join(name for name, _ in artifact.stored_columns(pairs))
        keys = self.key_pairs if mode == "identifier" else []
        matched = ", ".join(f"{artifact.match_value(pair)} AS k{i}" for i, pair in enumerate(keys))
        tests = [f"CASE WHEN {self.differs(pair)} THEN {pair.index} END" for pair in self.value_pairs]
        changed = (
            f"CASE WHEN change = 'updated' THEN list_filter([{', '.join(tests)}], lambda x: x IS NOT NULL) ELSE [] END"
            if tests and mode == "identifier"
            else "[]"
        )
        chosen = ", ".join(part for part in (matched, stored) if part)
        outputs = f"change, copies, CAST({changed} AS SMALLINT[]) AS changed" + (f", {chosen}" if chosen else "")
        names = ", ".join(part for part in (", ".join(f"k{i}" for i in range(len(keys))), stored) if part)
        target = folder / f".{artifact.ROWS}"
        self.connection.execute("SET preserve_insertion_order = true")
        self.connection.execute(
            f"COPY (SELECT row_number() OVER () AS n, change, copies, changed{', ' + names if names else ''} FROM "
            f"(SELECT {outputs} FROM changes ORDER BY {self._order(mode)} LIMIT {rows})) "
            f"TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd, "
            f"ROW_GROUP_SIZE {artifact.row_group_size(rows)})"
        )
        self.connection.execute("SET preserve_insertion_order = false")
        target.replace(folder / artifact.ROWS)

    def _order(self, mode: str) -> str:
        """By key; without one by the asked key columns that exist, then the compared columns."""
        if mode == "identifier":
            chosen = self.key_pairs
        else:
            first = [pair for pair in self.key_pairs if not pair.unreadable]
            rest = [pair for pair in self.plan.pairs if not pair.unreadable and pair not in first]
            chosen = [*first, *sorted(rest, key=lambda pair: not pair.compared)][:_SORT_COLUMNS]
        return ", ".join([*(f"{artifact.match_value(pair)} NULLS LAST" for pair in chosen), "change"])


def run_embedded(request: DiffRequest, *, on_connect: Any = None) -> dict[str, Any]:
    """Make the artifact of one diff.

    `on_connect` gets the connection, to interrupt it from another thread, and None before it is closed.
    """
    folder = Path(request.folder)
    spill = folder / ".spill"
    progress = artifact.Progress(folder)
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{request.memory_bytes // 2**20}MiB",
            "threads": str(request.threads),
            "temp_directory": str(spill),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        },
    )
    try:
        connection.execute("SET TimeZone = 'UTC'")
        if on_connect is not None:
            on_connect(connection)
        return Embedded(request, folder, progress, connection).run()
    except duckdb.OutOfMemoryException as error:
        if "max_temp_directory_size" in str(error) or "No space left" in str(error):
            raise DiskLimitError("There is no room left on the disk to compare these rows.") from error
        raise MemoryLimitError(
            f"Comparing {progress.known.get('rows', 'these')} rows does not fit into "
            f"{request.memory_bytes // 2**20} MiB of memory."
        ) from error
    except duckdb.IOException as error:
        if "No space left" in str(error):
            raise DiskLimitError("There is no room left on the disk to compare these rows.") from error
        raise UnreadableTableError(f"A file of the table cannot be read: {error}") from error
    except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raise UnreadableTableError(f"A file of the table does not fit its schema: {error}") from error
    finally:
        if on_connect is not None:
            on_connect(None)
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)
