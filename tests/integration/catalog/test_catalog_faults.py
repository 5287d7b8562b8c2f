"""What happens when things go wrong: repeated keys, lost races, silent databases, full disks, damaged files."""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

from tests.factories.catalog import Catalog, head, set_ref, snapshot, table_path
from tests.factories.disks import filled, small_disk
from webapp.catalog import ports
from webapp.catalog.models import KeptAnswer, Namespace, Table
from webapp.catalog.services import idempotency, swaps
from webapp.catalog.storage import local_files, metadata_files
from webapp.core.errors import Conflict

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
ORDERS = "shop.orders"


@pytest.fixture
def orders(catalog: Catalog) -> Catalog:
    """A table with one snapshot."""
    catalog.create_table(ORDERS)
    catalog.append(ORDERS)
    return catalog


def new_append(catalog: Catalog) -> dict[str, Any]:
    view = catalog.load(ORDERS).metadata
    made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"]})
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head(view)}],
        "updates": [{"action": "add-snapshot", "snapshot": made}, set_ref("main", made["snapshot-id"])],
    }


def metadata_files_of(home: Path) -> int:
    return len(list(home.glob("warehouse/**/*.metadata.json"))) + len(list(home.glob("warehouse/**/*.tmp")))


# --- one key, one effect ----------------------------------------------------------------------------------------------


def send(catalog: Catalog, key: str, body: Any, path: str = table_path(ORDERS), method: str = "POST") -> Any:
    return catalog.call(method, path, body, headers={"idempotency-key": key})


def test_a_repeated_commit_has_one_effect(orders: Catalog) -> None:
    assert orders.call("GET", "config").body["idempotency-key-lifetime"] == "PT30M"
    key, body = str(uuid4()), new_append(orders)
    first, second = send(orders, key, body), send(orders, key, body)
    assert (first.status, first.body) == (second.status, second.body)
    assert len(second.metadata["snapshots"]) == 2
    orders.append(ORDERS)
    assert len(send(orders, key, body).metadata["snapshots"]) == 3


def test_a_final_refusal_is_repeated_and_an_open_one_is_not(orders: Catalog) -> None:
    key, body = str(uuid4()), new_append(orders)
    orders.append(ORDERS)
    assert send(orders, key, body).status == send(orders, key, body).status == 409
    key, body = str(uuid4()), new_append(orders)
    with (
        mock.patch.object(swaps, "swap", side_effect=swaps.OutcomeUnknown("?")),
        mock.patch("webapp.catalog.services.tables.swap", side_effect=swaps.OutcomeUnknown("?")),
    ):
        unknown = send(orders, key, body)
    assert (unknown.status, unknown.error[0]) == (500, "CommitStateUnknownException")
    assert send(orders, key, body).status == 200


def test_a_key_is_for_one_request_of_one_user(orders: Catalog, make_user: Any, catalog_for: Any) -> None:
    key = str(uuid4())
    assert send(orders, key, new_append(orders)).status == 200
    assert send(orders, key, new_append(orders)).status == 422
    assert send(orders.on("b"), key, new_append(orders)).status == 422
    assert send(orders, key, None, method="DELETE").status == 422
    assert send(orders, "not-a-uuid", new_append(orders)).status == 400
    other = catalog_for(make_user("other", is_admin=True))
    assert send(other, key, new_append(other)).status == 200


def test_a_key_outlives_its_table_but_not_its_lifetime(orders: Catalog) -> None:
    key, body = str(uuid4()), new_append(orders)
    send(orders, key, body)
    drop = str(uuid4())
    assert send(orders, drop, None, method="DELETE").status == send(orders, drop, None, method="DELETE").status == 204
    assert send(orders, key, body).status == 404
    old = KeptAnswer.objects.get(key=drop).created_at - idempotency.KEPT_FOR
    KeptAnswer.objects.update(created_at=old)
    assert send(orders, drop, None, method="DELETE").status == 404
    with mock.patch.object(idempotency.secrets, "randbelow", return_value=0):
        assert send(orders, str(uuid4()), {"namespace": ["new"]}, "namespaces").status == 200
    assert set(KeptAnswer.objects.values_list("status", flat=True)) == {200, 404}


