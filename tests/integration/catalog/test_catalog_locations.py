"""Tables and views below prefixes beside the warehouse: who may lie where, and whose files nobody gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connection

from tests.factories.catalog import Catalog, schema, table_path
from tests.factories.clients import a_rest_client
from tests.unit.catalog.test_views import version
from webapp.accounts.services import claim_folder, grant_role
from webapp.catalog.models import StagedLocation, Table
from webapp.catalog.queries import measure_namespace
from webapp.catalog.services import collector, folders
from webapp.catalog.services.checking import check_tables
from webapp.catalog.storage import local_files
from webapp.core import clock
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
CREATE = [{"type": "assert-create"}]


@pytest.fixture
def lake(tmp_path: Path, settings: Any) -> Path:
    """A prefix beside the warehouse."""
    settings.TRIBUTARY_LOCATIONS = ((tmp_path / "lake").as_uri(),)
    return tmp_path / "lake"


@pytest.fixture
def writer(make_user: Callable[..., User], catalog: Catalog, catalog_for: Callable[..., Catalog]) -> Catalog:
    """The catalog as somebody who maintains `shop`, and is no administrator."""
    claim_folder(folder="shop", repository="shop")
    user = make_user("writer")
    grant_role(repository="shop", user=user, role="maintainer", by=None)
    return catalog_for(user)


def make_view(catalog: Catalog, name: str, location: str) -> Any:
    body = {"name": name, "schema": schema(), "view-version": version(), "properties": {}, "location": location}
    return catalog.call("POST", "namespaces/shop/views", body)


def updates_of(staged: Any) -> list[dict[str, Any]]:
    return [
        {"action": "set-location", "location": staged.metadata["location"]},
        {"action": "add-schema", "schema": staged.metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
    ]


def drop(catalog: Catalog, table: str, *, purge: bool = False) -> None:
    assert catalog.call("DELETE", table_path(table), query=f"purgeRequested={str(purge).lower()}").status == 204


def test_a_namespace_says_in_which_folder_its_tables_may_lie(writer: Catalog, lake: Path) -> None:
    """Trino asks for the location, and adds the table's name with a UUID to it."""
    writer.create_namespace("shop", "e u")
    made = writer.create_table("shop.own")
    own = writer.call("GET", "namespaces/shop").body["properties"]["location"]
    assert made.metadata["location"].startswith(f"{own}/own-")
    inner = writer.call("GET", "namespaces/shop%1Fe%20u").body["properties"]["location"]
    assert inner == f"{own}/e_u"
    chosen, staged, view = (f"{own}/{name}-{uuid4().hex}" for name in ("chosen", "staged", "v"))
    assert writer.create_table("shop.chosen", location=chosen).metadata["location"] == chosen
    first = writer.create_table("shop.staged", location=staged, **{"stage-create": True})
    assert writer.commit("shop.staged", *updates_of(first), requirements=CREATE).metadata["location"] == staged
    assert make_view(writer, "v", view).metadata["location"] == view
    drop(writer, "shop.chosen")
    assert writer.create_table("shop.chosen", location=chosen).status == 403, "files of the dropped table"
    chosen = f"{own}/chosen-{uuid4().hex}"
    assert writer.create_table("shop.chosen", location=f"{chosen}/").metadata["location"] == chosen
    rename = {"source": {"namespace": ["shop"], "name": "chosen"}, "destination": {"namespace": ["shop"], "name": "c"}}
    assert writer.call("POST", "tables/rename", rename).status == 204
    for location in (chosen, f"{own}/a-{uuid4().hex}", f"{inner}/chosen-{uuid4().hex}", f"{own}/chosen-0123456789"):
        assert writer.create_table("shop.chosen", location=location).status == 400, location


