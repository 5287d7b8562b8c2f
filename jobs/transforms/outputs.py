"""`IcebergOutput`: writing one output on the job's staging branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from jobs.engine.plan.counts import count_rows
from jobs.engine.write.schemas import SchemaError
from jobs.engine.write.writer import write_table
from jobs.protocol import ColumnOrigin, LoadedColumn, OutputResult, OutputTarget
from jobs.transforms.context import Connections, say
from jobs.transforms.errors import TransformError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame

WriteMode = Literal["replace", "append"]


class IcebergOutput:
    """One output of a running transform. What is written is visible to others only after the job has succeeded."""

    def __init__(self, target: OutputTarget, connections: Connections) -> None:
        self._target = target
        self._connections = connections
        self._mode: WriteMode = "replace"
        self._written: Literal["replace", "append", "changelog", "none"] = "none"
        self._is_full_build = True
        self._added = 0
        self._origins: tuple[ColumnOrigin, ...] = ()
        self._columns: tuple[LoadedColumn, ...] = ()
        self._staged: Table | None = None
        """The table as the commit of the last write answered it; only this job writes the staging branch."""

    @property
    def path(self) -> str:
        """The dataset's path."""
        return self._target.path

    @property
    def table(self) -> str:
        """The table behind the dataset."""
        return self._target.table

    @property
    def is_written(self) -> bool:
        """Whether anything was written."""
        return self._written != "none"

    @property
    def branch(self) -> str:
        """The branch that is built."""
        return self._connections.manifest.build_branch

    def set_mode(self, mode: WriteMode) -> None:
        """Choose whether the next writes replace the rows or add to them."""
        if mode not in ("replace", "append"):
            raise TransformError(f"set_mode: 'replace' or 'append', not {mode!r}")
        self._mode = mode

    def write_table(self, data: pa.Table | pa.RecordBatch | pa.RecordBatchReader) -> None:
        """Write Arrow data as one snapshot; a reader is written batch by batch.

        Columns match by name. Other columns or types than before evolve the schema of this branch, and of no other.
        """
        schema, batches = read_arrow(data, self.path)
        table = self._load()
        try:
            written = write_table(
                table, schema, batches, is_append=self._is_append(), job_id=self._connections.manifest.job_id
            )
        except SchemaError as error:
            raise TransformError(f"{self.path}: {error}") from None
        size = f"{written.files} {'file' if written.files == 1 else 'files'}, {_size(written.bytes)}"
        self._note(f"wrote {written.rows:,} rows to {self.path} on the staging branch in {size}", written.rows)
        self._staged = table

    def write_polars(self, frame: pl.DataFrame | pl.LazyFrame) -> None:
        """Write a polars frame; a LazyFrame is collected first."""
        self.write_table(_read_polars(frame, self.path))

    def write_pandas(self, frame: pd.DataFrame) -> None:
        """Write a pandas DataFrame without its index.

        Objects have no type of their own: they get that of the output's column, as far as it holds their values.
        """
        self.write_table(_read_pandas(frame, self.path, self._find_schema()))

    def write_dataframe(self, frame: DataFrame) -> None:
        """Write a Spark DataFrame as one snapshot (transforms declared with `@transform.spark.using`)."""
        from jobs.engine.spark import tables

        table = self._load()
        try:
            tables.write(self._connections.spark, frame, table, name=self._target.table, is_append=self._is_append())
        except SchemaError as error:
            raise TransformError(f"{self.path}: {error}") from None
        snapshot = table.refresh().current_snapshot()
        summary = dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {}
        rows, files = int(summary.get("added-records", 0)), int(summary.get("added-data-files", 0))
        size = f"{files} {'file' if files == 1 else 'files'}, {_size(int(summary.get('added-files-size', 0)))}"
        is_all = not self.is_written and not self._is_append()
        self._note(f"wrote {rows:,} rows to {self.path} on the staging branch in {size}", rows)
        if is_all:
            self._origins = self._find_origins(frame)

    def apply_changelog(self, changes: Any, keys: Sequence[str]) -> None:
        """Apply a changelog by key: upsert INSERT and UPDATE_AFTER, delete DELETE.

        It is a Spark DataFrame, Arrow data, or a polars or pandas frame. One snapshot; none where there is nothing to
        apply. Columns that it lacks keep their values. On a first or full build the destination is emptied first.

        The keys are those that the changelog was made with. Spark and Arrow data remember them, and others are refused.
        Frames of other libraries, and changes made by hand, do not, and nothing in their rows tells which is which. So
        changes that have the key columns of a changelog that the job has read by keys take the keys of one of those.
        To make changes by other keys, read the changelog without keys: net changes may be turned into those of any key.
        """
        is_spark = type(changes).__module__.startswith("pyspark.")
        if is_spark and self._connections.manifest.executor == "embedded":
            is_spark, changes = False, _collect(changes)
        if not is_spark:
            changes = _read_changes(changes, self.path, self._find_schema())
        table = self._load()
        before = table.current_snapshot()
        lacking = self._lacking(table, changes.columns if is_spark else changes.column_names)
        count = self._merge(changes, keys) if is_spark else self._apply(changes, keys)
        snapshot = self._load().current_snapshot()
        if count is None or snapshot is None or (before is not None and snapshot.snapshot_id == before.snapshot_id):
            say(f"nothing to apply to {self.path}")
            return
        self._written = "changelog"
        self._origins = ()
        summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
        self._added += int(summary.get("added-records", 0))
        say(f"applied {count:,} changes to {self.path} on the staging branch{' by Spark' if is_spark else ''}")
        if lacking:
            say(f"the changelog has no {', '.join(map(repr, lacking))}: {self.path} keeps what it has there")

    # --- inside ---

    def _lacking(self, table: Table, names: Sequence[str]) -> list[str]:
        """List the columns of the table that the written data lacks."""
        fields = () if self._is_from_empty else table.schema().fields
        return [field.name for field in fields if field.name not in names]

    def _apply(self, changes: pa.Table, keys: Sequence[str]) -> int | None:
        from jobs.changelog import apply_changelog

        job_id, read = self._connections.manifest.job_id, self._connections.read_keys
        applied = apply_changelog(self._load(), changes, keys, from_empty=self._is_from_empty, job_id=job_id, read=read)
        return None if applied is None else changes.num_rows

    def _merge(self, changes: DataFrame, keys: Sequence[str]) -> int | None:
        from jobs.changelog.merge import merge_changelog

        spark, name, read = self._connections.spark, self._target.table, self._connections.read_keys
        return merge_changelog(spark, self._load(), changes, keys, name=name, from_empty=self._is_from_empty, read=read)

    @property
    def _is_from_empty(self) -> bool:
        return self._is_full_build and self._written == "none"

    def set_incremental(self, *, is_incremental: bool, is_full_build: bool) -> None:
        """Decide whether writing appends by default, and whether `apply_changelog` starts from nothing."""
        self._mode = "append" if is_incremental else "replace"
        self._is_full_build = is_full_build

    def set_columns(self, columns: tuple[LoadedColumn, ...]) -> None:
        """Take note of the columns of the file whose rows were written."""
        self._columns = columns

    def load(self) -> Table:
        """Return the table as it is staged now."""
        return self._staged or self._load()

    def result(self) -> OutputResult:
        """Return what the output holds now."""
        table = self.load()
        snapshot = table.current_snapshot()
        return OutputResult(
            rows=count_rows(table),
            snapshot_id=snapshot.snapshot_id if snapshot else None,
            added_rows=self._added,
            mode=self._written,
            origins=self._origins,
            columns=self._columns,
        )

    def _find_origins(self, frame: DataFrame) -> tuple[ColumnOrigin, ...]:
        """Return what the columns of a frame are made of; a column that is made of anything but inputs is left out."""
        from jobs.engine.spark import plans, tables

        manifest = self._connections.manifest
        paths = {tables.plan_name(pinned.table): pinned.path for pinned in manifest.inputs}
        sources = plans.find_sources(self._connections.spark, frame)
        return tuple(
            ColumnOrigin(column, plans.group_sources(made_of, paths))
            for column, made_of in sources.items()
            if all(source.table in paths for source in made_of)
        )

    def _load(self) -> Table:
        self._staged = None
        return self._connections.load(self._target.table, self._target.path)

    def _find_schema(self) -> Schema | None:
        """Return the columns that the output has; None where there is no table."""
        return self.load().schema()

    def _is_append(self) -> bool:
        return self._mode == "append"

    def _note(self, line: str, rows: int) -> None:
        self._written = self._mode
        self._origins = ()
        self._added += rows
        say(line)


