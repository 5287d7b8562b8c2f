"""Keys of a diff: whether every side has them, and which have more than one row or a NULL.

Touched keys are looked up among the rows that the plan left out too, key columns only, so that the verdict does not
depend on how the table is laid out in files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.compare.sides import Sides
from jobs.engine.read.bounds import Range, Values, ordered_sql
from jobs.engine.read.fields import Primitive
from jobs.engine.read.paths import explain_missing, field_parts, list_paths
from jobs.engine.write import artifact

if TYPE_CHECKING:
    from jobs.engine.plan.columns import Pair

_EXAMPLES = 5
_FEW_KEYS = 10_000
"""Up to this many touched keys each file is asked for each of them."""


@dataclass
class Keys(Sides):
    """The two sides, asked about their keys."""

    def _missing_keys(self) -> dict[str, Any] | None:
        """Parts of the key that a side with rows lacks, or that cannot be compared."""
        unknown = [name for name, pair in self.named_keys.items() if pair is None]
        lost: dict[str, list[str]] = {"before": [], "after": []}
        for side in ("before", "after"):
            if not self.has_rows(side):
                continue
            lost[side] = [*unknown, *(p.name for p in self.key_pairs if getattr(p, side) is None or p.unreadable)]
        if not any(lost.values()):
            return None
        columns = sorted({name for names in lost.values() for name in names})
        where = " and ".join(side for side, names in lost.items() if names)
        listed, why = ", ".join(columns), self._explain(unknown)
        return {
            "kind": "missing",
            "columns": columns,
            "before": {"missing": lost["before"]},
            "after": {"missing": lost["after"]},
            "message": f"The key column {listed} is missing on the side {where}; shown without a key.{why}"
            if len(columns) == 1
            else f"The key columns {listed} are missing on the side {where}; shown without a key.{why}",
        }

    def _explain(self, unknown: list[str]) -> str:
        """Where names of the key that are none leave the columns."""
        schemas = (end.schema for end in (self.plan.after, self.plan.before) if end.schema is not None)
        paths = list_paths(next(schemas).fields, field_parts)
        found = dict.fromkeys(explain_missing(name, paths) for name in unknown)
        return "".join(f" {sentence}" for sentence in found if sentence)

    def _touch(self, table: str) -> None:
        """The distinct keys of the changes."""
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE touched AS SELECT DISTINCT {self._matched_keys()} FROM {table}"
        )

    def _matched_keys(self) -> str:
        return ", ".join(f"{artifact.match_value(pair)} AS k{i}" for i, pair in enumerate(self.key_pairs))

    def _repeated_keys(self, *, among_contributed: bool) -> dict[str, Any] | None:
        """Touched keys that have more than one row at an end, else None."""
        if not among_contributed:
            if not self.plan.shared_records and not self.plan.shifted:
                return None
            self._touch("changes")
        if not self.one("SELECT count(*) FROM touched")[0]:
            return None
        keys = [f"k{i}" for i in range(len(self.key_pairs))]
        counts = self._touched_counts(among_contributed=among_contributed)
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE repeated AS SELECT {', '.join(keys)}, sum(before)::BIGINT AS before, "
            f"sum(after)::BIGINT AS after FROM ({counts}) GROUP BY {', '.join(keys)} "
            "HAVING sum(before) > 1 OR sum(after) > 1"
        )
        if not self.one("SELECT count(*) FROM repeated")[0]:
            return None
        return self._describe_repeats()

    def _touched_counts(self, *, among_contributed: bool) -> str:
        """How often each touched key is there at each end, in parts."""
        if self.reduced is not None:
            return f"SELECT * FROM {self.reduced.keys} r WHERE {self._is_touched('r')}"
        if among_contributed:
            parts = [self._key_counts(side, rows) for side, rows in self._sides()]
        else:
            # the join has shown that no two of the rows it compared have one key
            ends = "(change <> 'inserted')::INTEGER AS before, (change <> 'deleted')::INTEGER AS after"
            parts = [f"SELECT {self._matched_keys()}, {ends} FROM changes"]
        return " UNION ALL ".join([*parts, self._untouched_counts()])

    def _key_counts(self, side: str, rows: str) -> str:
        values = ", ".join(f"{value} AS k{i}" for i, value in enumerate(self._key_values(side)))
        before, after = (1, 0) if side == "b" else (0, 1)
        return f"SELECT *, {before} AS before, {after} AS after FROM (SELECT {values} FROM {rows}) r WHERE {self._is_touched('r')}"

    def _untouched_counts(self) -> str:
        """Keys of rows that both ends share: one more row at each end."""
        columns = self.columns("b", dict.fromkeys(pair.column for pair in self.key_pairs))
        rows = self.untouched("b", columns, within=self._touched_bounds())
        values = ", ".join(f"{value} AS k{i}" for i, value in enumerate(self._key_values("b")))
        return (
            f"SELECT *, 1 AS before, 1 AS after FROM (SELECT {values} FROM ({rows}) u) r WHERE {self._is_touched('r')}"
        )

    def _touched_bounds(self) -> list[Range | Values]:
        """Which values the touched keys have, for the key columns whose bounds have an order: all, or if many the ends."""
        found: list[Range | Values] = []
        for index, pair in enumerate(self.key_pairs):
            if pair.before is None or pair.after is None or pair.before.type != pair.after.type:
                continue
            value = ordered_sql(pair.before, f"k{index}")
            if value is None or self.one(f"SELECT 1 FROM touched WHERE k{index} IS NULL LIMIT 1"):
                continue
            rows = self.connection.execute(
                f"SELECT DISTINCT {value} AS v FROM touched ORDER BY v LIMIT {_FEW_KEYS + 1}"
            ).fetchall()
            if len(rows) <= _FEW_KEYS:
                found.append(Values(pair.before, tuple(row[0] for row in rows)))
            else:
                found.append(Range(pair.before, *self.one(f"SELECT min({value}), max({value}) FROM touched")))
        return found

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
        keys = ", ".join(f"CAST({_one_zero(pair, f'k{i}')} AS VARCHAR)" for i, pair in enumerate(self.key_pairs))
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


def _one_zero(pair: Pair, value: str) -> str:
    """SQL of a key whose zero is written in one way, whichever row it is of."""
    is_float = any(
        side is not None and isinstance(side.type, Primitive) and side.type.is_float
        for side in (pair.before, pair.after)
    )
    return f"CASE WHEN {value} = 0 THEN 0 ELSE {value} END" if is_float else value
