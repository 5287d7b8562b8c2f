"""Random histories of two inputs, and outputs that are built from them incrementally.

Clients change the inputs through the catalog and by uploads, and a real installation builds. After each build every output
must hold what the same code makes of the inputs' current rows, in the same columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AssertTableUUID, SetCurrentSchemaUpdate
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

from jobs.engine.write.writer import FileReplacement
from tests.factories.engine import data_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.factories.builds import Stack

Row = dict[str, Any]
Step = tuple[str, str, int]
"""Kind of step, the input that it is for, and a number that chooses among rows and columns."""
SIDES = ("left", "right")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("part", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
LIGHT = """
import pyarrow as pa
from transforms.api import incremental, transform
from transforms.tables import TableInput, TableOutput


def prefixed(source, rows):
    prefix = source.path.rsplit("/", 1)[1]
    return rows.rename_columns([f"{prefix}_{name}" for name in rows.column_names])


@incremental()
@transform.using(left=TableInput("FOLDER/left"), right=TableInput("FOLDER/right"), out=TableOutput("FOLDER/both"))
def both(ctx, left, right, out):
    out.set_mode("append" if ctx.is_incremental else "replace")
    parts = [prefixed(left, left.arrow()), prefixed(right, right.batches().read_all())]
    out.write_table(pa.concat_tables(parts, promote_options="default"))


@transform.using(left=TableInput("FOLDER/left"), out=TableOutput("FOLDER/followed"))
def followed(left, out):
    out.apply_changelog(left.changelog_arrow(["id"]), ["id"])
"""
SPARK = """
from transforms.api import incremental, transform
from transforms.tables import TableInput, TableOutput


def prefixed(source, rows):
    prefix = source.path.rsplit("/", 1)[1]
    return rows.toDF(*(f"{prefix}_{name}" for name in rows.columns))


@incremental()
@transform.spark.using(left=TableInput("FOLDER/left"), right=TableInput("FOLDER/right"), out=TableOutput("FOLDER/both"))
def both(ctx, left, right, out):
    out.set_mode("append" if ctx.is_incremental else "replace")
    parts = [prefixed(source, source.dataframe()) for source in (left, right)]
    out.write_dataframe(parts[0].unionByName(parts[1], allowMissingColumns=True))


@transform.spark.using(left=TableInput("FOLDER/left"), out=TableOutput("FOLDER/followed"))
def followed(left, out):
    out.apply_changelog(left.changelog(["id"]), ["id"])
