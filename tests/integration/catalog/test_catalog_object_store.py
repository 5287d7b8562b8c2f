"""A warehouse in an object store: who gets which keys, what they open, and what happens when objects or the store go away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from jobs.locations import is_inside
from tests.factories.catalog import Catalog, head, set_ref, snapshot, table_path
from tests.factories.object_store import BUCKET, ObjectStore
from tests.integration.catalog.test_catalog_servers import call
from webapp.accounts.services import claim_folder, create_token, grant_role
from webapp.builds.services import quotas
from webapp.catalog.api import asgi
from webapp.catalog.api.http import CatalogRequest, CatalogResponse
from webapp.catalog.models import Table
from webapp.catalog.rules import access
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.storage import credentials, metadata_files
from webapp.core.errors import StorageFull
from webapp.core.principals import JobScope

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
WANTED = {"x-iceberg-access-delegation": "vended-credentials"}
JOB = "_job/0123"
MIB = 1024**2


@pytest.fixture
def lake(object_store: ObjectStore, home: Any, settings: Any, admin: User, alone: Any) -> Iterator[Catalog]:
    """The catalog as the admin calls it, over a warehouse of this test alone."""
    object_store.configure(settings)
    settings.TRIBUTARY_WAREHOUSE = f"{object_store.warehouse}/{uuid4().hex[:8]}"
    caller = Catalog(create_token(user=admin, name="tests")[1])
    caller.create_namespace("shop")
    claim_folder(folder="shop", repository="shop")
    for name in ("orders", "clean"):
        caller.create_table(f"shop.{name}")
        caller.append(f"shop.{name}")
    yield caller
    metadata_files.forget_all()


@pytest.fixture
def as_role(make_user: Callable[..., User], catalog_for: Callable[..., Catalog]) -> Callable[..., Catalog]:
    """The catalog as somebody with a role on `shop`."""

    def make(role: str) -> Catalog:
        user = make_user(role)
        grant_role(repository="shop", user=user, role=role, by=None)
        return catalog_for(user)

    return make


def keys_of(caller: Catalog, table: str) -> dict[str, str]:
    found = caller.load(table, **WANTED).body
    [one] = found["storage-credentials"]
    assert one["prefix"] == f"{found['metadata']['location']}/"
    assert one["config"] == found["config"]
    config: dict[str, str] = one["config"]
    return config


def client_of(store: ObjectStore, config: dict[str, str]) -> Any:
    return store.client(
        aws_access_key_id=config["s3.access-key-id"],
        aws_secret_access_key=config["s3.secret-access-key"],
        aws_session_token=config["s3.session-token"],
    )


def can(act: Callable[[], Any]) -> bool:
    try:
        act()
    except ClientError as error:
        assert error.response["Error"]["Code"] in {"AccessDenied", "403"}, error
        return False
    return True


def key_of(location: str) -> str:
    return location.removeprefix(f"s3://{BUCKET}/")


def test_keys_are_given_anew_each_time_and_by_no_event_loop(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    delegations: list[bool] = []
    handle = asgi.handle

    def count(request: CatalogRequest) -> CatalogResponse:
        delegations.append(request.header("x-iceberg-access-delegation") is not None)
        return handle(request)

    monkeypatch.setattr(asgi, "handle", count)
    path = f"/iceberg/v1/{table_path('shop.orders')}".encode()
    bearer = (b"authorization", f"Bearer {lake.token}".encode())
    delegation = (b"x-iceberg-access-delegation", b"vended-credentials")
    for _ in range(3):
        status, headers, _body = call(path, headers=[bearer, delegation])
        assert status == 200
        tag = (b"if-none-match", headers[b"etag"])
        assert call(path, headers=[bearer, delegation, tag])[0] == 304
        assert call(path, headers=[bearer])[0] == 200
    assert delegations.count(True) == 6
    assert delegations.count(False) == (1 if connection.vendor == "sqlite" else 3)


def test_keys_come_only_where_they_are_asked_for_and_name_the_store(lake: Catalog, object_store: ObjectStore) -> None:
    plain = lake.load("shop.orders").body
    assert "storage-credentials" not in plain
    assert plain["config"] == {
        "client.region": "us-east-1",
        "s3.region": "us-east-1",
        "s3.endpoint": object_store.endpoint,
        "s3.path-style-access": "true",
        "s3.force-virtual-addressing": "false",
    }
    config = keys_of(lake, "shop.orders")
    assert config["s3.session-token"]
    assert config["client.refresh-credentials-endpoint"] == "v1/namespaces/shop/tables/orders/credentials"
    again = lake.call("GET", table_path("shop.orders") + "/credentials").body["storage-credentials"]
    assert again[0]["config"] == config
    assert keys_of(lake, "shop.clean")["s3.access-key-id"] != config["s3.access-key-id"]


def test_keys_open_one_table_as_far_as_the_role_goes(
    lake: Catalog, as_role: Callable[..., Catalog], object_store: ObjectStore
) -> None:
    orders, clean = (key_of(lake.load(f"shop.{name}").metadata["location"]) for name in ("orders", "clean"))
    number = {role: None for role in ("reader", "writer", "maintainer")}
    allowed: dict[str, list[bool]] = {}
    for role in number:
        caller = as_role(role).on("feature")
        config = keys_of(caller, "shop.orders")
        own = (
            caller.load("shop.orders").metadata["properties"].get(access.DATA_PATH, f"s3://{BUCKET}/{orders}/data/own")
        )
        s3 = client_of(object_store, config)
        file = key_of(lake.load("shop.orders").body["metadata-location"])
        allowed[role] = [
            can(lambda s3=s3, file=file: s3.get_object(Bucket=BUCKET, Key=file)),
            can(lambda s3=s3: s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{orders}/data/")),
            can(lambda s3=s3, own=own: s3.put_object(Bucket=BUCKET, Key=f"{key_of(own)}/x.parquet", Body=b"1")),
            can(lambda s3=s3, own=own: s3.delete_object(Bucket=BUCKET, Key=f"{key_of(own)}/x.parquet")),
            can(lambda s3=s3: s3.put_object(Bucket=BUCKET, Key=f"{orders}/data/x.parquet", Body=b"1")),
        ]
        for key in (file, f"{orders}/metadata/00009-x.metadata.json", f"{clean}/data/x", f"{orders}2/x", "x"):
            assert not can(lambda s3=s3, key=key: s3.put_object(Bucket=BUCKET, Key=key, Body=b"1"))
            assert not can(lambda s3=s3, key=key: s3.delete_object(Bucket=BUCKET, Key=key))
        other = key_of(lake.load("shop.clean").body["metadata-location"])
        assert not can(lambda s3=s3: s3.get_object(Bucket=BUCKET, Key=other))
        assert not can(lambda s3=s3: s3.list_objects_v2(Bucket=BUCKET, Prefix=""))
        source = {"Bucket": BUCKET, "Key": other}
        assert not can(lambda s3=s3: s3.copy_object(Bucket=BUCKET, Key=f"{orders}/data/stolen", CopySource=source))
    assert allowed == {
        "reader": [True, True, False, False, False],
        "writer": [True, True, True, True, False],
        "maintainer": [True, True, True, True, True],
    }


def test_a_job_reads_its_inputs_and_adds_to_its_outputs(lake: Catalog, admin: User, object_store: ObjectStore) -> None:
    pin = {"branch": "master", "snapshot_id": head(lake.load("shop.orders").metadata)}
    scope = JobScope(
        job_id="0123",
        branch=JOB,
        base_branch="feature",
        chain=("feature", "master"),
        inputs={"shop.orders": pin},
        outputs=("shop.clean",),
    )
    job = Catalog(create_token(user=admin, name="job", job_scope=scope)[1], JOB)
    for table, writes in (("shop.orders", False), ("shop.clean", True)):
        view = job.load(table, **WANTED).metadata
        shown = view["properties"].get(access.DATA_PATH)
        assert shown == (f"{view['location']}/data/job-0123-1" if writes else None)
        s3 = client_of(object_store, keys_of(job, table))
        for folder, expected in (("data/job-0123-1", writes), ("metadata/job-0123-1", writes), ("data", False)):
            key = f"{key_of(view['location'])}/{folder}/new.parquet"
            assert can(lambda s3=s3, key=key: s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")) is expected


def test_what_a_writer_is_shown_is_never_stored(lake: Catalog, as_role: Callable[..., Catalog]) -> None:
    writer = as_role("writer").on("feature")
    shown = writer.load("shop.orders").metadata["properties"]
    assert {access.DATA_PATH, access.METADATA_PATH} <= shown.keys()
    answer = writer.commit("shop.orders", {"action": "set-properties", "updates": {**shown, "a": "1"}})
    assert answer.status == 200, answer.body
    assert answer.metadata["properties"][access.DATA_PATH] == shown[access.DATA_PATH]
    assert writer.commit("shop.orders", {"action": "set-properties", "updates": dict(shown)}).status == 200
    stored = lake.load("shop.orders").metadata["properties"]
    assert stored["a"] == "1"
    assert not {access.DATA_PATH, access.METADATA_PATH} & stored.keys()
    staged = writer.create_table("shop.made", **{"stage-create": True})
    assert staged.status == 200, staged.body
    made = staged.metadata
    updates = [
        {"action": "assign-uuid", "uuid": made["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": made["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-location", "location": made["location"]},
        {"action": "set-properties", "updates": made["properties"]},
    ]
    created = writer.commit("shop.made", *updates, requirements=[{"type": "assert-create"}])
    assert created.status == 200, created.body
    assert access.DATA_PATH not in lake.load("shop.made").metadata["properties"]


def test_answers_are_fresh_for_as_long_as_their_keys(lake: Catalog) -> None:
    tag = lake.load("shop.orders", **WANTED).headers["etag"]
    assert lake.load("shop.orders", **{**WANTED, "if-none-match": tag}).status == 304
    assert lake.load("shop.orders", **{"if-none-match": tag}).status == 200
    credentials._kept.clear()
    assert lake.load("shop.orders", **{**WANTED, "if-none-match": tag}).status == 200


def test_callers_of_one_view_get_their_own_keys_and_folders_however_often_they_ask(
    lake: Catalog, make_user: Callable[..., User], catalog_for: Callable[..., Catalog]
) -> None:
    users = [make_user(name) for name in ("ann", "bob", "cyd")]
    for user in users:
        grant_role(repository="shop", user=user, role="writer", by=None)
    callers = [catalog_for(user).on("feature") for user in users]
    callers[0].append("shop.orders")
    answers = [caller.load("shop.orders", **WANTED) for caller in callers]
    for kept in range(3):
        again = [caller.load("shop.orders", **WANTED) for caller in callers]
        assert [one.body for one in again] == [one.body for one in answers], kept
    for part in (
        {one.body["config"]["s3.access-key-id"] for one in answers},
        {one.metadata["properties"][access.DATA_PATH] for one in answers},
        {one.headers["etag"] for one in answers},
    ):
        assert len(part) == len(callers)
    for one in answers:
        for caller, own in zip(callers, answers, strict=True):
            status = caller.load("shop.orders", **{**WANTED, "if-none-match": one.headers["etag"]}).status
            assert status == (304 if own is one else 200)
    # Nobody's folder is shown to those who write wherever they like, nor any key to those who do not ask.
    plain = lake.on("feature").load("shop.orders").body
    assert access.DATA_PATH not in plain["metadata"]["properties"]
    assert "storage-credentials" not in plain
    assert not {one.body["config"]["s3.access-key-id"] for one in answers} & set(plain["config"].values())
    staged = callers[1].create_table("shop.staged", **{"stage-create": True})
    assert "user-" in staged.metadata["properties"][access.DATA_PATH]


def test_without_a_role_nobody_gets_keys_unless_they_are_shared(lake: Catalog, admin: User, settings: Any) -> None:
    settings.TRIBUTARY_S3_ROLE = ""
    assert "storage-credentials" not in lake.load("shop.orders", **WANTED).body
    assert lake.call("GET", table_path("shop.orders") + "/credentials").body == {"storage-credentials": []}
    scope = JobScope(job_id="1", branch="_job/1", base_branch="b", chain=("b",), inputs={}, outputs=("shop.clean",))
    job = Catalog(create_token(user=admin, name="job", job_scope=scope)[1], "_job/1")
    refused = job.load("shop.clean", **WANTED)
    assert refused.status == 403
    assert "TRIBUTARY_S3_ROLE" in refused.error[1]
    settings.TRIBUTARY_S3_SHARE_KEYS = True
    assert keys_of(lake, "shop.orders")["s3.access-key-id"] == settings.TRIBUTARY_S3_KEYS["aws_access_key_id"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", None])
def test_a_damaged_object_is_the_trouble_of_one_table(
    lake: Catalog, object_store: ObjectStore, damage: bytes | None
) -> None:
    key = key_of(lake.load("shop.orders").body["metadata-location"])
    client = object_store.client()
    whole = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    metadata_files.forget_all()
    if damage is None:
        client.delete_object(Bucket=BUCKET, Key=key)
    else:
        client.put_object(Bucket=BUCKET, Key=key, Body=damage)
    touch = {"action": "set-properties", "updates": {"a": "1"}}
    for answer in (lake.load("shop.orders"), lake.on("b").load("shop.orders"), lake.commit("shop.orders", touch)):
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "missing or damaged" in answer.error[1]
    assert lake.load("shop.clean").status == 200
    client.put_object(Bucket=BUCKET, Key=key, Body=whole)
    assert lake.commit("shop.orders", touch).status == 200


def test_a_store_that_is_away_is_a_503_and_the_same_key_settles_it(lake: Catalog, settings: Any) -> None:
    view = lake.load("shop.orders").metadata
    made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"]})
    body = {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head(view)}],
        "updates": [{"action": "add-snapshot", "snapshot": made}, set_ref("main", made["snapshot-id"])],
    }
    key, endpoint = str(uuid4()), settings.TRIBUTARY_S3_ENDPOINT
    settings.TRIBUTARY_S3_ENDPOINT = settings.TRIBUTARY_S3_STS_ENDPOINT = "http://127.0.0.1:9"
    credentials._kept.clear()
    refused = lake.call("POST", table_path("shop.orders"), body, headers={"idempotency-key": key})
    assert (refused.status, refused.error[0]) == (503, "ServiceUnavailableException")
    assert refused.headers["retry-after"]
    assert lake.load("shop.orders", **WANTED).status == 503
    assert lake.create_table("shop.new").status == 503
    # What is in memory can be read without the store.
    assert lake.load("shop.orders").status == 200
    settings.TRIBUTARY_S3_ENDPOINT = settings.TRIBUTARY_S3_STS_ENDPOINT = endpoint
    for _ in range(2):
        assert lake.call("POST", table_path("shop.orders"), body, headers={"idempotency-key": key}).status == 200
    assert len(lake.load("shop.orders").metadata["snapshots"]) == 2


def test_an_answer_that_was_lost_is_no_second_file(lake: Catalog, object_store: ObjectStore) -> None:
    """The store has the object although the client never heard so, and tries again."""
    location = f"{lake.load('shop.orders').metadata['location']}/metadata/1-{uuid4()}.metadata.json"
    from webapp.runtime import object_store as store

    store.write_new(location, b"{}")
    store.write_new(location, b"other")
    assert store.read(location) == b"{}"


def test_a_lost_race_leaves_no_object(lake: Catalog, object_store: ObjectStore) -> None:
    from webapp.catalog.services import swaps

    prefix = key_of(lake.load("shop.orders").metadata["location"])
    before = object_store.list(prefix)
    with mock.patch.object(swaps, "_move", side_effect=swaps.LostRace):
        answer = lake.commit("shop.orders", {"action": "set-properties", "updates": {"a": "1"}})
    assert answer.status == 503
    assert object_store.list(prefix) == before


def test_a_client_chooses_a_location_below_a_prefix_of_the_bucket(
    lake: Catalog, object_store: ObjectStore, settings: Any, as_role: Callable[[str], Catalog]
) -> None:
    prefix = f"s3://{BUCKET}/{uuid4().hex[:8]}"
    settings.TRIBUTARY_LOCATIONS = (prefix,)
    writer = as_role("maintainer")
    for location in (prefix, f"{prefix}2/t", f"{prefix}//t", f"{prefix}/a/../t", f"{prefix}/%74", f"{prefix}/t*"):
        assert writer.create_table("shop.t", location=location).status == 400, location
    staged = writer.create_table("shop.t", location=f"{prefix}/t", **{"stage-create": True}).metadata
    object_store.client().put_object(Bucket=BUCKET, Key=f"{key_of(prefix)}/t/data/rows", Body=b"x")
    updates = [
        {"action": "set-location", "location": staged["location"]},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    assert writer.commit("shop.t", *updates, requirements=[{"type": "assert-create"}]).status == 200
    assert keys_of(writer, "shop.t")
    assert writer.create_table("shop.u", location=f"{prefix}/t/u").status == 400
    assert writer.create_table("shop.t2", location=f"{prefix}/t2").status == 200
    assert writer.call("DELETE", table_path("shop.t2")).status == 204
    assert writer.create_table("shop.t2", location=f"{prefix}/t2").status == 403
    assert lake.create_table("shop.t2", location=f"{prefix}/t2").status == 200
    assert writer.call("DELETE", table_path("shop.t"), query="purgeRequested=true").status == 204
    assert object_store.list(f"{key_of(prefix)}/t/") == []
    assert object_store.list(f"{key_of(prefix)}/t2/")


def test_purge_and_register_follow_the_rules_of_files(lake: Catalog, object_store: ObjectStore, settings: Any) -> None:
    gone = lake.load("shop.orders").body
    prefix = key_of(gone["metadata"]["location"])
    assert lake.call("POST", table_path("shop.orders") + "/unregister").status == 200
    assert object_store.list(prefix)

    def register(location: str) -> int:
        return lake.call("POST", "namespaces/shop/register", {"name": "orders", "metadata-location": location}).status

    whole = gone["metadata-location"]
    warehouse = settings.TRIBUTARY_WAREHOUSE
    for hostile in (
        whole.replace(f"s3://{BUCKET}/", "s3://other/"),
        whole.replace("s3://", "s3a://"),
        whole.replace("s3://", "file:///"),
        whole.replace("/shop/", "/shop/../shop/"),
        whole.replace("/shop/", "/shop//"),
        whole.replace("/shop/", "/%2e%2e/"),
        whole.replace("/metadata/", "/meta\ndata/"),
        f"{warehouse}2/shop/x/metadata/1.metadata.json",
        f"{warehouse}/shop/nothing/metadata/1.metadata.json",
        whole + "?versionId=1",
    ):
        assert register(hostile) == 400, hostile
    assert register(whole) == 200
    assert Table.objects.get(name="orders").location == gone["metadata"]["location"]
    assert lake.call("DELETE", table_path("shop.orders"), query="purgeRequested=true").status == 204
    assert object_store.list(prefix) == []
    assert object_store.list(key_of(lake.load("shop.clean").metadata["location"]))


@pytest.mark.parametrize(
    ("location", "inside"),
    [
        ("s3://lake/w/t", True),
        ("s3://lake/w/t/data/a=1%2F2/x.parquet", True),
        ("s3://lake/w/t/", True),
        ("s3://lake/w/t2/x", False),
        ("s3://lake/w/t/../u", False),
        ("s3://lake/w/t/%2E%2e/u", False),
        ("s3://lake/w/t//x", False),
        ("s3://lake//w/t/x", False),
        ("s3://LAKE/w/t/x", False),
        ("s3://user@lake/w/t/x", False),
        ("s3a://lake/w/t/x", False),
        ("S3://lake/w/t/x", False),
        ("s3:/lake/w/t/x", False),
        ("file:///lake/w/t/x", False),
        ("s3://lake/w/t/x?y", False),
        ("s3://lake/w/t/x#y", False),
        ("s3://lake/w/t\\x", False),
        ("s3://lake/w/t/\nx", False),
        ("", False),
    ],
)
def test_containment_in_a_store_goes_by_the_text(location: str, *, inside: bool) -> None:
    assert is_inside(location, "s3://lake/w/t") is inside


@pytest.mark.parametrize("part", ["*", "t*", "t?", "${aws:username}", 't"', "t'", "t t", "t\\", "t\n", "ü", ""])
def test_no_policy_is_made_of_a_location_that_says_something_else_there(part: str) -> None:
    with pytest.raises(Malformed):
        access.session_policy(f"s3://lake/{part}", access.Access.READ, who="user-1")


@given(
    st.lists(st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True), min_size=1, max_size=4),
    st.sampled_from(access.Access),
)
def test_a_policy_allows_nothing_outside_its_table(parts: list[str], kind: access.Access) -> None:
    location = "/".join(["s3://lake", *parts])
    policy = access.session_policy(location, kind, who="user-1")
    allowed = [one for one in policy["Statement"] if one["Effect"] == "Allow"]
    resources = [resource for one in allowed for resource in one["Resource"] if one["Action"] != ["s3:ListBucket"]]
    assert all(resource.startswith(f"arn:aws:s3:::{location.removeprefix('s3://')}/") for resource in resources)
    assert all(resource.count("*") == 1 and resource.endswith("/*") for resource in resources)
    assert len(json.dumps(policy, separators=(",", ":"))) < 2048


def test_what_lies_in_the_store_counts_for_the_quota_of_its_repository(
    lake: Catalog, object_store: ObjectStore, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "KEPT_S", 0.0)
    monkeypatch.setattr(quotas, "MEASURING_SHARE", 0)
    settings.TRIBUTARY_REPOSITORY_DATA_BYTES = MIB
    room = quotas.find_data_room(repository="shop")
    assert room is not None
    assert 0 < room < MIB
    location = Table.objects.get(name="orders").location
    store = object_store.client()
    store.put_object(Bucket=BUCKET, Key=key_of(f"{location}/data/job-1-1/rows"), Body=bytes(2 * MIB))
    with pytest.raises(StorageFull, match="repository shop"):
        quotas.find_data_room(repository="shop")