def test_a_location_in_which_no_table_may_lie_is_refused_with_the_namespace(writer: Catalog, lake: Path) -> None:
    own = writer.call("GET", "namespaces/shop").body["properties"]["location"]
    for location in (
        "s3://elsewhere/shop",
        f"{own}/inner",
        f"{own}2",
        "file:///etc",
        f"file:{lake}/../x",
        "",
        "x" * 2_000,
    ):
        body = {"namespace": ["shop", "new"], "properties": {"location": location}}
        assert writer.call("POST", "namespaces", body).status == 400, location
        changed = writer.call("POST", "namespaces/shop/properties", {"updates": {"location": location}})
        assert changed.status == 400, location
    assert writer.call("GET", "namespaces/shop%1Fnew").status == 404
    for number, location in enumerate((f"{own}/n0", f"file:{lake}", f"file:{lake}/new/")):
        body = {"namespace": ["shop", f"n{number}"], "properties": {"location": location}}
        assert writer.call("POST", "namespaces", body).body["properties"]["location"] == location
    assert writer.call("POST", "namespaces/shop%1Fn1/properties", {"removals": ["location"]}).status == 200
    assert writer.call("GET", "namespaces/shop%1Fn1").body["properties"] == {"location": f"{own}/n1"}


def test_only_a_table_without_snapshots_moves(writer: Catalog, lake: Path) -> None:
    """A client that replaces a table may name another location for it."""
    first = writer.create_table("shop.t").metadata["location"]
    move = {"action": "set-location", "location": f"file:{lake}/moved/"}
    moved = writer.commit("shop.t", move, {"action": "set-properties", "updates": {"a": "1"}})
    assert moved.metadata["location"] == Table.objects.get().location == f"file:{lake}/moved"
    assert moved.body["metadata-location"].startswith(f"file:{lake}/moved/metadata/00001-")
    assert [entry["metadata-file"].startswith(first) for entry in moved.metadata["metadata-log"]] == [True]
    assert writer.append("shop.t").status == 200
    assert writer.create_table("shop.u", location=f"file:{lake}/moved/below").status == 400
    for catalog, location, status in (
        (writer, f"file:{lake}/again", 400),
        (writer, f"{first}", 400),
        (writer.on("b"), f"file:{lake}/again", 403),
    ):
        refused = catalog.commit("shop.t", {"action": "set-location", "location": location})
        assert refused.status == status, location
    writer.create_table("shop.u")
    for location in (f"file:{lake}/moved", f"file:{lake}/moved/x", f"file:{lake}", "file:/etc/x", first):
        assert writer.commit("shop.u", {"action": "set-location", "location": location}).status == 400, location


def test_a_client_says_where_a_table_lies_in_each_way_of_making_one(writer: Catalog, lake: Path) -> None:
    made = writer.create_table("shop.plain", location=f"file:{lake}/plain/")
    assert made.metadata["location"] == f"file:{lake}/plain"
    assert made.body["metadata-location"].startswith(f"file:{lake}/plain/metadata/")
    staged = writer.create_table("shop.staged", location=f"{lake.as_uri()}/a/staged", **{"stage-create": True})
    (lake / "a" / "staged" / "data" / "rows").touch()
    assert writer.commit("shop.staged", *updates_of(staged), requirements=CREATE).status == 200
    assert not StagedLocation.objects.exists()
    staged.metadata["location"] = f"file:{lake}/committed"
    assert writer.on("b").commit("shop.committed", *updates_of(staged), requirements=CREATE).status == 200
    assert make_view(writer, "v", f"file:{lake}/v").metadata["location"] == f"file:{lake}/v"
    for table in ("plain", "staged", "committed"):
        assert writer.append(f"shop.{table}").status == 200
        assert len(list(lake.rglob(f"{table}/metadata/00001-*.json"))) == 1
    assert {folder.stat().st_mode & 0o777 for folder in lake.rglob("*") if folder.is_dir()} == {0o755}
    assert writer.create_table("shop.given").metadata["location"].startswith("file:///")