def test_keys_on_everything_that_changes_something(catalog: Catalog) -> None:
    schema = {"type": "struct", "fields": []}
    for path, body, status in (
        ("namespaces", {"namespace": ["new"]}, 200),
        ("namespaces/new/properties", {"updates": {"a": "1"}}, 200),
        ("namespaces/new/tables", {"name": "t", "schema": schema}, 200),
        ("namespaces/new/tables", {"name": "s", "schema": schema, "stage-create": True}, 200),
        (
            "tables/rename",
            {"source": {"namespace": ["new"], "name": "t"}, "destination": {"namespace": ["new"], "name": "u"}},
            204,
        ),
        ("namespaces/new/tables/u/unregister", None, 200),
    ):
        key = str(uuid4())
        first = send(catalog, key, body, path)
        assert first.status == status, first.body
        if "stage-create" not in str(body):
            again = send(catalog, key, body, path)
            assert (again.status, again.body) == (first.status, first.body), path


def test_a_try_that_was_overtaken_by_its_twin_answers_as_that_one_did(orders: Catalog) -> None:
    """The client gave up and repeated; the first try then succeeds, and fails the requirements of the second."""
    key, body = str(uuid4()), new_append(orders)
    assert send(orders, key, body).status == 200
    record = KeptAnswer.objects.get(key=key)
    with mock.patch.object(idempotency.Keyed, "find", side_effect=[None, record]):
        late = send(orders, key, body)
    assert late.status == 200, late.body
    assert len(late.metadata["snapshots"]) == 2
    drop = str(uuid4())
    assert send(orders, drop, None, method="DELETE").status == 204
    record = KeptAnswer.objects.get(key=drop)
    with mock.patch.object(idempotency.Keyed, "find", side_effect=[None, record]):
        assert send(orders, drop, None, method="DELETE").status == 204


def test_the_same_key_at_once_has_one_effect(orders: Catalog) -> None:
    """The second request has looked before the first was done; its own record then undoes its effect."""
    key = str(uuid4())
    for path, body in (
        (table_path(ORDERS), {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}),
        ("namespaces/shop/properties", {"updates": {"a": "1"}}),
    ):
        first = send(orders, key, body, path)
        record = KeptAnswer.objects.get(key=key)
        with mock.patch.object(idempotency.Keyed, "find", side_effect=[None, record]):
            late = send(orders, key, body, path)
        assert (late.status, late.body) == (first.status, first.body)
        with mock.patch.object(idempotency.Keyed, "find", return_value=None):
            assert send(orders, key, body, path).status == 422
        key = str(uuid4())


# --- races and outcomes -----------------------------------------------------------------------------------------------


