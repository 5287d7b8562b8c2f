"""What nothing refers to is collected when it is old; what anything may still need is not, on files and on objects."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from jobs.engine.read.listing import Listing
from tests.factories.catalog import Catalog, schema
from tests.factories.object_store import BUCKET, ObjectStore
from tests.unit.catalog.test_views import version
from webapp.catalog.models import Table
from webapp.catalog.services import collector, swaps
from webapp.catalog.services.collector import Collector, collect_table, collect_view
from webapp.catalog.storage import local_files, metadata_files, references
from webapp.core import clock

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("readers"),
]
ORDERS = "shop.orders"
LONG_AGO = time.time() - 10 * 24 * 3600


def age(folder: Path) -> None:
    """Make everything in a folder ten days old."""
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def three_days() -> Any:
    return clock.now() - timedelta(days=3)


def a_week_ahead() -> Any:
    return clock.now() + timedelta(days=7)


def folder_of(home: Path, name: str = "orders") -> Path:
    [found] = (home / "warehouse" / "shop").glob(f"{name}-*")
    return found


@pytest.fixture
def orders(catalog: Catalog) -> Catalog:
    """A table without data."""
    catalog.create_table(ORDERS)
    return catalog


@pytest.fixture
def client(live_server: Any, catalog: Catalog, settings: Any) -> Callable[..., Any]:
    """PyIceberg on a branch, or without the header."""
    from pyiceberg.catalog import load_catalog

    settings.ALLOWED_HOSTS = ["*"]

    def on(branch: str | None = None) -> Any:
        header = {} if branch is None else {"header.X-PLTR-Branch": branch}
        uri = f"{live_server.url}/iceberg"
        return load_catalog("t", **{"type": "rest", "uri": uri, "token": catalog.token, **header})

    return on


@pytest.fixture
def written(client: Callable[..., Any]) -> Any:
    """A table with data on master and on a branch of its own schema, deletes, an overwrite, and a branch that is gone."""
    from pyiceberg.types import StringType

    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "part": ["a/b", "c%d", "e f"]})
    table = client().create_table(ORDERS, rows.schema)
    with table.update_spec() as update:
        update.add_identity("part")
    table.append(rows)
    table.delete("id = 2")
    table.overwrite(rows)
    branch = client("feature/x").load_table(ORDERS)
    with branch.update_schema() as update:
        update.add_column("more", StringType())
    branch.refresh().append(pa.table({"id": pa.array([4], pa.int64()), "part": ["g"], "more": ["h"]}))
    client("gone").load_table(ORDERS).append(rows)
    return client


def rows_of(client: Callable[..., Any], branch: str | None = None) -> list[Any]:
    return sorted(client(branch).load_table(ORDERS).scan().to_arrow().to_pylist(), key=str)


def read_all(client: Callable[..., Any]) -> list[Any]:
    """The rows of every snapshot."""
    table = client().load_table(ORDERS)
    return [table.scan(snapshot_id=one.snapshot_id).to_arrow().num_rows for one in table.snapshots()]


def test_nothing_that_any_branch_or_snapshot_needs_is_collected(written: Callable[..., Any], home: Path) -> None:
    before = (rows_of(written), rows_of(written, "feature/x"), read_all(written))
    folder = folder_of(home)
    age(folder)
    files = sorted(folder.rglob("*"))
    found = collect_table(Table.objects.get(), older_than=three_days())
    assert found == collector.Collected()
    assert sorted(folder.rglob("*")) == files
    metadata_files.forget_all()
    assert (rows_of(written), rows_of(written, "feature/x"), read_all(written)) == before


def test_orphans_go_when_they_are_old_and_not_before(written: Callable[..., Any], home: Path) -> None:
    folder = folder_of(home)
    used = {path for path in folder.rglob("*") if path.is_file()}
    orphans = [
        folder / "metadata" / "00001-11111111-1111-4111-8111-111111111111.metadata.json",
        folder / "metadata" / ".00002-x.metadata.json.tmp",
        folder / "metadata" / "lost-m0.avro",
        folder / "data" / "part=a%2Fb" / "lost.parquet",
        folder / "data" / "deep" / "er" / "lost (1).parquet",
    ]
    for path in orphans:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
    assert collect_table(Table.objects.get(), older_than=three_days()).locations == ()
    age(folder)
    young = folder / "data" / "young.parquet"
    young.write_bytes(b"a writer is at work")
    told = collect_table(Table.objects.get(), older_than=three_days(), remove=False)
    assert (len(told.locations), told.size) == (5, 50)
    assert all(path.exists() for path in orphans)
    found = collect_table(Table.objects.get(), older_than=three_days())
    assert (found.locations, found.size) == (told.locations, 50)
    assert {path for path in folder.rglob("*") if path.is_file()} == used | {young}
    assert rows_of(written)


def test_lists_that_a_killed_process_made_for_spark_go_with_their_folders(
    written: Callable[..., Any], home: Path
) -> None:
    table = written().load_table(ORDERS)
    metadata = folder_of(home) / "metadata"
    # as transforms and row diffs make them, which remove them when they end by themselves
    for place in (metadata, metadata / "comparison-7-1"):
        listing = Listing(table, schema_id=table.schema().schema_id, folder=f"file://{place}", io=table.io)
        listing.add_snapshot(table.current_snapshot().snapshot_id)
        listing.add_files([])
        listing.write()
    (metadata / "comparison-8-1").mkdir()

    def folders() -> list[Path]:
        return [path for path in metadata.rglob("*") if path.is_dir()]

    assert len(folders()) == 6
    assert collect_table(Table.objects.get(), older_than=three_days()).locations == ()
    age(folder_of(home))
    (young := metadata / "comparison-9-1").mkdir()
    told = collect_table(Table.objects.get(), older_than=three_days(), remove=False)
    assert len(folders()) == 7
    assert collect_table(Table.objects.get(), older_than=three_days()) == told
    assert len(told.locations) == 6
    assert folders() == [young]
    assert rows_of(written)


def test_what_a_dropped_branch_and_expired_snapshots_leave_is_collected(
    written: Callable[..., Any], home: Path
) -> None:
    before = (rows_of(written), rows_of(written, "feature/x"))
    table = written().load_table(ORDERS)
    with table.manage_snapshots() as manage:
        manage.remove_branch("gone")
    kept = {ref.snapshot_id for ref in table.refresh().metadata.refs.values()}
    table.maintenance.expire_snapshots().by_ids(
        [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in kept]
    ).commit()
    folder = folder_of(home)
    age(folder)
    count = len([path for path in folder.glob("data/**/*.parquet")])
    found = collect_table(Table.objects.get(), older_than=three_days())
    assert 0 < len([location for location in found.locations if location.endswith(".parquet")]) < count
    assert (rows_of(written), rows_of(written, "feature/x")) == before
    assert collect_table(Table.objects.get(), older_than=three_days()).locations == ()


def test_the_command_reads_manifests_while_all_parts_are_stopped(written: Callable[..., Any], home: Path) -> None:
    (home / "run" / "fork.sock").unlink()
    folder = folder_of(home)
    (folder / "data" / "orphan.parquet").write_bytes(b"x")
    age(folder)
    said = StringIO()
    call_command("collect_orphans", "--hours", "1", stdout=said)
    assert "shop.orders: removed 1 files" in said.getvalue()
    assert rows_of(written)


@pytest.mark.parametrize("pattern", ["metadata/snap-*.avro", "metadata/*-m0.avro"])
@pytest.mark.parametrize("damage", [b"", b"not avro", None])
def test_what_cannot_be_read_protects_the_table(
    written: Callable[..., Any], home: Path, pattern: str, damage: bytes | None
) -> None:
    folder = folder_of(home)
    victim = next(iter(folder.glob(pattern)))
    victim.unlink() if damage is None else victim.write_bytes(damage)
    (folder / "data" / "orphan.parquet").write_bytes(b"x")
    age(folder)
    found = collect_table(Table.objects.get(), older_than=three_days())
    assert found.problem
    assert found.locations == ()
    assert (folder / "data" / "orphan.parquet").exists()


def test_damaged_metadata_protects_the_table(orders: Catalog, home: Path) -> None:
    folder = folder_of(home)
    (folder / "data" / "orphan.parquet").write_bytes(b"x")
    next(iter(folder.glob("metadata/*.json"))).write_bytes(b"{")
    metadata_files.forget_all()
    age(folder)
    assert "damaged" in collect_table(Table.objects.get(), older_than=three_days()).problem


def test_a_commit_between_listing_and_removing_is_seen(written: Callable[..., Any], home: Path) -> None:
    """The files were there before, unreferred to and old; the pointer moves to them while the collector is at work."""
    folder = folder_of(home)
    table = Table.objects.get()
    real = collector._list_old

    def list_then_commit(location: str, older_than: Any) -> Any:
        listed = real(location, older_than)
        written().load_table(ORDERS).append(pa.table({"id": pa.array([9], pa.int64()), "part": ["z"]}))
        age(folder)
        return {one.location: one for one in local_files.walk(location)} | listed

    with mock.patch.object(collector, "_list_old", list_then_commit):
        found = collect_table(table, older_than=three_days())
    assert found == collector.Collected()
    assert {"id": 9, "part": "z"} in rows_of(written)


def test_a_link_put_in_the_place_of_a_folder_leads_nowhere(orders: Catalog, home: Path, tmp_path: Path) -> None:
    """A job may write in these folders, and the collector may remove anything."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    folder = folder_of(home)
    (folder / "data" / "sub").mkdir()
    (folder / "data" / "sub" / "precious").write_bytes(b"x")
    (folder / "data" / "direct").symlink_to(outside / "precious")
    (folder / "data" / "folder").symlink_to(outside)
    age(folder)
    listed = [one.location for one in local_files.walk(Table.objects.get().location)]
    assert not [location for location in listed if location.endswith(("direct", "folder/precious"))]
    (folder / "data" / "sub" / "precious").unlink()
    (folder / "data" / "sub").rmdir()
    (folder / "data" / "sub").symlink_to(outside)
    local_files.delete_below(Table.objects.get().location, listed[:0] + [str(folder / "data" / "sub" / "precious")])
    assert (outside / "precious").exists()


