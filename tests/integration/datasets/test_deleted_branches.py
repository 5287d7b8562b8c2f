"""A deleted branch can be brought back for a time; a deletion that a crash cut is finished; then its snapshot is let go."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest
from django.apps import apps
from django.db import connection

from tests.factories import datasets as make
from tests.factories.catalog import set_ref
from webapp.catalog.models import Table
from webapp.catalog.rules import lens
from webapp.catalog.rules.branch_properties import tracked_branches
from webapp.catalog.rules.metadata import schema_of
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.local_files import local_path
from webapp.core import clock
from webapp.core.errors import AppError, Conflict, NotFound
from webapp.datasets import queries, services
from webapp.datasets.models import DatasetBranch, DeletedBranch, Leftover, Transaction
from webapp.datasets.queries.history import list_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def written(dataset: Dataset, user: User) -> Dataset:
    """Rows on master; on dev another column and more rows, in transactions of its own."""
    table = make.a_pyiceberg(user).load_table(dataset.table)
    with table.update_schema() as update:
        update.union_by_name(ROWS.schema)
    table.append(ROWS)
    table = make.a_pyiceberg(user, "dev").load_table(dataset.table)
    wide = ROWS.append_column("word", pa.array(["a", "b"]))
    with table.update_schema() as update:
        update.union_by_name(wide.schema)
    table.append(wide)
    return dataset


def metadata_of(dataset: Dataset) -> dict[str, Any]:
    row = Table.objects.get(name=dataset.table.rpartition(".")[2])
    return metadata_files.read_anew(row).metadata


def rows_on(dataset: Dataset, user: User, branch: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = make.a_pyiceberg(user, branch).load_table(dataset.table).scan().to_arrow().to_pylist()
    return rows


def delete(dataset: Dataset, user: User, name: str = "dev") -> DeletedBranch:
    services.delete_branch(dataset=dataset, name=name, by=make.who(user))
    return queries.list_deleted_branches(dataset)[0]


def test_a_deleted_branch_leaves_nothing_but_its_snapshot(written: Dataset, user: User) -> None:
    head = metadata_of(written)["refs"]["dev"]["snapshot-id"]
    deletion = delete(written, user)
    metadata = metadata_of(written)
    assert "dev" not in metadata["refs"]
    assert tracked_branches(metadata["properties"]) == set()
    assert metadata["refs"][deletion.kept_as]["snapshot-id"] == head
    assert rows_on(written, user, "dev") == rows_on(written, user, "")


def test_a_restored_branch_is_what_it_was(written: Dataset, user: User) -> None:
    before, rows = metadata_of(written), rows_on(written, user, "dev")
    own = set(Transaction.objects.filter(branch_name="dev").values_list("pk", "number"))
    branch = services.restore_branch(deletion=delete(written, user), by=make.who(user))
    after = metadata_of(written)
    assert after["refs"] == before["refs"]
    assert after["properties"] == before["properties"]
    assert rows_on(written, user, "dev") == rows
    assert set(branch.own_transactions.values_list("pk", "number")) == own
    assert branch.parent is not None
    assert branch.parent.name == "master"
    assert not DeletedBranch.objects.exists()
    make.a_pyiceberg(user, "dev").load_table(written.table).append(ROWS.append_column("word", pa.array(["c", "d"])))
    assert len(rows_on(written, user, "dev")) == len(rows) + 2


@pytest.mark.parametrize(("hours", "is_older"), [(72, False), (0, False), (0, True)])
@pytest.mark.parametrize("stands_on", [0, 1])
def test_branches_of_one_name_keep_their_histories_apart(
    dataset: Dataset, user: User, settings: Any, hours: int, is_older: bool, stands_on: int
) -> None:
    settings.TRIBUTARY_DELETED_BRANCH_HOURS = hours
    snapshots = []
    for _ in range(2):
        table = make.a_pyiceberg(user, "dev").load_table(dataset.table)
        with table.update_schema() as update:
            update.union_by_name(ROWS.schema)
        table.append(ROWS)
        snapshots.append(table.current_snapshot().snapshot_id)
        services.delete_branch(dataset=dataset, name="dev", by=make.who(user))
    if is_older:
        dataset.transactions.update(deleted_line="")
        import_module("webapp.datasets.migrations.0009_deleted_line").tell_lines_apart(apps, connection.schema_editor())
    assert make.a_client(user).on("dev").commit(dataset.table, set_ref("main", snapshots[stands_on])).status == 200
    shown = queries.get_branch(dataset, "dev").transaction
    assert shown is not None
    way = [shown.pk]
    while shown.parent is not None:
        shown = shown.parent
        way.append(shown.pk)
    assert len(way) > 1
    assert [row.pk for row in list_line(dataset, branch="dev")] == way


def test_the_name_may_be_taken_meanwhile(written: Dataset, user: User) -> None:
    deletion = delete(written, user)
    services.create_branch(dataset=written, name="Dev", parent="master", by=make.who(user))
    with pytest.raises(Conflict, match="already has the branch Dev"):
        services.restore_branch(deletion=deletion, by=make.who(user))
    services.delete_branch(dataset=written, name="Dev", by=make.who(user))
    services.restore_branch(deletion=deletion, by=make.who(user))


def test_an_empty_branch_and_one_that_shares_come_back(written: Dataset, user: User) -> None:
    for name, parent in (("child", "dev"), ("root", None)):
        services.create_branch(dataset=written, name=name, parent=parent, by=make.who(user))
        was = queries.get_branch(written, name)
        found = metadata_of(written)
        services.restore_branch(deletion=delete(written, user, name), by=make.who(user))
        assert queries.get_branch(written, name).transaction_id == was.transaction_id
        assert metadata_of(written)["refs"] == found["refs"]
        assert metadata_of(written)["properties"] == found["properties"]


def test_after_its_time_it_is_gone(written: Dataset, user: User, settings: Any) -> None:
    deletion = delete(written, user)
    assert services.sweep_deleted_branches()["deleted branches ended"] == 0
    settings.TRIBUTARY_DELETED_BRANCH_HOURS = 2
    DeletedBranch.objects.update(deleted_at=clock.now() - timedelta(hours=3))
    assert services.sweep_deleted_branches()["deleted branches ended"] == 1
    assert deletion.kept_as not in metadata_of(written)["refs"]
    assert Transaction.objects.filter(branch_name="dev").exists()
    with pytest.raises(NotFound):
        queries.get_deleted_branch(written, deletion.pk)


def test_a_clock_that_jumps_a_year_ahead_ends_nothing(written: Dataset, user: User) -> None:
    deletion = delete(written, user)
    with mock.patch.object(clock, "now", return_value=clock.now() + timedelta(days=365)):
        assert services.sweep_deleted_branches()["deleted branches ended"] == 0
    assert deletion.kept_as in metadata_of(written)["refs"]


def test_without_a_time_nothing_is_kept(written: Dataset, user: User, settings: Any) -> None:
    settings.TRIBUTARY_DELETED_BRANCH_HOURS = 0
    services.delete_branch(dataset=written, name="dev", by=make.who(user))
    assert not DeletedBranch.objects.exists()
    assert list(metadata_of(written)["refs"]) == ["main"]


def test_expiring_snapshots_spares_what_can_be_restored(written: Dataset, user: User) -> None:
    rows = rows_on(written, user, "dev")
    head = metadata_of(written)["refs"]["dev"]["snapshot-id"]
    deletion = delete(written, user)
    table = make.a_pyiceberg(user).load_table(written.table)
    with pytest.raises(ValueError, match="protected"):
        table.maintenance.expire_snapshots().by_id(head).commit()
    services.restore_branch(deletion=deletion, by=make.who(user))
    assert rows_on(written, user, "dev") == rows


def test_a_deletion_that_a_crash_cut_is_finished(written: Dataset, user: User) -> None:
    services.intend_deletions(folders=["/shop"], branch="dev", git_head="1" * 40, by=make.who(user))
    assert queries.find_branch(written, "dev") is not None
    assert services.sweep_deleted_branches()["deletions of branches resumed"] == 0
    DeletedBranch.objects.update(deleted_at=clock.now() - timedelta(minutes=1))
    assert services.sweep_deleted_branches()["deletions of branches resumed"] == 1
    assert queries.find_branch(written, "dev") is None
    assert queries.list_deleted_branches(written)[0].deleted_by == "ines"


def test_nobody_writes_or_reads_what_is_kept(written: Dataset, user: User) -> None:
    deletion = delete(written, user)
    answer = make.a_client(user, deletion.kept_as).load(written.table)
    assert answer.status == 403, answer.body


def remove_ref(dataset: Dataset, user: User, *more: dict[str, Any]) -> DeletedBranch:
    """Delete dev as plain clients of Iceberg do."""
    answer = make.a_client(user).commit(dataset.table, {"action": "remove-snapshot-ref", "ref-name": "dev"}, *more)
    assert answer.status == 200, answer.body
    [deletion] = queries.list_deleted_branches(dataset)
    return deletion


def expire(dataset: Dataset, user: User) -> None:
    """Remove every snapshot and schema that nothing uses, then let master take the number of the removed schema."""
    metadata = metadata_of(dataset)
    client = make.a_client(user)
    refs = {ref["snapshot-id"] for ref in metadata["refs"].values()}
    unused = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] not in refs]
    schemas = {schema["schema-id"] for schema in metadata["schemas"]} - {metadata["current-schema-id"]}
    answer = client.commit(
        dataset.table,
        {"action": "remove-snapshots", "snapshot-ids": unused},
        {"action": "remove-schemas", "schema-ids": sorted(schemas)},
    )
    assert answer.status == 200, answer.body
    table = make.a_pyiceberg(user).load_table(dataset.table)
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("other", pa.float64())]))


@pytest.mark.parametrize("by_client", [False, True], ids=["page", "client"])
def test_what_maintenance_removed_comes_back_with_the_branch(written: Dataset, user: User, by_client: bool) -> None:
    was, rows = lens.get(metadata_of(written), "dev"), rows_on(written, user, "dev")
    deletion = remove_ref(written, user) if by_client else delete(written, user)
    expire(written, user)
    reused = schema_of(metadata_of(written), was["current-schema-id"])
    assert [column["name"] for column in reused["fields"]] == ["id", "other"]
    branch = services.restore_branch(deletion=deletion, by=make.who(user))
    view = lens.get(metadata_of(written), "dev")
    assert schema_of(view, view["current-schema-id"])["fields"] == schema_of(was, was["current-schema-id"])["fields"]
    assert rows_on(written, user, "dev") == rows
    assert branch.transaction is not None
    assert branch.transaction.schema_id == view["current-schema-id"] != was["current-schema-id"]
    [head] = [ref for name, ref in metadata_of(written)["refs"].items() if name != "main"]
    assert head["snapshot-id"] == was["current-snapshot-id"]


def test_a_branch_with_a_schema_and_no_rows_survives_maintenance(written: Dataset, user: User) -> None:
    services.create_branch(dataset=written, name="root", parent=None, by=make.who(user))
    table = make.a_pyiceberg(user, "root").load_table(written.table)
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("alone", pa.string())]))
    deletion = delete(written, user, "root")
    services.delete_branch(dataset=written, name="dev", by=make.who(user))
    expire(written, user)
    services.restore_branch(deletion=deletion, by=make.who(user))
    assert [column.name for column in make.a_pyiceberg(user, "root").load_table(written.table).schema().columns] == [
        "alone"
    ]


def test_a_branch_that_a_client_removed_is_let_go_in_time(written: Dataset, user: User) -> None:
    deletion = remove_ref(written, user)
    assert deletion.kept_as in metadata_of(written)["refs"]
    DeletedBranch.objects.update(deleted_at=clock.now() - timedelta(days=365))
    assert services.sweep_deleted_branches()["deleted branches ended"] == 1
    assert list(metadata_of(written)["refs"]) == ["main"]


def test_a_client_that_removes_the_branch_with_its_snapshot_means_it(written: Dataset, user: User) -> None:
    head = metadata_of(written)["refs"]["dev"]["snapshot-id"]
    deletion = remove_ref(written, user, {"action": "remove-snapshots", "snapshot-ids": [head]})
    assert list(metadata_of(written)["refs"]) == ["main"]
    with pytest.raises(Conflict, match="has expired"):
        services.restore_branch(deletion=deletion, by=make.who(user))


def test_a_client_that_removes_what_is_kept_hears_why_not(written: Dataset, user: User) -> None:
    head = metadata_of(written)["refs"]["dev"]["snapshot-id"]
    deletion = remove_ref(written, user)
    answer = make.a_client(user).commit(written.table, {"action": "remove-snapshots", "snapshot-ids": [head]})
    assert answer.status == 400
    assert f"{deletion.kept_as} belongs to" in answer.error[1]
    assert "a deleted branch that can still be restored" in answer.error[1]


def test_restore_by_rest(written: Dataset, user: User, api_client: Callable[..., APIClient]) -> None:
    deletion = delete(written, user)
    client = api_client(user)
    [listed] = client.get(f"/api/v1/datasets/{written.pk}/deleted-branches").json()["results"]
    assert (listed["name"], listed["parent"], listed["deleted_by"]) == ("dev", "master", "ines")
    path = f"/api/v1/datasets/{written.pk}/deleted-branches/{deletion.pk}/restore"
    assert api_client(make.a_user("olek", is_admin=False)).post(path).status_code == 404
    answer = client.post(path)
    assert (answer.status_code, answer.json()["name"]) == (201, "dev")
    assert client.post(path).status_code == 404


def test_restore_on_the_page(written: Dataset, user: User, signed: Client) -> None:
    deletion = delete(written, user)
    page = signed.get("/d/shop/orders?tab=branches").content.decode()
    assert "Deleted branches" in page
    assert f'value="{deletion.pk}"' in page
    assert "deleted branch</span>" in signed.get("/d/shop/orders?tab=catalog").content.decode()
    answer = signed.post(f"/datasets/{written.pk}/branches/restore", {"deleted": deletion.pk}, follow=True)
    assert "Branch dev is back" in answer.content.decode()
    assert "Deleted branches" not in signed.get("/d/shop/orders?tab=branches").content.decode()
    answer = signed.post(f"/datasets/{written.pk}/branches/restore", {"deleted": "x"}, follow=True)
    assert "no deleted branch" in answer.content.decode()


@pytest.fixture
def damaged(written: Dataset, user: User) -> tuple[Transaction, str]:
    """A table with an open transaction, into which something was written, whose current metadata is then cut."""
    opened = make.a_transaction(written, user, branch="dev")
    services.create_branch(dataset=written, name="child", parent="dev", by=make.who(user))
    make.fill(opened, user)
    row = Table.objects.get(name="orders")
    earlier: str = metadata_of(written)["metadata-log"][-1]["metadata-file"]
    local_path(row.metadata_location).write_bytes(b"{")
    metadata_files.forget_all()
    return opened, earlier


def test_a_transaction_on_a_damaged_table_can_be_aborted_and_is_cleaned_later(
    damaged: tuple[Transaction, str], written: Dataset, user: User
) -> None:
    opened, _ = damaged
    row = Table.objects.get(name="orders")
    whole = metadata_files.store_of(row.metadata_location)
    services.abort_transaction(transaction=opened, reason="The build was cancelled.")
    opened.refresh_from_db()
    assert opened.state == "ABORTED"
    branch = queries.get_branch(written, "dev")
    assert branch.transaction_id == opened.parent_id
    assert services.sweep_leftovers() == {"tables cleaned after aborted transactions": 0}
    assert Leftover.objects.count() == 1
    assert whole.read(row.metadata_location) == b"{"


def test_overwriting_a_damaged_table_aborts_what_is_open_on_it(
    damaged: tuple[Transaction, str], written: Dataset, user: User
) -> None:
    opened, earlier = damaged
    body = {"name": "orders", "metadata-location": earlier, "overwrite": True}
    answer = make.a_client(user).call("POST", "namespaces/shop/register", body)
    assert answer.status == 200, answer.body
    opened.refresh_from_db()
    assert (opened.state, opened.reason) == ("ABORTED", "The table's metadata was damaged and has been replaced.")
    services.sweep_leftovers()
    assert not Leftover.objects.exists()
    metadata = metadata_of(written)
    assert opened.staging_branch not in metadata["refs"]
    assert DatasetBranch.objects.get(dataset=written, name="child").transaction_id == opened.parent_id
    assert metadata["refs"]["child"]["snapshot-id"] == metadata["refs"]["dev"]["snapshot-id"]
    make.write(make.a_client(user, "dev"), written)


def test_a_whole_table_is_not_overwritten_under_an_open_transaction(written: Dataset, user: User) -> None:
    opened = make.a_transaction(written, user, branch="dev")
    earlier = metadata_of(written)["metadata-log"][-2]["metadata-file"]
    body = {"name": "orders", "metadata-location": earlier, "overwrite": True}
    assert make.a_client(user).call("POST", "namespaces/shop/register", body).status == 409
    opened.refresh_from_db()
    assert opened.state == "OPEN"


def test_a_branch_of_a_damaged_table_is_deleted_when_the_table_is_whole_again(
    damaged: tuple[Transaction, str], written: Dataset, user: User
) -> None:
    _, earlier = damaged
    keys = services.intend_deletions(folders=["shop"], branch="dev", git_head="1" * 40, by=make.who(user))
    assert services.carry_out_deletions(keys=keys, by=make.who(user)) == 0
    with pytest.raises(AppError):
        services.delete_branch(dataset=written, name="child", by=make.who(user))
    body = {"name": "orders", "metadata-location": earlier, "overwrite": True}
    assert make.a_client(user).call("POST", "namespaces/shop/register", body).status == 200
    assert services.carry_out_deletions(keys=keys, by=make.who(user)) == 1
    assert queries.find_branch(written, "dev") is None
