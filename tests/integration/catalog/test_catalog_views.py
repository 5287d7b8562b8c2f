"""Views over the API: shared by all branches, changed without the header only."""

from __future__ import annotations

from typing import Any
from unittest import mock
from uuid import uuid4

import pytest

from tests.factories.catalog import Catalog, schema
from tests.unit.catalog.test_views import version
from webapp.catalog.services import views
from webapp.catalog.storage import local_files

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
PATH = "namespaces/shop/views"


def create(catalog: Catalog, name: str = "v", **extra: Any) -> Any:
    body = {"name": name, "schema": schema(), "view-version": version(), "properties": {}, **extra}
    return catalog.call("POST", PATH, body, headers={"idempotency-key": extra.pop("key")} if "key" in extra else None)


def test_the_life_of_a_view(catalog: Catalog) -> None:
    made = create(catalog)
    assert made.status == 200
    assert catalog.call("GET", f"{PATH}/v").body == made.body
    assert catalog.on("b").call("GET", f"{PATH}/v").body == made.body
    assert catalog.call("HEAD", f"{PATH}/v").status == 204
    assert [item["name"] for item in catalog.call("GET", PATH).body["identifiers"]] == ["v"]
    new = {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    assert catalog.call("POST", f"{PATH}/v", new).metadata["properties"] == {"a": "1"}
    wrong = {**new, "requirements": [{"type": "assert-view-uuid", "uuid": "x"}]}
    assert catalog.call("POST", f"{PATH}/v", wrong).error[0] == "CommitFailedException"
    names = {"source": {"namespace": ["shop"], "name": "v"}, "destination": {"namespace": ["shop"], "name": "w"}}
    assert catalog.call("POST", "views/rename", names).status == 204
    assert catalog.call("POST", "views/rename", names).error[0] == "NoSuchViewException"
    assert catalog.call("DELETE", "namespaces/shop").status == 409
    assert catalog.call("DELETE", f"{PATH}/w").status == 204
    assert catalog.call("GET", f"{PATH}/w").error == ("NoSuchViewException", "View does not exist: shop.w")
    kept = {"name": "v", "metadata-location": made.body["metadata-location"]}
    assert catalog.call("POST", "namespaces/shop/register-view", kept).metadata == made.metadata


def test_a_view_says_where_its_metadata_lies(catalog: Catalog) -> None:
    location = create(catalog, "first").metadata["location"]
    named = {"action": "set-properties", "updates": {"write.metadata.path": f"{location}/other/"}}
    moved = catalog.call("POST", f"{PATH}/first", {"updates": [named]})
    assert moved.body["metadata-location"].startswith(f"{location}/other/00001-")
    assert catalog.call("GET", f"{PATH}/first").body == moved.body
    for outside in ("file:///tmp/x", f"{location}2", f"{location}/../x"):
        named = {"action": "set-properties", "updates": {"write.metadata.path": outside}}
        assert catalog.call("POST", f"{PATH}/first", {"updates": [named]}).status == 400
        assert create(catalog, "second", properties={"write.metadata.path": outside}).status == 400
    back = {"action": "remove-properties", "removals": ["write.metadata.path"]}
    again = catalog.call("POST", f"{PATH}/first", {"updates": [back]})
    assert again.body["metadata-location"].startswith(f"{location}/metadata/00002-")


def test_names_are_shared_with_tables(catalog: Catalog) -> None:
    create(catalog)
    catalog.create_table("shop.t")
    assert create(catalog).error == ("AlreadyExistsException", "View already exists: shop.v")
    assert create(catalog, "t").error == ("AlreadyExistsException", "Table with same name already exists: shop.t")
    assert catalog.create_table("shop.v").error[0] == "AlreadyExistsException"
    for kind, source, target in (("views", "v", "t"), ("tables", "t", "v")):
        names = {
            "source": {"namespace": ["shop"], "name": source},
            "destination": {"namespace": ["shop"], "name": target},
        }
        assert catalog.call("POST", f"{kind}/rename", names).status == 409


def test_a_branch_only_reads_views(catalog: Catalog) -> None:
    create(catalog)
    branch = catalog.on("b")
    names = {"source": {"namespace": ["shop"], "name": "v"}, "destination": {"namespace": ["shop"], "name": "w"}}
    assert create(branch, "w").status == 403
    assert branch.call("POST", f"{PATH}/v", {"updates": []}).status == 403
    assert branch.call("POST", "views/rename", names).status == 403
    assert branch.call("DELETE", f"{PATH}/v").status == 403
    assert branch.call("POST", "namespaces/shop/register-view", {}).status == 403


def test_register_and_hostile_locations(catalog: Catalog, home: Any) -> None:
    location = create(catalog).body["metadata-location"]
    assert create(catalog, "w", location="file:///tmp/x").status == 400
    path = local_files.local_path(location)
    copied = path.with_name("copy.json")
    copied.write_bytes(path.read_bytes())
    body = {"name": "again", "metadata-location": copied.as_uri()}
    assert catalog.call("POST", "namespaces/shop/register-view", body).metadata["view-uuid"]
    outside = home / "warehouse" / "shop" / "x.json"
    outside.write_bytes(path.read_bytes())
    body = {"name": "more", "metadata-location": outside.as_uri()}
    assert catalog.call("POST", "namespaces/shop/register-view", body).status == 400


def test_a_repeated_key_and_lost_races(catalog: Catalog) -> None:
    key = str(uuid4())
    body = {"name": "v", "schema": schema(), "view-version": version(), "properties": {}}
    first, second = (catalog.call("POST", PATH, body, headers={"idempotency-key": key}) for _ in range(2))
    assert (first.status, first.body) == (second.status, second.body)
    new = {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    with mock.patch.object(views, "_swap", side_effect=views.LostRace):
        assert catalog.call("POST", f"{PATH}/v", new).status == 503
    stale = views.find_view(views.TableRef(("shop",), "v"))
    catalog.call("POST", f"{PATH}/v", new)
    with mock.patch.object(views, "_get", side_effect=[stale, views.find_view(views.TableRef(("shop",), "v"))]):
        twice = {"updates": [{"action": "set-properties", "updates": {"b": "2"}}]}
        assert catalog.call("POST", f"{PATH}/v", twice).metadata["properties"] == {"a": "1", "b": "2"}


def test_strangers_and_jobs_know_no_views(catalog: Catalog, make_user: Any, catalog_for: Any) -> None:
    create(catalog)
    stranger = catalog_for(make_user("stranger"))
    assert stranger.call("GET", f"{PATH}/v").error[0] == "NoSuchViewException"
    assert stranger.call("DELETE", f"{PATH}/v").status == 404


def test_what_is_not_there_is_said_so(catalog: Catalog) -> None:
    catalog.create_table("shop.t")
    for method, path in (("GET", "functions"), ("POST", "tables/t/sign")):
        answer = catalog.call(method, f"namespaces/shop/{path}")
        assert (answer.status, answer.error[0]) == (501, "UnsupportedOperationException")
