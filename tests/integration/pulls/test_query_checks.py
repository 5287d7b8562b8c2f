"""Queries of a repository as checks: run on both branches after each push, shown by rights, required by the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.test import Client

from tests.factories import build_rows, datasets
from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from tests.factories.everything import write_rows
from webapp.accounts.models import RepositoryRole
from webapp.core.errors import InvalidInput
from webapp.core.principals import Principal
from webapp.dispatch.fair_slots import FairSlots
from webapp.pulls import services
from webapp.pulls.models import PullCheck, PullRequest
from webapp.pulls.queries import pulls as queries
from webapp.pulls.services import checks
from webapp.pulls.services.checks import sweep_checks
from webapp.repositories.models import Repository
from webapp.repositories.services import set_protection, statuses
from webapp.sql import services as sql
from webapp.sql.models import Query
from webapp.sql.rules.states import QueryState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
API = "/api/v1/repositories/shop/pulls/1/checks"
PAGE = "/r/shop/pulls/1/checks"
FEWER = "-- expect: rows <= 2\nSELECT id FROM raw GROUP BY id"
SAME = "-- expect: equal\nSELECT id, any_value(name) AS name FROM raw GROUP BY id"


@pytest.fixture
def shop(readers: Path, silent_bell: None) -> Repository:
    """A repository whose branch `side` has one row more than master."""
    world = build_rows.a_world("shop", raw=())
    datasets.a_dataset("/shop/raw", by=world.user)
    write_rows(world.user, "shop.raw")
    world.branch("side")
    table = datasets.a_pyiceberg(world.user, "side").load_table("shop.raw")
    table.append(pa.table({"id": [9], "name": ["branch"], "amount": [2.5], "tags": [["z"]]}))
    return world.repository


def open_pull(shop: Repository, files: dict[str, str | None]) -> PullRequest:
    maker = make.maker_of(shop)
    make.a_commit(shop, files, branch="side", by=maker)
    return services.open_pull(repository=shop, title="Change", source="side", target="master", by=maker)


def run_all(pull: PullRequest) -> None:
    """Do what the workers do that are rung for the checks of a pull request."""
    services.refresh_pull(pull=pull)
    services.run_checks(pull_id=pull.pk)
    for query in Query.objects.filter(state=QueryState.QUEUED).exclude(check_name=""):
        sql.run_query(query_id=query.pk)


def list_states(pull: PullRequest) -> dict[str, str]:
    return {check.name: check.state for check in queries.list_checks(pull) if check.query_check}


def list_blocking(pull: PullRequest) -> str:
    return " ".join(blocker.message for blocker in queries.list_blockers(pull) if blocker.code == "check_failed")


def read(reader: Principal) -> dict[str, Any]:
    """Return the checks by REST, by their names."""
    answer = a_client(reader).get(API)
    assert answer.status_code == 200, answer.content
    return {check["name"]: check for check in answer.json()["results"]}


def test_author_at_their_share_starts_no_checks(shop: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    slots, maker = FairSlots(2), make.maker_of(shop)
    monkeypatch.setattr(checks, "SLOTS", slots)
    pull = open_pull(shop, {"checks/fewer.sql": FEWER})
    services.refresh_pull(pull=pull)
    assert slots.take(maker.user_id)
    services.run_checks(pull_id=pull.pk)
    assert not Query.objects.exists()
    slots.release(maker.user_id)
    services.run_checks(pull_id=pull.pk)
    assert Query.objects.count() == 1


def test_checks_run_on_both_branches_after_each_push_and_can_be_required(shop: Repository) -> None:
    maker = make.maker_of(shop)
    pull = open_pull(shop, {"checks/fewer.sql": FEWER, "checks/same.sql": SAME, "checks/none.sql": "SELECT 1"})
    states = {"checks/fewer": "pending", "checks/same": "pending"}
    assert list_states(pull) == {**states, "checks/none": "red"}
    with pytest.raises(InvalidInput, match=r"checks/rows for checks/rows\.sql"):
        set_protection(repository=shop, branch="master", checks=["checks/same"], by=maker)
    make.a_commit(shop, {"checks/same.sql": SAME.replace("equal", "shows")}, branch="master", by=maker)
    set_protection(repository=shop, branch="master", approvals=0, checks=["checks/same"], by=maker)
    assert list_blocking(pull) == "The check checks/same is not green: not run yet."

    run_all(pull)
    assert list_states(pull) == {"checks/fewer": "red", "checks/same": "red", "checks/none": "red"}
    assert list_blocking(pull) == "The check checks/same is not green: expects equal, which its result is not."
    told = read(maker)
    assert told["checks/none"]["detail"].startswith("checks/none.sql:1: Nothing above the query says")
    assert (told["checks/same"]["expects"], told["checks/same"]["standing"]) == ("equal", "changed")
    run = told["checks/same"]["query"]
    assert (run["rows"], run["base_rows"], run["difference"]["inserted"], run["check"]) == (3, 2, 1, "checks/same")
    page = read_page(a_client(maker), PAGE)
    for text in ("changed here", "+1 rows from the target", "rows matched by <code>id</code>", "<td>branch</td>"):
        assert text in page
    assert f"{PAGE}#check-" in read_page(a_client(maker), "/r/shop/pulls/1")

    make.a_commit(shop, {"checks/same.sql": SAME.replace("FROM raw", "FROM raw WHERE id < 9")}, branch="side", by=maker)
    assert list_states(pull)["checks/same"] == "red"
    services.refresh_pull(pull=pull)
    assert list_states(pull) == {"checks/fewer": "pending", "checks/same": "pending", "checks/none": "red"}
    run_all(pull)
    assert list_states(pull)["checks/same"] == "green"
    assert list_blocking(pull) == ""

    make.a_commit(shop, {"checks/same.sql": None}, branch="side", by=maker)
    services.refresh_pull(pull=pull)
    assert (
        list_blocking(pull) == f"The check checks/same is not green: {pull.head_sha[:7]} has no file checks/same.sql."
    )


def test_a_check_runs_again_once_its_data_has_moved_and_when_somebody_asks(shop: Repository) -> None:
    maker = make.maker_of(shop)
    pull = open_pull(shop, {"checks/rows.sql": "-- expect: rows > 5\nSELECT * FROM raw"})
    run_all(pull)
    assert list_states(pull) == {"checks/rows": "red"}
    services.refresh_pull(pull=pull)
    assert list_states(pull) == {"checks/rows": "red"}
    world_user = shop.created_by
    assert world_user is not None
    table = datasets.a_pyiceberg(world_user, "side").load_table("shop.raw")
    table.append(pa.table({"id": [10], "name": ["b"], "amount": [2.5], "tags": [["z"]]}))
    services.refresh_pull(pull=pull)
    assert list_states(pull) == {"checks/rows": "pending"}
    assert sweep_checks() == 1
    run_all(pull)
    assert list_states(pull) == {"checks/rows": "green"}

    reader, writer = make.a_member(shop, "reader"), make.a_member(shop, "writer")
    body = {"name": "checks/rows"}
    assert a_client(reader).post(API, body, "application/json").status_code == 403
    assert a_client(writer).post(API, {"name": "checks/no"}, "application/json").status_code == 404
    answer = a_client(writer).post(API, body, "application/json")
    assert (answer.status_code, answer.json()["state"]) == (202, "pending")
    services.run_checks(pull_id=pull.pk)
    query = Query.objects.latest("pk")
    assert a_client(writer).post(API, body, "application/json").status_code == 202
    assert PullCheck.objects.get().query_id == query.pk
    sql.cancel_query(query=query, by=maker)
    assert "somebody stopped it" in read(reader)["checks/rows"]["detail"]
    Query.objects.update(created_at=query.created_at - sql.KEPT * 2)
    sql.prune_queries()
    assert list(Query.objects.values_list("pk", flat=True)) == [query.pk]


def test_results_are_for_who_may_read_what_was_read_and_nobody_reads_by_others_rights(shop: Repository) -> None:
    maker = make.maker_of(shop)
    vault = build_rows.a_world("vault", raw=())
    datasets.a_dataset("/vault/hidden", by=vault.user)
    write_rows(vault.user, "vault.hidden")
    text = '-- expect: empty\nSELECT CAST(name AS INTEGER) FROM "/vault/hidden"'
    pull = open_pull(shop, {"checks/hidden.sql": text, "checks/seen.sql": text.replace("CAST(name AS INTEGER)", "id")})
    run_all(pull)
    reason = "There is no dataset /vault/hidden, or you may not read it."
    assert reason in read(maker)["checks/hidden"]["detail"]
    RepositoryRole.objects.create(repository="vault", user_id=maker.user_id, role="reader")
    run_all(pull)
    reader = make.a_member(shop, "reader")
    for person, is_seen in ((maker, True), (reader, False)):
        told = read(person)
        assert [told[name]["state"] for name in ("checks/hidden", "checks/seen")] == ["red", "red"]
        assert (told["checks/hidden"]["query"] is not None) == is_seen
        page = read_page(a_client(person), PAGE)
        assert ("Could not convert string" in page) == is_seen
        assert ("4 rows" in page) == is_seen
        assert ("It read datasets that you may not see." in page) != is_seen
        shown = a_client(person).get(f"/r/shop/sql/{PullCheck.objects.get(name='checks/seen').query_id}")
        assert shown.status_code == (200 if is_seen else 404)

    # Somebody else's push would ask by the author's rights.
    pusher = make.a_member(shop, "writer", "pusher")
    make.a_commit(shop, {"checks/seen.sql": text.replace("CAST(name AS INTEGER)", "name")}, branch="side", by=pusher)
    run_all(pull)
    assert "pusher, who pushed" in read(maker)["checks/seen"]["detail"]
    assert list_states(pull) == {"checks/hidden": "red", "checks/seen": "red"}


def test_names_of_queries_are_not_reported_by_programs(shop: Repository) -> None:
    maker = make.maker_of(shop)
    sha = shop.git.find_head("side")
    assert sha is not None
    with pytest.raises(InvalidInput, match="begin with checks/"):
        statuses.report_status(repository=shop, sha=sha, name="checks/same", result="success", by=maker)
    assert Client().get(API).status_code == 401


def test_a_check_that_is_on_the_target_reads_nothing_hidden_by_the_rights_of_who_opens_a_pull_request(
    shop: Repository,
) -> None:
    vault = build_rows.a_world("vault", raw=())
    datasets.a_dataset("/vault/people", by=vault.user)
    write_rows(vault.user, "vault.people")
    rules = '[pipeline]\nfolders = ["/vault"]\n[datasets."/vault/people"]\nsensitive = ["name"]\n'
    make.a_commit(vault.repository, {"pipeline.toml": rules})
    oracle = "-- expect: empty\nSELECT id FROM \"/vault/people\" WHERE name = 'a'"
    make.a_commit(shop, {"checks/oracle.sql": oracle}, by=make.maker_of(shop))
    RepositoryRole.objects.create(repository="shop", user_id=vault.maker.user_id, role="writer")
    make.a_branch(shop, "helpful", by=vault.maker)
    make.a_commit(shop, {"notes.txt": "x\n"}, branch="helpful", by=vault.maker)
    pull = services.open_pull(repository=shop, title="Help", source="helpful", target="master", by=vault.maker)
    run_all(pull)
    told = read(make.maker_of(shop))["checks/oracle"]
    assert "The code of shop may not read /vault/people" in told["detail"], told
    assert not Query.objects.exists()
    allowed = rules + 'sensitive_repositories = ["shop"]\n'
    make.a_commit(vault.repository, {"pipeline.toml": allowed})
    run_all(pull)
    assert Query.objects.exists()
