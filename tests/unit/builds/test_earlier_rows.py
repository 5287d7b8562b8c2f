"""Which changes of columns let rows that were read before read differently."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from webapp.builds.rules.earlier_rows import find_change, list_added

PLACE = {
    "type": "struct",
    "fields": [
        {"id": 4, "name": "zip", "required": False, "type": "string"},
        {"id": 5, "name": "many", "required": False, "type": {"type": "list", "element-id": 6, "element": "int", "element-required": False}},
    ],
}  # fmt: skip
LABELS = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value-required": False, "value": "int"}
COLUMNS = {
    "id": {"id": 1, "name": "id", "required": True, "type": "long"},
    "a": {"id": 2, "name": "a", "required": False, "type": "decimal(9, 2)"},
    "place": {"id": 3, "name": "place", "required": False, "type": PLACE},
    "labels": {"id": 7, "name": "labels", "required": False, "type": LABELS},
}


def schema(*fields: dict[str, Any]) -> Any:
    return {"type": "struct", "schema-id": 0, "fields": list(fields)}


def changed(column: str, *keys: str | int, **facts: Any) -> Any:
    """The schema with other facts about a column, or about what is below these keys of it."""
    fields = deepcopy(COLUMNS)
    place: Any = fields[column]
    for key in keys:
        place = place[key]
    place |= {key.replace("_", "-"): value for key, value in facts.items()}
    return schema(*fields.values())


def added(**facts: Any) -> Any:
    new = {key.replace("_", "-"): value for key, value in facts.items()}
    return schema(*COLUMNS.values(), {"id": 10, "name": "new", "required": False, "type": "int", **new})


def without(*names: str) -> list[dict[str, Any]]:
    return [field for name, field in COLUMNS.items() if name not in names]


PART = ("type", "fields", 0)
CASES = {
    "renamed": (changed("a", name="b"), "column 'a' was renamed to 'b'"),
    "exchanged": (
        schema(*without("a", "id"), {**COLUMNS["id"], "name": "a"}, {**COLUMNS["a"], "name": "id"}),
        "column 'id' was renamed to 'a'",
    ),
    "other case": (changed("a", name="A"), "column 'a' was renamed to 'A'"),
    "removed": (schema(*without("a")), "column 'a' was removed"),
    "removed and added": (
        schema(*without("a"), {**COLUMNS["a"], "id": 10}),
        "column 'a' was replaced by another one of its name",
    ),
    "widened": (changed("a", type="decimal(18, 2)"), "column 'a' was decimal(9,2) and is decimal(18,2)"),
    "in another order": (schema(*reversed(COLUMNS.values())), "the columns have another order"),
    "another default": (changed("a", initial_default="1.00"), "column 'a' has another default for earlier rows"),
    "field renamed": (changed("place", *PART, name="code"), "column 'place.zip' was renamed to 'place.code'"),
    "field removed": (
        changed("place", "type", fields=PLACE["fields"][1:]),
        "column 'place.zip' was removed",
    ),
    "field added": (
        changed("place", "type", fields=[*PLACE["fields"], {"id": 10, "name": "x", "required": False, "type": "int"}]),
        "column 'place.x' was added",
    ),
    "fields in another order": (changed("place", "type", fields=PLACE["fields"][::-1]), "the columns have another order"),
    "element widened": (
        changed("place", "type", "fields", 1, "type", element="long"),
        "column 'place.many.element' was int and is long",
    ),
    "value widened": (changed("labels", "type", value="long"), "column 'labels.value' was int and is long"),
    "new with default": (added(initial_default=5), "new column 'new' has a default for earlier rows"),
    "new and required": (added(required=True), "new column 'new' is required"),
}  # fmt: skip
HARMLESS = {
    "the same": schema(*COLUMNS.values()),
    "written without space": changed("a", type="decimal(9,2)"),
    "described": changed("a", doc="an amount"),
    "optional": changed("id", required=False),
    "required": changed("a", required=True),
    "value required": changed("labels", "type", value_required=True),
    "default of new rows": changed("a", write_default="1.00"),
    "new": added(),
    "new and nested": added(type={"type": "list", "element-id": 11, "element": "int", "element-required": True}),
    "new between": schema(COLUMNS["id"], {"id": 10, "name": "new", "required": False, "type": "int"}, *without("id")),
    "by other fields": {**schema(*COLUMNS.values()), "identifier-field-ids": [1], "schema-id": 4},
}


@pytest.mark.parametrize("case", CASES)
def test_change_is_named(case: str) -> None:
    new, change = CASES[case]
    assert find_change(schema(*COLUMNS.values()), new) == change


@pytest.mark.parametrize("case", HARMLESS)
def test_harmless_change_is_none(case: str) -> None:
    assert find_change(schema(*COLUMNS.values()), HARMLESS[case]) == ""


def test_returning_column_has_values_in_earlier_rows() -> None:
    old = schema(*COLUMNS.values())
    assert list_added(old, added()) == {10}
    assert find_change(old, added(), returning={10}) == "column 'new' is back with its earlier values"
