"""No commit points a branch at files that the branch's schema cannot read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.catalog import NOW, append, change, field, head, make_table, schema, set_ref, set_schema
from webapp.catalog.rules.column_types import can_read
from webapp.catalog.rules.commits import CommitRequest, create_on_branch
from webapp.catalog.rules.errors import Invalid
from webapp.catalog.rules.iceberg import Metadata

ID = field(1, "id")


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def a_table(*fields: dict[str, Any]) -> Metadata:
    """One append on master, one on branch a and one on branch b, all with the same columns."""
    return append(append(append(make_table(ID, *fields)), "a"), "b")


def retyped(table: Metadata, *fields: dict[str, Any], branch: str | None = None, **summary: str) -> Metadata:
    """Another schema on a branch, and an append by it."""
    table = change(table, *set_schema(schema(ID, *fields)), branch=branch)
    return append(table, branch, summary={"operation": "append", **summary})


def a_wide_branch(**summary: str) -> Metadata:
    """Column v is int on master and branch a, long on branch b."""
    return retyped(a_table(field(2, "v", "int")), field(2, "v", "long"), branch="b", **summary)


def move(table: Metadata, name: str, number: int | None, branch: str | None = None) -> Metadata:
    assert number is not None
    return change(table, set_ref(name, number), branch=branch)


@pytest.mark.parametrize(
    ("name", "branch"),
    [
        ("a", None),
        ("main", "a"),
        ("a", "a"),
        ("a", "z"),
        ("main", None),
        ("master", "a"),
        ("new", None),
        ("new", "new"),
    ],
)
def test_a_branch_is_not_set_to_files_that_its_schema_cannot_read(name: str, branch: str | None) -> None:
    table = a_wide_branch()
    number = head(table, "b")
    stands = {"main": branch or "master"}.get(name, name)
    expected = (
        f"Branch {stands} cannot be set to snapshot {number}: column v is int on the branch and long in the snapshot's "
        "files. Change the column on the branch first, or in the same commit."
    )
    with pytest.raises(Invalid) as refusal:
        move(table, name, number, branch)
    assert str(refusal.value.detail) == expected


def test_a_branch_with_a_schema_that_reads_the_files_is_set_to_them() -> None:
    table = a_wide_branch()
    wide = set_schema(schema(ID, field(2, "v", "long")))
    number = head(table, "b") or 0
    assert head(move(change(table, *wide, branch="a"), "a", number), "a") == number
    assert head(change(table, *wide, set_ref("main", number), branch="a"), "a") == number
    assert head(change(table, set_ref("main", number), *wide, branch="a"), "a") == number
    tagged = change(table, set_ref("v1", number, "tag"))
    assert tagged["refs"]["v1"]["snapshot-id"] == number


def test_a_branch_goes_back_to_its_own_narrower_files() -> None:
    table = a_wide_branch()
    older = head(table) or 0
    back = move(table, "main", older, "b")
    assert head(back, "b") == older
    assert head(move(back, "main", head(table, "b"), "b"), "b") == head(table, "b")


def test_a_plain_client_s_rows_do_not_go_where_they_cannot_be_read() -> None:
    """Without the header rows are written by main's schema, whatever the branch's is."""
    table = retyped(a_table(field(2, "v", "int")), field(2, "v", "long"))
    with pytest.raises(Invalid, match="Branch a cannot be set to snapshot .*: column v is int"):
        append(table, ref="a")
    assert head(append(a_wide_branch(), ref="b"), "b") is not None


def test_older_files_count_as_long_as_a_snapshot_may_hold_them() -> None:
    kept = append(a_wide_branch(), ref="b", summary={"total-data-files": "3", "added-data-files": "1"})
    with pytest.raises(Invalid, match="column v is int on the branch and long"):
        move(kept, "a", head(kept, "b"))
    replaced = append(a_wide_branch(), ref="b", summary={"total-data-files": "1", "added-data-files": "1"})
    assert head(move(replaced, "a", head(replaced, "b")), "a") == head(replaced, "b")
    emptied = append(a_wide_branch(), ref="b", summary={"total-data-files": "0"})
    assert head(move(emptied, "a", head(emptied, "b")), "a") == head(emptied, "b")


def test_a_snapshot_that_wrote_no_file_holds_none_by_its_schema() -> None:
    table = a_wide_branch(**{"total-data-files": "2", "deleted-data-files": "1"})
    assert head(move(table, "a", head(table, "b")), "a") == head(table, "b")
    unclear = a_wide_branch(**{"total-data-files": "2", "added-data-files": "some"})
    with pytest.raises(Invalid, match="column v is int on the branch and long"):
        move(unclear, "a", head(unclear, "b"))


def test_what_a_branch_held_before_is_in_the_way_of_no_later_write() -> None:
    """A client may change a type against the rules of the format, and replace the files one after the other."""
    table = retyped(a_table(field(2, "v", "string")), field(2, "v", "int"), branch="a")
    after = append(append(table, "a"), "child", ref="main")
    assert head(after, "a") != head(table, "a")


def test_a_change_of_schema_alone_is_the_client_s_own_affair() -> None:
    narrow = set_schema(schema(ID, field(2, "v", "int")))
    table = a_table(field(2, "v", "long"))
    for branch in (None, "a", "child"):
        after = change(table, *narrow, branch=branch)
        assert head(after, branch or "master") == head(table, branch or "master")


def test_snapshots_without_a_known_schema_are_not_judged() -> None:
    table = a_wide_branch()
    last = {**table["snapshots"][-1]}
    for unknown in ({**last, "schema-id": 77}, {key: value for key, value in last.items() if key != "schema-id"}):
        foreign = {**table, "snapshots": [*table["snapshots"][:-1], unknown]}
        assert head(move(foreign, "a", last["snapshot-id"]), "a") == last["snapshot-id"]


def test_a_required_column_has_to_be_in_the_files() -> None:
    inner = struct(field(4, "x", "int", required=True))
    table = a_table(field(2, "r", "string", required=True), field(3, "s", inner))
    bare = retyped(table, field(3, "s", inner), branch="b")
    with pytest.raises(Invalid, match="column r is required on the branch and missing in the snapshot's files"):
        move(bare, "a", head(bare, "b"))
    hollow = retyped(table, field(2, "r", "string"), field(3, "s", struct(field(5, "y"))), branch="b")
    with pytest.raises(Invalid, match=r"column s\.x is required on the branch and missing"):
        move(hollow, "a", head(hollow, "b"))
    without = retyped(table, field(2, "r", "string"), branch="b")
    assert head(move(without, "a", head(without, "b")), "a") == head(without, "b")


def test_a_required_column_with_a_default_may_be_missing() -> None:
    table = append(append(make_table(ID, version=3), "a"), "b")
    column = {**field(2, "r", "string", required=True), "initial-default": "x", "write-default": "x"}
    table = change(table, *set_schema(schema(ID, column)), branch="a")
    assert head(move(append(table, "b"), "a", head(table, "b")), "a") == head(table, "b")


def test_nested_columns_are_compared_by_their_ids() -> None:
    table = a_table(field(2, "s", struct(field(3, "x", "int"))))
    table = retyped(table, field(2, "s", struct(field(3, "x", "long"), field(4, "y"))), branch="b")
    with pytest.raises(Invalid, match=r"column s\.x is int on the branch and long"):
        move(table, "a", head(table, "b"))
    assert head(move(table, "b", head(table, "a")), "b") == head(table, "a")


def test_a_table_made_on_a_branch_does_not_begin_with_files_that_it_cannot_read() -> None:
    table = append(make_table(ID, branch="b"), "b")
    number = head(table, "b") or 0
    for required in (False, True):
        columns = set_schema(schema(ID, field(2, "r", required=required)))
        request = CommitRequest([{"type": "assert-create"}], [*columns, set_ref("main", number)], "a")
        if required:
            with pytest.raises(Invalid, match="column r is required on the branch and missing"):
                create_on_branch(table, request, now_ms=NOW)
        else:
            assert head(create_on_branch(table, request, now_ms=NOW), "a") == number


STRUCT = struct(field(3, "x"))
LIST = {"type": "list", "element-id": 3, "element-required": False, "element": "int"}


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        ("int", "int", True),
        ("long", "int", True),
        ("int", "long", False),
        ("double", "float", True),
        ("float", "double", False),
        ("decimal(12, 2)", "decimal(9,2)", True),
        ("decimal(9,2)", "decimal(9, 2)", True),
        ("decimal(9,2)", "decimal(12,2)", False),
        ("decimal(12,3)", "decimal(9,2)", False),
        ("long", "decimal(9,2)", False),
        ("timestamp", "date", True),
        ("string", "unknown", True),
        ("unknown", "string", False),
        ("uuid", "string", False),
        (STRUCT, STRUCT, True),
        (STRUCT, LIST, False),
        (STRUCT, "string", False),
        ("string", LIST, False),
    ],
)
def test_a_type_reads_what_may_be_promoted_to_it(kind: Any, written: Any, *, expected: bool) -> None:
    assert can_read(kind, written) is expected
