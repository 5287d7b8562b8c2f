"""View metadata: versions, schemas, dialects, history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories.catalog import field, schema
from webapp.catalog.rules.errors import CommitFailed, IllegalArgument, Invalid, Malformed
from webapp.catalog.rules.views import CreateViewRequest, create_view, normalise_view, replace_view


def version(text: str = "select 1", dialect: str = "spark", **extra: Any) -> dict[str, Any]:
    return {
        "version-id": 1,
        "timestamp-ms": 5,
        "schema-id": -1,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": text, "dialect": dialect}],
        "default-namespace": ["shop"],
        **extra,
    }


def make(**properties: str) -> dict[str, Any]:
    body = {"name": "v", "schema": schema(), "view-version": version(), "properties": properties}
    return create_view(CreateViewRequest.parse(body), uuid="u", location="file:///w/v", now_ms=9)


def change(view: dict[str, Any], *updates: dict[str, Any], requirements: Any = ()) -> dict[str, Any]:
    return replace_view(view, requirements=requirements, updates=updates, now_ms=9)


def replaced(view: dict[str, Any], text: str, **extra: Any) -> dict[str, Any]:
    return change(
        view,
        {"action": "add-view-version", "view-version": version(text, **{"schema-id": 0, **extra})},
        {"action": "set-current-view-version", "view-version-id": -1},
    )


def test_a_new_view_has_one_version() -> None:
    view = make(owner="me")
    assert (view["current-version-id"], view["versions"][0]["schema-id"]) == (1, 0)
    assert view["version-log"] == [{"version-id": 1, "timestamp-ms": 5}]
    assert view["properties"] == {"owner": "me"}
    assert normalise_view(view) == view


def test_versions_are_reused_or_created() -> None:
    view = replaced(make(), "select 2")
    assert view["current-version-id"] == 2
    back = replaced(view, "select 1")
    assert back["current-version-id"] == 1
    assert len(back["versions"]) == 2
    assert [entry["version-id"] for entry in back["version-log"]] == [1, 2, 1]
    assert replaced(back, "select 1") is back
    explicit = change(back, {"action": "set-current-view-version", "view-version-id": 2})
    assert explicit["version-log"][-1] == {"version-id": 2, "timestamp-ms": 9}


def test_old_versions_go_and_the_log_has_no_gaps() -> None:
    view = make(**{"version.history.num-entries": "2"})
    for number in (2, 3, 4):
        view = replaced(view, f"select {number}")
    assert [item["version-id"] for item in view["versions"]] == [3, 4]
    assert [entry["version-id"] for entry in view["version-log"]] == [3, 4]
    back = change(view, {"action": "set-current-view-version", "view-version-id": 3})
    later = change(back, {"action": "add-view-version", "view-version": version("select 5", **{"schema-id": 0})})
    assert [item["version-id"] for item in later["versions"]] == [3, 5]


def test_properties_uuid_location_and_schema() -> None:
    view = change(make(), {"action": "set-properties", "updates": {"a": "1"}})
    assert change(view, {"action": "remove-properties", "removals": ["a"]})["properties"] == {}
    same = [
        {"action": "assign-uuid", "uuid": "u"},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "file:///w/v/"},
        {"action": "add-schema", "schema": schema()},
    ]
    assert change(view, *same, requirements=[{"type": "assert-view-uuid", "uuid": "U"}]) is view
    assert len(change(view, {"action": "add-schema", "schema": schema(field(1, "x"))})["schemas"]) == 2


@pytest.mark.parametrize(
    "update",
    [
        {"action": "dance"},
        {"action": "assign-uuid", "uuid": "x"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": "file:///x"},
        {"action": "add-view-version", "view-version": version()},
        {"action": "add-view-version", "view-version": version(**{"schema-id": 7})},
        {"action": "add-view-version", "view-version": version(**{"representations": [1]})},
        {
            "action": "add-view-version",
            "view-version": version(**{"schema-id": 0}) | {"representations": [{"dialect": "a"}] * 2},
        },
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-current-view-version", "view-version-id": 7},
    ],
)
def test_refused_updates(update: dict[str, Any]) -> None:
    with pytest.raises((Malformed, Invalid, IllegalArgument)):
        change(make(), update)


def test_requirements() -> None:
    with pytest.raises(CommitFailed):
        change(make(), requirements=[{"type": "assert-view-uuid", "uuid": "x"}])
    with pytest.raises(Malformed):
        change(make(), requirements=[{"type": "assert-create"}])


def test_a_lost_dialect_is_refused_unless_allowed() -> None:
    with pytest.raises(Invalid, match="loss of view dialects"):
        replaced(make(), "select 1", dialect="trino")
    assert replaced(make(**{"replace.drop-dialect.allowed": "true"}), "select 1", dialect="trino")


def test_metadata_of_others() -> None:
    good = make()
    for raw in (
        {},
        {**good, "format-version": 2},
        {**good, "location": 1},
        {**good, "versions": [1]},
        {**good, "current-version-id": 9},
    ):
        with pytest.raises((Malformed, Invalid)):
            normalise_view(raw)
    assert normalise_view({key: value for key, value in good.items() if key != "properties"})["properties"] == {}
