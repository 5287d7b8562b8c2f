"""Transactions over the real catalog: what readers see, when, and who may write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import datasets as make
from tests.factories.catalog import set_ref, snapshot
from webapp.catalog import queries as catalog
from webapp.core.errors import Conflict
from webapp.datasets import queries, services
from webapp.datasets.models import DatasetBranch, Transaction
from webapp.datasets.queries.history import list_line, read_history

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]


def head(dataset: Any, branch: str) -> int | None:
    chain = queries.get_fallback_chain(path=dataset.path, branch=branch)
    number = catalog.load_view(table=dataset.table, branch=branch, chain=chain).metadata["current-snapshot-id"]
    return None if number == -1 else number


def test_new_dataset_has_an_empty_root_master() -> None:
    dataset = make.a_dataset("/shop/orders")

    (branch,) = dataset.branches.all()

    assert (branch.name, branch.parent, branch.transaction) == ("master", None, None)
    assert head(dataset, "master") is None
    assert dataset.table == "shop.orders"


def test_making_a_dataset_twice_returns_the_first() -> None:
    user = make.a_user()

    assert make.a_dataset("/shop/orders", by=user) == make.a_dataset("/shop/orders", by=user)


def test_open_transaction_shows_nothing_until_it_is_committed() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)

    opened = make.a_transaction(dataset, user)
    make.fill(opened, user, rows=3, total=3)

    assert head(dataset, "master") is None
    assert queries.latest_committed(dataset, "master") is None

    committed = make.commit(opened, user)

    assert committed.state == "COMMITTED"
    assert head(dataset, "master") == committed.snapshot_id
    assert committed.summary == {"rows": 3, "files": 1, "bytes": 300, "added": 3, "deleted": 0}
    assert queries.latest_committed(dataset, "master") == committed
    assert catalog.branch_pointer(table=dataset.table, branch=opened.staging_branch) is None


def test_aborted_transaction_leaves_nothing() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    first = make.a_transaction(dataset, user)
    make.fill(first, user)
    first = make.commit(first, user)
    second = make.a_transaction(dataset, user)
    make.fill(second, user)

    services.abort_transaction(transaction=second, reason="No more.")

    assert head(dataset, "master") == first.snapshot_id
    assert queries.get_branch(dataset, "master").transaction == first
    assert catalog.branch_pointer(table=dataset.table, branch=second.staging_branch) is None
    assert Transaction.objects.get(pk=second.pk).reason == "No more."


def test_transaction_is_closed_once() -> None:
    user = make.a_user()
    opened = make.a_transaction(make.a_dataset(by=user), user)
    services.abort_transaction(transaction=opened, reason="")

    with pytest.raises(Conflict, match="ABORTED and cannot become COMMITTED"):
        make.commit(opened, user)


def test_second_open_transaction_is_refused() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    make.a_transaction(dataset, user)

    with pytest.raises(Conflict, match="is open on") as refused:
        make.a_transaction(dataset, user)

    assert refused.value.code == "transaction_open"


def test_everybody_elses_writes_get_409_while_one_is_open() -> None:
    user, other = make.a_user(), make.a_user()
    dataset = make.a_dataset(by=user)
    opened = make.a_transaction(dataset, user)

    assert make.try_write(make.a_client(other), dataset) == 409
    assert make.try_write(make.a_client(user), dataset) == 409
    assert make.try_write(make.a_client(other, opened.staging_branch), dataset) == 403
    assert make.try_write(make.a_client(user, opened.staging_branch), dataset) == 200

    services.abort_transaction(transaction=opened, reason="")

    assert make.try_write(make.a_client(other), dataset) == 200
    assert make.try_write(make.a_client(user, opened.staging_branch), dataset) in (403, 409)


def test_other_branches_are_written_while_master_is_open() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    make.a_transaction(dataset, user)

    assert make.try_write(make.a_client(user, "feature"), dataset) == 200
    assert queries.list_parents(dataset) == {"master": None, "feature": "master"}


def test_plain_commits_are_implicit_transactions_in_order() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    client = make.a_client(user)
    make.write(client, dataset, rows=5, total=5)
    make.write(client, dataset, rows=0, total=4, operation="delete")
    make.write(client, dataset, rows=4, total=4, operation="overwrite")

    history = queries.list_history(queries.get_branch(dataset, "master"))

    assert [row.type for row in history] == ["UPDATE", "DELETE", "APPEND"]
    assert [row.number for row in history] == [3, 2, 1]
    assert [row.summary["rows"] for row in history] == [4, 4, 5]
    assert {row.by for row in history} == {user.username}
    assert history[0].snapshot_id == head(dataset, "master")


def test_a_commit_that_deletes_and_appends_is_an_update() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    client = make.a_client(user)
    make.write(client, dataset)
    view = client.load(dataset.table).metadata
    now = {"timestamp-ms": view["last-updated-ms"]}
    gone = snapshot(view, operation="delete", **now)
    follows = {"parent-snapshot-id": gone["snapshot-id"], "sequence-number": gone["sequence-number"] + 1}
    come = snapshot(view, operation="append", **follows, **now)
    answer = client.commit(
        dataset.table,
        *({"action": "add-snapshot", "snapshot": made} for made in (gone, come)),
        set_ref("main", come["snapshot-id"]),
    )

    assert answer.status == 200, answer.body
    assert [row.type for row in queries.list_history(queries.get_branch(dataset, "master"))] == ["UPDATE", "APPEND"]


def test_what_changes_no_rows_is_a_transaction_that_says_what_it_changed() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    client = make.a_client(user)
    fields = [{"id": 1, "name": "id", "type": "long", "required": False}]
    schema = {"type": "struct", "fields": fields}
    spec = {"fields": [{"source-id": 1, "name": "part", "transform": "identity"}]}
    order = {"fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}
    for updates in (
        [{"action": "set-properties", "updates": {"owner": "shop"}}],
        [{"action": "set-properties", "updates": {"owner": "shop"}}],
        [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}],
        [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}],
        [{"action": "add-sort-order", "sort-order": order}, {"action": "set-default-sort-order", "sort-order-id": -1}],
        [{"action": "upgrade-format-version", "format-version": 3}],
    ):
        assert client.commit(dataset.table, *updates).status == 200

    history = queries.list_history(queries.get_branch(dataset, "master"))

    assert {row.type for row in history} == {"UPDATE"}
    assert [row.summary["changes"] for row in reversed(history)] == [
        ["properties"],
        ["schema"],
        ["partition spec"],
        ["sort order"],
        ["format version"],
    ]


def test_table_made_by_a_client_is_a_dataset() -> None:
    user = make.a_user()
    client = make.a_client(user)
    client.create_namespace("lake")
    assert client.create_table("lake.fish").status == 200

    dataset = queries.get_dataset(make.who(user), "/lake/fish")

    assert queries.list_parents(dataset) == {"master": None}


def test_table_made_on_a_branch_has_an_empty_master_and_a_child() -> None:
    user = make.a_user()
    client = make.a_client(user, "feature")
    client.create_namespace("lake")
    assert client.create_table("lake.fish").status == 200

    dataset = queries.get_dataset(make.who(user), "/lake/fish")
    made = queries.latest_committed(dataset, "feature")

    assert queries.list_parents(dataset) == {"master": None, "feature": "master"}
    assert queries.latest_committed(dataset, "master") is None
    assert made is not None
    assert made.type == "SNAPSHOT"


def test_first_write_of_a_branch_stands_on_what_it_read() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    make.write(make.a_client(user), dataset, rows=2, total=2)
    base = queries.latest_committed(dataset, "master")

    make.write(make.a_client(user, "feature"), dataset, rows=1, total=3)

    mine = queries.latest_committed(dataset, "feature")
    assert mine is not None
    assert (mine.parent, mine.summary["added"], mine.type) == (base, 1, "APPEND")
    assert queries.latest_committed(dataset, "master") == base
    assert queries.resolve_input(path=dataset.path, chain=("other", "feature", "master")) == ("feature", mine)


def test_dropped_table_takes_its_dataset_along_unless_it_is_being_written() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    make.write(make.a_client(user), dataset)
    make.write(make.a_client(user, "feature"), dataset)
    opened = make.a_transaction(dataset, user)
    client = make.a_client(user)
    path = "namespaces/shop/tables/" + dataset.table.split(".")[1]

    assert client.call("DELETE", path, query="purgeRequested=false").status == 409
    services.abort_transaction(transaction=opened, reason="")
    assert client.call("DELETE", path, query="purgeRequested=false").status == 204
    assert queries.find_dataset(dataset.path) is None
    assert not Transaction.objects.exists()


def test_renamed_table_keeps_its_history() -> None:
    user = make.a_user()
    dataset = make.a_dataset("/shop/orders", by=user)
    make.write(make.a_client(user), dataset)
    client = make.a_client(user)

    answer = client.call(
        "POST",
        "tables/rename",
        {
            "source": {"namespace": ["shop"], "name": "orders"},
            "destination": {"namespace": ["shop"], "name": "sales"},
        },
    )

    assert answer.status == 204
    renamed = queries.get_dataset(make.who(user), "/shop/sales")
    assert (renamed.pk, renamed.table) == (dataset.pk, "shop.sales")
    assert renamed.transactions.count() == 1


def test_branch_made_by_a_plain_client_shares_the_transaction() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    client = make.a_client(user)
    make.write(client, dataset)
    number = head(dataset, "master")

    ref = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "branch", "snapshot-id": number}
    assert client.commit(dataset.table, ref).status == 200
    assert queries.latest_committed(dataset, "audit") == queries.latest_committed(dataset, "master")
    assert dataset.transactions.count() == 1

    assert client.commit(dataset.table, {"action": "remove-snapshot-ref", "ref-name": "audit"}).status == 200
    assert queries.find_branch(dataset, "audit") is None


def test_several_outputs_are_committed_together() -> None:
    user = make.a_user()
    one, two = make.a_dataset(by=user), make.a_dataset(by=user)
    opened = [make.a_transaction(dataset, user, job_id="abc") for dataset in (one, two)]
    for row in opened:
        make.fill(row, user)

    committed = services.commit_transactions(
        transactions=opened, branch="master", staging="_job/abc", by=make.who(user)
    )

    assert {row.state for row in committed} == {"COMMITTED"}
    assert all(head(dataset, "master") is not None for dataset in (one, two))


def test_commit_of_several_is_all_or_nothing() -> None:
    user = make.a_user()
    one, two = make.a_dataset(by=user), make.a_dataset(by=user)
    opened = [make.a_transaction(dataset, user, job_id="abc") for dataset in (one, two)]
    make.fill(opened[0], user)
    services.abort_transaction(transaction=opened[1], reason="gone")

    with pytest.raises(Conflict):
        services.commit_transactions(transactions=opened, branch="master", staging="_job/abc", by=make.who(user))

    assert head(one, "master") is None
    assert Transaction.objects.get(pk=opened[0].pk).state == "OPEN"


def test_commit_without_a_write_keeps_what_was_there() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    make.write(make.a_client(user), dataset, rows=2, total=2)
    before = head(dataset, "master")

    committed = make.commit(make.a_transaction(dataset, user), user)

    assert (committed.snapshot_id, committed.summary["added"]) == (before, 0)
    assert committed.summary["rows"] == 2
    assert head(dataset, "master") == before


def test_branch_of_a_failed_build_points_to_what_it_was_made_off() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    make.write(make.a_client(user), dataset)
    base = queries.latest_committed(dataset, "master")
    opened = make.a_transaction(dataset, user, branch="feature", chain=("feature", "master"))
    services.abort_transaction(transaction=opened, reason="failed")
    make.write(make.a_client(user), dataset)

    assert queries.latest_committed(dataset, "feature") == base
    assert base is not None
    assert head(dataset, "feature") == base.snapshot_id
    assert DatasetBranch.objects.get(dataset=dataset, name="feature").parent == queries.get_branch(dataset, "master")


def test_build_without_any_branch_of_its_chain_makes_a_root() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)

    make.a_transaction(dataset, user, branch="dev", chain=("dev",))

    assert queries.list_parents(dataset) == {"master": None, "dev": None}


def test_transaction_is_recorded_as_what_it_was() -> None:
    """An APPEND that overwrote is no APPEND, and what only appended replaced nothing, whatever they were opened as."""
    user = make.a_user()
    dataset = make.a_dataset(by=user)

    def run(stated: str, operation: str, **summary: str) -> str:
        opened = make.a_transaction(dataset, user, type=stated)
        client = make.a_client(user, opened.staging_branch)
        counts = {"total-records": "4", "total-data-files": "1", "total-files-size": "100", **summary}
        assert client.append(dataset.table, summary={"operation": operation, **counts}).status == 200
        return make.commit(opened, user).type

    assert run("SNAPSHOT", "append", **{"added-records": "4"}) == "SNAPSHOT"
    assert run("APPEND", "overwrite", **{"added-records": "1", "deleted-records": "1"}) == "UPDATE"
    assert run("APPEND", "delete", **{"deleted-records": "1"}) == "DELETE"
    assert run("SNAPSHOT", "append", **{"added-records": "1"}) == "APPEND"
    assert run("SNAPSHOT", "overwrite", **{"added-records": "4", "deleted-records": "4"}) == "SNAPSHOT"
    assert run("UPDATE", "append", **{"added-records": "1"}) == "UPDATE"


def test_rollback_is_recorded_as_what_it_did_to_the_rows() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    client = make.a_client(user)
    make.write(client, dataset, rows=2, total=2)
    first = head(dataset, "master")
    make.write(client, dataset, rows=3, total=5)

    assert client.commit(dataset.table, set_ref("main", int(first or 0))).status == 200

    newest = queries.latest_committed(dataset, "master")
    assert newest is not None
    assert (newest.type, newest.snapshot_id, newest.summary["added"], newest.summary["deleted"]) == (
        "DELETE",
        first,
        0,
        3,
    )


def test_branch_that_a_build_left_empty_starts_from_what_it_reads() -> None:
    """A build that failed on a branch of an empty master leaves a branch that reads master; so does its first write."""
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    opened = make.a_transaction(dataset, user, branch="feature", chain=("feature", "master"))
    services.abort_transaction(transaction=opened, reason="failed")
    make.write(make.a_client(user), dataset, rows=2, total=2)
    base = queries.latest_committed(dataset, "master")

    make.write(make.a_client(user, "feature"), dataset, rows=1, total=3)

    mine = queries.latest_committed(dataset, "feature")
    assert mine is not None
    assert (mine.parent, mine.type, mine.summary["added"]) == (base, "APPEND", 1)


def test_history_of_a_branch_goes_on_below_a_transaction_that_was_aborted_before_there_was_anything() -> None:
    user = make.a_user()
    dataset = make.a_dataset(by=user)
    opened = make.a_transaction(dataset, user, branch="feature", chain=("feature", "master"))
    services.abort_transaction(transaction=opened, reason="failed")
    make.write(make.a_client(user), dataset)
    make.write(make.a_client(user, "feature"), dataset)

    line = list(list_line(dataset, branch="feature"))
    page = read_history(dataset, branch="feature", aborted=True, page=0)

    assert [(row.branch_name, row.state) for row in line] == [
        ("feature", "COMMITTED"),
        ("feature", "ABORTED"),
        ("master", "COMMITTED"),
    ]
    assert [step.transaction for group in page.groups for step in group.rows] == line
