"""Schema diffs: what changed, how it is labelled, who breaks."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.comparisons.diffs.schema import SchemaDiff, diff_schemas
from webapp.comparisons.serializers.described import SchemaDiffSerializer


def column(field_id: int, name: str, type_: Any = "long", **others: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": type_, "required": False, **others}


def schema(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": list(columns)}


def struct(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


def kinds(diff: SchemaDiff) -> list[tuple[str, str]]:
    return [(entry.path, change.kind) for entry in diff.columns for change in entry.changes]


def write(diff: SchemaDiff) -> Any:
    """What the API answers."""
    return SchemaDiffSerializer(diff).data


def test_equal_schemas_are_unchanged() -> None:
    diff = diff_schemas(schema(column(1, "a")), schema(column(1, "a")))
    assert (diff.status, diff.count, diff.breaking) == ("unchanged", 0, 0)
    assert write(diff)["modified"] == []


@pytest.mark.parametrize(
    ("before", "after", "kind", "status"),
    [
        (column(1, "a"), column(1, "b"), "renamed", "breaking"),
        (column(1, "a", "int"), column(1, "a", "long"), "type", "changed"),
        (column(1, "a", "long"), column(1, "a", "int"), "type", "breaking"),
        (column(1, "a", "float"), column(1, "a", "double"), "type", "changed"),
        (column(1, "a", "decimal(9,2)"), column(1, "a", "decimal(12, 2)"), "type", "changed"),
        (column(1, "a", "decimal(9,2)"), column(1, "a", "decimal(12,3)"), "type", "breaking"),
        (column(1, "a", "date"), column(1, "a", "timestamp"), "type", "changed"),
        (column(1, "a", required=True), column(1, "a"), "required", "breaking"),
        (column(1, "a"), column(1, "a", required=True), "required", "changed"),
        (column(1, "a"), column(1, "a", doc="x"), "doc", "changed"),
        (column(1, "a"), column(7, "a"), "identity", "changed"),
        (column(1, "a"), {**column(1, "a"), "write-default": 3}, "default", "changed"),
        (
            {**column(1, "a"), "initial-default": 3},
            {**column(1, "a"), "initial-default": 4},
            "initial_default",
            "breaking",
        ),
        (column(1, "a"), {**column(1, "a"), "initial-default": 4}, "initial_default", "breaking"),
        ({**column(1, "a", "int"), "initial-default": 3}, {**column(1, "a"), "initial-default": 3}, "type", "changed"),
    ],
)
def test_one_change(before: Any, after: Any, kind: str, status: str) -> None:
    diff = diff_schemas(schema(before), schema(after))
    assert kinds(diff) == [(after["name"], kind)]
    assert diff.status == status
    assert diff.columns[0].changes[0].sentence


def test_same_name_with_another_id_is_modified_never_removed_plus_added() -> None:
    diff = diff_schemas(schema(column(1, "a", "long")), schema(column(9, "a", "string")))
    assert (diff.added, diff.removed) == ((), ())
    assert kinds(diff) == [("a", "identity"), ("a", "type")]
    identity = "a is a new column of the same name: values of the older one are not seen through it."
    retyped = "Readers that expect long in a get string and may fail or misread."
    [entry] = write(diff)["modified"]
    changes = entry.pop("changes")
    assert entry == {
        "name": "a",
        "field_id": 9,
        "from": "long",
        "to": "string",
        "destructive": True,
        "widening": False,
        "sentence": f"{identity} {retyped}",
        "what": ["identity", "type"],
    }
    assert [(change["what"], change["from"], change["to"], change["sentence"]) for change in changes] == [
        ("identity", "field 1", "field 9", identity),
        ("type", "long", "string", retyped),
    ]


def test_sentences_of_one_column_do_not_contradict_each_other() -> None:
    """A wider type keeps values only where it is the same column; readers keep working only where nothing else changed."""
    [entry] = write(diff_schemas(schema(column(1, "a", "int")), schema(column(9, "a", "long"))))["modified"]
    assert "Nobody loses values" not in entry["sentence"]
    assert "Readers by name" not in entry["sentence"]


@pytest.mark.parametrize(
    "others",
    [
        column(1, "a", "long", doc="now long"),
        column(1, "b", required=True, doc="renamed"),
        column(1, "b", "string", doc="new"),
        column(7, "a", "int", doc="another"),
    ],
)
def test_no_sentence_of_several_claims_to_be_the_only_change_or_that_all_are_safe(others: dict[str, Any]) -> None:
    (changed,) = diff_schemas(schema(column(1, "a", "int")), schema(others)).changed
    assert "The description of" in changed.sentence
    assert "Only" not in changed.sentence
    assert "Readers are safe" not in changed.sentence
    assert "keep working" not in changed.sentence


def test_a_column_is_one_entry_with_everything_that_changed_about_it() -> None:
    before = schema(column(1, "a", "int", required=True, doc="x"), column(2, "b"), column(3, "c", "int"))
    after = schema(column(1, "a", "long", doc="y"), column(2, "b"), column(3, "d", "string"))
    entries = write(diff_schemas(before, after))
    [modified], [renamed] = entries["modified"], entries["renamed"]
    assert (modified["name"], modified["from"], modified["to"], modified["destructive"]) == ("a", "int", "long", True)
    assert sorted(modified["what"]) == ["doc", "required", "type"]
    assert (renamed["name"], renamed["from"], renamed["to"], renamed["what"]) == ("d", "c", "d", ["type"])
    assert [change["what"] for change in renamed["changes"]] == ["renamed", "type"]
    [moved] = write(diff_schemas(schema(column(1, "a"), column(2, "b")), schema(column(2, "b"), column(1, "a"))))[
        "modified"
    ]
    assert moved["what"] == ["position"]


def test_added_and_removed_keep_their_places() -> None:
    before = schema(column(1, "a"), column(2, "b"), column(3, "c"))
    after = schema(column(1, "a"), column(4, "n", required=True), column(3, "c"))
    diff = diff_schemas(before, after)
    assert [entry.path for entry in diff.columns] == ["a", "b", "n", "c"]
    assert [entry.path for entry in diff.added] == ["n"]
    assert diff.removed[0].is_breaking
    assert not diff.added[0].is_breaking
    assert "fill n" in diff.added[0].changes[0].sentence


def test_only_the_fewest_columns_have_moved() -> None:
    before = schema(*(column(i, name) for i, name in enumerate("abcde")))
    order = [3, 0, 1, 2, 4]
    after = schema(*(column(i, "abcde"[i]) for i in order))
    assert kinds(diff_schemas(before, after)) == [("d", "moved")]


def test_nested_fields_are_compared_one_by_one() -> None:
    before = schema(column(1, "s", struct(column(2, "x", "int"), column(3, "y"))))
    after = schema(column(1, "s", struct(column(2, "x", "long"), column(4, "z", "string"))))
    diff = diff_schemas(before, after)
    assert kinds(diff) == [("s.x", "type"), ("s.y", "removed"), ("s.z", "added")]
    assert [entry.depth for entry in diff.columns] == [0, 1, 1, 1]
    assert diff.columns[1].is_widening


def test_elements_keys_and_values() -> None:
    lists = [{"type": "list", "element-id": 2, "element": t, "element-required": False} for t in ("int", "long")]
    maps = [
        {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "int", "value-required": r}
        for r in (True, False)
    ]
    diff = diff_schemas(
        schema(column(1, "l", lists[0]), column(3, "m", maps[0])),
        schema(column(1, "l", lists[1]), column(3, "m", maps[1])),
    )
    assert kinds(diff) == [("l.element", "type"), ("m.value", "required")]
    assert diff.breaking == 1


def test_list_to_scalar_is_one_breaking_change() -> None:
    lists = {"type": "list", "element-id": 2, "element": "int", "element-required": False}
    diff = diff_schemas(schema(column(1, "a", lists)), schema(column(1, "a", "string")))
    assert kinds(diff) == [("a", "type")]
    assert diff.columns[0].changes[0].before == "list<int>"


def test_new_and_removed_datasets() -> None:
    added = diff_schemas(None, schema(column(1, "a")))
    assert (added.is_new, added.status) == (True, "changed")
    removed = diff_schemas(schema(column(1, "a")), None)
    assert (removed.is_new, removed.status) == (False, "breaking")
    assert diff_schemas(None, None).status == "unchanged"


def test_partition_spec_and_sort_order_as_text() -> None:
    columns = schema(column(1, "day", "date"), column(2, "id"))
    diff = diff_schemas(
        columns,
        columns,
        before_spec={"fields": []},
        after_spec={"fields": [{"source-id": 1, "transform": "month"}, {"source-id": 2, "transform": "bucket[8]"}]},
        before_order={"fields": []},
        after_order={
            "fields": [{"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]
        },
    )
    assert write(diff)["partition_spec"] == {"from": "unpartitioned", "to": "month(day), bucket[8](id)"}
    assert diff.sort_order.after == "id asc nulls-first"
    assert (diff.count, diff.status) == (2, "changed")
