"""The Spark executor's reader: the same two sides as the embedded engine's, as lazy DataFrames of Spark Connect.

Chosen files are read through a listing, so that Iceberg itself applies every kind of delete and brings old files to the
wanted schema. Columns are called v0, v1 … whatever the table calls them.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import and_
from typing import TYPE_CHECKING, TypeVar

from jobs.engine.read.fields import ListType, MapType, Primitive, holds, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

    from jobs.engine.read.fields import Schema, Type
    from jobs.engine.read.listing import Listing
    from jobs.engine.read.live_files import LiveFile, ShiftedFile

Part = TypeVar("Part")
_UNKNOWN_TO_SPARK = {"time", "timestamp_ns", "timestamptz_ns", "unknown"}
_RESERVED_BY_SPARK = {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}


def find_obstacle(schema: Schema, files: Iterable[LiveFile]) -> str:
    """Say why Iceberg in Spark does not read some files; empty where it does."""
    for field in walk(schema.fields):
        if isinstance(field.type, Primitive) and field.type.name in _UNKNOWN_TO_SPARK:
            return f"it has no type for column {field.name!r} ({field.type.name})"
    for field in schema.fields:
        if field.name in _RESERVED_BY_SPARK:
            return f"it keeps the name {field.name!r} for a column of its own"
    field_ids = {field.id for field in walk(schema.fields)}
    for file in files:
        if any(not field_ids.issuperset(entry.equality_ids) for entry in file.equality):
            return "an equality delete uses a column that has been dropped"
    return ""


@dataclass(frozen=True)
class Side:
    """What one end contributes: snapshots of the listing."""

    whole: int | None
    """Files that only this end lists."""
    moved_here: int | None
    """Files that both ends list, as this end does."""
    moved_there: int | None
    """The same files, as the other end lists them."""


class SparkSource:
    """One table's rows in one Spark session."""

    def __init__(self, session: SparkSession, schema: Schema, listing: Listing) -> None:
        self._session = session
        self._schema = schema
        self._listing = listing
        self._name = _open(session, listing)

    # --- before the listing is written ---

    def list_sides(
        self, left: Sequence[LiveFile], came: Sequence[LiveFile], shifted: Sequence[ShiftedFile]
    ) -> tuple[Side, Side]:
        """List the two sides of a plan."""
        before, after = (self._list([getattr(file, end) for file in shifted]) for end in ("before", "after"))
        return Side(self._list(left), before, after), Side(self._list(came), after, before)

    def list_snapshot(self, snapshot_id: int | None) -> int | None:
        """List all that a snapshot holds; None is the empty table."""
        return None if snapshot_id is None else self._listing.add_snapshot(snapshot_id)

    def _list(self, files: Sequence[LiveFile]) -> int | None:
        return self._listing.add_files(files) if files else None

    # --- afterwards ---

    def side(self, side: Side) -> DataFrame | None:
        """Return the rows that one end alone may have; None where there are none."""
        parts = [] if side.whole is None else [self.rows(side.whole)]
        if side.moved_here is not None and side.moved_there is not None:
            parts.append(self._moved(side.moved_here, side.moved_there))
        return union(parts) if parts else None

    def rows(self, snapshot: int, columns: Iterable[int] | None = None) -> DataFrame:
        """Return the live rows of one snapshot of the listing."""
        return self._read(snapshot).select(*self._columns(columns))

    def _moved(self, here: int, there: int) -> DataFrame:
        """Return rows that the other end has deleted and this one has not; in files of both, no other row can differ."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

        place = [F.col("_file").alias("scan_file"), F.col("_pos").alias("scan_row")]
        gone_there = self._read(there).where("_deleted").select(*place, *self._columns(None))
        gone_here = self._read(here).where("_deleted").select(*place)
        left = gone_there.join(gone_here, ["scan_file", "scan_row"], "left_anti")
        return left.drop("scan_file", "scan_row")

    def kept(self, side: Side) -> DataFrame | None:
        """Return the rows of files that both ends list which both still have; None where there are none."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

        if side.moved_here is None or side.moved_there is None:
            return None
        place = [F.col("_file").alias("scan_file"), F.col("_pos").alias("scan_row")]
        rows = self._read(side.moved_here).select(*place, *self._columns(None))
        gone = self._read(side.moved_there).where("_deleted").select(*place)
        return rows.join(gone, ["scan_file", "scan_row"], "left_anti").drop("scan_file", "scan_row")

    def _read(self, snapshot: int) -> DataFrame:
        return self._session.read.format("iceberg").option("versionAsOf", str(snapshot)).load(self._name)

    def _columns(self, chosen: Iterable[int] | None) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

        places = range(len(self._schema.fields)) if chosen is None else chosen
        return [F.col(quote(self._schema.fields[place].name)).alias(f"v{place}") for place in places]


def _open(session: SparkSession, listing: Listing) -> str:
    """Return what Spark loads a listing by: its path, or where the files need keys its name in a catalog that has them.

    A catalog's settings are the session's alone, which ends with the process that opened it.
    """
    if not listing.keys:
        return listing.location
    name = f"listing_{listing.name}"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": listing.warehouse,
        ".io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        ".cache-enabled": "false",
        **{f".{key}": value for key, value in listing.keys.items()},
    }
    for key, value in settings.items():
        session.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return f"{name}.{quote(listing.name)}"


def quote(name: str) -> str:
    """Quote a column's name for Spark."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def same_key(left: str, right: str, columns: int) -> Column:
    """Return a column: whether k0, k1 … of one side equal w0, w1 … of the other, NULL too; given the two prefixes."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    return combine(and_, [F.col(f"{left}{place}").eqNullSafe(F.col(f"{right}{place}")) for place in range(columns)])


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all parts, of which there is at least one."""
    return combine(lambda left, right: left.unionAll(right), parts)


def combine(join: Callable[[Part, Part], Part], parts: Sequence[Part]) -> Part:
    """Join neighbors, then what that gave, until one is left: a chain of hundreds is deeper than Spark's client sends.

    There is at least one part, and how they are grouped does not matter to `join`.
    """
    while len(parts) > 1:
        rest = parts[len(parts) // 2 * 2 :]
        parts = [*(join(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)), *rest]
    return parts[0]


def groupable(type_: Type, value: Column) -> Column:
    """Return a value by which equal ones group: there Spark has -0.0 equal 0.0 and NaN equal NaN, but no equal maps."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    if not holds(type_, MapType):
        return value
    if isinstance(type_, ListType):
        return F.transform(value, lambda element: groupable(type_.element.type, element))
    if isinstance(type_, MapType):
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                groupable(type_.key.type, entry["key"]).alias("key"),
                groupable(type_.value.type, entry["value"]).alias("value"),
            ),
        )
        return F.array_sort(entries)
    assert not isinstance(type_, Primitive)  # noqa: S101 - a primitive holds no map
    parts = [groupable(field.type, value.getField(field.name)).alias(f"f{n}") for n, field in enumerate(type_.fields)]
    return F.when(value.isNull(), F.lit(None)).otherwise(F.struct(*parts))


def is_own_group(type_: Type) -> bool:
    """Return whether equal values of a type are written in one way, so that a value says which group it is in."""
    return not (holds(type_, MapType) or holds(type_, Primitive, "float", "double"))