def test_unset_no_client_chooses(catalog: Catalog, tmp_path: Path) -> None:
    assert catalog.create_table("shop.t", location=f"file:{tmp_path}/lake/t").status == 400
    assert make_view(catalog, "v", f"file:{tmp_path}/lake/v").status == 400
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "/",
        "2/t",
        "/../t",
        "/%2e%2e/t",
        "/a/%2e%2e/%2e%2e/t",
        "//t",
        "/a//t",
        "/t?x",
        "/t#x",
        "/t*",
        "/t'",
        "/./t",
        "/t\\x",
    ],
)
def test_hostile_spellings_are_refused_on_every_way(catalog: Catalog, lake: Path, tail: str) -> None:
    for location in (f"file:{lake}{tail}", f"{lake.as_uri()}{tail}"):
        assert catalog.create_table("shop.t", location=location).status == 400
        assert catalog.create_table("shop.t", location=location, **{"stage-create": True}).status == 400
        assert make_view(catalog, "v", location).status == 400
        updates = [
            {"action": "set-location", "location": f"file:{lake}/fine"},
            {"action": "set-location", "location": location},
        ]
        new = [{"action": "add-schema", "schema": schema()}, {"action": "set-current-schema", "schema-id": -1}]
        for some in (updates, updates[1:]):
            assert catalog.commit("shop.t", *some, *new, requirements=CREATE).status == 400
    for location in (
        f"s3://bucket{lake}/t",
        f"s3a://bucket{lake}/t",
        f"file://host{lake}/t",
        f"{lake}/t",
        f"hdfs:{lake}/t",
    ):
        assert catalog.create_table("shop.t", location=location).status == 400
    assert [path for path in lake.rglob("*") if path.is_file()] == []
    assert catalog.load("shop.t").status == 404


LONG = "x" * 300


@pytest.mark.parametrize("tail", [LONG, f"a/{LONG}/t", f"{LONG}/a/t", "/".join(["x" * 90] * 12), "/".join("x" * 500)])
def test_a_location_longer_than_the_file_system_takes_is_a_400_on_every_way(
    catalog: Catalog, lake: Path, settings: Any, tail: str
) -> None:
    catalog.create_namespace("shop")
    updates = [{"action": "add-schema", "schema": schema()}, {"action": "set-current-schema", "schema-id": -1}]
    warehouse = str(settings.TRIBUTARY_WAREHOUSE).rstrip("/")
    for root in (f"file:{lake}", lake.as_uri(), warehouse):
        location, file = f"{root}/{tail}", f"{root}/{tail}/metadata/00000-a.metadata.json"
        answers = [
            catalog.create_table("shop.t", location=location),
            catalog.create_table("shop.t", location=location, **{"stage-create": True}),
            make_view(catalog, "v", location),
            catalog.commit("shop.t", {"action": "set-location", "location": location}, *updates, requirements=CREATE),
            catalog.call("POST", "namespaces/shop/register", {"name": "t", "metadata-location": file}),
            catalog.call("POST", "namespaces/shop/register", {"name": "t", "metadata-location": f"{root}/{LONG}.json"}),
            catalog.call("POST", "namespaces/shop/register-view", {"name": "v", "metadata-location": file}),
        ]
        assert [answer.status for answer in answers] == [400] * len(answers), (root, [one.body for one in answers])
    assert catalog.load("shop.t").status == 404
    assert not StagedLocation.objects.exists()
    assert not lake.exists() or list(lake.iterdir()) == []


def test_the_longest_names_have_a_location(catalog: Catalog, lake: Path) -> None:
    name, deep = "x" * 255, ["x" * 255] * 12
    assert catalog.create_namespace(name).status == 200
    assert catalog.create_table(f"{name}.{name}").status == 200
    catalog.create_namespace("shop")
    assert catalog.create_table("shop.t", location=f"file:{lake}/{name}").metadata["location"] == f"file:{lake}/{name}"
    if catalog.create_namespace(*deep).status == 200:
        assert catalog.create_table(f"{'.'.join(deep)}.t").status == 400
    assert catalog.call("POST", "namespaces", {"namespace": [LONG]}).status == 400
    assert catalog.create_table(f"shop.{LONG}").status == 400


