"""From two sides to the table `changes`.

Identifier mode is one full outer join of the rows that can have left with the rows that can have come, which is exact
as long as no key has two rows among them. A sequence counts the pairs that the join makes: it ends where a bad key would
blow the join up, and its count tells whether every row met at most one other, without another look at the rows.
With repeated keys the net changes are computed and, where no touched key has two rows at either end, retagged as
updates; else the diff stays net and says which keys are in the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.engine.compare.keys import Keys
from jobs.engine.plan.columns import comparable
from jobs.engine.plan.rules import is_near
from jobs.engine.read.fields import Primitive
from jobs.engine.write import artifact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs.engine.plan.columns import Pair

_CHANGE = "ENUM('deleted', 'inserted', 'updated')"
"""A byte a row, in the order of the words."""
_WEIGHTS = {"b": "-1", "a": "1"}
"""What a row of each end counts in the net changes."""


@dataclass
class Changes(Keys):
    """The two sides, compared."""

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
        has_repeats = not self._join_unrepeated()
        if not has_repeats:
            trouble = self._repeated_keys(among_contributed=False)
        else:
            self._net_changes("net")
            self._touch("net")
            trouble = self._repeated_keys(among_contributed=True)
            if trouble is None:
                self._count_pairs()
                self._join_rows(
                    "(SELECT * FROM net WHERE change = 'deleted')", "(SELECT * FROM net WHERE change = 'inserted')"
                )
        if trouble is None:
            return "identifier", self._null_keys()
        self.connection.execute("DROP TABLE IF EXISTS changes")
        if has_repeats:
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
            elif pair.compared and self.tolerance(pair) and not self.is_number(pair):
                self.warnings.append(f"The tolerance of {pair.name!r} has no effect: it is not a number on both sides.")

    def _join_unrepeated(self) -> bool:
        """Fill `changes` unless a key has two of the rows to compare at one end; whether none has."""
        if self.reduced is not None and self.reduced.counted.has_repeats:
            return False
        self._count_pairs()
        try:
            for number, (before, after) in enumerate(self.rows_by_part()):
                self._join_rows(before, after, is_first=not number)
            return self.reduced is not None or self._met_once()
        except duckdb.SequenceException:
            return False  # more pairs than rows

    def _met_once(self) -> bool:
        """Whether every row met at most one other in the join, and no two that met none have one key."""
        if len(self._sides()) > 1:
            pairs, came, left = self.one(
                "SELECT nextval('pairs') - 1, count(*) FILTER (change = 'inserted'), count(*) FILTER (change = 'deleted') "
                "FROM changes"
            )
            if not self.compared["b"] + came == pairs == self.compared["a"] + left:
                return False
        keys = ", ".join(artifact.match_value(pair) for pair in self.key_pairs)
        alone = f"SELECT 1 FROM changes WHERE change <> 'updated' GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        return not self.connection.execute(alone).fetchall()

    def _count_pairs(self) -> None:
        """Begin to count the pairs that joins make; there are never more than rows, unless a key has several."""
        if len(self._sides()) > 1:
            self.connection.execute(f"CREATE OR REPLACE TEMP SEQUENCE pairs MAXVALUE {sum(self.compared.values()) + 2}")

    def _join_rows(self, before: str, after: str, *, is_first: bool = True) -> None:
        """Pair rows by key; keep those without a partner and those whose values differ. Count the pairs."""
        columns = artifact.stored_columns(self.plan.pairs)
        if len(self._sides()) == 1:
            source, change = (before, "deleted") if self.has_rows("before") else (after, "inserted")
            have = "a" if change == "inserted" else "b"
            values = self._outputs(columns, have)
            self.connection.execute(
                f"CREATE OR REPLACE TEMP TABLE changes AS SELECT '{change}'::{_CHANGE} AS change, 1::BIGINT AS copies{values} "
                f"FROM {source}"
            )
            return
        matches = " AND ".join(
            f"{left} IS NOT DISTINCT FROM {right}"
            for left, right in zip(self._key_values("b"), self._key_values("a"), strict=True)
        )
        differs = " OR ".join(["b.here IS NULL", "a.here IS NULL", *(self.differs(pair) for pair in self.value_pairs)])
        names = "".join(f", {name}" for name, _ in columns)
        target = "CREATE OR REPLACE TEMP TABLE changes AS" if is_first else "INSERT INTO changes"
        self.connection.execute(
            f"{target} SELECT CAST(CASE WHEN b.here IS NULL THEN 'inserted' "
            f"WHEN a.here IS NULL THEN 'deleted' ELSE 'updated' END AS {_CHANGE}) AS change, 1::BIGINT AS copies"
            f"{names} FROM (SELECT {self._own(columns, 'b')} true AS here FROM {before}) b "
            f"FULL OUTER JOIN (SELECT {self._own(columns, 'a')} true AS here FROM {after}) a ON {matches} "
            f"WHERE CASE WHEN nextval('pairs') > 0 THEN {differs} END"
        )

    @staticmethod
    def _own(columns: list[tuple[str, str]], side: str) -> str:
        return "".join(f"{name}, " for name, _ in columns if name[0] == side)

    @staticmethod
    def _outputs(columns: list[tuple[str, str]], have: str) -> str:
        return "".join(
            f", {name}" if name[0] == have else f", CAST(NULL AS {type_}) AS {name}" for name, type_ in columns
        )

    def tolerance(self, pair: Pair) -> Mapping[str, float]:
        """Within what the values of a column count as equal; nothing where there is no such rule."""
        return next((limits for name, limits in self.request.tolerance.items() if name in self._names(pair)), {})

    @staticmethod
    def is_number(pair: Pair) -> bool:
        """Whether a column holds numbers at both ends."""
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
        limits = self.tolerance(pair)
        if not limits or not self.is_number(pair):
            return f"({different})"
        near = is_near(pair, absolute=limits.get("absolute"), relative=limits.get("relative"))
        return f"({different} AND NOT coalesce({near}, false))"

    def _net_changes(self, table: str) -> None:
        """Each distinct row by the difference of its counts, duplicates counted."""
        columns = artifact.stored_columns(self.plan.pairs)
        empty = "".join(f", CAST(NULL AS {type_}) AS {name}" for name, type_ in columns)
        sides = self._sides()
        if not sides:
            self.connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT NULL::{_CHANGE} AS change, 1::BIGINT AS copies{empty} WHERE false"
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
            f"CREATE TEMP TABLE {table} AS SELECT CAST(CASE WHEN total < 0 THEN 'deleted' ELSE 'inserted' END AS {_CHANGE}) "
            f"AS change, abs(total)::BIGINT AS copies{values} FROM (SELECT {names}, sum(weight) AS total{chosen} "
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
