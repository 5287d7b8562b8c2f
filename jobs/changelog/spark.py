"""Changelogs computed by Spark: what `identifier` and `net` do, as DataFrames.

What remains of the ups and downs of a row is said in closed form instead of by a stack. Of the running sums of its
copies, in the direction of the last one, a rise counts as far as it is above all earlier and below all later ones:
everything else was taken away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.window import Window

from jobs.changelog import errors
from jobs.changelog.keys import names_of
from jobs.changelog.marks import make_marks
from jobs.changelog.plan import ORDINAL, TYPE
from jobs.engine.read.listing import Listing
from jobs.engine.read.paths import field_parts
from jobs.engine.spark import reader as spark
from jobs.engine.spark.reader import SparkSource, groupable, is_own_group, quote, same_key, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

    from jobs.changelog.keys import Key
    from jobs.changelog.marks import Marks
    from jobs.changelog.plan import ChangelogPlan

_CHANGE, _ORDINAL, _COPIES = "c_change", "c_ordinal", "c_copies"


def find_obstacle(plan: ChangelogPlan) -> str:
    """Say why Spark cannot execute a plan; empty where it can."""
    if not plan.schema.fields:
        return "the table has no columns"
    return spark.find_obstacle(plan.schema, plan.files)


def spark_changelog(plan: ChangelogPlan, session: SparkSession, listing: Listing) -> DataFrame:
    """Return the changelog as a DataFrame that is computed when it is used.

    With keys their rows are compared at once, to refuse doubled keys, and kept by Spark.
    """
    return _Changelog(plan, session, listing).frame()


def mark_frame(frame: DataFrame, marks: Marks) -> DataFrame:
    """Add metadata to the columns of a DataFrame."""
    return frame.select(
        *(
            F.col(quote(name)).alias(name, metadata=marks[name]) if name in marks else F.col(quote(name))
            for name in frame.columns
        )
    )


def read_frame_marks(frame: DataFrame) -> Marks:
    """Return the metadata of a DataFrame's columns."""
    return {field.name: field.metadata for field in frame.schema.fields if field.metadata}


