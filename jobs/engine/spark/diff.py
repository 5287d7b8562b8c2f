"""A diff's rows reduced by Spark: it reads both sides by file list, and gives back those that may differ.

With a key that no two of the rows to compare share it is one full outer join, else the net changes, as in `changes`; what
comes back is judged there once more, so Spark only has to be right about what it leaves out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from jobs.engine.compare.reduced import COPIES, HERE, Counted, Reduced
from jobs.engine.plan.columns import scan_columns
from jobs.engine.read.fields import MapType, holds
from jobs.engine.read.listing import Listing
from jobs.engine.spark import reader as spark
from jobs.engine.spark import values as spark_values
from jobs.engine.spark.reader import SparkSource, combine, is_own_group, same_key, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import duckdb
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

    from jobs.engine.plan.planner import DiffPlan
    from jobs.engine.read.live_files import LiveFile
    from jobs.engine.spark.reader import Side

    Fetch = Callable[[DataFrame], Iterable[pa.Table]]

_WEIGHT, _TOTAL = "weight", "total"
_WEIGHTS = {"b": -1, "a": 1}
_OWN_NAMES = frozenset(("_file", "_pos", "_deleted", "_spec_id", "_partition"))


def find_obstacle(plan: DiffPlan) -> str:
    """Say why Spark cannot compare the two sides; empty where it can."""
    keys = plan.rules.key_pairs
    if plan.before.schema is None or plan.after.schema is None or len(plan.sides_with_rows) < 2:
        return "only one side has rows"
    if not any(pair.compared for pair in plan.pairs):
        return "the sides have no column in common"
    if any(pair.unreadable for pair in plan.pairs):
        return "it has no type for some column"
    for pair in [*plan.pairs, *keys]:
        if pair.compared and pair.before is not None and pair.after is not None:
            types = pair.before.type, pair.after.type
            if not spark_values.is_alike(*types) and spark_values.common_type(*types) is None:
                return f"column {pair.name!r} is of two types that it compares in another way"
    if any(holds(side.type, MapType) for pair in keys for side in (pair.before, pair.after) if side):
        return "the key holds a map"
    shifted = [file for moved in plan.shifted for file in (moved.before, moved.after)]
    files = {"b": [*plan.left, *shifted], "a": [*plan.came, *shifted]}
    for end, side in ((plan.before, "b"), (plan.after, "a")):
        assert end.schema is not None  # noqa: S101 - asked above
        names = [field.name.lower() for field in end.schema.fields]
        if len(set(names)) < len(names):
            return "two columns have names that differ only in case"
        if not _OWN_NAMES.isdisjoint(names):
            return "a column has a name that Iceberg uses itself"
        if obstacle := spark.find_obstacle(end.schema, files[side]):
            return obstacle
    return ""


@dataclass
class _End:
    """One end of the diff, as Spark reads it."""

    source: SparkSource
    listing: Listing
    side: Side
    shared: int | None
    nothing: int
    whole: int | None
    """All that the end has."""


class SparkDiff:
    """One diff in one Spark session."""

    def __init__(
        self, plan: DiffPlan, session: SparkSession, tables: dict[str, Table], folder: str, fetch: Fetch | None = None
    ) -> None:
        self._plan = plan
        self._rules = plan.rules
        self._session = session
        self.fetch = fetch or stream
        self._listings: list[Listing] = []
        self._ends = {side: self._open(side, tables[side], folder) for side in "ba"}

    def _open(self, side: str, table: Table, folder: str) -> _End:
        """List the files of one end."""
        plan = self._plan
        end, own = plan.end(side), plan.own_files(side)
        assert end.schema is not None  # noqa: S101 - an end without a schema is an obstacle
        listing = Listing(table, schema_id=end.schema.id, folder=folder, io=table.io)
        self._listings.append(listing)
        source = SparkSource(self._session, end.schema, listing)
        nothing: tuple[LiveFile, ...] = ()
        left, came = (own, nothing) if side == "b" else (nothing, own)
        sides = source.list_sides(left, came, plan.shifted)
        shared = listing.add_files(plan.shared()) if side == "b" and self._reads_shared else None
        whole = source.list_snapshot(end.snapshot_id)
        spark_end = _End(source, listing, sides["ba".index(side)], shared, listing.add_files(nothing), whole)
        listing.write()
        return spark_end

    @property
    def _reads_shared(self) -> bool:
        """Whether what both ends have in the same files matters beyond its number."""
        plan, rules = self._plan, self._rules
        return bool(rules.key_pairs or rules.row_filter is not None or plan.shared_has_deletes or plan.shifted)

    def close(self) -> None:
        """Remove what Spark was given to read."""
        while self._listings:
            with suppress(OSError):
                self._listings.pop().remove()

    # --- the answer ---

    def reduce(self, connection: duckdb.DuckDBPyConnection) -> Reduced:
        """Have the rows compared; give back, in tables of a connection, those that may differ, and what was counted."""
        plan = self._plan
        keys = self._rules.key_pairs if self._has_key else ()
        has_repeats = bool(keys) and any(self._repeats(side) for side in "ba")
        rows = self._joined() if keys and not has_repeats else self._net()
        # keys that no two of the rows to compare share can only be doubled by rows of shared files
        needs_keys = bool(keys) and (has_repeats or bool(plan.shared_records or plan.shifted))
        if needs_keys:
            # both questions are about the same rows
            rows = rows.localCheckpoint()
        counted = Counted(
            before=self._rows("b").count(),
            after=self._rows("a").count(),
            shared=self._count_shared(),
            has_repeats=has_repeats,
        )
        reduced = Reduced(connection, plan.pairs, keys, counted=counted)
        reduced.add_rows(self.fetch(rows.select(*HERE.values(), COPIES, *reduced.columns)))
        if needs_keys:
            reduced.add_keys(self.fetch(self._repeated_keys(rows)))
        return reduced

    @property
    def _has_key(self) -> bool:
        """Whether both sides have all of the key."""
        keys = self._rules.named_keys.values()
        return bool(keys) and all(pair is not None and pair.compared for pair in keys)

    # --- rows ---

    def _rows(self, side: str) -> DataFrame:
        """Return the rows to compare of one end, as columns b<i> or a<i>."""
        end = self._ends[side]
        rows = end.source.side(end.side)
        return self._named(end.source.rows(end.nothing) if rows is None else rows, side)

    def all_rows(self, side: str) -> DataFrame:
        """Return all rows of one end, as columns b<i> or a<i>."""
        end = self._ends[side]
        return self._named(end.source.rows(end.nothing if end.whole is None else end.whole), side)

    def find_obstacle_to_shared(self) -> str:
        """Say why Spark cannot read what both ends have in the same files; empty where it can."""
        plan = self._plan
        ends = (plan.before, plan.after) if plan.shared_has_deletes else ()
        obstacles = (spark.find_obstacle(end.schema, plan.shared()) for end in ends if end.schema is not None)
        return next(filter(None, obstacles), "")

    def _named(self, rows: DataFrame, side: str) -> DataFrame:
        rules, end = self._rules, self._plan.end(side)
        places = {field.id: place for place, field in enumerate(end.schema.fields)} if end.schema else {}
        named = [F.col(f"v{places[column.field.id]}").alias(column.alias) for column in scan_columns(rules.pairs, side)]
        rows = rows.select(*named)
        if rules.row_filter is None:
            return rows
        return rows.where(spark_values.chosen(rules.row_filter, rules.chosen_by, side))

    def _shared(self) -> list[DataFrame]:
        """Return rows that both ends have in the same files, in parts."""
        end = self._ends["b"]
        unread = end.source.kept(end.side)
        parts = [] if unread is None else [unread]
        if end.shared is not None:
            parts.append(end.source.rows(end.shared))
        return [self._named(rows, "b") for rows in parts]

    def _count_shared(self) -> int:
        plan = self._plan
        if self._rules.row_filter is None and not plan.shared_has_deletes and not plan.shifted:
            return plan.shared_records
        return sum(rows.count() for rows in self._shared())

    def _keys(self, side: str) -> list[Column]:
        return [spark_values.comparable(pair, side).alias(f"k{n}") for n, pair in enumerate(self._rules.key_pairs)]

    @cached_property
    def _stored(self) -> dict[str, dict[str, Any]]:
        """The columns of each end."""
        return {side: {column.alias: column.field for column in scan_columns(self._rules.pairs, side)} for side in "ba"}

    # --- with a key ---

    def _repeats(self, side: str) -> bool:
        """Return whether two of the rows to compare of one end have one key."""
        keys = self._rows(side).select(*self._keys(side))
        return not keys.groupBy(*keys.columns).count().where("count > 1").isEmpty()

    def _joined(self) -> DataFrame:
        """Join both ends: rows without a partner, and pairs whose values differ."""
        rules = self._rules
        before = self._rows("b").withColumn(HERE["b"], F.lit(True))
        after = self._rows("a").withColumn(HERE["a"], F.lit(True))
        keys = [[spark_values.comparable(pair, side) for side in "ba"] for pair in rules.key_pairs]
        same = combine(and_, [left.eqNullSafe(right) for left, right in keys])
        differs = [F.col(name).isNull() for name in HERE.values()]
        differs += [
            spark_values.may_differ(pair, rules.tolerance(pair) if pair.is_number else {}) for pair in rules.value_pairs
        ]
        rows = before.join(after, same, "full_outer").where(combine(or_, differs))
        here = [F.coalesce(F.col(name), F.lit(False)).alias(name) for name in HERE.values()]
        return rows.select(*here, F.lit(1).cast("long").alias(COPIES), *self._stored["b"], *self._stored["a"])

    # --- without one, or with one that is not unique ---

    def _net(self) -> DataFrame:
        """Return each distinct row by the difference of its counts."""
        pairs = [pair for pair in self._rules.pairs if pair.compared]
        held = {f"{side}{pair.index}" for pair in pairs if _is_own_group(pair) for side in "ba"}
        rest = {side: [name for name in self._stored[side] if name not in held] for side in "ba"}
        types = {name: kind for side in "ba" for name, kind in self._rows(side).dtypes} if any(rest.values()) else {}
        parts = [self._weighed(side, pairs, rest, types) for side in "ba"]
        groups = [f"g{pair.index}" for pair in pairs]
        # equal values may be written differently, as 0.0 and -0.0 are, and what is not compared is any row's
        shown = [
            F.first(F.when(F.col(_WEIGHT) == _WEIGHTS[side], F.col(name)), ignorenulls=True).alias(name)
            for side in "ba"
            for name in rest[side]
        ]
        sums = parts[0].unionAll(parts[1]).groupBy(*groups).agg(F.sum(_WEIGHT).alias(_TOTAL), *shown)
        rows = sums.where(f"{_TOTAL} <> 0")
        here = {side: F.signum(_TOTAL) == _WEIGHTS[side] for side in "ba"}
        values = [
            F.when(here[side], F.col(f"g{name[1:]}" if name in held else name)).alias(name)
            for side in "ba"
            for name in self._stored[side]
        ]
        flags = [here[side].alias(HERE[side]) for side in "ba"]
        return rows.select(*flags, F.abs(_TOTAL).cast("long").alias(COPIES), *values)

    def _weighed(self, side: str, pairs: list[Any], rest: dict[str, list[str]], types: dict[str, str]) -> DataFrame:
        rows = self._rows(side)
        groups = [spark_values.comparable(pair, side).alias(f"g{pair.index}") for pair in pairs]
        values = [
            F.col(name) if origin == side else F.lit(None).cast(types[name]).alias(name)
            for origin in "ba"
            for name in rest[origin]
        ]
        return rows.select(*groups, F.lit(_WEIGHTS[side]).alias(_WEIGHT), *values)

    # --- keys that are there more than once ---

    def _repeated_keys(self, rows: DataFrame) -> DataFrame:
        """Return keys of rows that may differ which have more than one row at an end, shared files included."""
        touched = [rows.where(HERE[side]).select(*self._keys(side)) for side in "ba"]
        names = touched[0].columns
        touched_keys = (
            touched[0].unionAll(touched[1]).distinct().select(*(F.col(name).alias(f"t{name}") for name in names))
        )
        counted = [(self._rows("b"), "b", 1, 0), (self._rows("a"), "a", 0, 1)]
        counted += [(shared, "b", 1, 1) for shared in self._shared()]
        parts = [
            part.select(*self._keys(side), F.lit(before).alias("before"), F.lit(after).alias("after"))
            for part, side, before, after in counted
        ]
        keys = union(parts).join(touched_keys, same_key("k", "tk", len(names)), "left_semi")
        sums = keys.groupBy(*names).agg(F.sum("before").alias("before"), F.sum("after").alias("after"))
        return sums.where("before > 1 OR after > 1")


def stream(frame: DataFrame) -> Iterator[pa.Table]:
    """Yield rows as Spark sends them, in batches: `toArrow` would hold all, `toLocalIterator` makes Python rows."""
    import pyarrow as pa

    client = frame.sparkSession.client
    for batch in client.to_table_as_iterator(frame._plan.to_proto(client), frame._plan.observations):
        if isinstance(batch, pa.Table):
            yield batch


def _is_own_group(pair: Any) -> bool:
    """Return whether the value by which rows are grouped is the value of both ends itself."""
    types = pair.before.type, pair.after.type
    return spark_values.is_alike(*types) and all(map(is_own_group, types))
