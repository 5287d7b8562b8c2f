"""The pages of datasets: every tab, its states, its forms, and who may see them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import datasets as make
from tests.factories import repositories
from tests.factories.pages import read_page
from webapp.accounts import services as accounts
from webapp.accounts.models import User
from webapp.core.names import MASTER
from webapp.datasets import queries, services
from webapp.datasets.models import DatasetBranch, Transaction

if TYPE_CHECKING:
    from django.test import Client

    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("home")]
TABS = ("preview", "schema", "history", "branches", "catalog", "lineage", "compare")


def add_columns(client: Any, dataset: Dataset, *names: str) -> None:
    fields = [{"id": n, "name": name, "type": "long", "required": False} for n, name in enumerate(names, 1)]
    answer = client.commit(
        dataset.table,
        {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    assert answer.status == 200


def text(response: Any) -> str:
    return " ".join(read_page(response).split())


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_of_an_empty_dataset(signed: Client, dataset: Dataset, tab: str) -> None:
    response = signed.get(f"/d/shop/orders?tab={tab}")

    assert response.status_code == 200
    assert "<title>/shop/orders" in text(response)


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_with_a_history(signed: Client, dataset: Dataset, user: User, tab: str) -> None:
    add_columns(make.a_client(user), dataset, "id", "amount")
    services.abort_transaction(transaction=make.a_transaction(dataset, user), reason="Expectation failed")
    add_columns(make.a_client(user, "feature/a"), dataset, "id", "amount", "extra")
    make.a_transaction(dataset, user, branch="feature/b", chain=("feature/a", "master"))

    for branch in ("master", "feature/a", "feature/b", "unheard-of"):
        response = signed.get("/d/shop/orders", {"tab": tab, "branch": branch})
        assert response.status_code == 200, branch


def test_branches_are_shown_as_a_tree_with_fallback(signed: Client, dataset: Dataset, user: User) -> None:
    add_columns(make.a_client(user), dataset, "id")
    add_columns(make.a_client(user, "feature/a"), dataset, "id", "extra")

    page = text(signed.get("/d/shop/orders?tab=branches&branch=feature/weather"))

    assert "and 1 that reads by fallback" in page
    assert "it reads master" in page
    assert page.index("master</") < page.index("feature/a</a>")
    assert "schema 1 and<code>extra</code>" in page
    assert "Protected" in page


def test_many_branches_come_in_pages_and_are_found_by_name(
    signed: Client, dataset: Dataset, django_assert_max_num_queries: Any
) -> None:
    master = queries.find_branch(dataset, "master")
    names = [f"feature/{number:03d}" for number in range(120)]
    DatasetBranch.objects.bulk_create(
        DatasetBranch(dataset=dataset, name=name, name_lower=name, parent=master) for name in names
    )

    with django_assert_max_num_queries(43):
        first = signed.get("/d/shop/orders?tab=branches&branch=feature/119")
    assert [row.branch.name for row in first.context["tree"].rows] == ["master", *names[:49]]
    assert "1–50 of 121 branches" in text(first)
    picker = first.context["picker"]
    assert [choice["name"] for choice in picker.branches] == ["master", *names[:49], "feature/119"]
    assert "70 more: type a part of the name" in text(first)
    listed = text(signed.get(f"/d/shop/orders{picker.find_url}&find=E/11"))
    assert re.findall(r'<a href="([^"]*)"', listed) == [
        f"?branch=feature%2F{n}&amp;tab=branches" for n in range(110, 120)
    ]
    assert "No branch of that name" in text(signed.get(f"/d/shop/orders{picker.find_url}&find=nothing"))

    last = signed.get("/d/shop/orders?tab=branches&branch_page=9").context["tree"]
    assert ([row.branch.name for row in last.rows], last.has_more) == (names[99:], False)
    found = signed.get("/d/shop/orders?tab=branches&q=E/11").context["tree"]
    assert [row.branch.name for row in found.rows] == names[110:]
    assert "No branch has “nothing” in its name" in text(signed.get("/d/shop/orders?tab=branches&q=nothing"))


def test_a_branch_tells_how_far_it_is_ahead(signed: Client, dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user), dataset)
    base = queries.latest_committed(dataset, "master")
    for _ in range(3):
        make.write(make.a_client(user, "feature"), dataset)
    make.write(make.a_client(user, "feature/sub"), dataset)

    rows = {row.branch.name: row for row in signed.get("/d/shop/orders?tab=branches").context["tree"].rows}

    assert base is not None
    assert (rows["feature"].ahead, rows["feature"].base) == (3, base.pk)


def test_history_hides_aborted_on_request(signed: Client, dataset: Dataset, user: User) -> None:
    services.abort_transaction(transaction=make.a_transaction(dataset, user), reason="Expectation failed")

    page = signed.get("/d/shop/orders?tab=history")
    assert "Expectation failed" in text(page)
    [tab] = [tab for tab in page.context["tabs"] if tab["name"] == "History"]
    assert tab["count"] == page.context["history"].total == 1
    hidden = text(signed.get("/d/shop/orders?tab=history&aborted=0"))
    assert "Expectation failed" not in hidden
    assert "No transactions yet" in hidden


def test_history_goes_on_where_the_branch_began(signed: Client, dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user), dataset)
    make.write(make.a_client(user, "feature"), dataset)
    make.write(make.a_client(user), dataset)

    page = signed.get("/d/shop/orders?tab=history&branch=feature")

    groups = page.context["history"].groups
    assert [(group.branch, group.ahead, len(group.rows)) for group in groups] == [
        ("feature", 1, 1),
        ("master", None, 1),
    ]
    shown = text(page)
    assert shown.index("On feature, 1 ahead") < shown.index("From master, up to where the branch began")


def test_a_long_history_comes_in_pages_across_branches(
    signed: Client, dataset: Dataset, user: User, django_assert_max_num_queries: Any
) -> None:
    for branch, times in (("master", 60), ("feature", 55)):
        for _ in range(times):
            make.write(make.a_client(user, None if branch == "master" else branch), dataset)

    seen: list[tuple[str, int]] = []
    for page in range(3):
        with django_assert_max_num_queries(45):
            found = signed.get(f"/d/shop/orders?tab=history&branch=feature&page={page}").context["history"]
        seen += [
            (step.transaction.branch_name, step.transaction.number) for group in found.groups for step in group.rows
        ]
        assert (found.total, found.has_more) == (115, page < 2)
        first = found.groups[0]
        assert (first.branch, first.ahead) == (("feature", 55) if page < 2 else ("master", None))
    assert seen == [*(("feature", n) for n in range(55, 0, -1)), *(("master", n) for n in range(60, 0, -1))]


def test_transaction_is_shown_as_it_was(signed: Client, dataset: Dataset, user: User) -> None:
    add_columns(make.a_client(user), dataset, "id")
    first = queries.latest_committed(dataset, "master")
    assert first is not None
    add_columns(make.a_client(user), dataset, "id", "amount")

    page = read_page(signed.get(f"/d/shop/orders?tab=schema&transaction={first.pk}"))

    assert "schema 1" in page
    assert ">id</th>" in page
    assert ">amount</th>" not in page


def test_whose_count_of_rows_it_is_stands_beside_it_where_nobody_has_checked_it(
    signed: Client, dataset: Dataset, user: User
) -> None:
    """A client writes by itself; what a job states is checked before anybody sees it."""
    make.write(make.a_client(user), dataset, rows=999_999, total=999_999)
    shown = r"Rows\s+on this branch\s+\(as their writer counts them\)\s*</dt>\s*<dd>\s*999,999"
    assert re.search(shown, text(signed.get("/d/shop/orders")))
    Transaction.objects.update(build_id=1)
    page = text(signed.get("/d/shop/orders"))
    assert "999,999" in page
    assert "as their writer counts them" not in page


def test_snippets_name_branch_and_host(signed: Client, dataset: Dataset) -> None:
    page = signed.get("/d/shop/orders?branch=feature/a")

    for snippet in page.context["snippets"]:
        assert "http://testserver/iceberg" in snippet.code
        assert "feature/a" in snippet.code
        assert "TRIBUTARY_TOKEN" in snippet.code


def test_make_and_delete_a_branch(signed: Client, dataset: Dataset) -> None:
    made = signed.post(f"/datasets/{dataset.pk}/branches", {"name": "feature/a", "start": "master"})

    assert made.status_code == 302
    assert queries.list_parents(dataset) == {"master": None, "feature/a": "master"}
    page = text(signed.get(made["Location"]))
    assert "Branch feature/a is made" in page

    gone = signed.post(f"/datasets/{dataset.pk}/branches/delete", {"name": "feature/a"}, follow=True)
    assert "Branch feature/a is deleted" in text(gone)
    assert queries.list_parents(dataset) == {"master": None}


def test_a_new_branch_may_start_from_any_of_many_and_the_form_lists_few(
    signed: Client, dataset: Dataset, user: User
) -> None:
    others = [DatasetBranch(dataset=dataset, name=f"b/{n:03}", name_lower=f"b/{n:03}") for n in range(300)]
    DatasetBranch.objects.bulk_create(others)
    make.write(make.a_client(user), dataset, rows=3, total=3)
    first = dataset.transactions.get(branch_name="master")

    form = text(signed.get("/d/shop/orders?tab=branches")).partition('id="branch-start"')[2]
    offered, _, finder = form.partition("</select>")
    assert offered.count("<option") < 80
    assert "251 more: type a part of the name" in offered
    assert f'value="transaction:{first.pk}"' in offered
    assert 'hx-get="?fragment=options"' in finder
    found = text(signed.get("/d/shop/orders?fragment=options&find=b/299", headers={"HX-Request": "true"}))
    assert ">b/299</option>" in found

    refused = text(signed.post(f"/datasets/{dataset.pk}/branches", {"name": "master", "start": "b/299"}))
    assert "<option selected>b/299</option>" in refused
    assert signed.post(f"/datasets/{dataset.pk}/branches", {"name": "x", "start": "b/299"}).status_code == 302
    at_first = {"name": "y", "start": f"transaction:{first.pk}"}
    assert signed.post(f"/datasets/{dataset.pk}/branches", at_first).status_code == 302
    assert queries.list_parents(dataset)["x"] == "b/299"
    assert queries.list_parents(dataset)["y"] == "master"


def test_refused_branches_say_why(signed: Client, dataset: Dataset) -> None:
    for name, words in (
        ("main", "Iceberg&#x27;s name of the branch master"),
        ("", "required"),
        ("master", "already has"),
    ):
        response = signed.post(f"/datasets/{dataset.pk}/branches", {"name": name, "start": ""})
        assert response.status_code == 422
        assert words in text(response)

    refused = signed.post(f"/datasets/{dataset.pk}/branches/delete", {"name": "master"}, follow=True)
    assert "cannot be deleted" in text(refused)


def test_make_a_dataset(signed: Client, user: User) -> None:
    made = signed.post("/datasets/new", {"path": "/lab/fish", "description": "From the lake"})

    assert made.status_code == 302
    assert made["Location"] == "/d/lab/fish"
    assert "Load a file" in text(signed.get("/d/lab/fish"))
    again = signed.post("/datasets/new", {"path": "/lab/fish"})
    assert again.status_code == 422
    assert "is there already" in text(again)
    assert "two or more parts" in text(signed.post("/datasets/new", {"path": "fish"})).lower()


def test_list_searches_and_groups(signed: Client, dataset: Dataset, user: User) -> None:
    make.a_dataset("/lab/fish", by=user)

    everything = text(signed.get("/datasets"))
    found = text(signed.get("/datasets?q=fish"))
    nothing = text(signed.get("/datasets?q=whale"))
    folder = text(signed.get("/datasets?folder=shop"))
    elsewhere = text(signed.get("/datasets?folder=elsewhere"))

    assert "<span>fish</span>" in everything
    assert "<span>orders</span>" in everything
    assert "<span>orders</span>" not in found
    assert "No dataset matches" in nothing
    assert "<span>fish</span>" not in folder
    assert '<option value="elsewhere" selected>/elsewhere</option>' in elsewhere
    fragment = text(signed.get("/datasets?q=fish", headers={"HX-Request": "true"}))
    assert fragment.startswith('<div id="dataset-list">')


def test_list_leaves_out_what_master_lacks(signed: Client, dataset: Dataset, user: User) -> None:
    names = {"only": "side", "failed": MASTER, "landed": MASTER, "writing": MASTER}
    made = {name: make.a_dataset(f"/shop/{name}", by=user) for name in names}
    for name in ("only", "landed"):
        make.write(make.a_client(user, None if names[name] == MASTER else names[name]), made[name])
    for name in ("failed", "writing"):
        opened = services.start_transaction(dataset=made[name], branch=MASTER, type="SNAPSHOT", by=make.who(user))
        if name == "failed":
            services.abort_by_hand(transaction=opened, by=make.who(user))

    page, whole = text(signed.get("/datasets")), text(signed.get("/datasets?data=any"))

    assert [name for name in ("orders", *names) if f"<span>{name}</span>" in page] == ["orders", "landed"]
    assert "3 more have no data on master" in page
    assert [name for name in ("orders", *names) if f"<span>{name}</span>" in whole] == ["orders", *names]


def test_empty_list_offers_the_next_step(client: Client) -> None:
    client.force_login(make.a_user(is_admin=False))

    assert "No datasets yet" in text(client.get("/datasets"))


def test_list_has_pages(signed: Client, user: User) -> None:
    for number in range(52):
        services.register_dataset(table=f"bulk.t{number:02}", by=make.who(user))
    accounts.claim_folder(folder="bulk", creator=make.who(user))

    first = signed.get("/datasets?data=any").context["page"]
    second = signed.get(f"/datasets{first.next_url}").context["page"]

    names = [row.dataset.path for page in (first, second) for group in page.groups for row in group.rows]
    assert names == [f"/bulk/t{number:02}" for number in range(52)]
    assert (first.total, second.next_url) == (52, "")


def test_strangers_find_nothing(client: Client, dataset: Dataset) -> None:
    client.force_login(make.a_user(is_admin=False))

    assert client.get("/d/shop/orders").status_code == 404
    assert client.post(f"/datasets/{dataset.pk}/branches", {"name": "x"}).status_code == 404
    assert client.post(f"/datasets/{dataset.pk}/branches/delete", {"name": "x"}).status_code == 404
    assert queries.list_parents(dataset) == {"master": None}


def test_nobody_is_sent_to_sign_in(client: Client, dataset: Dataset) -> None:
    response = client.get("/d/shop/orders")

    assert response.status_code == 302
    assert response["Location"].startswith("/login")


def test_readers_see_no_buttons(client: Client, dataset: Dataset) -> None:
    accounts.claim_folder(folder="shop", repository="shop")
    reader = make.a_user("reader", is_admin=False)
    accounts.grant_role(repository="shop", user=reader, role="reader", by=None)
    client.force_login(reader)

    page = text(client.get("/d/shop/orders?tab=branches"))

    assert "New branch" not in page
    assert "Those on repository" in page
    refused = client.post(f"/datasets/{dataset.pk}/branches", {"name": "x", "start": ""})
    assert "reader" in text(refused)
    assert queries.list_parents(dataset) == {"master": None}


def test_unreadable_rows_are_an_error_with_a_retry(signed: Client, dataset: Dataset, user: User) -> None:
    make.write(make.a_client(user), dataset)
    add_columns(make.a_client(user), dataset, "id")

    page = text(signed.get("/d/shop/orders"))

    assert "The rows cannot be shown" in page
    assert "Try again" in page


def test_a_branch_without_columns_leads_to_the_one_that_was_written(
    signed: Client, dataset: Dataset, user: User
) -> None:
    blank = text(signed.get("/d/shop/orders"))
    add_columns(make.a_client(user, "feature/a"), dataset, "id")

    page = text(signed.get("/d/shop/orders"))

    assert "See the rows" not in blank
    assert "See the rows on feature/a" in page
    assert 'href="?branch=feature%2Fa"' in page


def test_unknown_tab_is_not_found(signed: Client, dataset: Dataset) -> None:
    assert signed.get("/d/shop/orders?tab=magic").status_code == 404


def test_long_history_has_pages(signed: Client, dataset: Dataset, user: User) -> None:
    client = make.a_client(user)
    for _ in range(52):
        make.write(client, dataset)

    first, second = (signed.get(f"/d/shop/orders?tab=history&page={page}").context["history"] for page in (0, 1))

    assert (first.shown, first.total, first.has_more) == (50, 52, True)
    assert (second.shown, second.has_more) == (2, False)


@pytest.mark.parametrize("act", ["commit", "abort"])
def test_a_transaction_is_started_and_closed_on_the_page(signed: Client, dataset: Dataset, act: str) -> None:
    history = {"branch": "dev", "tab": "history"}
    assert "Start a transaction" in text(signed.get("/d/shop/orders", history))
    here = f"/datasets/{dataset.pk}/transactions"
    assert "is open on dev" in text(signed.post(here, {"branch": "dev", "type": "APPEND"}, follow=True))
    opened = dataset.transactions.get(branch_name="dev")
    page = text(signed.get("/d/shop/orders", history))
    assert "ines started it" in page
    assert "Readers see the one before it" in page
    assert "Nothing has been written to it yet. ines and maintainers commit or abort it" in page
    assert "Start a transaction" not in page
    signed.post(f"{here}/{act}", {"transaction": opened.pk})
    opened.refresh_from_db()
    assert opened.state == {"commit": "COMMITTED", "abort": "ABORTED"}[act]
    assert f"{opened.pk} is {opened.state}" in text(
        signed.post(f"{here}/commit", {"transaction": opened.pk}, follow=True)
    )


def test_the_page_offers_to_close_what_one_may_close(
    client: Client, dataset: Dataset, user: User, settings: Any
) -> None:
    repository = repositories.a_repository("shop", by=make.who(user))
    client.force_login(User.objects.get(pk=repositories.a_member(repository, "writer", "wim").user_id))
    opened = make.a_transaction(dataset, user, branch="dev")
    here = "/d/shop/orders?branch=dev"
    assert "/transactions/abort" not in text(client.get(here))
    assert "only they and maintainers abort it, until nothing was written to it for a time" in text(
        client.post(f"/datasets/{dataset.pk}/transactions/abort", {"transaction": opened.pk}, follow=True)
    )
    settings.TRIBUTARY_IDLE_TRANSACTION_HOURS = 1e-9
    page = text(client.get(here))
    assert "It is idle: everybody who may write here may abort it." in page
    assert ("/transactions/abort" in page, "/transactions/commit" in page) == (True, False)
    client.post(f"/datasets/{dataset.pk}/transactions/abort", {"transaction": opened.pk})
    opened.refresh_from_db()
    assert (opened.state, opened.reason) == ("ABORTED", "Aborted by wim.")
