"""Branches of datasets: children of open transactions, deletion, chains, and what the database itself refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError
from django.db import transaction as database
from django.db.models import RestrictedError

from tests.factories import datasets as make
from webapp.accounts.models import AuditEntry
from webapp.catalog import queries as catalog
from webapp.core.errors import AppError, Conflict, NotFound
from webapp.datasets import queries, services, signals
from webapp.datasets.models import DatasetBranch, Transaction

if TYPE_CHECKING:
    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]


@pytest.fixture
def user() -> User:
    return make.a_user()


@pytest.fixture
def dataset(user: User) -> Dataset:
    dataset = make.a_dataset(by=user)
    make.write(make.a_client(user), dataset)
    return dataset


def head(dataset: Dataset, branch: str) -> int | None:
    chain = queries.get_fallback_chain(path=dataset.path, branch=branch)
    number: int = catalog.load_view(table=dataset.table, branch=branch, chain=chain).metadata["current-snapshot-id"]
    return None if number == -1 else number


def child(dataset: Dataset, user: User, name: str, parent: str | None = "master") -> DatasetBranch:
    return services.create_branch(dataset=dataset, name=name, parent=parent, by=make.who(user))


def test_child_of_an_open_transaction_reads_the_last_committed_one(dataset: Dataset, user: User) -> None:
    before = queries.latest_committed(dataset, "master")
    opened = make.a_transaction(dataset, user)
    make.fill(opened, user)

    made = child(dataset, user, "feature")

    assert made.transaction == opened
    assert queries.latest_committed(dataset, "feature") == before
    assert before is not None
    assert head(dataset, "feature") == before.snapshot_id
    with pytest.raises(Conflict) as refused:
        make.a_transaction(dataset, user, branch="feature")
    assert refused.value.code == "transaction_open"
    assert make.try_write(make.a_client(user, "feature"), dataset) == 409


def test_child_shares_the_transaction_once_it_is_committed(dataset: Dataset, user: User) -> None:
    opened = make.a_transaction(dataset, user)
    child(dataset, user, "feature")
    make.fill(opened, user)

    committed = make.commit(opened, user)
    make.write(make.a_client(user), dataset)

    assert queries.latest_committed(dataset, "feature") == committed
    assert head(dataset, "feature") == committed.snapshot_id != head(dataset, "master")
    assert make.a_transaction(dataset, user, branch="feature").parent == committed


def test_child_points_to_the_last_committed_one_after_an_abort(dataset: Dataset, user: User) -> None:
    before = queries.latest_committed(dataset, "master")
    opened = make.a_transaction(dataset, user)
    child(dataset, user, "feature")
    make.fill(opened, user)

    services.abort_transaction(transaction=opened, reason="")
    make.write(make.a_client(user), dataset)

    assert queries.get_branch(dataset, "feature").transaction == before
    assert before is not None
    assert head(dataset, "feature") == before.snapshot_id != head(dataset, "master")


def test_child_of_an_empty_branch_stays_empty(user: User) -> None:
    dataset = make.a_dataset(by=user)
    child(dataset, user, "feature")
    child(dataset, user, "root", parent=None)

    make.write(make.a_client(user), dataset)

    assert (head(dataset, "feature"), head(dataset, "root")) == (None, None)
    assert queries.resolve_input(path=dataset.path, chain=("feature", "master")) == (
        "master",
        queries.latest_committed(dataset, "master"),
    )


def test_deleted_branch_leaves_its_transactions_and_children(dataset: Dataset, user: User) -> None:
    removed: list[str] = []

    def listen(branch: str, **_kwargs: Any) -> None:
        removed.append(branch)

    signals.branch_removed.connect(listen)
    child(dataset, user, "middle")
    make.write(make.a_client(user, "middle"), dataset)
    kept = queries.latest_committed(dataset, "middle")
    child(dataset, user, "leaf", parent="middle")

    services.delete_branch(dataset=dataset, name="middle", by=make.who(user))
    signals.branch_removed.disconnect(listen)

    assert removed == ["middle"]
    assert queries.list_parents(dataset) == {"master": None, "leaf": "master"}
    assert kept is not None
    assert Transaction.objects.get(pk=kept.pk).dataset_branch is None
    assert queries.latest_committed(dataset, "leaf") == kept
    assert head(dataset, "leaf") == kept.snapshot_id
    assert catalog.branch_pointer(table=dataset.table, branch="middle") is None
    assert [row.pk for row in queries.list_transactions(dataset, branch="middle")] == [kept.pk]


def test_children_of_a_deleted_root_become_roots(dataset: Dataset, user: User) -> None:
    child(dataset, user, "dev", parent=None)
    child(dataset, user, "feature", parent="dev")

    services.delete_branch(dataset=dataset, name="dev", by=make.who(user))

    assert queries.list_parents(dataset) == {"master": None, "feature": None}


def test_set_parent_changes_the_ancestry_record_alone(dataset: Dataset, user: User) -> None:
    by = make.who(user)
    for name, parent in (("one", "master"), ("two", "master"), ("leaf", "two")):
        child(dataset, user, name, parent=parent)
    make.write(make.a_client(user, "two"), dataset)
    before = head(dataset, "two")
    services.set_parent(dataset=dataset, name="two", parent="one", by=by)
    assert queries.branch_ancestors(dataset, "leaf") == ("two", "one", "master")
    assert head(dataset, "two") == before
    assert services.set_parent(dataset=dataset, name="two", parent="one", by=by).parent.name == "one"  # type: ignore[union-attr]
    services.set_parent(dataset=dataset, name="two", parent=None, by=by)
    assert queries.branch_ancestors(dataset, "leaf") == ("two",)
    moves = [record.detail for record in AuditEntry.objects.filter(verb="set_dataset_branch_parent").order_by("pk")]
    assert moves == [{"from": "master", "to": "one"}, {"from": "one", "to": None}]


@pytest.mark.parametrize(
    ("name", "parent", "code"),
    [
        ("master", "one", "master_stays"),
        ("one", "one", "parent_below"),
        ("one", "leaf", "parent_below"),
        ("one", "gone", "not_found"),
        ("gone", "one", "not_found"),
        ("sharing", "one", "transaction_open"),
    ],
)
def test_set_parent_refuses_what_is_no_ancestry(
    dataset: Dataset, user: User, name: str, parent: str, code: str
) -> None:
    by = make.who(user)
    child(dataset, user, "one")
    child(dataset, user, "leaf", parent="one")
    services.start_transaction(dataset=dataset, branch="leaf", type="APPEND", by=by)
    child(dataset, user, "sharing", parent="leaf")
    before = queries.list_parents(dataset)
    with pytest.raises(AppError) as refused:
        services.set_parent(dataset=dataset, name=name, parent=parent, by=by)
    assert refused.value.code == code
    assert queries.list_parents(dataset) == before


def test_branch_of_a_name_that_was_deleted_starts_anew(dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user, "feature"), dataset)
    services.delete_branch(dataset=dataset, name="feature", by=make.who(user))
    base = queries.latest_committed(dataset, "master")

    make.write(make.a_client(user, "feature"), dataset)

    again = queries.latest_committed(dataset, "feature")
    assert again is not None
    assert (again.parent, again.number) == (base, 1)


def test_deleting_a_branch_of_git_aborts_what_is_open_on_it(dataset: Dataset, user: User) -> None:
    other = make.a_dataset("/elsewhere/x", by=user)
    opened = make.a_transaction(dataset, user, branch="feature", chain=("feature", "master"))
    make.a_transaction(other, user, branch="feature", chain=("feature", "master"))

    keys = services.intend_deletions(folders=["shop"], branch="feature", git_head="1" * 40, by=make.who(user))

    assert services.carry_out_deletions(keys=keys, by=make.who(user)) == 1
    assert Transaction.objects.get(pk=opened.pk).state == "ABORTED"
    assert queries.find_branch(dataset, "feature") is None
    assert queries.find_branch(other, "feature") is not None


def test_chain_must_fit_the_ancestry(dataset: Dataset, user: User) -> None:
    child(dataset, user, "one")
    child(dataset, user, "two", parent="one")
    child(dataset, user, "other")

    queries.check_chain(path=dataset.path, chain=("two", "one", "master"))
    queries.check_chain(path=dataset.path, chain=("two", "master"))
    queries.check_chain(path=dataset.path, chain=("new", "two", "unknown", "master"))
    queries.check_chain(path="/not/there", chain=("two", "other"))
    for chain in (("two", "other", "master"), ("master", "two"), ("one", "two", "master")):
        with pytest.raises(Conflict, match="is not an ancestor of") as refused:
            queries.check_chain(path=dataset.path, chain=chain)
        assert refused.value.code == "incompatible_ancestry"


def test_others_may_not_make_datasets_in_a_folder(user: User) -> None:
    make.a_dataset("/mine/a", by=user)
    guest = make.a_user(is_admin=False)

    with pytest.raises(NotFound, match="no dataset /mine/b"):
        make.a_dataset("/mine/b", by=guest)
    assert queries.find_dataset("/mine/b") is None
    assert not catalog.table_exists(table="mine.b")


def test_one_open_transaction_is_a_constraint(dataset: Dataset, user: User) -> None:
    first = make.a_transaction(dataset, user)

    with pytest.raises(IntegrityError), database.atomic():
        Transaction.objects.create(
            dataset=dataset, dataset_branch=first.dataset_branch, branch_name="master", number=9, type="APPEND", by="x"
        )


@pytest.mark.parametrize(
    "change",
    [
        {"number": 1},
        {"state": "COMMITTED"},
        {"state": "COMMITTED", "schema_id": 0},
        {"state": "ABORTED"},
        {"state": "LOST"},
        {"type": "MERGE"},
        {"parent_id": "self"},
    ],
)
def test_impossible_transactions_are_refused_by_the_database(
    dataset: Dataset, user: User, change: dict[str, Any]
) -> None:
    row = make.a_transaction(dataset, user)
    change = {name: row.pk if value == "self" else value for name, value in change.items()}

    with pytest.raises(IntegrityError), database.atomic():
        Transaction.objects.filter(pk=row.pk).update(**change)


def test_committed_transactions_of_a_branch_are_a_line(dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user), dataset)
    second = queries.latest_committed(dataset, "master")
    assert second is not None
    copy = Transaction.objects.get(pk=second.pk)

    with pytest.raises(IntegrityError), database.atomic():
        copy.pk, copy.number = "another", 9
        copy.save(force_insert=True)
    with pytest.raises(IntegrityError), database.atomic():
        copy.parent = None
        copy.save(force_insert=True)


def test_branch_is_not_its_own_parent_and_unique_without_case(dataset: Dataset, user: User) -> None:
    branch = child(dataset, user, "feature")

    with pytest.raises(IntegrityError), database.atomic():
        DatasetBranch.objects.filter(pk=branch.pk).update(parent=branch)
    with pytest.raises(IntegrityError), database.atomic():
        DatasetBranch.objects.create(dataset=dataset, name="Feature", name_lower="feature")


def test_parent_is_not_deleted_without_reparenting(dataset: Dataset, user: User) -> None:
    parent = child(dataset, user, "parent")
    child(dataset, user, "leaf", parent="parent")

    with pytest.raises(RestrictedError):
        parent.delete()


def test_internal_branches_are_not_for_people(dataset: Dataset, user: User) -> None:
    opened = make.a_transaction(dataset, user, branch="_review/shop/1/base", chain=("master",))
    make.fill(opened, user)
    make.commit(opened, user)
    writer = make.a_user(is_admin=True)

    assert make.try_write(make.a_client(writer, "_review/shop/1/base"), dataset) == 403
    assert make.try_write(make.a_client(writer, "_review/shop/2/base"), dataset) == 403
    assert queries.find_branch(dataset, "_review/shop/2/base") is None
    assert queries.latest_committed(dataset, "_review/shop/1/base") != queries.latest_committed(dataset, "master")
