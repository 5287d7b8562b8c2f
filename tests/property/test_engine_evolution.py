"""Diffs across schema changes, partition changes, format versions and branches, against the brute-force oracle."""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)

from tests.factories import engine as tables
from tests.property import engine_oracle as oracle

if TYPE_CHECKING:
    from pyiceberg.table import Table

NAN = float("nan")
TYPES: dict[str, tuple[PrimitiveType, list[Any]]] = {
    "int": (IntegerType(), [None, 0, 1, 7, -3]),
    "long": (LongType(), [None, 0, 1, 7, 2**40]),
    "float": (FloatType(), [None, 0.0, 0.5, NAN, 1.0]),
    "double": (DoubleType(), [None, 0.0, 0.5, NAN, 1.0, 7.0]),
    "string": (StringType(), [None, "", "1", "7", "0.5", "NaN", "2000-01-01", "x"]),
    "date": (DateType(), [None, dt.date(2000, 1, 1), dt.date(1969, 1, 1)]),
}
WIDER = {"int": "long", "float": "double"}
NAMES = ["v", "w", "x"]


@dataclass
class Model:
    """What the table should hold: rows by field id, and the columns of each snapshot."""

    rows: list[dict[int, Any]] = field(default_factory=list)
    columns: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Field id → name and kind."""
    states: list[tuple[int | None, int, list[dict[int, Any]], dict[int, tuple[str, str]]]] = field(default_factory=list)

    def note(self, table: Table) -> None:
        schema_id = table.metadata.current_schema_id
        self.states.append((tables.snapshot_of(table), schema_id, list(self.rows), dict(self.columns)))


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "overwrite", "add", "drop", "rename", "widen", "retype", "partition", "delete", "keep"]
        ),
        st.integers(0, 2),
        st.sampled_from(sorted(TYPES)),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=5),
    ),
    min_size=2,
    max_size=7,
)


def build(root: Path, version: str, history: list[Any]) -> tuple[Table, Model]:
    table = tables.make_table(
        root,
        Schema(NestedField(1, "k", LongType()), NestedField(2, "v", IntegerType())),
        properties={"format-version": version},
    )
    model = Model(columns={1: ("k", "long"), 2: ("v", "int")})
    model.note(table)
    for step, which, kind, given_rows in history:
        apply(table, model, step, which, kind, given_rows)
        model.note(table)
    return table, model


def apply(table: Table, model: Model, step: str, which: int, kind: str, given_rows: list[Any]) -> None:
    name = NAMES[which]
    found = next((i for i, (n, _) in model.columns.items() if n == name), None)
    if step in {"append", "overwrite"}:
        rows = [fill(model, values) for values in given_rows]
        content = tables.arrow_rows(table, [{model.columns[i][0]: v for i, v in row.items()} for row in rows])
        (table.append if step == "append" else table.overwrite)(content)
        model.rows = rows if step == "overwrite" else model.rows + rows
    elif step == "delete" and model.rows:
        table.delete(f"k = {which}")
        model.rows = [row for row in model.rows if row[1] != which]
    elif step == "partition":
        with table.update_spec() as update:
            names = {f.name for f in table.spec().fields}
            if "p" in names:
                update.remove_field("p")
            else:
                update.add_field("k", IdentityTransform(), "p")
    elif step in {"add", "drop", "rename", "widen", "retype"}:
        evolve(table, model, step, name, found, kind)


def evolve(table: Table, model: Model, step: str, name: str, found: int | None, kind: str) -> None:
    if step == "add" and found is None:
        with table.update_schema() as update:
            update.add_column(name, TYPES[kind][0])
        model.columns[table.schema().find_field(name).field_id] = (name, kind)
        for row in model.rows:
            row.setdefault(table.schema().find_field(name).field_id, None)
    elif step == "drop" and found is not None:
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(name)
        del model.columns[found]
    elif step == "rename" and found is not None:
        free = next((n for n in NAMES if n not in {m for m, _ in model.columns.values()}), None)
        if free is not None:
            with table.update_schema() as update:
                update.rename_column(name, free)
            model.columns[found] = (free, model.columns[found][1])
    elif step == "widen" and found is not None and model.columns[found][1] in WIDER:
        wider = WIDER[model.columns[found][1]]
        with table.update_schema() as update:
            update.update_column(name, TYPES[wider][0])
        model.columns[found] = (name, wider)
    elif step == "retype" and found is not None:
        evolve(table, model, "drop", name, found, kind)
        evolve(table, model, "add", name, None, kind)


def fill(model: Model, values: tuple[int, ...]) -> dict[int, Any]:
    row: dict[int, Any] = {}
    for place, (field_id, (name, kind)) in enumerate(model.columns.items()):
        pool = TYPES[kind][1]
        row[field_id] = values[0] if name == "k" else pool[values[min(place, 3)] % len(pool)]
    return row


def text(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind in {"float", "double"}:
        return "NaN" if value != value else repr(value + 0.0)  # noqa: PLR0124 - NaN
    return str(value)


def same_form(value: Any, kind: str, other: str) -> Any:
    """A value in the form in which a pair of columns is compared."""
    numbers = {"int", "long", "float", "double"}
    if kind == other or (kind in numbers and other in numbers):
        return float(value) if isinstance(value, int) else value
    return text(value, kind)


def pairs_of(old: dict[int, tuple[str, str]], new: dict[int, tuple[str, str]]) -> list[tuple[int, int]]:
    found = [(i, i) for i in new if i in old]
    taken = {i for i, _ in found}
    rest = {name: i for i, (name, _) in old.items() if i not in taken}
    return [*found, *((rest[name], i) for i, (name, _) in new.items() if i not in taken and name in rest)]


def check(root: Path, table: Table, old: Any, new: Any) -> None:
    pairs = pairs_of(old[3], new[3])
    kinds = [(old[3][left][1], new[3][right][1]) for left, right in pairs]
    names = [str(place) for place in range(len(pairs))]
    before = [{n: same_form(row.get(p[0]), *k) for n, p, k in zip(names, pairs, kinds, strict=True)} for row in old[2]]
    after = [
        {n: same_form(row.get(p[1]), k[1], k[0]) for n, p, k in zip(names, pairs, kinds, strict=True)} for row in new[2]
    ]
    sides = [tables.side(table, end[0], end[1]) for end in (old, new)]
    plain = tables.diff(root, *sides)
    counted = oracle.net(before, after, names)
    assert totals(counted) == (plain["inserted"], plain["deleted"], 0)
    wanted = oracle.by_key(before, after, ["0"], names)
    keyed = tables.diff(root, *sides, key=["k"])
    if wanted is None:
        assert keyed["key_trouble"]["kind"] == "duplicates"
        return
    assert keyed["mode"] == "identifier"
    assert totals(wanted) == (keyed["inserted"], keyed["deleted"], keyed["updated"])
    assert changed_keys(wanted) == sorted((row["change"], str(row["k0"])) for row in keyed["rows"])


def totals(counted: Any) -> tuple[int, int, int]:
    return tuple(  # type: ignore[return-value]
        sum(count for (change, _, _), count in counted.items() if change == wanted)
        for wanted in ("inserted", "deleted", "updated")
    )


def changed_keys(wanted: Any) -> list[tuple[str, str]]:
    return sorted((change, str(int((old or new)[0][1]))) for change, old, new in wanted)


@settings(max_examples=20)
@given(st.sampled_from(["1", "2"]), steps)
def test_diff_follows_columns_through_schema_and_partition_changes(version: str, history: Any) -> None:
    with tempfile.TemporaryDirectory() as path:
        table, model = build(Path(path), version, history)
        last = len(model.states) - 1
        for before, after in {(0, last), (max(0, last - 1), last), (last, last // 2)}:
            check(Path(path), table, model.states[before], model.states[after])


def test_decimal_widening_compares_by_value(tmp_path: Path) -> None:
    from decimal import Decimal

    table = tables.make_table(tmp_path, Schema(NestedField(1, "k", LongType()), NestedField(2, "v", DecimalType(5, 2))))
    table.append(tables.arrow_rows(table, [{"k": 1, "v": Decimal("1.50")}, {"k": 2, "v": Decimal("2.00")}]))
    before = tables.side(table, tables.snapshot_of(table), 0)
    with table.update_schema() as update:
        update.update_column("v", DecimalType(9, 2))
    table.overwrite(tables.arrow_rows(table, [{"k": 1, "v": Decimal("1.50")}, {"k": 2, "v": Decimal("2.01")}]))
    after = tables.side(table, tables.snapshot_of(table), 1)
    before = type(before)(table.metadata_location, before.snapshot_id, 0)
    result = tables.diff(tmp_path, before, after, key=["k"])
    assert (result["updated"], result["unchanged"]) == (1, 1)