"""


class InputHistory:
    """One input: what clients do to it, one method for each kind of step."""

    def __init__(self, stack: Stack, path: str) -> None:
        self._stack = stack
        self.path = path
        self._next_id = 1
        self._catalog = stack.connect()
        self._catalog.create_namespace_if_not_exists(path.strip("/").rpartition("/")[0].replace("/", "."))
        self._catalog.create_table(path.strip("/").replace("/", "."), SCHEMA)

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self._stack.load(self.path)

    @property
    def names(self) -> list[str]:
        """Top-level columns that steps may change: all but the key."""
        return [field.name for field in self.table.schema().fields if field.name != "id"]

    def rows(self) -> pa.Table:
        """The current rows as a client reads them."""
        return self.table.scan().to_arrow()

    # --- rows -------------------------------------------------------------------------------------

    def append(self, number: int) -> None:
        """Add rows with new ids."""
        self.table.append(self._make_rows(range(self._next_id, self._next_id + 1 + number % 3)))

    def upload(self, number: int) -> None:
        """Upload a file that adds rows and, sometimes, a column."""
        fields = self.table.schema().fields
        simple = [field.name for field in fields if field.name in ("a", "b") and field.field_type.is_primitive]
        header, values = ["id", *simple], [str(self._next_id), *(str(number) for _ in simple)]
        if number % 2:
            header, values = [*header, f"u{number}"], [*values, "new"]
        self._send(header, values, mode="append")

    def upload_other_header(self, number: int) -> None:
        """Replace all rows by those of a file with other columns."""
        self._send(["id", f"h{number % 3}"], [str(self._next_id), "x"], mode="snapshot")

    def _send(self, header: Sequence[str], values: Sequence[str], *, mode: str) -> None:
        self._next_id += 1
        answer = self._stack.upload(self.path, f"{','.join(header)}\n{','.join(values)}\n", mode=mode)
        assert answer.status_code == 201, answer.text

    def delete(self, number: int) -> None:
        """Delete the rows of one id."""
        self.table.delete(f"id = {1 + number % self._next_id}")

    def update(self, number: int) -> None:
        """Give the row of an id new values."""
        key = 1 + number % self._next_id
        self.table.overwrite(self._make_rows([key]), overwrite_filter=f"id = {key}")

    def replace(self, number: int) -> None:
        """Replace all rows."""
        self.table.overwrite(self._make_rows(range(1, 2 + number % 3)))

    def _make_rows(self, keys: Iterable[int]) -> pa.Table:
        schema = self.table.schema().as_arrow()
        rows = [{field.name: _draw(field.type, key) for field in schema} | {"id": key} for key in keys]
        self._next_id = max(self._next_id, *(row["id"] + 1 for row in rows))
        return pa.Table.from_pylist(rows, schema=schema)

    # --- columns ----------------------------------------------------------------------------------

    def add(self, number: int) -> None:
        """Add an optional column."""
        self._evolve(lambda change: change.add_column(self._free(number), StringType()))

    def add_with_default(self, number: int) -> None:
        """Add a column whose older rows read a default."""
        self._evolve(lambda change: change.add_column(self._free(number), StringType(), default_value="d"))

    def drop(self, number: int) -> None:
        """Drop a column."""
        if name := self._choose(number):
            self._evolve(lambda change: change.delete_column(name))

    def drop_and_add(self, number: int) -> None:
        """Drop a column, and add another one of its name."""
        if name := self._choose(number):
            self._evolve(lambda change: change.delete_column(name))
            self._evolve(lambda change: change.add_column(name, StringType()))

    def rename(self, number: int) -> None:
        """Rename a column."""
        if name := self._choose(number):
            self._evolve(lambda change: change.rename_column(name, self._free(number)))

    def exchange(self, number: int) -> None:
        """Let two columns exchange their names."""
        names = self.names
        if len(names) > 1:
            first, second = names[number % len(names)], names[(number + 1) % len(names)]
            for old, new in ((first, "other"), (second, first), ("other", second)):
                self._evolve(lambda change, old=old, new=new: change.rename_column(old, new))

    def widen(self, _number: int) -> None:
        """Let the first column of short numbers hold long ones."""
        field = next((each for each in self.table.schema().fields if isinstance(each.field_type, IntegerType)), None)
        if field is not None:
            self._evolve(lambda change: change.update_column(field.name, LongType()))

    def move(self, number: int) -> None:
        """Move a column to the front."""
        if name := self._choose(number):
            self._evolve(lambda change: change.move_first(name))

    def document(self, number: int) -> None:
        """Describe a column, which changes no row."""
        if name := self._choose(number):
            self._evolve(lambda change: change.update_column(name, doc=f"note {number}"))

    def add_part(self, number: int) -> None:
        """Add a field to a struct."""
        if name := self._find_struct():
            self._evolve(lambda change: change.add_column((name, self._free(number)), DoubleType()))

    def rename_part(self, number: int) -> None:
        """Rename a field of a struct."""
        if name := self._find_struct():
            part = self.table.schema().find_field(name).field_type.fields[0].name
            self._evolve(lambda change: change.rename_column((name, part), self._free(number)))

    def _find_struct(self) -> str | None:
        return next((field.name for field in self.table.schema().fields if field.field_type.is_struct), None)

    def _evolve(self, change: Callable[[Any], object]) -> None:
        with self.table.update_schema() as update:
            change(update)

    def _choose(self, number: int) -> str | None:
        names = self.names
        return names[number % len(names)] if names else None

    def _free(self, number: int) -> str:
        """Return a name that no column has now; earlier ones may have had it."""
        there = set(self.table.schema().column_names)
        return next(
            name
            for name in (f"n{(number + step) % 50}" for step in range(50))
            if not any(name in (other, other.rpartition(".")[2]) for other in there)
        )

    # --- maintenance ------------------------------------------------------------------------------

    def compact(self, _number: int) -> None:
        """Write all files as one, which changes no row."""
        table = self.table
        files = data_files(table)
        if len(files) > 1:
            _compact(table, files)

    def expire(self, _number: int) -> None:
        """Let all snapshots but the newest expire."""
        table = self.table
        head = table.current_snapshot()
        old = [each.snapshot_id for each in table.metadata.snapshots if head and each.snapshot_id != head.snapshot_id]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    def roll_back(self, _number: int) -> None:
        """Set the table back to the snapshot before."""
        table = self.table
        head = table.current_snapshot()
        parent = head.parent_snapshot_id if head else None
        if parent is not None and table.metadata.snapshot_by_id(parent) is not None:
            with table.manage_snapshots() as change:
                change.rollback_to_snapshot(parent)

    def restore_columns(self, number: int) -> None:
        """Make an earlier schema the current one, whose columns read their old values."""
        table = self.table
        now = {field.field_id: field.field_type for field in table.schema().fields}
        earlier = [
            schema.schema_id
            for schema in table.metadata.schemas
            if all(now.get(field.field_id, field.field_type) == field.field_type for field in schema.fields)
        ]
        requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
        updates = (SetCurrentSchemaUpdate(schema_id=earlier[number % len(earlier)]),)
        table.catalog.commit_table(table, requirements, updates)


class _Compaction(FileReplacement):
    """Files in the place of others with the same rows, as Spark's maintenance commits them."""

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summary = super()._summary(snapshot_properties or {})
        return Summary(Operation.REPLACE, **summary.additional_properties)


