"""Who changed one row: every way of writing, against a walk that reads every snapshot whole."""

from __future__ import annotations

import base64
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from jobs.engine.compare.blame import find_blame
from jobs.engine.errors import InvalidRulesError
from jobs.entrypoints import blame
from jobs.protocol import BlameRequest, BlameStep, DiffResult, SideRef, read_message, write_message
from tests.factories import engine as tables
from tests.property.test_engine_diff import POOLS

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", StringType()))
KEYS = ("long", "int", "string", "binary", "decimal", "date", "timestamp", "timestamptz", "double", "boolean")


class History:
    """A table with one step for each write, however many snapshots that takes."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.heads: list[tuple[int | None, int]] = []

    def write(self, rows: list[dict[str, Any]], *, how: str = "overwrite") -> None:
        if how == "delete" and self.table.current_snapshot() and (files := tables.data_files(self.table)):
            self.table = tables.delete_positions(self.table, {files[0].file_path: [0]})
        elif how == "append":
            self.table.append(tables.arrow_rows(self.table, rows))
        else:
            self.table.overwrite(tables.arrow_rows(self.table, rows))
        self.note()

    def note(self) -> None:
        """End the step."""
        self.heads.append((tables.snapshot_of(self.table), self.table.metadata.current_schema_id))

    @property
    def steps(self) -> tuple[BlameStep, ...]:
        sides = [SideRef(self.table.metadata_location, *head) for head in self.heads]
        pairs = zip([None, *sides], sides, strict=False)
        return tuple(BlameStep(str(n), before, after) for n, (before, after) in enumerate(pairs))[::-1]


def ask(history: History, folder: Path, key: dict[str, str | None], **more: Any) -> dict[str, Any]:
    """Run the walk; the rows of each change are put into its summary."""
    folder.mkdir(parents=True, exist_ok=True)
    request = BlameRequest(more.pop("steps", history.steps), key, str(folder), str(folder / "result.json"), **more)
    summary = find_blame(request)
    for number, change in enumerate(summary["changes"]):
        for side in ("before", "after"):
            file = folder / f"{number}-{side}.parquet"
            change[f"{side}_rows"] = pq.read_table(file).to_pylist() if file.exists() else []
    return summary


def a_history(root: Path) -> History:
    """Insert two rows, carry both over, update one, add another, delete the first."""
    history = History(tables.make_table(root, SCHEMA))
    history.write([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    history.write([{"id": 2, "v": "b"}, {"id": 1, "v": "a"}])
    history.write([{"id": 1, "v": "x"}, {"id": 2, "v": "b"}])
    history.write([{"id": 30, "v": "c"}], how="append")
    history.table.delete(EqualTo("id", 1))
    history.note()
    return history


def test_a_row_from_its_insert_to_its_delete(tmp_path: Path) -> None:
    found = ask(a_history(tmp_path), tmp_path / "out", {"id": "1"})

    assert [(one["change"], one["changed"]) for one in found["changes"]] == [
        ("deleted", []),
        ("updated", ["v"]),
        ("inserted", []),
    ]
    assert found["changes"][0]["before_rows"] == [{"id": 1, "v": "x"}]
    assert found["changes"][0]["after_rows"] == []
    assert found["changes"][1]["before_rows"] == [{"id": 1, "v": "a"}]
    assert found["changes"][1]["after_rows"] == [{"id": 1, "v": "x"}]
    assert (found["next"], found["ended"]) == (None, "")


def test_files_whose_bounds_exclude_the_key_stay_unread(tmp_path: Path) -> None:
    history = History(tables.make_table(tmp_path, SCHEMA))
    for start in range(0, 100, 10):
        history.write([{"id": start + n, "v": "a"} for n in range(10)], how="append")

    found = ask(history, tmp_path / "out", {"id": "55"})

    assert len(found["changes"]) == 1
    assert found["files_read"] == 1


def test_the_walk_goes_on_where_its_time_ended(tmp_path: Path) -> None:
    history = a_history(tmp_path)
    steps = history.steps

    first = ask(history, tmp_path / "1", {"id": "1"}, time_limit_s=0.0)
    place = [one.transaction for one in steps].index(first["next"])
    rest = ask(history, tmp_path / "2", {"id": "1"}, steps=steps[place:])

    assert (first["looked_at"], place) == (1, 1)
    assert [one["change"] for one in [*first["changes"], *rest["changes"]]] == ["deleted", "updated", "inserted"]


def test_renamed_key_is_followed_and_an_added_column_is_no_change(tmp_path: Path) -> None:
    history = History(tables.make_table(tmp_path, SCHEMA))
    history.write([{"id": 1, "v": "a"}])
    with history.table.update_schema() as update:
        update.rename_column("id", "number").add_column("tax", LongType())
    history.write([{"number": 1, "v": "a", "tax": 5}])

    found = ask(history, tmp_path / "out", {"number": "1"})

    assert [one["change"] for one in found["changes"]] == ["inserted"]
    assert found["changes"][0]["after_rows"] == [{"id": 1, "v": "a"}]


def test_a_field_of_a_struct_is_a_key_under_every_name_it_had(tmp_path: Path) -> None:
    place = StructType(NestedField(3, "code", LongType()), NestedField(4, "text", StringType()))
    schema = Schema(NestedField(1, "place", place), NestedField(2, "v", StringType()))
    history = History(tables.make_table(tmp_path, schema))
    history.write([{"place": {"code": n, "text": "t"}, "v": "a"} for n in range(3)], how="append")
    history.write([{"place": {"code": n, "text": "t"}, "v": "a"} for n in range(3, 9)], how="append")
    with history.table.update_schema() as update:
        update.rename_column("place.code", "number").rename_column("place", "where")
    kept = [{"where": {"number": n, "text": "t"}, "v": "b" if n == 5 else "a"} for n in range(9)]
    history.write([*kept, {"where": None, "v": "n"}])

    found = ask(history, tmp_path / "out", {"where.number": "5"})
    assert [(one["change"], one["changed"]) for one in found["changes"]] == [("updated", ["v"]), ("inserted", [])]
    assert found["changes"][1]["after_rows"] == [{"place": {"code": 5, "text": "t"}, "v": "a"}]
    nothing = ask(history, tmp_path / "null", {"where.number": None})["changes"]
    assert [one["after_rows"] for one in nothing] == [[{"where": None, "v": "n"}]]
    with pytest.raises(InvalidRulesError, match="there are where, v. The fields of where are number, text."):
        ask(history, tmp_path / "a", {"where.code": "5"})
    with pytest.raises(InvalidRulesError, match="'x' is no long, which column 'where.number' holds"):
        ask(history, tmp_path / "b", {"where.number": "x"})


def test_a_change_of_ignored_columns_alone_is_none(tmp_path: Path) -> None:
    found = ask(a_history(tmp_path), tmp_path / "out", {"id": "1"}, ignore=("v",))

    assert [one["change"] for one in found["changes"]] == ["deleted", "inserted"]


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    history = a_history(tmp_path)
    with pytest.raises(InvalidRulesError, match="'nope' does not exist; there are id, v"):
        ask(history, tmp_path / "a", {"nope": "1"})
    with pytest.raises(InvalidRulesError, match="'x' is no long"):
        ask(history, tmp_path / "b", {"id": "x"})


def test_expired_history_ends_the_walk(tmp_path: Path) -> None:
    history = a_history(tmp_path)
    steps = [*history.steps[:2], BlameStep("gone", None, SideRef(history.table.metadata_location, 12345))]

    found = ask(history, tmp_path / "out", {"id": "1"}, steps=tuple(steps))

    assert (found["ended"], found["looked_at"], len(found["changes"])) == ("expired", 2, 1)


def test_the_entry_point_answers_and_refuses(tmp_path: Path) -> None:
    history = a_history(tmp_path)
    manifest, answer = tmp_path / "request.json", tmp_path / "result.json"
    for key, status, code in (({"id": "1"}, "ok", None), ({"id": "x"}, "failed", "bad_rules")):
        write_message(manifest, BlameRequest(history.steps, key, str(tmp_path), str(answer)))
        assert blame.main(str(manifest)) == (0 if status == "ok" else 1)
        result = read_message(DiffResult, answer)
        assert (result.status, result.code) == (status, code)
    assert json.loads((tmp_path / "summary.json").read_text())["looked_at"] == 5
    manifest.write_text("{}")
    assert blame.main(str(manifest)) == 2


# --- against a brute-force walk -------------------------------------------------------------------


def write_key(value: Any) -> str | None:
    """Return a value as the request writes it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def normal(row: dict[str, Any]) -> str:
    """Return a row as text, equal rows alike: NaN is NaN, and -0.0 is 0.0."""
    return repr([(name, value + 0 if isinstance(value, float) else value) for name, value in row.items()])


