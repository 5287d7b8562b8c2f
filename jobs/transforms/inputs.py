"""`IcebergInput`: reading one pinned input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import UUIDType

from jobs.engine.plan.ranges import added_files_only
from jobs.engine.plan.router import Decision, choose_executor
from jobs.engine.plan.rules import filter_columns
from jobs.engine.read.exact_filters import fit_filter
from jobs.engine.read.metadata import local_path
from jobs.protocol import Executor, PinnedInput
from jobs.transforms.context import Connections, say
from jobs.transforms.errors import TransformError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import Column, DataFrame

    from jobs.changelog import ChangelogPlan

Mode = Literal["current", "added"]
Images = Literal["first", "latest"]


class IcebergInput:
    """One input of a running transform, at the transaction the build was planned with."""

    def __init__(self, pinned: PinnedInput, connections: Connections) -> None:
        self._pinned = pinned
        self._connections = connections
        self._is_incremental = False

    @property
    def path(self) -> str:
        """The dataset's path."""
        return self._pinned.path

    @property
    def branch(self) -> str:
        """The branch the input is read from: the build's own, or one it fell back to."""
        return self._pinned.branch

    @property
    def transaction(self) -> str:
        """The transaction the input is pinned to."""
        return self._pinned.transaction

    @property
    def schema(self) -> pa.Schema:
        """The columns, as an Arrow schema."""
        return self._table.schema().as_arrow()

    def arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: str | BooleanExpression | None = None,
        *,
        mode: Mode | None = None,
    ) -> pa.Table:
        """Read as an Arrow table; only the named columns, and files that can match the filter, are opened.

        `filter` is an expression such as `"origin = 'JFK' and dep_delay > 60"`. `mode` is "current" (all rows) or "added"
        (rows since the last build of this output, the default in an incremental build).
        """
        return self._read(columns, filter, mode).read_all()

    def batches(
        self,
        columns: Sequence[str] | None = None,
        filter: str | BooleanExpression | None = None,
        *,
        mode: Mode | None = None,
    ) -> pa.RecordBatchReader:
        """Read batch by batch, for tables larger than memory; see `arrow`."""
        return self._read(columns, filter, mode)

    def polars(
        self,
        columns: Sequence[str] | None = None,
        filter: str | BooleanExpression | None = None,
        *,
        mode: Mode | None = None,
    ) -> pl.DataFrame:
        """Read as a polars DataFrame; see `arrow`."""
        import polars as pl

        frame = pl.from_arrow(self.arrow(columns, filter, mode=mode))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
        return frame

    def pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: str | BooleanExpression | None = None,
        *,
        mode: Mode | None = None,
    ) -> pd.DataFrame:
        """Read as a pandas DataFrame; see `arrow`.

        Integers with a NULL become nullable integers, decimals and UUIDs keep their Arrow type.
        """
        from jobs.transforms.frames import to_pandas

        return to_pandas(self.arrow(columns, filter, mode=mode))

    def dataframe(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Column | None = None,
        *,
        mode: Mode | None = None,
    ) -> DataFrame:
        """Read as a Spark DataFrame (transforms declared with `@transform.spark.using`)."""
        from jobs.engine.spark import tables

        _ = self._table  # says in the log what is read
        since = self._since(mode)
        frame = tables.read(self._connections.spark, self._pinned.table, since=since, until=self._pinned.snapshot_id)
        if filter is not None:
            frame = frame.where(filter)
        return frame if columns is None else frame.select(*columns)

    def changelog(
        self,
        keys: Sequence[str] | None = None,
        *,
        start: int | str | None = None,
        end: int | str | None = None,
        images: Images = "first",
        executor: Executor | None = None,
    ) -> DataFrame:
        """Return the changes of a range as a Spark DataFrame; see `changelog_arrow`.

        Spark computes large ones, when they are used; the job's process small ones, at once. `executor`, "embedded" or
        "spark", decides that instead. Both give the same rows.
        """
        from jobs.changelog import compute_changelog
        from jobs.changelog.marks import make_marks
        from jobs.changelog.spark import mark_frame, spark_changelog
        from jobs.engine.spark import tables

        plan = self._plan_changelog(keys, start, end, images)
        spark = self._connections.spark
        decision = self._route(plan, executor)
        say(f"changelog of {self.path} is {decision}")
        if decision.executor == "spark":
            return spark_changelog(plan, spark, self._connections.open_listing(plan))
        # in one partition: who keeps one row of each key relies on the row after standing before the row before
        frame = tables.from_arrow(spark, compute_changelog(plan)).coalesce(1)
        return mark_frame(frame, make_marks(plan.keys))

    def changelog_arrow(
        self,
        keys: Sequence[str] | None = None,
        *,
        start: int | str | None = None,
        end: int | str | None = None,
        images: Images = "first",
    ) -> pa.Table:
        """Return the changes of a range as an Arrow table with `_change_type` and `_change_ordinal`.

        With `keys` (columns that identify a row, or fields inside structs, `place.code`): INSERT, DELETE, UPDATE_BEFORE
        and UPDATE_AFTER; without: net changes, INSERT and DELETE. The range goes from `start` (exclusive; "earliest" is
        from nothing) to `end` (inclusive), both snapshot ids; with neither it covers what came since this output's last
        build of this input, and everything on a first or full build.

        A value that went 1, 2, 3 within the range gives UPDATE_BEFORE 1 and UPDATE_AFTER 3: taking the befores away and
        adding the afters turns the rows at the start into the rows at the end. `images="latest"` gives the last change
        alone, UPDATE_BEFORE 2 and UPDATE_AFTER 3, and refuses a key that had several rows just before it.
        """
        from jobs.changelog import compute_changelog

        return compute_changelog(self._plan_changelog(keys, start, end, images))

    # --- inside ---

    @cached_property
    def _table(self) -> Table:
        table = self._connections.load(self._pinned.table, self._pinned.path)
        snapshot = table.current_snapshot()
        self._check_pin(None if snapshot is None else snapshot.snapshot_id)
        summary = (snapshot.summary if snapshot is not None else None) or {}
        # counting would read the files of an input that the transform may never read
        rows = f"{int(summary.get('total-records') or 0):,} rows"
        more = " before deletes" if int(summary.get("total-delete-files") or 0) else ""
        say(f"input {self.path} at {self.transaction[:6] or 'nothing'} ({self.branch}), {rows}{more}")
        return table

    def _check_pin(self, shown: int | None) -> None:
        """Reject a table that the catalog shows at another snapshot than the pinned one, such as none."""
        if shown != self._pinned.snapshot_id:
            raise TransformError(
                f"{self.path}: transaction {self.transaction} on branch {self.branch} is gone: "
                f"the table has no snapshot {self._pinned.snapshot_id}"
            )

    def grew_only(self) -> bool:
        """Return whether every snapshot since this output's last build only added rows."""
        since, until = self._pinned.since_snapshot_id, self._pinned.snapshot_id
        return since is not None and until is not None and added_files_only(self._table, since, until)

    def _plan_changelog(
        self, keys: Sequence[str] | None, start: int | str | None, end: int | str | None, images: Images
    ) -> ChangelogPlan:
        from jobs.changelog import plan_changelog

        if start is None and end is None:
            first = self._pinned.since_snapshot_id
            manifest = self._connections.manifest
            if manifest.why_full and not manifest.is_first:
                say(f"changelog of {self.path} starts from nothing: {manifest.why_full}")
        else:
            first = None if start == "earliest" else _read_end("start", start)
        plan = plan_changelog(self._table, keys=keys, start=first, end=_read_end("end", end), images=images)
        self._connections.read_keys.append(plan.keys)
        return plan

    def _route(self, plan: ChangelogPlan, executor: Executor | None) -> Decision:
        from jobs.changelog.spark import find_obstacle

        manifest, obstacle = self._connections.manifest, find_obstacle(plan)
        if not manifest.spark_folder and not local_path(plan.table.location()).startswith("/"):
            obstacle = "the files are in an object store, and the Spark server is not the installation's own"
        return choose_executor(
            plan.decoded_bytes,
            limit=manifest.embedded_bytes,
            executor=executor or manifest.executor,
            obstacle=obstacle,
        )

    def set_incremental(self, *, is_incremental: bool) -> None:
        """Decide, once for all inputs, whether reading defaults to what was added."""
        self._is_incremental = is_incremental

    def _since(self, mode: Mode | None) -> int | None:
        chosen = mode or ("added" if self._is_incremental else "current")
        if chosen not in ("current", "added"):
            raise TransformError(f"mode is 'current' or 'added', not {chosen!r}")
        if chosen == "current":
            return None
        if not self.grew_only():
            raise TransformError(
                f"{self.path} did not only grow since the last build, so 'added' rows are not known: read its "
                "changelog(), or mode='current'"
            )
        return self._pinned.since_snapshot_id

    def check_columns(self, selected: Sequence[str], names: Sequence[str]) -> None:
        """Refuse columns that are none of these."""
        if unknown := [name for name in selected if name not in names]:
            raise TransformError(f"{self.path} has no column {unknown[0]!r}; it has {', '.join(names) or 'none'}")

    def _read(
        self, columns: Sequence[str] | None, condition: str | BooleanExpression | None, mode: Mode | None
    ) -> pa.RecordBatchReader:
        table = self._table
        names = [field.name for field in table.schema().fields]
        selected = names if columns is None else list(columns)
        self.check_columns(selected, names)
        reader = self._scan(selected, self._fit_filter(condition, table.schema()), self._since(mode))
        if reader.schema.names == selected:
            return reader
        order = [reader.schema.get_field_index(name) for name in selected]
        schema = pa.schema([reader.schema.field(index) for index in order])
        return pa.RecordBatchReader.from_batches(schema, (batch.select(order) for batch in reader))

    def _fit_filter(self, condition: str | BooleanExpression | None, schema: Schema) -> BooleanExpression:
        """Return a filter whose literals are values of the columns' types."""
        if condition is None:
            return AlwaysTrue()
        expression = parse(condition) if isinstance(condition, str) else condition
        try:
            fitted = fit_filter(expression, schema)
        except ValueError as error:
            raise TransformError(f"{self.path}: the filter does not fit: {error}") from None
        for name in filter_columns(fitted):
            if isinstance(schema.find_type(name), UUIDType):
                raise TransformError(
                    f"{self.path}: a filter cannot name {name!r}, a uuid: filter the rows that are read"
                )
        return fitted

    def _scan(self, selected: Sequence[str], row_filter: BooleanExpression, since: int | None) -> pa.RecordBatchReader:
        table, until, fields = self._table, self._pinned.snapshot_id, tuple(selected)
        if since is None:
            return table.scan(row_filter=row_filter, selected_fields=fields).to_arrow_batch_reader()
        if since == until:
            # PyIceberg refuses a range without snapshots.
            return pa.RecordBatchReader.from_batches(table.schema().select(*fields).as_arrow(), [])
        scan = table.incremental_append_scan(
            row_filter=row_filter,
            selected_fields=fields,
            from_snapshot_id_exclusive=since,
            to_snapshot_id_inclusive=until,
        )
        return scan.to_arrow_batch_reader()


def _read_end(name: str, value: int | str | None) -> int | None:
    """Read an end of a range; a snapshot id may be a text, as the REST API writes it."""
    if value is None:
        return None
    if not str(value).isdecimal():
        either = ' or "earliest"' if name == "start" else ""
        raise ValueError(f"{name} is a snapshot id{either}, not {value!r}.")
    return int(value)
