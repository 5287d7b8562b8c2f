"""Every endpoint and error shape of the catalog, in process."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
from django.test import Client

from tests.factories.catalog import Catalog, add_column, field, head, schema, set_ref, snapshot, table_path
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.local_files import local_path
from webapp.catalog.storage.metadata_files import GZIP
from webapp.core import clock

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def test_config_says_what_there_is(catalog: Catalog) -> None:
    answer = catalog.call("GET", "config", query="warehouse=any")
    assert answer.status == 200
    assert "POST /v1/{prefix}/tables/rename" in answer.body["endpoints"]


def test_errors_have_icebergs_shape(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    expected = [
        ("GET", "namespaces/none", 404, "NoSuchNamespaceException"),
        ("GET", "namespaces/none/tables", 404, "NoSuchNamespaceException"),
        ("GET", "namespaces/shop/tables/none", 404, "NoSuchTableException"),
        ("POST", "namespaces/shop/tables/none/metrics", 404, "NoSuchTableException"),
        ("DELETE", "namespaces/shop/tables/none", 404, "NoSuchTableException"),
        ("DELETE", "namespaces/shop", 409, "NamespaceNotEmptyException"),
        ("GET", "nonsense", 404, "NotFoundException"),
        ("GET", "namespaces/shop/tables/orders?", 404, "NoSuchTableException"),
        ("GET", "namespaces/%00/tables", 400, "BadRequestException"),
    ]
    for method, path, status, kind in expected:
        answer = catalog.call(method, path)
        assert (answer.status, answer.error[0]) == (status, kind), path
        assert answer.body["error"]["code"] == status
    assert catalog.create_namespace("shop").error == ("AlreadyExistsException", "Namespace already exists: shop")
    assert catalog.create_table("shop.orders").error == ("AlreadyExistsException", "Table already exists: shop.orders")
    assert catalog.create_table("none.orders").error[0] == "NoSuchNamespaceException"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json_object(catalog: Catalog, body: bytes) -> None:
    for path in ("namespaces", "namespaces/shop/tables", "tables/rename", "transactions/commit"):
        assert catalog.call("POST", path, body).status == 400


def test_bodies_of_the_wrong_shape_are_a_400(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    wrong: list[tuple[str, Any]] = [
        ("namespaces", {"namespace": "shop"}),
        ("namespaces", {"namespace": []}),
        ("namespaces", {"namespace": [""]}),
        ("namespaces", {"namespace": ["x"], "properties": {"a": 1}}),
        ("namespaces/shop/properties", {"removals": "a"}),
        ("namespaces/shop/tables", {"name": "", "schema": {"type": "struct", "fields": []}}),
        ("namespaces/shop/register", {"name": "x"}),
        ("namespaces/shop/register", {"name": "x", "metadata-location": "file:///etc/passwd"}),
        ("tables/rename", {"source": {"namespace": ["shop"], "name": "orders"}}),
        ("transactions/commit", {"table-changes": [{"requirements": [], "updates": []}]}),
        (table_path("shop.orders"), {"requirements": [{"type": "assert-luck"}], "updates": []}),
        (table_path("shop.orders"), {"requirements": [], "updates": [{"action": "dance"}]}),
        (table_path("shop.orders") + "/metrics", {"report": 1}),
    ]
    for path, body in wrong:
        assert catalog.call("POST", path, body).status == 400, (path, body)
    both = {"removals": ["a"], "updates": {"a": "1"}}
    assert catalog.call("POST", "namespaces/shop/properties", both).status == 422
    assert catalog.load("shop.orders", "snapshots=some").status == 400


def test_half_a_surrogate_in_what_an_error_repeats_is_a_400(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    half = "\ud800"
    path = "namespaces/shop/tables/orders"
    for where, body in (
        ("namespaces", {"namespace": [half]}),
        ("namespaces/shop/tables", {"name": "t", "schema": {"type": half, "fields": []}}),
        ("namespaces/shop/tables", {"name": half, "schema": schema()}),
        (path, {"requirements": [{"type": half}], "updates": []}),
        (path, {"requirements": [], "updates": [{"action": half}]}),
        (path, {"requirements": [], "updates": [{"action": "set-properties", "updates": {half: half}}]}),
        (path, {"requirements": [{"type": "assert-table-uuid", "uuid": half}], "updates": []}),
        ("tables/rename", {"source": {"namespace": [half], "name": half}, "destination": {}}),
        ("oauth/tokens", half),
    ):
        assert 400 <= catalog.call("POST", where, body).status < 500, (where, body)


def test_no_token_no_answer(catalog: Catalog) -> None:
    from webapp.catalog.api.handlers import handle
    from webapp.catalog.api.http import MAX_BODY, CatalogRequest

    for headers in (
        [],
        [("authorization", "Basic abc")],
        [("authorization", "Bearer ")],
        [("authorization", "Bearer wrong")],
        [("authorization", f"Bearer {catalog.token}")] * 2,
    ):
        answer = handle(CatalogRequest("GET", "/v1/namespaces", "", headers))
        assert answer.status == 401
        assert dict(answer.headers)["www-authenticate"].startswith("Bearer")
    large = CatalogRequest("POST", "/v1/namespaces", "", [], b"x" * (MAX_BODY + 1))
    assert handle(large).status == 413
    twice = [("authorization", f"Bearer {catalog.token}"), ("x-pltr-branch", "a"), ("x-pltr-branch", "a")]
    assert handle(CatalogRequest("GET", "/v1/namespaces", "", twice)).status == 400


def test_tokens_for_engines(catalog: Catalog) -> None:
    import base64

    def ask(body: str, **headers: str) -> Any:
        return catalog.call("POST", "oauth/tokens", body.encode(), headers=headers)

    exchange = quote("urn:ietf:params:oauth:grant-type:token-exchange")
    good = ask(f"grant_type=client_credentials&client_id=admin&client_secret={catalog.token}&scope=catalog")
    assert (good.status, good.body["access_token"], good.body["token_type"]) == (200, catalog.token, "bearer")
    assert ask(f"grant_type={exchange}&subject_token={catalog.token}").status == 200
    for body, status, code in (
        ("grant_type=client_credentials&client_id=admin&client_secret=x", 401, "invalid_client"),
        (f"grant_type=client_credentials&client_id=other&client_secret={catalog.token}", 401, "invalid_client"),
        ("grant_type=password", 400, "unsupported_grant_type"),
    ):
        answer = ask(body)
        assert (answer.status, answer.body["error"]) == (status, code)
    assert catalog.call("POST", "oauth/tokens", b"\xff").body["error"] == "invalid_request"
    from webapp.catalog.api.handlers import handle
    from webapp.catalog.api.http import CatalogRequest

    for credential, status in ((f"admin:{catalog.token}".encode(), 200), (b"admin:x", 401)):
        basic = [("authorization", "Basic " + base64.b64encode(credential).decode())]
        form = b"grant_type=client_credentials"
        assert handle(CatalogRequest("POST", "/v1/oauth/tokens", "", basic, form)).status == status
    broken = [("authorization", "Basic !")]
    assert handle(CatalogRequest("POST", "/v1/oauth/tokens", "", broken, form)).status == 401


def test_an_etag_names_one_view_of_one_file(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    catalog.append("shop.orders")
    first = catalog.load("shop.orders")
    tag = first.headers["etag"]
    assert "X-PLTR-Branch" in first.headers["vary"]
    assert catalog.load("shop.orders", **{"if-none-match": f'"x", {tag}'}).status == 304
    assert catalog.load("shop.orders", "snapshots=refs").headers["etag"] != tag
    assert catalog.on("b").load("shop.orders", **{"if-none-match": tag}).status == 200
    assert catalog.on("b").append("shop.orders").headers["etag"] == catalog.on("b").load("shop.orders").headers["etag"]
    assert catalog.load("shop.orders", **{"if-none-match": tag}).status == 200


@pytest.mark.parametrize("branch", [None, "b"])
def test_what_a_clock_that_was_ahead_has_dated_keeps_no_client_from_writing(
    catalog: Catalog, branch: str | None
) -> None:
    """Java's client refuses to commit to metadata, or to log entries, dated after its own commit."""
    catalog.create_table("shop.orders")
    before = clock.now()
    on_branch = catalog if branch is None else catalog.on(branch)
    with mock.patch.object(clock, "now", return_value=before + timedelta(days=365)):
        ahead = on_branch.append("shop.orders")
        ahead_tag = on_branch.load("shop.orders").headers["etag"]
    assert on_branch.append("shop.orders", **{"timestamp-ms": int(before.timestamp() * 1000)}).status == 200
    for query in ("", "snapshots=refs"):
        loaded = on_branch.load("shop.orders", query)
        shown = loaded.metadata
        stamps = [entry["timestamp-ms"] for entry in [*shown["snapshot-log"], *shown["metadata-log"]]]
        assert max([shown["last-updated-ms"], *stamps]) <= clock.now().timestamp() * 1000
        again = on_branch.load("shop.orders", query, **{"if-none-match": loaded.headers["etag"]})
        assert again.status == 304
    assert ahead.status == 200
    stored = json.loads(local_path(loaded.body["metadata-location"]).read_bytes())
    assert stored["last-updated-ms"] > (before + timedelta(days=300)).timestamp() * 1000, (
        "it may be ours that is behind"
    )
    assert on_branch.load("shop.orders", **{"if-none-match": ahead_tag}).status == 200


