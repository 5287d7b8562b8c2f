"""Inputs and outputs of a preview: samples in files, and rows that go to a file in the place of a table.

A preview reaches no catalog and no table, so these know nothing but files in folders of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Never

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema

from jobs.engine.write.schemas import SchemaError, cast_batches, storable_schema
from jobs.protocol import OutputTarget, PinnedInput, PreviewedOutput, PreviewOutput, SampledInput
from jobs.transforms.context import Connections, say
from jobs.transforms.errors import TransformError
from jobs.transforms.inputs import IcebergInput, Mode
from jobs.transforms.outputs import IcebergOutput, read_arrow

if TYPE_CHECKING:
    from jobs.engine.read.first_rows import FirstRows

SCHEMA = b"tributary.schema"
"""The schema of the table in Iceberg's JSON, in that of a sample: filters are bound to it."""
NO_SPARK = "a preview has no Spark: build the transform on a branch"


def write_sample(sample: FirstRows, file: str) -> None:
    """Write a sample where transforms read it."""
    rows = sample.rows.replace_schema_metadata({SCHEMA: sample.schema.model_dump_json().encode()})
    with pa.ipc.new_file(file, rows.schema) as target:
        target.write_table(rows)


class PreviewedInput(IcebergInput):
    """One input of a transform in a preview: the first rows of its table."""

    def __init__(self, name: str, sample: SampledInput, connections: Connections) -> None:
        pinned = PinnedInput(
            name=name, path=sample.path, table="", branch=sample.branch, transaction=sample.transaction
        )
        super().__init__(pinned, connections)
        self._file = sample.file

    @property
    def schema(self) -> pa.Schema:
        """The columns, as an Arrow schema."""
        return self._rows.schema.remove_metadata()

    def dataframe(self, *_: object, **__: object) -> Never:
        """Refuse Spark."""
        raise TransformError(NO_SPARK)

    def changelog(self, *_: object, **__: object) -> Never:
        """Refuse Spark."""
        raise TransformError(NO_SPARK)

    def changelog_arrow(self, *_: object, **__: object) -> Never:
        """Refuse a history that samples do not have."""
        raise TransformError(
            f"a preview has the first rows of {self.path}, not its history: build the transform on a branch"
        )

    @cached_property
    def _rows(self) -> pa.Table:
        with pa.memory_map(self._file) as source:
            rows = pa.ipc.open_file(source).read_all()
        say(
            f"input {self.path} at {self.transaction[:6] or 'nothing'} ({self.branch}), the first {rows.num_rows:,} rows"
        )
        return rows

    def _read(
        self, columns: Sequence[str] | None, condition: str | BooleanExpression | None, mode: Mode | None
    ) -> pa.RecordBatchReader:
        self._since(mode)
        rows = self._rows
        selected = rows.column_names if columns is None else list(columns)
        self.check_columns(selected, rows.column_names)
        if condition is not None:
            schema = Schema.model_validate_json(rows.schema.metadata[SCHEMA])
            bound = bind(schema, self._fit_filter(condition, schema), case_sensitive=True)
            rows = rows.filter(expression_to_pyarrow(bound, schema))
        return rows.select(selected).replace_schema_metadata(None).to_reader()


class PreviewedRows(IcebergOutput):
    """One output of a transform in a preview: the rows go to a file, and no table gets them."""

    def __init__(
        self, target: PreviewOutput, connections: Connections, *, name: str, row_limit: int, byte_limit: int
    ) -> None:
        super().__init__(OutputTarget(name=name, path=target.path, table=""), connections)
        self._file = target.file
        self._row_limit, self._byte_limit = row_limit, byte_limit
        self._batches: list[pa.RecordBatch] = []
        self._schema: pa.Schema | None = None
        self._is_cut = False

    def write_table(self, data: pa.Table | pa.RecordBatch | pa.RecordBatchReader) -> None:
        """Keep the first rows of Arrow data; a reader is read no further than is kept."""
        schema, batches = read_arrow(data, self.path)
        if not self._is_append() or self._schema is None:
            self._batches, self._schema, self._is_cut = [], None, False
        try:
            stored = storable_schema(schema)
            self._check_same(stored)
            self._schema = stored
            self._keep(cast_batches(iter(batches), stored))
        except SchemaError as error:
            raise TransformError(f"{self.path}: {error}") from None
        rows = pa.Table.from_batches(self._batches, schema=stored)
        pq.write_table(rows, self._file, compression="zstd")
        more = ", the first of what was written" if self._is_cut else ""
        self._note(f"wrote {rows.num_rows:,} rows to {self.path} in this preview{more}", rows.num_rows)

    def write_dataframe(self, *_: object, **__: object) -> Never:
        """Refuse Spark."""
        raise TransformError(NO_SPARK)

    def apply_changelog(self, *_: object, **__: object) -> Never:
        """Refuse changes: a preview has no rows that they change."""
        raise TransformError(f"a preview has no rows of {self.path} to change: build the transform on a branch")

    def describe(self) -> PreviewedOutput:
        """Say what was kept."""
        return PreviewedOutput(path=self.path, is_append=self._is_append(), is_cut=self._is_cut)

    def _find_schema(self) -> None:
        """Return nothing: a preview reaches no table."""

    def _check_same(self, schema: pa.Schema) -> None:
        if self._schema not in (None, schema):
            raise SchemaError("a preview adds rows of the same columns alone: write them at once")

    def _keep(self, batches: Iterator[pa.RecordBatch]) -> None:
        count, size = sum(batch.num_rows for batch in self._batches), sum(batch.nbytes for batch in self._batches)
        for batch in batches:
            rest = batch.slice(0, self._row_limit - count)
            self._batches.append(rest)
            count, size = count + rest.num_rows, size + rest.nbytes
            self._is_cut = rest.num_rows < batch.num_rows or size > self._byte_limit
            if self._is_cut:
                return