def test_threads_on_one_table_and_on_branches_lose_nothing(orders: Catalog) -> None:
    done: dict[str | None, int] = {None: 0, "a": 0, "b": 0}

    def work(branch: str | None) -> None:
        caller = orders.on(branch)
        for _ in range(5):
            while (status := caller.append(ORDERS).status) != 200:
                assert status == 409
        done[branch] += 5
        connection.close()

    threads = [threading.Thread(target=work, args=(branch,)) for branch in (None, None, "a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == {None: 10, "a": 5, "b": 5}
    assert len(orders.load(ORDERS).metadata["snapshots"]) == 21
    assert len(orders.load(ORDERS).metadata["snapshot-log"]) == 11


def test_a_writer_in_a_block_of_its_own_does_not_wait_for_those_who_queue(catalog: Catalog) -> None:
    """It has the database's lock, for which the first of the queue waits: waiting for that one would never end."""
    holding, done = threading.Event(), []

    def write(name: str) -> None:
        with swaps.writing():
            Namespace.objects.create(path=name)
            done.append(name)

    def write_in_a_block() -> None:
        with transaction.atomic():
            holding.set()
            time.sleep(0.3)
            write("inner")
        connection.close()

    def queue() -> None:
        assert holding.wait(10)
        write("queued")
        connection.close()

    threads = [threading.Thread(target=work) for work in (write_in_a_block, queue)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    assert sorted(done) == ["inner", "queued"]
    assert not any(thread.is_alive() for thread in threads)


def test_another_process_was_first(orders: Catalog, home: Path) -> None:
    """The compare-and-swap decides; the commit is applied again to what is there now."""
    body = new_append(orders)
    original = swaps.write_next
    raced: list[int] = []

    def slow(*arguments: Any, **named: Any) -> Any:
        file = original(*arguments, **named)
        if not raced:
            raced.append(1)
            orders.on("b").commit(ORDERS, {"action": "set-properties", "updates": {"owner": "b"}})
        return file

    with mock.patch("webapp.catalog.services.tables.write_next", side_effect=slow):
        answer = orders.call("POST", table_path(ORDERS), body)
    assert answer.status == 200
    assert answer.metadata["properties"]["owner"] == "b"
    assert metadata_files_of(home) == 4
    assert len(answer.metadata["metadata-log"]) == 3


def test_too_many_races_are_a_503_with_retry_after(orders: Catalog) -> None:
    body = new_append(orders)
    with mock.patch("webapp.catalog.services.tables.swap", side_effect=swaps.LostRace):
        answer = orders.call("POST", table_path(ORDERS), body)
        assert answer.status == 503
        assert answer.headers["retry-after"]
        change = {"table-changes": [{**body, "identifier": {"namespace": ["shop"], "name": "orders"}}]}
        assert orders.call("POST", "transactions/commit", change).status == 503


class Commit:
    """Stands for a database that fails at one COMMIT, having done it or not."""

    def __init__(self, *, happened: bool) -> None:
        self.happened = happened
        self.has_failed = False
        self.original = transaction.Atomic.__exit__

    def __call__(self, atomic: Any, kind: Any, value: Any, trace: Any) -> Any:
        if kind is not None or connection.savepoint_ids or self.has_failed:
            return self.original(atomic, kind, value, trace)
        self.has_failed = True
        if self.happened:
            self.original(atomic, kind, value, trace)
        else:
            connection.set_rollback(True)
            self.original(atomic, kind, value, trace)
        raise OperationalError("server closed the connection unexpectedly")


def fail_at_commit(*, happened: bool) -> Any:
    stand_in = Commit(happened=happened)
    return mock.patch.object(transaction.Atomic, "__exit__", lambda *args: stand_in(*args))


def test_commit_without_an_answer_that_happened_is_a_200(orders: Catalog) -> None:
    body = new_append(orders)
    with fail_at_commit(happened=True):
        assert orders.call("POST", table_path(ORDERS), body).status == 200
    assert len(orders.load(ORDERS).metadata["snapshots"]) == 2


def test_commit_without_an_answer_that_did_not_happen_can_be_retried(orders: Catalog, home: Path) -> None:
    body, before = new_append(orders), metadata_files_of(home)
    with fail_at_commit(happened=False):
        answer = orders.call("POST", table_path(ORDERS), body)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert metadata_files_of(home) == before
    assert orders.call("POST", table_path(ORDERS), body).status == 200


@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_outcome_is_a_500_and_deletes_nothing(orders: Catalog, home: Path, *, happened: bool) -> None:
    body, before = new_append(orders), metadata_files_of(home)
    with fail_at_commit(happened=happened), mock.patch.object(swaps, "_reaches", side_effect=OperationalError("gone")):
        answer = orders.call("POST", table_path(ORDERS), body)
    assert (answer.status, answer.error[0]) == (500, "CommitStateUnknownException")
    assert metadata_files_of(home) == before + 1
    assert len(orders.load(ORDERS).metadata["snapshots"]) == 1 + happened


def test_later_commits_do_not_hide_an_earlier_one(orders: Catalog) -> None:
    first = orders.load(ORDERS).body["metadata-location"]
    orders.append(ORDERS)
    table = Table.objects.get()
    assert swaps._reaches(table, first)
    assert not swaps._reaches(table, "file:///other")
    assert not swaps._reaches(None, first)


def test_a_busy_database_changed_nothing(orders: Catalog, home: Path) -> None:
    body, before = new_append(orders), metadata_files_of(home)
    with mock.patch.object(swaps.Table.objects, "filter", side_effect=OperationalError("database is locked")):
        with pytest.raises(OperationalError):
            Table.objects.filter(pk=1)
    with mock.patch.object(swaps, "_move", side_effect=OperationalError("database is locked")):
        answer = orders.call("POST", table_path(ORDERS), body)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert metadata_files_of(home) == before


def test_the_layers_above_can_object_and_their_rows_live_and_die_with_the_swap(
    orders: Catalog, alone: Any, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    records: list[Any] = []

    def object_to(**asked: Any) -> None:
        if asked["branch"] == "b":
            raise Conflict("a transaction is open")

    def record(**what: Any) -> None:
        assert connection.in_atomic_block
        records.append((what["branch"], what["shared"], what["before"], what["after"]))

    monkeypatch.setattr(ports, "check_commit", object_to)
    alone.table_committed.connect(record, weak=False)
    before = metadata_files_of(home)
    refused = orders.on("b").append(ORDERS)
    assert (refused.status, refused.error) == (409, ("CommitFailedException", "a transaction is open"))
    assert metadata_files_of(home) == before
    assert records == []
    orders.append(ORDERS)
    [(branch, shared, seen, after)] = records
    assert (branch, shared) == ("master", ())
    assert after.snapshot_id != seen.snapshot_id
    orders.on("c").commit(ORDERS, {"action": "set-properties", "updates": {"a": "1"}})
    assert records[1][:3] == ("c", ("properties",), None)
    orders.commit(ORDERS, {"action": "set-properties", "updates": {"a": "2"}})
    assert records[2][:2] == ("master", ("properties",))
    assert records[2][2] == records[2][3]
    orders.commit(ORDERS, {"action": "set-properties", "updates": {"a": "2"}})
    assert len(records) == 3
    old = orders.load(ORDERS).metadata["snapshots"][0]["snapshot-id"]
    orders.commit(ORDERS, set_ref("main", old))
    assert records[3][:2] == ("master", ())
    assert records[3][3].snapshot_id == old


# --- storage ----------------------------------------------------------------------------------------------------------


def test_a_metadata_file_is_durable_before_the_pointer_moves(orders: Catalog) -> None:
    """write, fsync of the file, rename, fsync of the folder, and only then COMMIT."""
    steps: list[str] = []
    real_sync, real_rename, real_commit = os.fsync, Path.rename, connection._commit

    def commit() -> None:
        steps.append("commit")
        real_commit()

    def sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        steps.append("sync folder" if Path(path).is_dir() else "sync file")
        real_sync(descriptor)

    def rename(self: Path, target: Path) -> Any:
        steps.append("rename")
        return real_rename(self, target)

    body = new_append(orders)
    with (
        mock.patch.object(os, "fsync", sync),
        mock.patch.object(Path, "rename", rename),
        mock.patch.object(connection, "_commit", commit),
    ):
        assert orders.call("POST", table_path(ORDERS), body).status == 200
    assert steps[:4] == ["sync file", "rename", "sync folder", "commit"]


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_full_disk_is_named_and_leaves_nothing(orders: Catalog, home: Path, call: str) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    body, before = new_append(orders), metadata_files_of(home)
    target = {"write": "os.fdopen", "fsync": "os.fsync", "rename": "pathlib.Path.rename"}[call]
    with mock.patch(target, side_effect=full):
        answer = orders.call("POST", table_path(ORDERS), body)
    assert answer.status == 503
    assert "warehouse is full" in answer.error[1]
    assert metadata_files_of(home) == before
    assert orders.call("POST", table_path(ORDERS), body).status == 200


def test_a_disk_that_is_really_full_takes_nothing_and_loses_nothing(catalog: Catalog, home: Path) -> None:
    (home / "warehouse").mkdir()
    with small_disk(home / "warehouse") as folder:
        catalog.create_table(ORDERS)
        catalog.append(ORDERS)
        body, before = new_append(catalog), metadata_files_of(home)
        with filled(folder):
            for answer in (
                catalog.call("POST", table_path(ORDERS), body),
                catalog.on("feature").commit(ORDERS, {"action": "set-properties", "updates": {"a": "1"}}),
                catalog.create_table("shop.other"),
            ):
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                assert "warehouse is full" in answer.error[1]
            metadata_files.forget_all()
            assert len(catalog.load(ORDERS).metadata["snapshots"]) == 1
        assert metadata_files_of(home) == before
        assert catalog.call("POST", table_path(ORDERS), body).status == 200
        assert catalog.create_table("shop.other").status == 200
        metadata_files.forget_all()


def test_a_warehouse_that_cannot_be_written_is_a_503(orders: Catalog) -> None:
    body = new_append(orders)
    with mock.patch.object(os, "fsync", side_effect=OSError(errno.EIO, "Input/output error")):
        answer = orders.call("POST", table_path(ORDERS), body)
        made = orders.create_table("shop.other")
    assert (answer.status, made.status) == (503, 503)
    assert "Input/output error" in answer.error[1]
    assert orders.call("POST", table_path(ORDERS), body).status == 200


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xff", None])
def test_a_damaged_file_is_the_trouble_of_one_table(orders: Catalog, damage: bytes | None) -> None:
    orders.create_table("shop.other")
    path = local_files.local_path(orders.load(ORDERS).body["metadata-location"])
    whole = path.read_bytes()
    metadata_files.forget_all()
    path.unlink() if damage is None else path.write_bytes(damage)
    for answer in (
        orders.load(ORDERS),
        orders.on("b").load(ORDERS),
        orders.commit(ORDERS, {"action": "set-properties", "updates": {"a": "1"}}),
    ):
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "missing or damaged" in answer.error[1]
    assert orders.call("POST", table_path(ORDERS) + "/unregister").status == 503
    assert orders.load("shop.other").status == 200
    assert orders.call("GET", "namespaces/shop/tables").status == 200
    path.write_bytes(whole)
    assert orders.load(ORDERS).status == 200


def test_damage_names_the_file_to_go_back_to(orders: Catalog) -> None:
    before = orders.load(ORDERS)
    orders.append(ORDERS)
    local_files.local_path(orders.load(ORDERS).body["metadata-location"]).write_bytes(b"[" * 100_000)
    metadata_files.forget_all()
    answer = orders.load(ORDERS)
    earlier = before.body["metadata-location"]
    assert answer.status == 503
    assert f"register {earlier} with `overwrite`" in answer.error[1]
    local_files.local_path(earlier).write_bytes(b"{")
    metadata_files.forget_all()
    assert earlier not in orders.load(ORDERS).error[1], "this one is damaged, too"


@pytest.mark.parametrize("kept", ["", "uuid", "location"])
def test_metadata_of_another_table_is_refused(orders: Catalog, kept: str) -> None:
    """A copy, a restore or a disk has put the file of another table in the place of this one's."""
    orders.create_table("shop.other")
    orders.append("shop.other")
    own, other = (
        local_files.local_path(orders.load(name).body["metadata-location"]) for name in (ORDERS, "shop.other")
    )
    whole, content = json.loads(own.read_bytes()), json.loads(other.read_bytes())
    for member in {"uuid": ["table-uuid"], "location": ["location"]}.get(kept, []):
        content[member] = whole[member]
    own.write_text(json.dumps(content))
    metadata_files.forget_all()
    for answer in (
        orders.load(ORDERS),
        orders.on("b").load(ORDERS),
        orders.commit(ORDERS, {"action": "set-properties", "updates": {"a": "1"}}),
    ):
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "belongs to another table" in answer.error[1]
        assert content["table-uuid"] in answer.error[1]
    assert orders.load("shop.other").status == 200
    body = {"name": "orders", "metadata-location": f"file://{own}", "overwrite": True}
    assert orders.call("POST", "namespaces/shop/register", body).status == 400, "nor is it registered"
    body["metadata-location"] = whole["metadata-log"][-1]["metadata-file"]
    assert orders.call("POST", "namespaces/shop/register", body).status == 200


def test_table_of_an_earlier_release_learns_its_uuid(orders: Catalog) -> None:
    Table.objects.update(uuid="")
    metadata_files.forget_all()
    uuid = orders.load(ORDERS).metadata["table-uuid"]
    orders.append(ORDERS)
    assert Table.objects.get().uuid == uuid


def test_earlier_metadata_is_the_way_back_from_damage(orders: Catalog, alone: Any) -> None:
    orders.append(ORDERS)
    orders.on("b").append(ORDERS)
    earlier = orders.load(ORDERS)
    seen = orders.on("b").load(ORDERS).metadata
    orders.append(ORDERS)
    damaged = local_files.local_path(orders.load(ORDERS).body["metadata-location"])
    damaged.write_bytes(b"{")
    metadata_files.forget_all()
    told: list[tuple[str, int | None]] = []

    def hear(branch: str, after: Any, **_: Any) -> None:
        told.append((branch, after.snapshot_id))

    alone.table_committed.connect(hear)
    body = {"name": "orders", "metadata-location": earlier.body["metadata-location"]}
    assert orders.call("POST", "namespaces/shop/register", body).status == 409
    assert orders.on("b").call("POST", "namespaces/shop/register", {**body, "overwrite": True}).status == 403
    back = orders.call("POST", "namespaces/shop/register", {**body, "overwrite": True})
    assert (back.status, head(back.metadata)) == (200, head(earlier.metadata))
    assert orders.on("b").load(ORDERS).metadata["snapshot-log"] == seen["snapshot-log"]
    assert told == [("b", head(seen)), ("master", head(earlier.metadata))]
    assert orders.append(ORDERS).status == orders.on("b").append(ORDERS).status == 200


def test_metadata_grows_no_further_than_can_be_registered_again(
    orders: Catalog, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touch(**updates: str) -> Any:
        return orders.commit(ORDERS, {"action": "set-properties", "updates": updates})

    assert touch(large="x" * 5000).status == 200
    files = sorted(home.rglob("*.metadata.json"))
    monkeypatch.setattr(metadata_files, "LARGEST_BYTES", 5000)
    refused = touch(more="x")
    assert (refused.status, "expire snapshots" in refused.error[1]) == (413, True)
    assert sorted(home.rglob("*.metadata.json")) == files
    assert touch(large="x" * 4000).status == 200


def test_branches_leave_master_room_in_the_file_that_they_share(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touch(catalog: Catalog, **updates: str) -> Any:
        return catalog.commit(ORDERS, {"action": "set-properties", "updates": updates})

    monkeypatch.setattr(metadata_files, "LARGEST_BYTES", 16_000)
    branch = orders.on("b")
    assert touch(branch, large="x" * 5000).status == 200
    refused = touch(branch, large="x" * 11_000)
    assert (refused.status, "more than the 12000 that branches may take" in refused.error[1]) == (413, True)
    assert orders.append(ORDERS).status == touch(orders, large="x" * 4000).status == 200
    assert touch(branch, large="x" * 1000).status == 200, "what makes it smaller is let through"


def test_a_flipped_bit_is_never_our_own_error(orders: Catalog) -> None:
    """A damaged name of a member is seen; a damaged value may pass for another one, but nothing falls over it."""
    orders.append(ORDERS)
    orders.on("b").append(ORDERS)
    path = local_files.local_path(orders.load(ORDERS).body["metadata-location"])
    whole = path.read_bytes()
    members = [found.end() - 3 for found in re.finditer(rb'[a-z]"[:]', whole)]
    for place in members:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        metadata_files.forget_all()
        touch = {"action": "set-properties", "updates": {"a": "1"}}
        wrong = {"type": "assert-table-uuid", "uuid": "x"}
        for answer in (
            orders.load(ORDERS),
            orders.on("b").load(ORDERS, "snapshots=refs"),
            orders.on("b").commit(ORDERS, touch, requirements=[wrong]),
        ):
            assert answer.status in (200, 400, 409, 503), whole[place - 20 : place + 2]
    path.write_bytes(whole)
    metadata_files.forget_all()


def test_folders_are_open_for_writers_of_other_users_and_closed_above(catalog: Catalog, home: Path) -> None:
    before = os.umask(0o077)
    try:
        catalog.create_table(ORDERS)
    finally:
        os.umask(before)
    [table] = (home / "warehouse" / "shop").glob("orders-*")
    assert (home / "warehouse").stat().st_mode & 0o7777 == 0o755
    assert [file.stat().st_mode & 0o7777 for file in table.glob("metadata/*.json")] == [0o644]
    assert (table / "data").stat().st_mode & 0o7777 == 0o755
    assert (table / "metadata").stat().st_mode & 0o7777 == 0o755
    assert table.stat().st_mode & 0o022 == 0


def test_purge_removes_the_files_and_a_plain_drop_does_not(orders: Catalog, home: Path) -> None:
    orders.create_table("shop.kept")
    assert orders.call("DELETE", table_path("shop.kept")).status == 204
    assert list((home / "warehouse" / "shop").glob("kept-*"))
    assert orders.call("DELETE", table_path(ORDERS), query="purgeRequested=true").status == 204
    assert not list((home / "warehouse" / "shop").glob("orders-*"))


def test_other_schemes_are_named() -> None:
    with pytest.raises(Exception, match="cannot reach gs: locations"):
        local_files.local_path("gs://bucket/x")