class _Changelog:
    def __init__(self, plan: ChangelogPlan, session: SparkSession, listing: Listing) -> None:
        self._plan = plan
        self._session = session
        self._fields = plan.schema.fields
        self._columns = [f"v{place}" for place in range(len(self._fields))]
        self._source = SparkSource(session, plan.schema, listing)
        sides = [self._source.list_sides(step.left, step.came, step.shifted) for step in plan.steps]
        self._sides = [(step.ordinal, *both) for step, both in zip(plan.steps, sides, strict=True)]
        ends = [plan.start, plan.until] if plan.keys is not None and plan.start != plan.until else []
        self._ends = [self._source.list_snapshot(end) for end in ends]
        self._nothing = listing.add_files([])
        listing.write()

    def frame(self) -> DataFrame:
        """Return the changelog, with the columns' own names, in the order in which it is emitted."""
        keys = self._keys()
        events = self._events()
        if self._plan.keys is None:
            # the rows of one snapshot together, those that came first: see `identifier` about ties
            changes = self._net(events).repartition(_ORDINAL).sortWithinPartitions(_ORDINAL, F.col(_CHANGE).desc())
            return self._named(changes)
        events = events.localCheckpoint()
        self._check_unique(events, keys)
        if self._plan.images == "latest":
            self._check_before_last(events, keys)
        changes = self._latest(events, keys) if self._plan.images == "latest" else self._net(events)
        changes = self._paired(changes, keys).repartition(*keys).sortWithinPartitions(*keys, _CHANGE)
        return self._named(changes)

    # --- rows ---

    def _events(self) -> DataFrame:
        """Return one row for each row and step in which its number changes: the ordinal, by how many copies, the row."""
        parts = [self._weighed(self._source.rows(self._nothing), 0, 0)]
        for ordinal, left, came in self._sides:
            for side, weight in ((came, 1), (left, -1)):
                rows = self._source.side(side)
                parts += [] if rows is None else [self._weighed(rows, ordinal, weight)]
        rows = union(parts)
        groups = self._groups()
        # equal values may still be written differently, as 0.0 and -0.0 are
        shown = [F.first(name).alias(f"s_{name}") for name in groups]
        summed = rows.groupBy(_ORDINAL, *(value.alias(f"g_{name}") for name, value in groups.items()), *self._plain())
        events = summed.agg(F.sum(_COPIES).alias(_COPIES), *shown).where(f"{_COPIES} <> 0")
        columns = [F.col(f"s_{name}").alias(name) if name in groups else F.col(name) for name in self._columns]
        return events.select(_ORDINAL, _COPIES, *columns)

    def _weighed(self, rows: DataFrame, ordinal: int, weight: int) -> DataFrame:
        return rows.select(F.lit(ordinal).alias(_ORDINAL), F.lit(weight).cast("long").alias(_COPIES), *self._columns)

    def _groups(self) -> dict[str, Column]:
        """Return the columns whose values are not their own group."""
        return {
            name: groupable(field.type, F.col(name))
            for name, field in zip(self._columns, self._fields, strict=True)
            if not is_own_group(field.type)
        }

    def _plain(self) -> list[str]:
        groups = self._groups()
        return [name for name in self._columns if name not in groups]

    def _keys(self) -> list[Column]:
        """Return the values by which rows are the same one."""
        return [self._key_value(key) for key in self._plan.keys or ()]

    def _key_value(self, key: Key) -> Column:
        place = self._plan.names.index(key.column)
        field, value = self._fields[place], F.col(f"v{place}")
        for name in key.path[1:]:
            field, value = next(part for part in field_parts(field) if part.name == name), value.getField(name)
        return groupable(field.type, value)

    def _key_places(self) -> list[int]:
        """Return the places of the columns that hold the keys."""
        return list(dict.fromkeys(self._plan.names.index(key.column) for key in self._plan.keys or ()))

    # --- net changes ---

    def _net(self, events: DataFrame) -> DataFrame:
        """Change, ordinal and row, once for each copy that remains."""
        if len(self._sides) > 1:
            events = self._cancelled(events)
        copies = F.explode(F.array_repeat(F.lit(0), F.abs(_COPIES).cast("int"))).alias("c_copy")
        return events.select(copies, _change(), _ORDINAL, *self._columns).drop("c_copy")

    def _cancelled(self, events: DataFrame) -> DataFrame:
        groups = self._groups()
        row = Window.partitionBy(*groups.values(), *self._plain())
        line = row.orderBy(_ORDINAL)
        past = line.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        future = line.rowsBetween(Window.currentRow, Window.unboundedFollowing)
        sums = events.withColumns({"c_sum": F.sum(_COPIES).over(past), "c_sign": F.sign(F.sum(_COPIES).over(row))})
        sums = sums.withColumns({"c_sum": F.col("c_sum") * F.col("c_sign"), "c_step": F.col(_COPIES) * F.col("c_sign")})
        floor = F.greatest(F.col("c_sum") - F.col("c_step"), F.lit(0))
        rest = sums.withColumn("c_rest", F.min("c_sum").over(future) - floor).where("c_sign <> 0 AND c_rest > 0")
        left = (F.col("c_rest") * F.col("c_sign")).cast("long").alias(_COPIES)
        return rest.select(_ORDINAL, left, *self._columns)

    # --- by key ---

    def _check_unique(self, events: DataFrame, keys: Sequence[Column]) -> None:
        """Refuse a changed key that has more than one row at an end of the range."""
        for end in self._ends:
            rows = self._touched_rows(events, keys, end)
            if rows is not None and not rows.groupBy(*rows.columns).count().where("count > 1").isEmpty():
                raise errors.duplicate_rows(names_of(self._plan.keys or ()))

    def _touched_rows(self, events: DataFrame, keys: Sequence[Column], end: int | None) -> DataFrame | None:
        """Return the keys of the rows of one end that stand in the events, once for each row."""
        if end is None:
            return None
        touched = events.select(*(key.alias(f"t{place}") for place, key in enumerate(keys))).distinct()
        rows = self._source.rows(end, self._key_places()).select(*(key.alias(f"k{n}") for n, key in enumerate(keys)))
        return rows.join(touched, same_key("k", "t", len(keys)), "left_semi")

    def _check_before_last(self, events: DataFrame, keys: Sequence[Column]) -> None:
        """Refuse a key that had several rows just before its last change, as `identifier` does."""
        names = [f"k{place}" for place in range(len(keys))]
        last = self._last_of_key(events, keys).select(
            *(key.alias(name) for name, key in zip(names, keys, strict=True)), (-F.col(_COPIES)).alias("c_rows")
        )
        rows = self._touched_rows(events, keys, self._ends[-1]) if self._ends else None
        if rows is not None:
            last = last.unionAll(rows.withColumn("c_rows", F.lit(1).cast("long")))
        if not last.groupBy(*names).agg(F.sum("c_rows").alias("c_rows")).where("c_rows > 1").isEmpty():
            raise errors.duplicate_rows(names_of(self._plan.keys or ()))

    def _last_of_key(self, events: DataFrame, keys: Sequence[Column]) -> DataFrame:
        last = events.withColumn("c_last", F.max(_ORDINAL).over(Window.partitionBy(*keys)))
        return last.where(f"{_ORDINAL} = c_last")

    def _latest(self, events: DataFrame, keys: Sequence[Column]) -> DataFrame:
        """Return the last change of each key alone."""
        return self._last_of_key(events, keys).select(_change(), _ORDINAL, *self._columns)

    def _paired(self, changes: DataFrame, keys: Sequence[Column]) -> DataFrame:
        """Tell the delete and the insert of a key as an update."""
        pairs = changes.withColumn("c_pairs", F.count(F.lit(1)).over(Window.partitionBy(*keys)))
        change = (
            F.when(F.col("c_pairs") < 2, F.col(_CHANGE))
            .when(F.col(_CHANGE) == "INSERT", "UPDATE_AFTER")
            .otherwise("UPDATE_BEFORE")
        )
        return pairs.select(change.alias(_CHANGE), _ORDINAL, *self._columns)

    def _named(self, changes: DataFrame) -> DataFrame:
        columns = [F.col(name).alias(field.name) for name, field in zip(self._columns, self._fields, strict=True)]
        named = changes.select(*columns, F.col(_CHANGE).alias(TYPE), F.col(_ORDINAL).alias(ORDINAL))
        return mark_frame(named, make_marks(self._plan.keys))


def _change() -> Column:
    """Return the type of a change: whether copies of a row came or went."""
    return F.when(F.col(_COPIES) > 0, "INSERT").otherwise("DELETE").alias(_CHANGE)
