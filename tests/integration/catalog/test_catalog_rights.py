"""Who may do what: roles per folder and branch, scopes of tokens, and jobs that see their inputs and write their outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories.catalog import Catalog, head, set_ref, table_path
from webapp.accounts.queries import authenticate_token
from webapp.accounts.services import claim_folder, create_token, grant_role
from webapp.catalog import ports
from webapp.catalog.services import render_input
from webapp.core.principals import JobScope

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
JOB = "_job/0123"


@pytest.fixture
def tables(catalog: Catalog) -> Catalog:
    """Two tables with one snapshot each in a folder of the repository `shop`."""
    claim_folder(folder="shop", repository="shop")
    for name in ("orders", "clean"):
        catalog.create_table(f"shop.{name}")
        catalog.append(f"shop.{name}")
    return catalog


@pytest.fixture
def as_role(make_user: Callable[..., User], catalog_for: Callable[..., Catalog]) -> Callable[..., Catalog]:
    """The catalog as somebody with a role on `shop`."""

    def make(role: str | None, **token: Any) -> Catalog:
        user = make_user(f"{role}-{len(token)}")
        if role is not None:
            grant_role(repository="shop", user=user, role=role, by=None)
        return catalog_for(user, **token)

    return make


def test_what_one_may_not_see_is_not_there(tables: Catalog, as_role: Callable[..., Catalog]) -> None:
    stranger = as_role(None)
    assert stranger.call("GET", "namespaces").body["namespaces"] == []
    for method, path in (
        ("GET", "namespaces/shop"),
        ("GET", "namespaces/shop/tables"),
        ("DELETE", "namespaces/shop"),
        ("GET", table_path("shop.orders")),
        ("DELETE", table_path("shop.orders")),
        ("GET", table_path("shop.orders") + "/credentials"),
    ):
        hidden, absent = (stranger.call(method, path.replace("shop", name)) for name in ("shop", "nope"))
        assert hidden.status == absent.status == 404
        assert hidden.error[0] == absent.error[0]
    for caller in (stranger, stranger.on("b")):
        assert caller.commit("shop.orders", {"action": "set-properties", "updates": {"a": "1"}}).status == 404
        assert caller.create_table("shop.new").status == 404


def test_readers_read_writers_write_branches_maintainers_write_master(
    tables: Catalog, as_role: Callable[..., Catalog]
) -> None:
    touch = {"action": "set-properties", "updates": {"a": "1"}}
    number = head(tables.load("shop.orders").metadata) or 0
    for role, branch_status, master_status in (("reader", 403, 403), ("writer", 200, 403), ("maintainer", 200, 200)):
        caller = as_role(role)
        assert caller.load("shop.orders").status == 200
        assert caller.on("b").commit("shop.orders", touch).status == branch_status
        assert caller.commit("shop.orders", set_ref(f"of-{role}", number)).status == branch_status
        assert caller.on("b").commit("shop.orders", set_ref("master", number)).status in (master_status, 200)
        assert caller.commit("shop.orders", touch).status == master_status
        assert caller.create_table(f"shop.new_{role}").status == master_status
        assert caller.on("b").create_table(f"shop.newer_{role}").status == branch_status
        rename = {
            "source": {"namespace": ["shop"], "name": f"newer_{role}"},
            "destination": {"namespace": ["shop"], "name": f"newest_{role}"},
        }
        assert caller.call("POST", "tables/rename", rename).status == (204 if role == "maintainer" else 403)
        assert caller.call("DELETE", "namespaces/shop").status == (409 if role == "maintainer" else 403)


def test_moving_master_through_a_branch_needs_the_right_to_master(
    tables: Catalog, as_role: Callable[..., Catalog]
) -> None:
    tables.append("shop.orders")
    old = tables.load("shop.orders").metadata["snapshots"][0]["snapshot-id"]
    writer = as_role("writer").on("b")
    assert writer.commit("shop.orders", set_ref("master", old)).status == 403
    assert writer.append("shop.orders.branch_master").status == 403


def test_a_branch_makes_tags_and_moves_none(tables: Catalog, as_role: Callable[..., Catalog]) -> None:
    number = head(tables.load("shop.orders").metadata) or 0
    assert tables.commit("shop.orders", set_ref("v1", number, "tag")).status == 200
    writer = as_role("writer").on("b")
    assert writer.append("shop.orders").status == 200
    later = head(writer.load("shop.orders").metadata) or 0
    assert writer.commit("shop.orders", set_ref("mine", later, "tag")).status == 200
    for update in (set_ref("v1", later, "tag"), {"action": "remove-snapshot-ref", "ref-name": "v1"}):
        assert writer.commit("shop.orders", update).status == 403
        assert tables.load("shop.orders").metadata["refs"]["v1"]["snapshot-id"] == number


def test_scopes_of_a_token(tables: Catalog, as_role: Callable[..., Catalog]) -> None:
    reading = as_role("maintainer", scopes=["read"])
    assert reading.load("shop.orders").status == 200
    assert reading.on("b").commit("shop.orders", {"action": "set-properties", "updates": {}}).status == 403
    assert reading.call("POST", "namespaces/shop/properties", {"updates": {"a": "1"}}).status == 403


def test_a_new_folder_belongs_to_its_maker(
    catalog: Catalog, make_user: Callable[..., User], catalog_for: Callable[..., Catalog]
) -> None:
    maker, other = (catalog_for(make_user(name)) for name in ("maker", "other"))
    assert maker.create_namespace("own", "inner").status == 200
    assert maker.create_table("own.inner.t").status == 200
    assert maker.create_table("own.inner.odd name").status == 200
    assert maker.on("b").append("own.inner.odd name").status == 200
    assert other.create_namespace("own", "mine").status == 404
    for table in ("own.inner.t", "own.inner.odd name"):
        assert other.load(table).status == 404
        assert other.commit(table).status == 404


def test_a_refused_namespace_gives_nobody_its_folder(
    make_user: Callable[..., User], catalog_for: Callable[..., Catalog]
) -> None:
    reader, maker = make_user("reader"), make_user("maker")
    assert catalog_for(reader, scopes=["read"]).create_namespace("free").status == 403
    assert catalog_for(maker).create_namespace("free").status == 200
    assert catalog_for(reader).call("GET", "namespaces/free").status == 404


def test_internal_branches_are_not_for_people(tables: Catalog) -> None:
    for name in ("_job/1", "_review/shop/1/base"):
        assert tables.on(name).load("shop.orders").status == 403
        assert tables.on(name).commit("shop.orders", {"action": "set-properties", "updates": {}}).status == 403
        assert tables.commit("shop.orders", set_ref(name, 1)).status == 403


def test_the_opener_of_a_transaction_writes_its_staging_branch(
    tables: Catalog, monkeypatch: pytest.MonkeyPatch, as_role: Callable[..., Catalog]
) -> None:
    def chain(**asked: Any) -> tuple[str, ...] | None:
        return ("b", "master") if asked["branch"] == "_transaction/1" else None

    monkeypatch.setattr(ports, "find_chain", chain)
    assert as_role("writer").on("_transaction/1").append("shop.orders").status == 200
    assert as_role("reader").on("_transaction/1").commit("shop.orders", set_ref("main", 1)).status == 403
    assert head(tables.on("b").load("shop.orders").metadata) == head(tables.load("shop.orders").metadata)


# --- jobs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(tables: Catalog, admin: User) -> Catalog:
    """The catalog as a job calls it: orders pinned to its first snapshot, clean written for branch b."""
    pin = tables.load("shop.orders").metadata
    tables.append("shop.orders")
    scope = JobScope(
        job_id="0123",
        branch=JOB,
        base_branch="b",
        chain=("b", "master"),
        inputs={
            "shop.orders": {
                "branch": "master",
                "snapshot_id": pin["current-snapshot-id"],
                "schema_id": pin["current-schema-id"],
                "spec_id": 0,
                "order_id": 0,
            }
        },
        outputs=("shop.clean",),
    )
    _row, secret = create_token(user=admin, name="job", job_scope=scope)
    return Catalog(secret, JOB)


def test_a_job_sees_its_inputs_as_pinned_and_cannot_write_them(job: Catalog, tables: Catalog) -> None:
    seen = job.load("shop.orders").metadata
    assert head(seen) == seen["snapshots"][0]["snapshot-id"]
    assert head(tables.load("shop.orders").metadata) != head(seen)
    assert seen["refs"]["master"]["snapshot-id"] == head(tables.load("shop.orders").metadata)
    assert job.load("shop.orders", **{"if-none-match": job.load("shop.orders").headers["etag"]}).status == 304
    assert job.append("shop.orders").error[1].endswith("which may only read it")


def test_render_input_equals_the_answer_to_the_job(job: Catalog, tables: Catalog) -> None:
    scope = authenticate_token(job.token).job
    assert scope is not None
    tables.append("shop.orders")
    prepared = render_input(table="shop.orders", scope=scope)
    assert prepared is not None
    assert json.loads(prepared) == job.load("shop.orders").body
    assert render_input(table="shop.clean", scope=replace(scope, inputs={"shop.clean": {}})) is None


def test_a_job_writes_its_outputs_on_its_staging_branch(job: Catalog, tables: Catalog) -> None:
    first = head(job.load("shop.clean").metadata)
    assert first == head(tables.load("shop.clean").metadata)
    assert job.append("shop.clean").status == 200
    assert head(job.load("shop.clean").metadata) != first
    assert head(tables.load("shop.clean").metadata) == head(tables.on("b").load("shop.clean").metadata) == first
    assert tables.load("shop.clean").metadata["refs"].keys() == {"main", JOB}
    # The rows are there, but not for anybody before the job publishes them, by whatever operation.
    for method, path in (("GET", ""), ("HEAD", ""), ("GET", "/credentials"), ("POST", "/plan"), ("POST", "/metrics")):
        assert tables.on(JOB).call(method, table_path("shop.clean") + path, {}).status == 403
    for caller in (tables.on(JOB), tables.on("b"), tables):
        assert caller.load("shop.clean.branch__job/0123").status in (403, 404)


@pytest.mark.parametrize("branch", [None, "main", "master", "b", "other", "_job/9999"])
def test_a_job_has_one_branch(job: Catalog, tables: Catalog, branch: str | None) -> None:
    before = tables.load("shop.clean").body
    caller = job.on(branch)
    for table in ("shop.orders", "shop.clean"):
        assert caller.load(table).status == 403
        assert caller.commit(table, {"action": "set-properties", "updates": {"a": "1"}}).status == 403
        assert caller.call("DELETE", table_path(table)).status == 403
    assert caller.create_table("shop.new").status in (403, 404)
    assert tables.load("shop.clean").body == before


def test_a_job_reaches_no_other_branch_by_ref_or_by_name(job: Catalog) -> None:
    number = head(job.load("shop.clean").metadata) or 0
    for name in ("master", "b", "new"):
        assert job.commit("shop.clean", set_ref(name, number)).status == 403
    assert job.commit("shop.clean", set_ref("feature/x", number, "tag")).status == 403
    for name in ("master", "b"):
        assert job.load(f"shop.clean.branch_{name}").status == 403
    assert job.load("shop.clean.branch_main").status == 200


def test_a_job_changes_statistics_of_its_own_snapshots_only(job: Catalog, tables: Catalog) -> None:
    view = job.load("shop.clean").metadata

    def statistics(number: int | None) -> dict[str, Any]:
        return {
            "snapshot-id": number,
            "statistics-path": f"{view['properties']['write.metadata.path']}/s.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }

    def list_changes(number: int | None) -> list[dict[str, Any]]:
        return [
            {"action": "set-statistics", "statistics": statistics(number)},
            {"action": "set-partition-statistics", "partition-statistics": statistics(number)},
            {"action": "remove-statistics", "snapshot-id": number},
            {"action": "remove-partition-statistics", "snapshot-id": number},
        ]

    for change in list_changes(head(view)):
        refused = job.commit("shop.clean", change)
        assert (refused.status, "its own snapshots only" in refused.error[1]) == (403, True), change
    assert job.append("shop.clean").status == 200
    own = head(job.load("shop.clean").metadata)
    for change in list_changes(own):
        assert job.commit("shop.clean", change).status == 200, change


def test_a_job_knows_its_tables_only(job: Catalog, tables: Catalog) -> None:
    tables.create_table("shop.secret")
    tables.create_namespace("elsewhere")
    assert job.load("shop.secret").status == 404
    assert job.commit("shop.secret").status == 404
    assert job.create_table("shop.more").status == 404
    assert [item["name"] for item in job.call("GET", "namespaces/shop/tables").body["identifiers"]] == [
        "clean",
        "orders",
    ]
    assert job.call("GET", "namespaces").body["namespaces"] == [["shop"]]
    assert job.call("GET", "namespaces/elsewhere").status == 404
    assert job.create_namespace("elsewhere").status == 404
    assert job.create_namespace("shop").status == 409
    assert job.create_table("shop.clean").status == 409
    assert job.call("POST", "namespaces/shop/register", {"name": "x", "metadata-location": "file:///x"}).status in (
        400,
        403,
        404,
    )


def test_a_job_that_is_over_can_do_nothing(job: Catalog) -> None:
    from webapp.accounts.services import revoke_job_tokens

    revoke_job_tokens(job_id="0123", attempt=0)
    assert job.load("shop.orders").status == 200, "an earlier attempt ends"
    revoke_job_tokens(job_id="0123", attempt=1)
    assert job.load("shop.orders").status == 401


def test_an_input_without_data_is_pinned_to_nothing(tables: Catalog, admin: User) -> None:
    scope = JobScope(
        job_id="1", branch="_job/1", base_branch="b", chain=("b",), inputs={"shop.orders": {}}, outputs=("shop.clean",)
    )
    caller = Catalog(create_token(user=admin, name="job", job_scope=scope)[1], "_job/1")
    seen = caller.load("shop.orders").metadata
    assert head(seen) is None
    root = caller.load("shop.clean").metadata
    assert head(root) is None
    assert caller.append("shop.clean").status == 200
