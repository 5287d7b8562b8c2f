"""What datasets and builds do with branches: make, publish all or nothing, drop."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from tests.factories.catalog import Catalog, add_column, columns, head
from webapp.catalog import ports, queries, services
from webapp.catalog.rules.errors import AlreadyExists, CommitFailed, Forbidden, NoSuchTable
from webapp.catalog.rules.pointers import Pointer
from webapp.core.errors import Conflict

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
JOB = "_job/1"


@pytest.fixture
def staged(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Two tables, each with something staged by a job: new rows and a new column."""
    monkeypatch.setattr(ports, "find_chain", lambda **_asked: ("b", "master"))
    for name in ("one", "two"):
        services.create_empty_table(table=f"shop.{name}", by=None)
        job = catalog.on(JOB)
        job.commit(f"shop.{name}", *add_column(job.load(f"shop.{name}").metadata, "x"))
        job.append(f"shop.{name}")
    return catalog


def publish(branch: str, **options: Any) -> dict[str, Pointer | None]:
    found: dict[str, Pointer | None] = {}

    def on_swap(pointers: dict[str, Pointer | None]) -> None:
        assert connection.in_atomic_block
        found.update(pointers)

    tables = options.pop("moves", ["shop.one", "shop.two"])
    services.publish_staging(moves=tables, staging=JOB, branch=branch, by=None, on_swap=options.get("on_swap", on_swap))
    return found


def test_an_empty_table_is_on_master_without_columns(catalog: Catalog) -> None:
    view = services.create_empty_table(table="deep.er.t", by=None)
    assert columns(view.metadata) == []
    assert queries.branch_pointer(table="deep.er.t", branch="master") == Pointer(None, 0, 0, 0)
    assert queries.branch_pointer(table="deep.er.t", branch="b") is None
    assert queries.table_exists(table="deep.er.t")
    with pytest.raises(AlreadyExists):
        services.create_empty_table(table="deep.er.t", by=None)
    with pytest.raises(NoSuchTable):
        queries.load_view(table="shop.none", branch="master")


@pytest.mark.parametrize("branch", ["master", "b"])
def test_what_was_staged_appears_on_all_tables_at_once(staged: Catalog, branch: str) -> None:
    caller = staged.on(None if branch == "master" else branch)
    for name in ("one", "two"):
        assert head(caller.load(f"shop.{name}").metadata) is None
    expected = {f"shop.{name}": queries.branch_pointer(table=f"shop.{name}", branch=JOB) for name in ("one", "two")}
    assert publish(branch) == expected
    for name in ("one", "two"):
        seen = caller.load(f"shop.{name}").metadata
        assert columns(seen) == ["x"]
        assert head(seen) == expected[f"shop.{name}"].snapshot_id
        assert JOB not in str(seen)
        (snapshot,) = [row for row in seen["snapshots"] if row["snapshot-id"] == head(seen)]
        assert snapshot["summary"] == {"operation": "append"}
    log = staged.load("shop.one").metadata["snapshot-log"]
    assert [entry["snapshot-id"] for entry in log] == ([expected["shop.one"].snapshot_id] if branch == "master" else [])


def test_nothing_appears_when_the_layer_above_fails(staged: Catalog, home: Any) -> None:
    before = [staged.load(f"shop.{name}").body for name in ("one", "two")]
    files = len(list(home.glob("warehouse/**/*.json")))

    def fail(_pointers: Any) -> None:
        raise Conflict("no")

    with pytest.raises(Conflict):
        publish("b", on_swap=fail)
    assert [staged.load(f"shop.{name}").body for name in ("one", "two")] == before
    assert len(list(home.glob("warehouse/**/*.json"))) == files


def test_a_table_that_nothing_was_staged_on_stays(staged: Catalog) -> None:
    services.create_empty_table(table="shop.three", by=None)
    before = staged.load("shop.three").body["metadata-location"]
    found = publish("b", moves=["shop.one", "shop.three"])
    assert found["shop.three"] is None
    assert publish("master", moves=["shop.three"]) == {"shop.three": Pointer(None, 0, 0, 0)}
    assert staged.load("shop.three").body["metadata-location"] == before
    with pytest.raises(NoSuchTable):
        publish("b", moves=["shop.none"])


def test_publishing_wins_against_commits_of_others(staged: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from webapp.catalog.services import branches, swaps

    original, raced = branches.write_next, []

    def slow(row: Any, base: Any, after: Any) -> Any:
        if not raced:
            raced.append(1)
            staged.on("other").commit("shop.one", {"action": "set-properties", "updates": {"a": "1"}})
        return original(row, base, after)

    monkeypatch.setattr(branches, "write_next", slow)
    publish("b")
    assert staged.load("shop.one").metadata["properties"]["a"] == "1"

    def always_lost(*_args: Any, **_kwargs: Any) -> None:
        raise swaps.LostRace

    monkeypatch.setattr(branches, "swap", always_lost)
    with pytest.raises(CommitFailed):
        publish("b")


def test_dropping_what_was_staged_leaves_no_trace(staged: Catalog) -> None:
    services.drop_staging(tables=["shop.one", "shop.two", "shop.none"], staging=JOB)
    for name in ("one", "two"):
        assert queries.branch_pointer(table=f"shop.{name}", branch=JOB) is None
        assert JOB not in str(staged.load(f"shop.{name}").metadata["refs"])
    before = staged.load("shop.one").body["metadata-location"]
    services.drop_branch(tables=["shop.one"], branch="never")
    assert staged.load("shop.one").body["metadata-location"] == before
    with pytest.raises(Forbidden):
        services.drop_branch(tables=["shop.one"], branch="master")


def test_a_branch_can_start_anywhere(staged: Catalog) -> None:
    publish("b")
    pointer = queries.branch_pointer(table="shop.one", branch="b")
    assert pointer is not None
    services.create_branch(table="shop.one", branch="c", pointer=pointer)
    assert queries.branch_pointer(table="shop.one", branch="c") == pointer
    assert columns(queries.load_view(table="shop.one", branch="c").metadata) == ["x"]
    with pytest.raises(AlreadyExists):
        services.create_branch(table="shop.one", branch="c", pointer=pointer)
    view = queries.load_view(table="shop.one", branch="d", chain=("c", "master"))
    assert head(view.metadata) == pointer.snapshot_id
    assert head(queries.load_view(table="shop.one", branch="d").metadata) != pointer.snapshot_id


def test_dropping_a_table(staged: Catalog) -> None:
    services.drop_table(table="shop.one", purge=True, by=None)
    assert not queries.table_exists(table="shop.one")
    with pytest.raises(NoSuchTable):
        services.drop_table(table="shop.one", purge=False, by=None)