@pytest.mark.parametrize(("path", "status"), [(f"/shop/{'x' * 255}", 201), (f"/shop/{LONG}", 400), (f"/{LONG}/t", 400)])
def test_a_dataset_has_only_names_that_the_catalog_takes(catalog: Catalog, admin: User, path: str, status: int) -> None:
    answer = a_rest_client(admin).post("/api/v1/datasets", {"path": path}, format="json")
    assert answer.status_code == status, answer.json()
    assert Dataset.objects.filter(path=path).exists() == (status == 201)


def test_a_view_does_not_move_to_a_location_that_is_too_long(catalog: Catalog, lake: Path) -> None:
    catalog.create_namespace("shop")
    made = make_view(catalog, "v", f"file:{lake}/v")
    assert made.status == 200
    body = {"updates": [{"action": "set-location", "location": f"file:{lake}/{LONG}"}]}
    assert catalog.call("POST", "namespaces/shop/views/v", body).status == 400


def test_the_location_of_what_is_there_stays(catalog: Catalog, lake: Path) -> None:
    catalog.create_table("shop.t", location=f"file:{lake}/t")
    assert catalog.append("shop.t").status == 200
    assert catalog.commit("shop.t", {"action": "set-location", "location": f"file:{lake}/u"}).status == 400
    assert catalog.on("a").create_table("shop.p", location=f"file:{lake}/p").status == 200
    assert catalog.on("b").create_table("shop.p", location=f"file:{lake}/q").status == 400
    assert catalog.on("b").create_table("shop.p", location=f"file:{lake}/p").status == 200
    for path in (f"file:{lake}/t2", f"file:{lake}", f"file:{lake}/t/../x"):
        properties = {"action": "set-properties", "updates": {"write.data.path": path}}
        assert catalog.commit("shop.t", properties).status == 400
    inside = {"action": "set-properties", "updates": {"write.data.path": f"{lake.as_uri()}/t/elsewhere"}}
    assert catalog.commit("shop.t", inside).status == 200


def test_a_view_moves_with_its_metadata_where_a_new_one_may_lie(catalog: Catalog, writer: Catalog, lake: Path) -> None:
    made = make_view(catalog, "v", f"file:{lake}/v").body["metadata-location"]

    def move(caller: Catalog, location: str) -> Any:
        body = {"updates": [{"action": "set-location", "location": location}]}
        return caller.call("POST", "namespaces/shop/views/v", body)

    catalog.create_table("shop.t", location=f"file:{lake}/t")
    for place in (f"file:{lake}", f"file:{lake}/v/w", f"file:{lake}/t", f"file:{lake}2/v", "file:///tmp/v"):
        assert move(catalog, place).status == 400, place
    moved = move(writer, f"{lake.as_uri()}/w")
    assert moved.body["metadata-location"].startswith(f"{lake.as_uri()}/w/metadata/00001-")
    assert catalog.call("GET", "namespaces/shop/views/v").metadata["location"] == f"{lake.as_uri()}/w"
    assert move(writer, f"file:{lake}/v").status == 403
    assert writer.call("POST", "namespaces/shop/register-view", {"name": "u", "metadata-location": made}).status == 403
    assert make_view(writer, "u", f"file:{lake}/w").status == 400


def test_nothing_lies_where_something_lies_above_or_below(catalog: Catalog, lake: Path) -> None:
    assert catalog.create_table("shop.t", location=f"file:{lake}/a/t").status == 200
    for tail in ("/a/t", "/a", "/a/t/b", "/a/t/data/x"):
        for location in (f"file:{lake}{tail}", f"{lake.as_uri()}{tail}"):
            assert "cannot be taken" in catalog.create_table("shop.u", location=location).error[1]
            assert (
                "cannot be taken"
                in catalog.create_table("shop.u", location=location, **{"stage-create": True}).error[1]
            )
            assert "cannot be taken" in make_view(catalog, "v", location).error[1]
    for tail in ("/a/t2", "/a/T", "/b"):
        assert catalog.create_table(f"shop.{tail[-1]}", location=f"file:{lake}{tail}").status == 200
    assert make_view(catalog, "v", f"file:{lake}/v").status == 200
    assert catalog.create_table("shop.u", location=f"file:{lake}/v/t").status == 400


