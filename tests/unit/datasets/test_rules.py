"""The rules of datasets, without a database."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.encoding import encode_row, encode_value
from webapp.core.errors import Conflict, InvalidInput
from webapp.datasets.rules import ancestry, schemas, snippets, summaries
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState

PARENTS = {"master": None, "a": "master", "b": "a", "c": "master", "dev": None}


def test_transactions_are_closed_once() -> None:
    rules.check_transition(transaction="t", state=TransactionState.OPEN, to=TransactionState.COMMITTED)
    rules.check_transition(transaction="t", state=TransactionState.OPEN, to=TransactionState.ABORTED)
    for state in (TransactionState.COMMITTED, TransactionState.ABORTED):
        for to in (TransactionState.OPEN, TransactionState.COMMITTED, TransactionState.ABORTED):
            with pytest.raises(Conflict):
                rules.check_transition(transaction="t", state=state, to=to)


def test_types() -> None:
    assert rules.check_type("APPEND") == "APPEND"
    with pytest.raises(InvalidInput, match="SNAPSHOT, APPEND, UPDATE, DELETE"):
        rules.check_type("append")


@pytest.mark.parametrize(
    ("operations", "type_"),
    [({"append"}, "APPEND"), ({"overwrite"}, "UPDATE"), ({"delete"}, "DELETE"), ({"replace"}, "UPDATE"),
     ({"append", "delete"}, "UPDATE"), (set(), "UPDATE")],
)  # fmt: skip
def test_type_of_a_plain_commit(operations: set[str], type_: str) -> None:
    assert rules.type_of(operations, is_replaced=False) == type_
    assert rules.type_of(operations, is_replaced=True) == "SNAPSHOT"


@pytest.mark.parametrize(
    ("stated", "operations", "recorded"),
    [("APPEND", {"append"}, "APPEND"), ("APPEND", {"overwrite"}, "UPDATE"), ("APPEND", {"delete"}, "DELETE"),
     ("APPEND", set(), "APPEND"), ("DELETE", {"delete"}, "DELETE"), ("DELETE", {"append"}, "APPEND"),
     ("UPDATE", {"append"}, "UPDATE"), ("SNAPSHOT", {"append"}, "APPEND"), ("SNAPSHOT", {"overwrite"}, "UPDATE"),
     ("SNAPSHOT", set(), "SNAPSHOT")],
)  # fmt: skip
def test_a_transaction_is_recorded_as_what_it_was(stated: str, operations: set[str], recorded: str) -> None:
    assert rules.true_type(stated, operations, is_replaced=False, keeps_rows=True) == recorded


def test_what_replaced_everything_is_a_snapshot() -> None:
    for stated in ("SNAPSHOT", "APPEND", "DELETE"):
        assert rules.true_type(stated, {"append"}, is_replaced=True, keeps_rows=False) == "SNAPSHOT"
        assert rules.true_type(stated, set(), is_replaced=True, keeps_rows=False) == "SNAPSHOT"
    assert rules.true_type("SNAPSHOT", {"append"}, is_replaced=False, keeps_rows=False) == "SNAPSHOT"


def test_only_a_closed_branch_may_start_another() -> None:
    rules.check_may_open(dataset="/d/x", branch="b", standing=rules.EMPTY)
    rules.check_may_open(dataset="/d/x", branch="b", standing=rules.Standing("t", TransactionState.COMMITTED))
    with pytest.raises(Conflict, match="Transaction t is open on /d/x, branch b"):
        rules.check_may_open(dataset="/d/x", branch="b", standing=rules.Standing("t", TransactionState.OPEN))


def test_time_never_runs_backwards_on_a_branch() -> None:
    late, early = dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    assert rules.not_before(early, late) == late
    assert rules.not_before(late, early) == late
    assert rules.not_before(early, None) == early


def test_ancestors() -> None:
    assert ancestry.list_ancestors(PARENTS, "b") == ("a", "master")
    assert ancestry.list_ancestors(PARENTS, "unknown") == ()
    assert ancestry.list_ancestors({"x": "y", "y": "x"}, "x") == ("y", "x")


def test_first_existing() -> None:
    assert ancestry.first_existing(("x", "a", "master"), PARENTS) == "a"
    assert ancestry.first_existing(("x",), PARENTS) is None


@pytest.mark.parametrize("chain", [("b", "a", "master"), ("b", "master"), ("x", "y"), ("b", "b", "a"), ("dev",), ()])
def test_fitting_chains(chain: tuple[str, ...]) -> None:
    ancestry.check_chain(dataset="/d/x", chain=chain, parents=PARENTS)


@pytest.mark.parametrize("chain", [("a", "b"), ("b", "c"), ("b", "x", "c"), ("dev", "master"), ("b", "master", "a")])
def test_contradicting_chains(chain: tuple[str, ...]) -> None:
    with pytest.raises(Conflict) as refused:
        ancestry.check_chain(dataset="/d/x", chain=chain, parents=PARENTS)
    assert refused.value.code == "incompatible_ancestry"


def test_tree_and_its_rails() -> None:
    tree = ancestry.arrange_tree(PARENTS, first="master")

    assert tree == [("master", 0), ("a", 1), ("b", 2), ("c", 1), ("dev", 0)]
    assert ancestry.draw_rails(tree) == [(), ("mid",), ("pass", "end"), ("end",), ()]


def test_a_tree_may_be_as_deep_as_it_likes() -> None:
    parents = {"b0": None, **{f"b{number}": f"b{number - 1}" for number in range(1, 5000)}}

    assert ancestry.arrange_tree(parents, first="b0") == [(f"b{number}", number) for number in range(5000)]


@st.composite
def forests(draw: st.DrawFn) -> dict[str, str | None]:
    names: list[str] = []
    parents: dict[str, str | None] = {}
    for number in range(draw(st.integers(1, 8))):
        parents[f"b{number}"] = draw(st.sampled_from([None, *names]))
        names.append(f"b{number}")
    return parents


@given(forests())
def test_tree_shows_every_branch_below_its_parent(parents: dict[str, str | None]) -> None:
    tree = ancestry.arrange_tree(parents, first="b0")
    places = {name: place for place, (name, _) in enumerate(tree)}
    depths = dict(tree)

    assert set(places) == set(parents)
    for name, parent in parents.items():
        assert depths[name] == (0 if parent is None else depths[parent] + 1)
        assert parent is None or places[parent] < places[name]
    assert [len(rail) for rail in ancestry.draw_rails(tree)] == [depth for _, depth in tree]


def snapshot(number: int, parent: int | None, **summary: int) -> dict[str, Any]:
    texts = {name.replace("_", "-"): str(value) for name, value in summary.items()}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": texts}


def summarize(snapshots: list[dict[str, Any]], *, before: int | None, after: int | None) -> dict[str, int]:
    return summaries.summarize(summaries.find_way(snapshots, before=before, after=after))


def test_summary_adds_up_what_happened_since() -> None:
    line = [
        snapshot(1, None, total_records=10, added_records=10),
        snapshot(2, 1, total_records=15, added_records=5),
        snapshot(3, 2, total_records=12, deleted_records=3, total_data_files=4, total_files_size=99),
    ]

    assert summarize(line, before=1, after=3) == {
        "rows": 12, "files": 4, "bytes": 99, "added": 5, "deleted": 3,
    }  # fmt: skip
    assert summarize(line, before=3, after=3)["added"] == 0
    assert summarize(line, before=None, after=None) == dict.fromkeys(("rows", "files", "bytes", "added", "deleted"), 0)


def test_rows_that_position_deletes_took_are_gone() -> None:
    line = [
        snapshot(1, None, total_records=10, added_records=10),
        snapshot(2, 1, total_records=10, added_position_deletes=4, total_position_deletes=4),
        snapshot(3, 2, total_records=6, added_records=6, deleted_records=10, removed_position_deletes=4),
    ]
    marked = summarize(line, before=1, after=2)
    assert (marked["rows"], marked["added"], marked["deleted"]) == (6, 0, 4)
    compacted = summarize(line, before=2, after=3)
    assert (compacted["rows"], compacted["added"], compacted["deleted"]) == (6, 6, 6)


def test_what_a_rollback_takes_back_counts_the_other_way_round() -> None:
    line = [
        snapshot(1, None, total_records=10, added_records=10),
        snapshot(2, 1, total_records=15, added_records=5),
        snapshot(3, 2, total_records=12, deleted_records=3),
        snapshot(4, 1, total_records=11, added_records=1),
    ]
    summary = summarize(line, before=3, after=1)
    assert (summary["rows"], summary["added"], summary["deleted"]) == (10, 3, 5)
    summary = summarize(line, before=3, after=4)
    assert (summary["rows"], summary["added"], summary["deleted"]) == (11, 4, 5)
    way = summaries.find_way(line, before=3, after=4)
    assert [[one["snapshot-id"] for one in part] for part in (way.done, way.undone)] == [[4], [3, 2]]


def test_replaced_rows_count_as_deleted() -> None:
    lines = [
        snapshot(1, None, total_records=10, added_records=10),
        snapshot(2, None, total_records=4, added_records=4),
    ]

    assert summaries.find_way(lines, before=1, after=2).is_replaced
    assert summaries.find_way(lines, before=1, after=None).is_replaced
    assert not summaries.find_way(lines, before=None, after=2).is_replaced
    summary = summarize(lines, before=1, after=2)
    assert (summary["rows"], summary["added"], summary["deleted"]) == (4, 4, 10)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, None), (True, True), ("x", "x"), (7, 7), (2**53, 2**53), (2**53 + 1, str(2**53 + 1)),
        (-(2**60), str(-(2**60))), (1.5, 1.5), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"), (decimal.Decimal("1E+3"), "1000"), (decimal.Decimal("1.50"), "1.50"),
        (decimal.Decimal("NaN"), "NaN"), (b"\x00\xff", "AP8="), (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.time(3, 4), "03:04:00"), (dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "2026-01-02T03:00:00+00:00"),
        ([1, None, 2**60], [1, None, str(2**60)]), ({"a": {"b": b"x"}}, {"a": {"b": "eA=="}}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"), (dt.timedelta(days=1), "1 day, 0:00:00"),
    ],
)  # fmt: skip
def test_encoding(value: Any, encoded: Any) -> None:
    assert encode_value(value) == encoded
    assert encode_row({"column": value}) == {"column": encoded}


def field(number: int, name: str, kind: Any = "long", *, required: bool = False) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": required}


def test_columns_with_nested_fields() -> None:
    point = {"type": "struct", "fields": [field(3, "x", "double"), field(4, "y", "double")]}
    schema = {"fields": [
        field(1, "id", required=True),
        field(2, "at", point),
        field(5, "tags", {"type": "list", "element-id": 6, "element": "string", "element-required": False}),
        field(7, "points", {"type": "list", "element-id": 8, "element": point, "element-required": True}),
        field(9, "by", {"type": "map", "key-id": 10, "key": "string", "value-id": 11, "value": point,
                        "value-required": False}),
    ]}  # fmt: skip

    assert [(column.depth, column.name, column.type) for column in schemas.list_columns(schema)] == [
        (0, "id", "long"), (0, "at", "struct"), (1, "x", "double"), (1, "y", "double"), (0, "tags", "list<string>"),
        (0, "points", "list"), (1, "element", "struct"), (2, "x", "double"), (2, "y", "double"),
        (0, "by", "map"), (1, "key", "string"), (1, "value", "struct"), (2, "x", "double"), (2, "y", "double"),
    ]  # fmt: skip
    assert schemas.type_text(schema["fields"][4]["type"]) == "map<string, struct<x: double, y: double>>"
    assert schemas.name_fields([schema])[3] == "x"


def test_schemas_are_described_by_what_they_add() -> None:
    first = {"schema-id": 0, "fields": [field(1, "a"), field(2, "b")]}
    wider = {"schema-id": 1, "fields": [field(1, "a"), field(2, "b"), field(3, "c", "string", required=True)]}
    other = {"schema-id": 2, "fields": [field(1, "a", "int")]}
    empty = {"schema-id": 3, "fields": []}
    many = {"schema-id": 4, "fields": [field(10 + n, f"c{n}") for n in range(10)]}

    def say(schema: dict[str, Any], *earlier: dict[str, Any]) -> str:
        return "".join(part.text for part in schemas.describe_schema(schema, earlier))

    assert say(first) == "a, b"
    assert say(wider, first) == "schema 0 and c string, required (field 3)"
    assert say(other, first, wider) == "a"
    assert say(empty, first) == "no columns"
    assert say(many) == "c0, c1, c2, c3, c4, c5, c6, c7 and 2 more"


def test_specs_and_orders() -> None:
    names = {1: "day", 2: "carrier"}
    spec = {"fields": [{"source-id": 1, "transform": "month"}, {"source-id": 2, "transform": "identity"}]}
    order = {"fields": [
        {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"},
        {"source-id": 2, "transform": "bucket[4]", "direction": "desc", "null-order": "nulls-first"},
        {"source-ids": [9], "transform": "identity", "direction": "asc", "null-order": "nulls-first"},
    ]}  # fmt: skip

    assert schemas.describe_spec(spec, names) == "month(day), carrier"
    assert schemas.describe_spec({"fields": []}, names) == "unpartitioned"
    assert schemas.describe_order(order, names) == "day, bucket[4](carrier) desc nulls first, field 9"
    assert schemas.describe_order({"fields": []}, names) == "unsorted"


@pytest.mark.parametrize("branch", ["master", "feature/x"])
def test_snippets_are_programs(branch: str) -> None:
    for snippet in snippets.write_snippets(host="http://h:8000", table="nyc.2013-delays.daily", branch=branch):
        compile(snippet.code, snippet.title, "exec")
        assert ("X-PLTR-Branch" in snippet.code) == (branch != "master")
        assert "vended" not in snippet.code
    for snippet in snippets.write_snippets(host="http://h", table="a.b", branch=branch, with_s3=True):
        compile(snippet.code, snippet.title, "exec")
        assert ("aws-bundle" in snippet.code) == ("vended-credentials" in snippet.code) == (snippet.id == "spark")
    assert "`2013-delays`" in snippets.write_snippets(host="h", table="nyc.2013-delays.daily", branch=branch)[0].code
