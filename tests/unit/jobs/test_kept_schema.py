"""What a table says of its columns stays when their rows are replaced."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from jobs.changelog import apply_changelog
from jobs.engine.write.schemas import SchemaError
from jobs.engine.write.writer import evolve_schema, write_table
from tests.factories.forks import in_child
from tests.fakes.jobs_catalog import MemoryCatalog

pytestmark = pytest.mark.slow
COLUMNS = (
    NestedField(1, "id", IntegerType(), required=True, doc="who"),
    NestedField(2, "day", StringType(), required=True, doc="when"),
    NestedField(3, "v", LongType(), doc="how much"),
    NestedField(4, "place", StructType(NestedField(5, "city", StringType(), required=True)), required=True),
)
ROW: dict[str, Any] = {"id": 1, "day": "mo", "v": 5, "place": {"city": "ulm"}}


def run(folder: Path, act: Callable[[Table], Any]) -> Any:
    """Act on a table with everything a table can say, in a process of its own."""

    def work() -> Any:
        table = MemoryCatalog(folder).load_table("x.t")
        evolve_schema(table, COLUMNS, is_append=True)
        with table.update_schema(allow_incompatible_changes=True) as update:
            for path in ("id", "day", "place", ("place", "city")):
                update.update_column(path, required=True)
            update.set_identifier_fields("id", "day", "place.city")
        with table.update_spec() as spec:
            spec.add_field("day", IdentityTransform(), "day_part")
        transaction = table.transaction()
        order = SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1)
        transaction._apply((AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=-1)))
        transaction.set_properties({"comment": "counted by hand"})
        transaction.commit_transaction()
        write(table, [ROW], is_append=True)
        return act(table)

    return in_child(work)


def write(table: Table, rows: list[dict[str, Any]], *, is_append: bool) -> None:
    data = pa.Table.from_pylist(rows)
    write_table(table, data.schema, data.to_batches(), is_append=is_append)


def names_of(schema: Schema) -> set[str]:
    return {str(schema.find_column_name(number)) for number in schema.identifier_field_ids}


@pytest.mark.parametrize("is_append", [False, True])
def test_writing_keeps_what_nobody_declares(tmp_path: Path, is_append: bool) -> None:
    def act(table: Table) -> Any:
        before = table.metadata
        write(table, [{**ROW, "id": 2}, {**ROW, "id": 3, "day": "tu"}], is_append=is_append)
        after = table.metadata
        assert after.schema() == before.schema()
        assert after.current_schema_id == before.current_schema_id
        assert (after.spec(), after.sort_order()) == (before.spec(), before.sort_order())
        assert after.properties == before.properties
        return sorted(table.scan().to_arrow()["id"].to_pylist())

    assert run(tmp_path, act) == ([1, 2, 3] if is_append else [2, 3])


def test_replacing_from_a_changelog_keeps_identifiers(tmp_path: Path) -> None:
    def act(table: Table) -> Any:
        before = table.schema()
        changes = pa.Table.from_pylist([{**ROW, "id": 9, "_change_type": "INSERT"}])
        apply_changelog(table, changes, ["id"], from_empty=True)
        return table.schema() == before, table.scan().to_arrow()["id"].to_pylist()

    assert run(tmp_path, act) == (True, [9])


def test_evolving_keeps_identifiers_of_columns_that_stay(tmp_path: Path) -> None:
    """One is widened, one renamed by case, one new column comes and an identifier goes."""

    def act(table: Table) -> Any:
        row = {"ID": 2**40, "day": "we", "new": 1.5}
        write(table, [row], is_append=False)
        schema = table.schema()
        widened = schema.find_field("ID")
        assert (widened.field_id, widened.doc, widened.required) == (1, "who", True)
        assert isinstance(widened.field_type, LongType)
        return names_of(schema), [field.name for field in schema.fields], table.metadata.properties["comment"]

    assert run(tmp_path, act) == ({"ID", "day"}, ["ID", "day", "new"], "counted by hand")


def test_widening_by_append_keeps_identifiers(tmp_path: Path) -> None:
    def act(table: Table) -> Any:
        write(table, [{**ROW, "id": 2**40}], is_append=True)
        return names_of(table.schema()), str(table.schema().find_type("id")), table.schema().find_field("id").doc

    assert run(tmp_path, act) == ({"id", "day", "place.city"}, "long", "who")


def test_append_fills_what_it_leaves_out_by_the_write_default(tmp_path: Path) -> None:
    """Old rows keep the initial default, also when another column is widened; a column that is written has its NULLs."""
    day, at = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 4)
    kinds: dict[str, tuple[PrimitiveType, Any, Any]] = {
        "n": (IntegerType(), 5, 7),
        "text": (StringType(), "old", "new"),
        "price": (DecimalType(9, 2), Decimal("0.10"), Decimal("1.20")),
        "day": (DateType(), dt.date(1, 1, 1), day),
        "at": (TimestampType(), dt.datetime(1970, 1, 1), at),
        "raw": (BinaryType(), b"\0", b"\1"),
        "code": (UUIDType(), uuid.UUID(int=1), uuid.UUID(int=2)),
    }
    key = NestedField(1, "id", LongType())
    added = [
        NestedField(number, name, kind, required=name == "n", initial_default=initial, write_default=written)
        for number, (name, (kind, initial, written)) in enumerate(kinds.items(), 2)
    ]

    def work() -> Any:
        table = MemoryCatalog(tmp_path).make_table("x.t", Schema(key), version=3)
        write(table, [{"id": 1}], is_append=True)
        transaction = table.transaction()
        schema = Schema(key, *added, schema_id=1)
        transaction._stage((AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=-1)), ())
        transaction.commit_transaction()
        write(table, [{"id": 2}], is_append=True)
        write(table, [{"id": 2**40, "n": 2**40, "text": None}], is_append=True)
        change = {"id": 4, "_change_type": "INSERT"}
        apply_changelog(table, pa.Table.from_pylist([change]), ["id"], from_empty=False)
        fields = {field.name: field for field in table.schema().fields}
        assert isinstance(fields["n"].field_type, LongType)
        assert {
            name: (field.initial_default, field.write_default) for name, field in fields.items() if name != "id"
        } == {name: (initial, written) for name, (_, initial, written) in kinds.items()}
        return table.scan().to_arrow().sort_by("id").to_pylist()

    old, new = ({name: kind[place] for name, kind in kinds.items()} for place in (1, 2))
    wide = {**new, "n": 2**40, "text": None}
    assert in_child(work) == [{"id": 1, **old}, {"id": 2, **new}, {"id": 4, **new}, {"id": 2**40, **wide}]


@pytest.mark.parametrize("is_append", [False, True])
@pytest.mark.parametrize(
    ("row", "column"), [({**ROW, "id": None}, "id"), ({**ROW, "place": {"city": None}}, "place.city")]
)
def test_a_missing_value_is_refused_by_name(tmp_path: Path, row: dict[str, Any], column: str, is_append: bool) -> None:
    def act(table: Table) -> Any:
        with pytest.raises(SchemaError, match=f"column '{column}' is required in the table"):
            write(table, [ROW, row], is_append=is_append)
        return table.scan().to_arrow().num_rows

    assert run(tmp_path, act) == 1


def test_a_column_that_sorts_the_table_cannot_go(tmp_path: Path) -> None:
    def act(table: Table) -> Any:
        with pytest.raises(SchemaError, match="column 'id' sorts the table"):
            write(table, [{"day": "mo", "v": 5}], is_append=False)

    run(tmp_path, act)