def read_arrow(data: object, path: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return the schema and batches of Arrow data that a transform writes to a dataset."""
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    raise TransformError(
        f"{path}: write_table takes an Arrow table or reader, not {type(data).__name__}; there are write_polars, "
        "write_pandas and write_dataframe"
    )


def _read_polars(frame: object, path: str) -> pa.Table:
    import polars as pl

    collected = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    if not isinstance(collected, pl.DataFrame):
        raise TransformError(f"{path}: write_polars takes a polars frame, not {type(frame).__name__}")
    return collected.to_arrow()


def _read_pandas(frame: pd.DataFrame, path: str, schema: Schema | None) -> pa.Table:
    from jobs.transforms.frames import from_pandas

    try:
        return from_pandas(frame, schema)
    except pa.ArrowException as error:
        raise TransformError(f"{path}: {error}") from None


def _collect(changes: DataFrame) -> pa.Table:
    """Collect a Spark changelog into an Arrow table that knows its keys as well."""
    from jobs.changelog.marks import mark_schema
    from jobs.changelog.spark import read_frame_marks

    table = changes.toArrow()
    return table.cast(mark_schema(table.schema, read_frame_marks(changes)))


def _read_changes(changes: object, path: str, schema: Schema | None) -> pa.Table:
    """Read changes into an Arrow table, whichever library a transform has worked on them with."""
    library = type(changes).__module__.partition(".")[0]
    if library == "polars":
        return _read_polars(changes, path)
    if library == "pandas":
        return _read_pandas(changes, path, schema)
    if library != "pyarrow":
        raise TransformError(
            f"{path}: apply_changelog takes a Spark, polars or pandas frame or Arrow data, not {type(changes).__name__}"
        )
    schema, batches = read_arrow(changes, path)
    return pa.Table.from_batches(batches, schema=schema)


def _size(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit != "MB" else f"{size:.1f} MB"
        size /= 1000
    return f"{size:.1f} GB"