def test_what_became_taken_meanwhile_is_seen_where_the_row_is_added(
    catalog: Catalog, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = folders.make_folders

    def make_late(location: str) -> None:
        monkeypatch.setattr("webapp.catalog.services.tables.make_folders", make)
        assert catalog.create_table("shop.first", location=f"{lake.as_uri()}/t").status == 200
        make(location)

    monkeypatch.setattr("webapp.catalog.services.tables.make_folders", make_late)
    assert "cannot be taken" in catalog.create_table("shop.second", location=f"file:{lake}/t").error[1]
    assert Table.objects.count() == 1
    assert len(list(lake.rglob("*.json"))) == 1


def test_of_many_at_once_one_gets_the_place(catalog: Catalog, lake: Path) -> None:
    places = [f"file:{lake}/t", f"{lake.as_uri()}/t", f"file:{lake}/t/a", f"{lake.as_uri()}/t/a/b"]

    def make(place: str) -> int:
        try:
            return catalog.create_table(f"shop.t{places.index(place)}", location=place).status
        finally:
            connection.close()

    with ThreadPoolExecutor(len(places)) as pool:
        assert sorted(pool.map(make, places)) == [200, 400, 400, 400]
    assert len(list(lake.rglob("*.json"))) == 1


def test_leftovers_are_administrators_alone(catalog: Catalog, writer: Catalog, lake: Path) -> None:
    location = f"file:{lake}/t"
    kept = catalog.create_table("shop.t", location=location).body["metadata-location"]
    again = {"name": "t", "metadata-location": kept, "overwrite": True}
    assert writer.call("POST", "namespaces/shop/register", again).status == 200
    drop(catalog, "shop.t")
    asked = {"name": "u", "metadata-location": kept}
    for around in (location, f"file:{lake}/t/metadata"):
        for body in ({}, {"stage-create": True}):
            answer = writer.create_table("shop.u", location=around, **body)
            assert (answer.status, answer.error[0]) == (403, "ForbiddenException")
        assert make_view(writer, "u", around).status == 403
    assert writer.call("POST", "namespaces/shop/register", asked).status == 403
    assert catalog.call("POST", "namespaces/shop/register", asked).status == 200
    assert catalog.call("POST", "namespaces/shop/register", {**asked, "name": "w"}).status == 409
    drop(catalog, "shop.u")
    assert catalog.create_table("shop.v", location=location).status == 200
    linked = lake / "linked"
    linked.mkdir()
    (linked / "link").symlink_to(lake / "t")
    assert writer.create_table("shop.x", location=f"file:{linked}").status == 403


def test_what_is_staged_is_kept_for_who_staged_it(catalog: Catalog, writer: Catalog, lake: Path, settings: Any) -> None:
    staged = writer.create_table("shop.t", location=f"file:{lake}/t", **{"stage-create": True})
    (lake / "t" / "data" / "rows").touch()
    for tail in ("/t", "/t/data"):
        assert (
            "a table is being made there" in catalog.create_table("shop.u", location=f"{lake.as_uri()}{tail}").error[1]
        )
    old = clock.cautious_now() - 2 * folders.STAGED_FOR
    StagedLocation.objects.update(staged_at=old)
    assert writer.commit("shop.t", *updates_of(staged), requirements=CREATE).status == 403
    assert catalog.create_table("shop.u", location=f"file:{lake}/u", **{"stage-create": True}).status == 200
    assert StagedLocation.objects.get().location == f"{lake.as_uri()}/u"


def test_no_link_is_followed_out_of_the_prefix(catalog: Catalog, lake: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    lake.mkdir()
    (lake / "link").symlink_to(outside)
    for tail in ("link", "link/t"):
        for body in ({}, {"stage-create": True}):
            assert "in the way" in catalog.create_table("shop.t", location=f"file:{lake}/{tail}", **body).error[1]
        assert make_view(catalog, "v", f"file:{lake}/{tail}").status == 400
    assert list(outside.iterdir()) == []
    catalog.create_table("shop.t", location=f"file:{lake}/a/t")
    (lake / "a").rename(outside / "a")
    (lake / "a").symlink_to(outside / "a")
    drop(catalog, "shop.t", purge=True)
    assert (outside / "a" / "t" / "metadata").is_dir()


def test_what_is_made_in_the_place_of_a_table_while_its_files_go_stays(
    catalog: Catalog, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert catalog.create_table("shop.t", location=f"file:{lake}/t").status == 200
    remove = local_files.remove_folder

    def remove_later(folder: str, **place: int) -> None:
        (lake / "t" / "metadata").mkdir(parents=True)
        (lake / "t" / "metadata" / "new").write_text("of a new table")
        remove(folder, **place)

    monkeypatch.setattr(local_files, "remove_folder", remove_later)
    drop(catalog, "shop.t", purge=True)
    assert [path.relative_to(lake).as_posix() for path in lake.rglob("*") if path.is_file()] == ["t/metadata/new"]


def test_purge_removes_the_tables_own_folder(catalog: Catalog, lake: Path, settings: Any) -> None:
    for name in ("t", "t2"):
        assert catalog.create_table(f"shop.{name}", location=f"file:{lake}/a/{name}").status == 200
    drop(catalog, "shop.t", purge=True)
    assert [path.name for path in (lake / "a").iterdir()] == ["t2"]
    settings.TRIBUTARY_LOCATIONS = ()
    drop(catalog, "shop.t2", purge=True)
    assert (lake / "a" / "t2").exists()


def test_register_takes_only_what_lies_in_its_own_free_folder(catalog: Catalog, lake: Path) -> None:
    good = catalog.create_table("shop.t", location=f"file:{lake}/t").metadata
    planted = lake / "x" / "metadata" / "planted.json"
    planted.parent.mkdir(parents=True)
    for location in (
        f"file:{lake}",
        f"file:{lake}/t",
        f"file:{lake}/x/",
        f"file:{lake}/y",
        f"file:{lake}//x",
        "file:///",
    ):
        planted.write_text(json.dumps({**good, "location": location}))
        asked = {"name": "u", "metadata-location": planted.as_uri()}
        assert catalog.call("POST", "namespaces/shop/register", asked).status == 400, location
    planted.write_text(json.dumps({**good, "location": f"file:{lake}/x"}))
    assert catalog.call("POST", "namespaces/shop/register", asked).metadata["location"] == f"file:{lake}/x"


def test_checks_quota_and_collector_go_by_the_location(catalog: Catalog, lake: Path) -> None:
    catalog.create_table("shop.t", location=f"file:{lake}/t")
    assert measure_namespace(namespace="shop") > 0
    assert [found.what for found in check_tables() if hasattr(found, "what")] == ["tables", "files that nobody names"]
    assert [found for found in check_tables() if not hasattr(found, "what")] == []
    (lake / "t" / "data" / "orphan").write_bytes(b"x")
    [(_, found)] = collector.collect_all(older_than=clock.now() + folders.STAGED_FOR)
    assert found.locations == (f"{lake.as_uri()}/t/data/orphan",)
    renamed = {"source": {"namespace": ["shop"], "name": "t"}, "destination": {"namespace": ["shop"], "name": "u"}}
    assert catalog.call("POST", "tables/rename", renamed).status == 204
    assert catalog.load("shop.u").metadata["location"] == f"file:{lake}/t"
