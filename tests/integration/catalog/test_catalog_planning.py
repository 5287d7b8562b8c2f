"""Scan planning at the level of HTTP: pages, plans and their end, deletes, and manifests that lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntry

from tests.factories.catalog import Catalog, add_column, field, schema, set_ref, snapshot, table_path
from tests.factories.manifests import BY_ID, data_entry, write_manifest, write_manifest_list
from webapp.catalog.storage.local_files import local_path

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("readers"),
]
TABLE = "shop.orders"
SPEC = {"fields": [{"name": "id", "transform": "identity", "source-id": 1, "field-id": 1000}]}
Groups = list[tuple[ManifestContent, list[ManifestEntry]]]


def commit(catalog: Catalog, *groups: tuple[ManifestContent, list[ManifestEntry]], **extra: Any) -> dict[str, Any]:
    """Commit a snapshot whose manifests hold these groups of files, beside those of the snapshot before."""
    view = catalog.load(TABLE).metadata
    made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"], "added-rows": 0, **extra})
    spec = view["default-spec-id"]
    partition = BY_ID if view["partition-specs"][spec]["fields"] else None
    manifests = [
        write_manifest(
            f"{view['location']}/metadata/{made['snapshot-id']}-{number}.avro",
            entries,
            snapshot_id=made["snapshot-id"],
            sequence=made["sequence-number"],
            content=content,
            spec_id=spec,
            **({} if partition is None else {"partition": partition}),
        )
        for number, (content, entries) in enumerate(groups)
    ]
    older = KEPT.get(made.get("parent-snapshot-id"), [])
    KEPT[made["snapshot-id"]] = [*older, *manifests]
    write_manifest_list(made["manifest-list"], KEPT[made["snapshot-id"]])
    answer = catalog.commit(TABLE, {"action": "add-snapshot", "snapshot": made}, set_ref("main", made["snapshot-id"]))
    assert answer.status == 200, answer.body
    return made


KEPT: dict[int | None, list[Any]] = {}


def data(*names: str, **fields: Any) -> tuple[ManifestContent, list[ManifestEntry]]:
    return ManifestContent.DATA, [data_entry(name, **fields) for name in names]


def plan(catalog: Catalog, **body: Any) -> Any:
    return catalog.call("POST", f"{table_path(TABLE)}/plan", body)


def names(answer: Any) -> list[str]:
    return [task["data-file"]["file-path"] for task in answer.body.get("file-scan-tasks", ())]


def deletes(answer: Any) -> dict[str, list[str]]:
    known = [item["file-path"] for item in answer.body.get("delete-files", ())]
    return {
        task["data-file"]["file-path"]: [known[place] for place in task.get("delete-file-references", ())]
        for task in answer.body["file-scan-tasks"]
    }


@pytest.fixture
def planned(catalog: Catalog) -> Catalog:
    """A table without files."""
    assert catalog.create_table(TABLE).status == 200
    return catalog


@pytest.fixture
def partitioned(catalog: Catalog) -> Catalog:
    """A table partitioned by its id."""
    assert catalog.create_table(TABLE, **{"partition-spec": SPEC}).status == 200
    return catalog


def test_a_small_scan_is_answered_at_once(planned: Catalog) -> None:
    empty = plan(planned)
    assert (empty.status, empty.body["status"], empty.body["file-scan-tasks"]) == (200, "completed", [])
    commit(planned, data("one", "two"))
    whole = plan(planned)
    assert names(whole) == ["one", "two"]
    assert whole.body["file-scan-tasks"][0] == {
        "data-file": {
            "spec-id": 0,
            "content": "data",
            "file-path": "one",
            "file-format": "parquet",
            "partition": [],
            "file-size-in-bytes": 1000,
            "record-count": 10,
        },
        "residual-filter": True,
    }
    again = planned.call("GET", f"{table_path(TABLE)}/plan/{whole.body['plan-id']}")
    assert again.body == {"status": "completed", "file-scan-tasks": whole.body["file-scan-tasks"]}
    listed = planned.call("GET", "config").body["endpoints"]
    assert {line for line in listed if "/plan" in line or "/tasks" in line} == {
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    }


def test_a_large_scan_comes_in_tasks_until_it_is_cancelled(planned: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from webapp.catalog.services import scans

    monkeypatch.setattr(scans, "PAGE_FILES", 2)
    commit(planned, data("a"), data("b"), data("c", "d", "e"))
    first = plan(planned)
    tasks = first.body["plan-tasks"]
    assert (first.body["status"], names(first), len(tasks)) == ("completed", [], 3)
    commit(planned, data("later"))
    path = table_path(TABLE)

    def fetch(task: str, caller: Catalog = planned) -> Any:
        return caller.call("POST", f"{path}/tasks", {"plan-task": task})

    assert [names(fetch(task)) for task in tasks] == [["a", "b"], ["c", "d"], ["e"]]
    plan_id = first.body["plan-id"]
    assert planned.call("GET", f"{path}/plan/{plan_id}").body["plan-tasks"] == tasks
    for task in ("", "x", plan_id, f"{plan_id}.9", f"{plan_id}.x", f"{plan_id}.-1"):
        assert fetch(task).error[0] == "NoSuchPlanTaskException"
    assert planned.call("DELETE", f"{path}/plan/{plan_id}").status == 204
    assert planned.call("DELETE", f"{path}/plan/{plan_id}").status == 204
    assert planned.call("GET", f"{path}/plan/{plan_id}").body == {"status": "cancelled"}
    assert fetch(tasks[0]).error[0] == "NoSuchPlanTaskException"
    for method in ("GET", "DELETE"):
        for unknown in ("x", "1b671a64-40d5-491e-99b0-da01ff1f3341"):
            assert planned.call(method, f"{path}/plan/{unknown}").error[0] == "NoSuchPlanIdException"


def test_a_plan_is_for_its_table_its_maker_and_an_hour(
    planned: Catalog,
    make_user: Callable[..., User],
    catalog_for: Callable[..., Catalog],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from datetime import timedelta

    from webapp.accounts.services import claim_folder, grant_role
    from webapp.catalog.models import ScanPlan

    commit(planned, data("a"))
    made = plan(planned).body["plan-id"]
    claim_folder(folder="shop", repository="shop")
    reader, stranger = make_user("reader"), make_user("stranger")
    grant_role(repository="shop", user=reader, role="reader", by=None)
    path = f"{table_path(TABLE)}/plan/{made}"
    assert catalog_for(reader).call("GET", path).error[0] == "NoSuchPlanIdException"
    assert plan(catalog_for(reader)).status == 200
    for method, where, body in (("GET", path, None), ("POST", f"{table_path(TABLE)}/plan", {})):
        assert catalog_for(stranger).call(method, where, body).error[0] == "NoSuchTableException"
    planned.create_table("shop.other")
    assert planned.call("GET", path.replace("orders", "other")).error[0] == "NoSuchPlanIdException"
    ScanPlan.objects.update(created_at=ScanPlan.objects.get(pk=made).created_at - timedelta(hours=2))
    assert planned.call("GET", path).error[0] == "NoSuchPlanIdException"
    monkeypatch.setattr("webapp.catalog.services.scans.PRUNE_ONE_IN", 1)
    plan(planned)
    assert not ScanPlan.objects.filter(pk=made).exists()


def test_requests_that_mean_nothing(planned: Catalog) -> None:
    number = commit(planned, data("a"))["snapshot-id"]
    wrong: list[dict[str, Any]] = [
        {"snapshot-id": 1},
        {"snapshot-id": "x"},
        {"start-snapshot-id": number},
        {"end-snapshot-id": number},
        {"start-snapshot-id": 5, "end-snapshot-id": number},
        {"snapshot-id": number, "start-snapshot-id": number, "end-snapshot-id": number},
        {"select": "id"},
        {"case-sensitive": 1},
        {"filter": "id = 1"},
        {"filter": {"type": "and", "left": True}},
        {"filter": {"type": "dance", "term": "id"}},
        {"filter": {"type": "eq", "term": "none", "value": 1}},
        {"filter": {"type": "eq", "term": "ID", "value": 1}},
        {"filter": {"type": "eq", "term": "id", "value": "many"}},
        {"filter": {"type": "in", "term": "id", "values": 1}},
    ]
    for body in wrong:
        assert plan(planned, **body).status == 400, body
    assert plan(planned, filter={"type": "eq", "term": "ID", "value": 1}, **{"case-sensitive": False}).status == 200
    assert plan(planned, select=["id", "_file", None]).status == 200
    assert plan(planned, filter="x" * (5 * 1024 * 1024)).status == 413


def test_filters_choose_files_and_leave_residuals(partitioned: Catalog) -> None:
    group = [data_entry(f"p{number}", partition=[number]) for number in (1, 2, None)]
    commit(partitioned, (ManifestContent.DATA, group))

    def residuals(wanted: Any) -> dict[str, Any]:
        answer = plan(partitioned, filter=wanted)
        return {task["data-file"]["file-path"]: task["residual-filter"] for task in answer.body["file-scan-tasks"]}

    one = {"type": "eq", "term": "id", "value": 1}
    name = {"type": "eq", "term": "name", "value": "x"}
    bucket = {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 3}
    assert residuals(one) == {"p1": True}
    assert residuals({"type": "not", "child": one}) == {"p2": True, "p None".replace(" ", ""): True}
    assert residuals({"type": "and", "left": one, "right": name}) == {"p1": name}
    assert residuals({"type": "or", "left": one, "right": name}) == {"p1": True, "p2": name, "pNone": name}
    assert residuals({"type": "and", "left": one, "right": bucket}) == {"p1": bucket}
    assert residuals({"type": "not", "child": bucket}) == dict.fromkeys(
        ("p1", "p2", "pNone"), {"type": "not", "child": bucket}
    )
    assert residuals({"type": "is-null", "child": {"type": "reference", "name": "id"}}) == {"pNone": True}
    modern = {"type": "gt", "left": {"type": "literal", "value": 2}, "right": {"type": "reference", "id": 1}}
    assert residuals(modern) == {"p1": True}
    typed = {"type": "literals", "values": [2, 10**30], "data-type": "long"}
    assert residuals({"type": "in", "child": {"type": "reference", "name": "id"}, "values": typed}) == {"p2": True}
    assert residuals({"type": "true"}) == dict.fromkeys(("p1", "p2", "pNone"), True)
    assert residuals(False) == {}
    assert partitioned.call("GET", "config").status == 200
    shown = plan(partitioned, filter=one).body["file-scan-tasks"][0]["data-file"]
    assert shown["partition"] == [1]


def test_statistics_choose_files_and_are_shown_where_wanted(planned: Catalog) -> None:
    def entry(name: str, low: int, high: int) -> ManifestEntry:
        return data_entry(
            name,
            value_counts={1: 10, 2: 10},
            null_value_counts={1: 0, 2: 0},
            lower_bounds={1: low.to_bytes(8, "little")},
            upper_bounds={1: high.to_bytes(8, "little")},
        )

    commit(planned, (ManifestContent.DATA, [entry("low", 1, 5), entry("high", 6, 9)]))
    wanted = {"type": "gt", "term": "id", "value": 5}
    found = plan(planned, filter=wanted, **{"stats-fields": ["id", "none"]})
    assert names(found) == ["high"]
    file = found.body["file-scan-tasks"][0]["data-file"]
    assert file["value-counts"] == {"keys": [1], "values": [10]}
    assert file["upper-bounds"] == {"keys": [1], "values": ["0900000000000000"]}
    assert "value-counts" not in plan(planned).body["file-scan-tasks"][0]["data-file"]


def test_no_more_files_than_the_rows_asked_for(planned: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from webapp.catalog.services import scans

    commit(planned, data("a", "b", "c"), data("d"))
    some = {"min-rows-requested": 15}
    assert names(plan(planned, **some)) == ["a", "b"]
    assert len(names(plan(planned, filter={"type": "not-null", "term": "name"}, **some))) == 4
    monkeypatch.setattr(scans, "PAGE_FILES", 3)
    assert names(plan(planned, **some)) == ["a", "b"]


def test_deletes_are_attached_by_the_rules_of_the_format(partitioned: Catalog) -> None:
    def positions(path: str, **fields: Any) -> ManifestEntry:
        return data_entry(path, content=DataFileContent.POSITION_DELETES, **fields)

    bounds = {2147483546: b"p1-old"}
    commit(partitioned, (ManifestContent.DATA, [data_entry("p1-old", partition=[1]), data_entry("p2", partition=[2])]))
    commit(
        partitioned,
        (
            ManifestContent.DELETES,
            [
                positions("of partition 1", partition=[1]),
                positions("of p1-old", partition=[1], lower_bounds=bounds, upper_bounds=bounds),
                positions("of p2", partition=[2], referenced_data_file="p2"),
                data_entry("equal in 2", partition=[2], content=DataFileContent.EQUALITY_DELETES, equality_ids=[2]),
            ],
        ),
        (ManifestContent.DATA, [data_entry("p1-new", partition=[1])]),
        operation="overwrite",
    )
    found = plan(partitioned)
    assert deletes(found) == {
        "p1-old": ["of p1-old", "of partition 1"],
        "p2": ["equal in 2", "of p2"],
        "p1-new": ["of partition 1"],
    }
    shown = {item["file-path"]: item for item in found.body["delete-files"]}
    assert shown["equal in 2"]["equality-ids"] == [2]
    assert shown["of p2"]["referenced-data-file"] == "p2"
    vector = positions(
        "vector",
        partition=[1],
        file_format=FileFormat.PUFFIN,
        referenced_data_file="p1-old",
        content_offset=4,
        content_size_in_bytes=40,
    )
    commit(partitioned, (ManifestContent.DELETES, [vector]), operation="delete")
    with_vector = plan(partitioned)
    assert deletes(with_vector)["p1-old"] == ["vector"]
    one = next(item for item in with_vector.body["delete-files"] if item["file-path"] == "vector")
    assert (one["content-offset"], one["content-size-in-bytes"], one["file-format"]) == (4, 40, "puffin")
    assert deletes(plan(partitioned, filter={"type": "eq", "term": "id", "value": 2})) == {
        "p2": ["equal in 2", "of p2"]
    }


def test_equality_deletes_of_no_partition_concern_all_older_files(planned: Catalog) -> None:
    commit(planned, data("old"))
    everywhere = data_entry("gone", content=DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    commit(planned, (ManifestContent.DELETES, [everywhere]), data("same time"), operation="overwrite")
    assert deletes(plan(planned)) == {"old": ["gone"], "same time": []}


def test_increments_are_what_was_appended(planned: Catalog) -> None:
    first, second, third, fourth = (
        commit(planned, data(name), operation=operation)["snapshot-id"]
        for name, operation in (("a", "append"), ("b", "append"), ("c", "overwrite"), ("d", "append"))
    )

    def between(start: int, end: int) -> list[str]:
        return names(plan(planned, **{"start-snapshot-id": start, "end-snapshot-id": end}))

    assert between(first, second) == ["b"]
    assert between(first, fourth) == ["b", "d"]
    assert between(fourth, fourth) == between(second, third) == []
    assert plan(planned, **{"start-snapshot-id": fourth, "end-snapshot-id": first}).status == 400
    assert names(plan(planned, **{"snapshot-id": second})) == ["a", "b"]


def test_a_branch_has_its_own_files_and_columns(planned: Catalog) -> None:
    before = commit(planned, data("main"))["snapshot-id"]
    branch = planned.on("b")
    branch.commit(TABLE, *add_column(branch.load(TABLE).metadata, "extra"))
    commit(branch, data("branch"))
    extra = {"type": "not-null", "term": "extra"}
    assert names(plan(planned)) == ["main"]
    assert plan(planned, filter=extra).status == 400
    assert names(plan(branch)) == names(plan(branch, filter=extra)) == ["main", "branch"]
    assert plan(branch, filter=extra, **{"snapshot-id": before, "use-snapshot-schema": True}).status == 400
    assert names(plan(branch, filter=extra, **{"snapshot-id": before})) == ["main"]
    qualified = planned.on("c").call("POST", f"{table_path(TABLE + '.branch_b')}/plan", {})
    assert names(qualified) == ["main", "branch"]


def test_row_ids_are_inherited(catalog: Catalog) -> None:
    from tests.factories.manifests import write_manifest as write

    catalog.create_table(TABLE, properties={"format-version": "3"})
    view = catalog.load(TABLE).metadata
    made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"], "added-rows": 20})
    entries = [data_entry("a"), data_entry("b"), data_entry("own", first_row_id=500)]
    path = f"{view['location']}/metadata/m.avro"
    manifest = write(path, entries, snapshot_id=made["snapshot-id"], sequence=1, first_row_id=100)
    write_manifest_list(made["manifest-list"], [manifest])
    catalog.commit(TABLE, {"action": "add-snapshot", "snapshot": made}, set_ref("main", made["snapshot-id"]))
    files = [task["data-file"] for task in plan(catalog).body["file-scan-tasks"]]
    assert [file["first-row-id"] for file in files] == [100, 110, 500]
    assert {file["data-sequence-number"] for file in files} == {1}


def test_columns_and_specs_that_only_history_knows(partitioned: Catalog) -> None:
    commit(partitioned, (ManifestContent.DATA, [data_entry("old", partition=[1])]))
    replaced = schema(field(2, "name", "string"), field(3, "shape", "geometry"))
    view = partitioned.load(TABLE).metadata
    answer = partitioned.commit(
        TABLE,
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-schema", "schema": replaced},
        {"action": "set-current-schema", "schema-id": -1},
    )
    assert answer.status == 200, (answer.body, view)
    found = plan(partitioned, filter={"type": "not-null", "term": "shape"})
    assert found.body["file-scan-tasks"][0]["residual-filter"] == {"type": "not-null", "term": "shape"}
    assert found.body["file-scan-tasks"][0]["data-file"]["partition"] == [1]


def test_manifests_that_lie_reach_nothing_outside_the_table(planned: Catalog, tmp_path: Path) -> None:
    view = planned.load(TABLE).metadata
    root = local_path(view["location"])
    secret = tmp_path / "secret.avro"
    honest = write_manifest(secret.as_uri(), [data_entry("secret")], snapshot_id=1, sequence=1)
    link = root / "metadata" / "link.avro"
    link.symlink_to(secret)
    for path in (secret.as_uri(), f"{view['location']}/../../secret.avro", link.as_uri(), "s3://bucket/x.avro"):
        honest[0] = path
        made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"]})
        write_manifest_list(made["manifest-list"], [honest])
        planned.commit(TABLE, {"action": "add-snapshot", "snapshot": made})
        answer = plan(planned, **{"snapshot-id": made["snapshot-id"]})
        assert answer.status == (503 if path == link.as_uri() else 400), path
        assert "secret" not in str(answer.body.get("file-scan-tasks"))


def test_broken_manifests_concern_their_table_alone(planned: Catalog) -> None:
    made = commit(planned, data("a"))
    path = local_path(made["manifest-list"])
    whole = path.read_bytes()
    longer = whole[:4] + b"\x02\x16avro.schema" + b"\xfe\xff\xff\xff\x0f" + whole[20:]
    for raw in (b"", b"Obj\x01", whole[:-20], whole.replace(b"deflate", b"snappy!"), os.urandom(500), longer):
        path.write_bytes(raw)
        answer = plan(planned)
        assert answer.status in (501, 503), answer.body
        assert planned.load(TABLE).status == 200
    path.write_bytes(whole)
    assert plan(planned).status == 200
    path.unlink()
    assert plan(planned).status == 503