def _compact(table: Table, files: Sequence[Any]) -> None:
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    transaction = table.transaction()
    rows = table.scan().to_arrow()
    producer = _Compaction(operation=Operation.OVERWRITE, transaction=transaction, io=table.io)
    for file in files:
        producer.delete_data_file(file)
    for file in _dataframe_to_data_files(table.metadata, rows, table.io):
        producer.append_data_file(file)
    producer.commit()
    transaction.commit_transaction()


def _draw(kind: pa.DataType, key: int) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _draw(field.type, key) for field in kind}
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return key * 10
    return f"v{key}"


class IncrementalHistory:
    """Two inputs, and two outputs that are built from them step by step."""

    def __init__(self, stack: Stack, name: str, source: str = LIGHT, *, seconds: float = 60) -> None:
        self._stack = stack
        self._seconds = seconds
        self.folder = f"/shop/{name}"
        self.inputs = {side: InputHistory(stack, f"{self.folder}/{side}") for side in SIDES}
        for each in self.inputs.values():
            each.append(1)
        published = stack.commit({f"pipelines/{name}.py": source.replace("FOLDER", self.folder)})
        assert published["published"]["status"] == "published", published

    def go(self, steps: Iterable[Step]) -> None:
        """Build, take the steps with the builds among them, and build again."""
        self.build()
        for kind, side, number in steps:
            print(f"step {kind} {side} {number}")
            if kind == "build":
                self.build()
            else:
                getattr(self.inputs[side], kind)(number)
        self.build()

    def build(self) -> dict[str, Any]:
        """Build both outputs and compare them with what a full build would give."""
        paths = [f"{self.folder}/{name}" for name in ("both", "followed")]
        build = self._stack.build(*paths, seconds=self._seconds)
        logs = {job["function"].partition(":")[2]: self._stack.log(job["id"]) for job in build["jobs"]}
        assert build["state"] == "COMPLETED", logs
        parts = [
            rows.rename_columns([f"{side}_{name}" for name in rows.column_names])
            for side, rows in ((side, self.inputs[side].rows()) for side in SIDES)
        ]
        self._check("both", pa.concat_tables(parts, promote_options="default"), logs)
        self._check("followed", self.inputs["left"].rows(), logs)
        return {"build": build, "logs": logs}

    def _check(self, name: str, wanted: pa.Table, logs: dict[str, str]) -> None:
        found = self._stack.load(f"{self.folder}/{name}").scan().to_arrow()
        log = logs.get(name, "fresh")
        # Columns that came later are the last ones.
        assert sorted(found.column_names) == sorted(wanted.column_names), f"{name}: {found.column_names}\n{log}"
        found = found.select(wanted.column_names)
        assert _types(found) == _types(wanted), f"{name}\n{log}"
        assert _bag(found) == _bag(wanted), f"{name}: {found.to_pylist()} is not {wanted.to_pylist()}\n{log}"


def _types(rows: pa.Table) -> dict[str, str]:
    """Types by name; texts are text, however long their offsets."""
    return {field.name: str(field.type).replace("large_", "").replace(" not null", "") for field in rows.schema}


def _bag(rows: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in rows.to_pylist())


KINDS = sorted(
    name for name in vars(InputHistory) if not name.startswith("_") and name not in ("table", "names", "rows")
)


def any_steps(most: int) -> st.SearchStrategy[list[Step]]:
    """Steps of a history; every third on average is a build, and rows come more often than other things."""
    kinds = st.sampled_from(["build"] * (len(KINDS) // 2) + ["append"] * 3 + KINDS)
    return st.lists(st.tuples(kinds, st.sampled_from(SIDES), st.integers(0, 9)), min_size=3, max_size=most)