@st.composite
def writes(draw: st.DrawFn) -> tuple[str, list[tuple[str, list[dict[str, Any]]]], Any]:
    """Return the type of the key, what is written, and whose row is asked for."""
    kind = draw(st.sampled_from(KEYS))
    pool = POOLS[kind][1]
    row = st.fixed_dictionaries({"k": st.sampled_from(pool), "v": st.sampled_from([None, "a", "b"])})
    write = st.tuples(st.sampled_from(["append", "overwrite", "delete"]), st.lists(row, min_size=1, max_size=4))
    return kind, draw(st.lists(write, min_size=1, max_size=4)), draw(st.sampled_from(pool))


@settings(max_examples=15)
@given(writes())
@example(("double", [("append", [{"k": 0.0, "v": None}, {"k": float("nan"), "v": None}])], 0.0))
def test_blame_agrees_with_reading_every_snapshot(
    case: tuple[str, list[tuple[str, list[dict[str, Any]]]], Any],
) -> None:
    kind, written, wanted = case
    with tempfile.TemporaryDirectory() as name:
        schema = Schema(NestedField(1, "k", POOLS[kind][0]), NestedField(2, "v", StringType()))
        history = History(tables.make_table(Path(name), schema))
        for how, rows in written:
            history.write(rows, how=how)
        found = ask(history, Path(name) / "out", {"k": write_key(wanted)})
        assert [
            (one["transaction"], Counter(map(normal, one["before_rows"])), Counter(map(normal, one["after_rows"])))
            for one in found["changes"]
        ] == brute_force(history, wanted)


def brute_force(history: History, wanted: Any) -> list[tuple[str, Counter[str], Counter[str]]]:
    """Return what went and came in every step, from all rows of the key before and after it."""
    found = []
    for step in history.steps:
        before, after = (count_rows(history.table, side, wanted) for side in (step.before, step.after))
        if before != after:
            found.append((step.transaction, before - after, after - before))
    return found


def count_rows(table: Table, side: SideRef | None, wanted: Any) -> Counter[str]:
    """Count the rows of a key at one snapshot."""
    rows = table.scan(snapshot_id=side.snapshot_id).to_arrow().to_pylist() if side is not None else []
    return Counter(normal(row) for row in rows if repr(row["k"]) == repr(wanted) or row["k"] == wanted)