def test_a_tag_of_content_that_is_dated_ahead_is_not_good_any_more(catalog: Catalog) -> None:
    with mock.patch.object(clock, "now", return_value=clock.now() + timedelta(days=365)):
        catalog.create_table("shop.orders")
        tag = catalog.load("shop.orders").headers["etag"]
        assert catalog.load("shop.orders", **{"if-none-match": tag}).status == 304
    assert catalog.load("shop.orders", **{"if-none-match": tag}).status == 200
    for strange in ('"x', '"', tag.replace("-", "-٣"), f'{tag[:-1]}{"9" * 5000}"'):
        assert catalog.load("shop.orders", **{"if-none-match": strange}).status == 200


def test_only_referenced_snapshots(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    for _ in range(3):
        catalog.append("shop.orders")
    assert len(catalog.load("shop.orders").metadata["snapshots"]) == 3
    few = catalog.load("shop.orders", "snapshots=refs").metadata
    assert [item["snapshot-id"] for item in few["snapshots"]] == [few["current-snapshot-id"]]
    assert len(few["snapshot-log"]) == 3


def test_lists_come_in_pages(catalog: Catalog) -> None:
    for name in ("c", "a", "b"):
        catalog.create_table(f"shop.{name}")
        catalog.create_namespace("shop", name)
    for path, query, key in (
        ("namespaces/shop/tables", "", "identifiers"),
        ("namespaces", "parent=shop&", "namespaces"),
    ):
        whole = catalog.call("GET", path, query=query)
        assert len(whole.body[key]) == 3
        assert whole.body["next-page-token"] is None
        token, found = "", []
        while token is not None:
            page = catalog.call("GET", path, query=f"{query}pageSize=2&pageToken={quote(token)}")
            found += page.body[key]
            token = page.body["next-page-token"]
        assert found == whole.body[key]
        assert catalog.call("GET", path, query=f"{query}pageSize=0").status == 400
        assert catalog.call("GET", path, query=f"{query}pageToken=%21").status == 400


def test_head_says_only_whether(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    assert catalog.call("HEAD", "namespaces/shop").status == 204
    assert catalog.call("HEAD", "namespaces/none").status == 404
    assert catalog.call("HEAD", table_path("shop.orders")).status == 204
    assert catalog.call("HEAD", table_path("shop.none")).body is None


def test_branch_in_the_table_name(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    catalog.append("shop.orders")
    branch = catalog.on("b")
    branch.append("shop.orders")
    own = branch.load("shop.orders").metadata["current-snapshot-id"]
    assert branch.load("shop.orders.branch_main").metadata["current-snapshot-id"] == own
    assert catalog.on("c").load("shop.orders.branch_b").metadata["current-snapshot-id"] == own
    assert branch.load("shop.orders.branch_master").metadata["refs"].keys() == {"main", "b"}
    assert branch.load("shop.orders.branch_unknown").status == 404
    assert branch.load("shop.orders.history").status == 404
    assert catalog.load("shop.orders.branch_b").status == 404
    written = catalog.on("c").append("shop.orders.branch_b")
    assert written.status == 200
    assert branch.load("shop.orders").metadata["current-snapshot-id"] == head(written.metadata)
    catalog.create_namespace("shop", "orders")
    catalog.create_table("shop.orders.branch_b", field(1, "mine"))
    assert branch.load("shop.orders.branch_b").metadata["schemas"][0]["fields"][0]["name"] == "mine"


def test_many_tables_or_none(catalog: Catalog) -> None:
    for name in ("one", "two"):
        catalog.create_table(f"shop.{name}")

    def change(name: str, seen: int | None = None) -> dict[str, Any]:
        made = snapshot(catalog.load(f"shop.{name}").metadata, **{"timestamp-ms": 1})
        return {
            "identifier": {"namespace": ["shop"], "name": name},
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": seen}],
            "updates": [{"action": "add-snapshot", "snapshot": made}, set_ref("main", made["snapshot-id"])],
        }

    def commit(*changes: dict[str, Any]) -> int:
        return catalog.call("POST", "transactions/commit", {"table-changes": changes}).status

    assert commit(change("one"), change("two")) == 204
    before = catalog.load("shop.one").body["metadata-location"]
    assert commit(change("one", head(catalog.load("shop.one").metadata)), change("two")) == 409
    assert catalog.load("shop.one").body["metadata-location"] == before
    assert commit(change("one"), change("one")) == 400
    assert commit(change("one", head(catalog.load("shop.one").metadata))) == 204
    assert catalog.on("b").call("POST", "transactions/commit", {"table-changes": []}).status == 403


def test_rename_register_unregister(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    catalog.create_table("shop.other")
    catalog.append("shop.orders")

    def rename(source: str, target: str, space: str = "shop") -> int:
        body = {
            "source": {"namespace": ["shop"], "name": source},
            "destination": {"namespace": [space], "name": target},
        }
        return catalog.call("POST", "tables/rename", body).status

    assert rename("orders", "other") == 409
    assert rename("none", "x") == 404
    assert rename("orders", "x", "none") == 404
    assert rename("orders", "renamed") == 204
    gone = catalog.call("POST", table_path("shop.renamed") + "/unregister")
    location = gone.body["metadata-location"]
    assert gone.metadata["table-uuid"]

    def register(name: str, **body: Any) -> Any:
        return catalog.call("POST", "namespaces/shop/register", {"name": name, "metadata-location": location, **body})

    assert register("orders").status == 200
    assert register("orders").status == 409
    assert register("other", overwrite=True).status == 400
    catalog.append("shop.orders")
    assert len(catalog.load("shop.orders").metadata["snapshots"]) == 2
    assert len(register("orders", overwrite=True).metadata["snapshots"]) == 1
    refused = catalog.on("b").call(
        "POST", "namespaces/shop/register", {"name": "orders", "metadata-location": location, "overwrite": True}
    )
    assert refused.status == 403


def test_register_takes_metadata_of_old_and_of_compressing_writers(catalog: Catalog, home: Any) -> None:
    made = catalog.create_table("shop.old", properties={"format-version": "1"})
    catalog.append("shop.old")
    location = catalog.call("GET", table_path("shop.old")).body["metadata-location"]
    written = json.loads(local_path(location).read_bytes())
    folder = local_path(location).parent
    catalog.call("POST", table_path("shop.old") + "/unregister")
    files = {
        "v1.metadata.json": json.dumps({key: written[key] for key in written if key != "table-uuid"}).encode(),
        "v1.gz.metadata.json": gzip.compress(json.dumps(written).encode()),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
        body = {"name": "old", "metadata-location": (folder / name).as_uri(), "overwrite": name != "v1.metadata.json"}
        answer = catalog.call("POST", "namespaces/shop/register", body)
        assert (answer.status, len(answer.metadata["snapshots"])) == (200, 1), name
        uuids = {made.metadata["table-uuid"], answer.metadata["table-uuid"]}
        assert len(uuids) == (2 if name == "v1.metadata.json" else 1)
        catalog.call("POST", table_path("shop.old") + "/unregister")
    bomb = gzip.compress(b" " * (metadata_files.LARGEST_BYTES + 1))
    for content in (bomb, gzip.compress(b"{}")[:-9], GZIP, b""):
        (folder / "v2.metadata.json").write_bytes(content)
        body = {"name": "old", "metadata-location": (folder / "v2.metadata.json").as_uri()}
        assert catalog.call("POST", "namespaces/shop/register", body).status == 400


def test_register_takes_nothing_from_outside_the_tables_own_folder(catalog: Catalog, home: Any) -> None:
    catalog.create_table("shop.orders")
    good = catalog.load("shop.orders").metadata
    shop = home / "warehouse" / "shop"
    secret = home / "secret.json"
    secret.write_text(json.dumps(good))
    planted = shop / "x-00000000" / "metadata"
    planted.mkdir(parents=True)
    (planted / "link.json").symlink_to(secret)
    (planted / "list.json").write_text("[]")
    (planted / "broken.json").write_text("{")
    (planted / "foreign.json").write_text(json.dumps(good))
    inside = {**good, "location": planted.parent.as_uri()}
    (planted / "master.json").write_text(
        json.dumps(
            {**inside, "snapshots": [{"snapshot-id": 1}], "refs": {"master": {"snapshot-id": 1, "type": "branch"}}}
        )
    )
    (planted / "elsewhere.json").write_text(json.dumps({**inside, "properties": {"write.data.path": "file:///tmp/x"}}))
    (planted / "tomorrow.json").write_text(json.dumps({**inside, "last-updated-ms": 2**60}))
    for path in (secret, *sorted(planted.iterdir()), planted / "absent.json", shop / ".." / ".." / "secret.json"):
        body = {"name": "stolen", "metadata-location": f"file://{path}"}
        assert catalog.call("POST", "namespaces/shop/register", body).status == 400, path
    (planted / "fine.json").write_text(json.dumps(inside))
    body = {"name": "found", "metadata-location": (planted / "fine.json").as_uri()}
    assert catalog.call("POST", "namespaces/shop/register", body).status == 200


def test_stale_numbers_are_a_conflict(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    catalog.append("shop.orders")
    view = catalog.on("a").load("shop.orders").metadata
    catalog.on("b").append("shop.orders")
    late = snapshot(view, **{"timestamp-ms": view["last-updated-ms"]})
    answer = catalog.on("a").commit(
        "shop.orders", {"action": "add-snapshot", "snapshot": late}, set_ref("main", late["snapshot-id"])
    )
    assert (answer.status, answer.error[0]) == (409, "CommitFailedException")
    catalog.on("b").commit("shop.orders", *add_column(view, "one"))
    answer = catalog.on("a").commit("shop.orders", *add_column(view, "two"))
    assert (answer.status, answer.error[0]) == (409, "CommitFailedException")


def test_staging_writes_nothing_and_its_commit_makes_the_table(catalog: Catalog, home: Any) -> None:
    for branch in (None, "b"):
        name = f"staged_{branch or 'main'}"
        caller = catalog.on(branch)
        staged = caller.create_table(f"shop.{name}", **{"stage-create": True})
        assert staged.body["metadata-location"] is None
        assert caller.load(f"shop.{name}").status == 404
        location = staged.metadata["location"]
        updates = [
            {"action": "assign-uuid", "uuid": staged.metadata["table-uuid"]},
            {"action": "set-location", "location": location},
            {"action": "add-schema", "schema": staged.metadata["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        elsewhere = [*updates, {"action": "set-location", "location": "file:///tmp/x"}]
        create = [{"type": "assert-create"}]
        hostile = [{**updates[1], "location": location.replace("staged", "other")}]
        assert caller.commit(f"shop.{name}", *hostile, requirements=create).status == 400
        made = caller.commit(f"shop.{name}", *updates, requirements=create)
        assert made.status == 200, made.body
        assert caller.commit(f"shop.{name}", *updates, requirements=create).status == 409
        assert caller.commit(f"shop.{name}", *elsewhere).status in (400, 403)
        assert (catalog.load(f"shop.{name}").metadata["current-schema-id"] == 0) is (branch is None)


def test_hostile_locations_are_refused_on_every_way(catalog: Catalog) -> None:
    catalog.create_table("shop.orders")
    own = catalog.load("shop.orders").metadata["location"]
    for location in ("file:///tmp/x", "s3://bucket/x", own + "2", own + "/../x", "/etc", "file:///"):
        assert catalog.create_table("shop.new", location=location).status == 400
        assert catalog.create_table("shop.new", location=location, **{"stage-create": True}).status == 400
        assert catalog.commit("shop.orders", {"action": "set-location", "location": location}).status == 400
        for key in ("write.data.path", "write.metadata.path", "write.object-storage.path"):
            properties = {"action": "set-properties", "updates": {key: location}}
            assert catalog.commit("shop.orders", properties).status == 400
            assert catalog.create_table("shop.new", properties={key: location}).status == 400
    assert catalog.on("b").create_table("shop.orders", location="file:///tmp/x").status in (400, 409)


def test_a_point_separates_levels_where_no_namespace_has_it_in_its_name(catalog: Catalog) -> None:
    """PyIceberg's `namespace-separator`; a level may have a point in its name, and goes first."""
    catalog.create_namespace("a", "b")
    catalog.create_table("a.b.t")
    for path in ("namespaces/a.b", "namespaces/a.b/tables/t", "namespaces/a%2Eb/tables/t"):
        assert catalog.call("GET", path).status == 200, path
    listed = catalog.call("GET", "namespaces/a.b/tables").body["identifiers"]
    assert listed == [{"namespace": ["a", "b"], "name": "t"}]
    catalog.create_namespace("a", "b", "c")
    assert catalog.call("GET", "namespaces", query="parent=a.b").body["namespaces"] == [["a", "b", "c"]]
    assert catalog.call("POST", "namespaces", {"namespace": ["a.b"]}).status == 200
    assert catalog.call("GET", "namespaces/a.b").body["namespace"] == ["a.b"]
    assert catalog.call("GET", "namespaces/a.b/tables").body["identifiers"] == []
    assert catalog.call("GET", "namespaces/a..b").status == 404


def test_the_same_answers_through_django(catalog: Catalog, client: Client) -> None:
    catalog.create_namespace("a b", "c/d")
    headers = {"authorization": f"Bearer {catalog.token}"}
    assert client.get("/iceberg/v1/config", headers=headers).json()["defaults"] == {}
    got = client.get("/iceberg/v1/namespaces/a%20b%1Fc%252Fd", headers=headers)
    assert got.status_code in (200, 404)
    assert client.get("/iceberg/v1/namespaces").status_code == 401
    body = json.dumps({"namespace": ["new"]})
    made = client.post("/iceberg/v1/namespaces", body, content_type="application/json", headers=headers)
    assert made.json()["namespace"] == ["new"]
    refused = client.get("/iceberg/v1/namespaces", headers={**headers, "x-pltr-branch": ""})
    assert refused.status_code == 400
    raw = client.get("/iceberg/v1/x", headers=headers, RAW_URI="/iceberg/v1/namespaces/a%20b%1Fc%2Fd?x=1")
    assert raw.json()["namespace"] == ["a b", "c/d"]