def test_a_lost_race_leaves_nothing_to_collect(orders: Catalog, home: Path) -> None:
    folder = folder_of(home)
    before = sorted(folder.rglob("*"))
    with mock.patch.object(swaps, "_move", side_effect=swaps.LostRace):
        assert orders.commit(ORDERS, {"action": "set-properties", "updates": {"a": "1"}}).status == 503
    assert sorted(folder.rglob("*")) == before


def test_views_leave_old_metadata_behind(catalog: Catalog, home: Path) -> None:
    from tests.unit.catalog.test_views import version
    from webapp.catalog.models import View

    schema = {"type": "struct", "fields": []}
    body = {"name": "v", "schema": schema, "view-version": version(1), "properties": {}}
    assert catalog.call("POST", "namespaces/shop/views", body).status == 200
    change = {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    assert catalog.call("POST", "namespaces/shop/views/v", change).status == 200
    folder = folder_of(home, "v")
    age(folder)
    assert len(collect_view(View.objects.get(), older_than=three_days()).locations) == 1
    metadata_files.forget_all()
    assert catalog.call("GET", "namespaces/shop/views/v").status == 200


@pytest.mark.parametrize("kind", ["register", "register-view"])
def test_nothing_is_registered_whose_folder_holds_files_of_others(catalog: Catalog, home: Path, kind: str) -> None:
    """Purges and this collector go by the folder that metadata names: a wide one would take everybody's files along."""
    catalog.create_table(ORDERS)
    orders, shop = folder_of(home), home / "warehouse" / "shop"
    body = {"name": "v", "schema": schema(), "view-version": version(), "properties": {}}
    view = catalog.call("POST", "namespaces/shop/views", body).metadata
    table = catalog.load(ORDERS).metadata
    inner = orders / "data" / "x-00000000"
    planted = inner / "metadata" / "planted.json"
    planted.parent.mkdir(parents=True)
    before = {path for path in home.rglob("*") if path.suffix}
    spelled_otherwise = orders.as_uri().replace("/shop/", "//shop/")
    folders = [Path("/"), home, home / "warehouse", shop, orders / "data", inner]
    wide = [*(folder.as_uri() for folder in folders), orders.as_uri() + "/", spelled_otherwise]
    if kind == "register-view":
        wide.append(orders.as_uri())
    for location in wide:
        content = {**(table if kind == "register" else view), "location": location}
        planted.write_text(json.dumps(content))
        asked = {"name": "wide", "metadata-location": planted.as_uri()}
        answer = catalog.call("POST", f"namespaces/shop/{kind}", asked)
        assert answer.status == 400, (location, answer.body)
    planted.unlink()
    age(home / "warehouse")
    assert [found for _, found in collector.collect_all(older_than=three_days())] == [collector.Collected()] * 2
    assert before == {path for path in home.rglob("*") if path.suffix}


def test_a_clock_that_jumps_a_year_ahead_makes_no_file_an_orphan(orders: Catalog, home: Path) -> None:
    fresh = folder_of(home) / "data" / "of-a-writer-at-work.parquet"
    fresh.write_bytes(b"x")
    turns, a_year_ahead = Collector(), clock.now() + timedelta(days=365)
    with mock.patch.object(clock, "now", return_value=a_year_ahead):
        assert turns.take_turn() == 0
    assert fresh.exists()


def test_turns_take_each_table_once_a_day_within_their_time(orders: Catalog, home: Path, settings: Any) -> None:
    orders.create_table("shop.other")
    for name in ("orders", "other"):
        folder = folder_of(home, name)
        (folder / "data" / "orphan.parquet").write_bytes(b"x")
        age(folder)
    turns = Collector()
    with mock.patch.object(collector, "BUDGET_S", -1):
        assert turns.take_turn() == 0
    assert turns.take_turn() == 2
    (folder_of(home) / "data" / "again.parquet").write_bytes(b"x")
    age(folder_of(home))
    assert turns.take_turn() == 0
    with mock.patch.object(collector, "EVERY_S", 0):
        assert turns.take_turn() == 1
    with mock.patch.object(collector, "MOST_FILES", 0):
        assert "more than" in collect_table(Table.objects.first(), older_than=three_days()).problem
    turns.start_turn()
    assert turns._thread is None  # the start of an installation is spared
    with mock.patch.object(collector, "TURN_S", -1):
        settings.TRIBUTARY_ORPHAN_HOURS = 0
        turns.start_turn()
        assert turns._thread is None
        settings.TRIBUTARY_ORPHAN_HOURS = 72
        turns.start_turn()
    assert turns._thread is not None
    turns._thread.join(30)


def test_the_command_says_what_it_does(orders: Catalog, home: Path) -> None:
    folder = folder_of(home)
    (folder / "data" / "orphan.parquet").write_bytes(b"x" * 7)
    age(folder)
    said = StringIO()
    call_command("collect_orphans", "--dry-run", stdout=said)
    assert "shop.orders: would remove 1 files, 7 bytes" in said.getvalue()
    assert (folder / "data" / "orphan.parquet").exists()
    call_command("collect_orphans", "--hours", "1", stdout=said)
    assert "shop.orders: removed 1 files" in said.getvalue()
    assert not (folder / "data" / "orphan.parquet").exists()
    with pytest.raises(CommandError, match="how old"):
        call_command("collect_orphans", "--hours", "0")


def test_objects_are_collected_like_files(
    object_store: ObjectStore, home: Any, settings: Any, catalog: Catalog, client: Callable[..., Any]
) -> None:
    object_store.configure(settings)
    settings.TRIBUTARY_WAREHOUSE = f"{object_store.warehouse}/orphans"
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    client().create_table(ORDERS, rows.schema).append(rows)
    location = Table.objects.get().location
    key = location.removeprefix(f"s3://{BUCKET}/")
    used = object_store.list(key)
    for name in ("data/lost.parquet", "metadata/lost-m0.avro"):
        object_store.client().put_object(Bucket=BUCKET, Key=f"{key}/{name}", Body=b"x")
    object_store.client().put_object(Bucket=BUCKET, Key=f"{key}2/data/other.parquet", Body=b"x")
    assert collect_table(Table.objects.get(), older_than=three_days()).locations == ()
    found = collect_table(Table.objects.get(), older_than=a_week_ahead())
    assert len(found.locations) == 2, found
    assert sorted(object_store.list(f"{key}/")) == sorted(used)
    assert object_store.list(f"{key}2/")
    assert client().load_table(ORDERS).scan().to_arrow().num_rows == 2
    settings.TRIBUTARY_S3_ENDPOINT = "http://127.0.0.1:9"
    metadata_files.forget_all()
    with pytest.raises(Exception, match="does not answer"):
        collect_table(Table.objects.get(), older_than=a_week_ahead())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("file:///w/t/x", "file:/w/t/x", True),
        ("file:///w/t/x", "/w/t/x", True),
        ("file:///w/t/a%20b", "file:///w/t/a b", True),
        ("file:///w/t/a%252Fb", "file:///w/t/a%2Fb", True),
        ("s3://b/k", "s3a://b/k", True),
        ("s3://b/k", "s3://c/k", False),
        ("file:///w/t/x", "file:///w/t/y", False),
    ],
)
def test_locations_are_compared_in_every_spelling(one: str, other: str, *, same: bool) -> None:
    assert bool(references.spellings(one) & references.spellings(other)) is same
