"""Verdicts of reviewers on single datasets of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import datasets as make_data
from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.accounts.models import User
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.pulls import services
from webapp.pulls.models import PullDataset, PullRequest, Viewed
from webapp.pulls.queries.pulls import list_blockers

if TYPE_CHECKING:
    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1"


@pytest.fixture
def row(ines: Principal, silent_bell: None) -> PullDataset:
    """A dataset of a pull request, with rows that somebody loaded on its branch."""
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": "one\n"}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "two\n"}, branch="feature", by=ines)
    pull = services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    dataset = make_data.a_dataset("/shop/orders", by=find_user(ines))
    row = PullDataset(pull=pull, path=dataset.path, dataset=dataset)
    move(row)
    return pull.datasets.select_related("pull__repository", "dataset").get()


def find_user(principal: Principal) -> User:
    return User.objects.get(pk=principal.user_id)


def move(row: PullDataset) -> None:
    """Load other rows on the branch."""
    author = row.pull.author
    transaction = make_data.a_transaction(row.dataset, author, branch="feature", chain=("master",))
    make_data.fill(transaction, author)
    make_data.commit(transaction, author)
    services.refresh_pull(pull=row.pull)
    if row.pk:
        row.refresh_from_db(fields=["after", "before"])


@pytest.fixture
def mira(row: PullDataset) -> Principal:
    """A writer."""
    return make.a_member(row.pull.repository, "writer", "mira")


def list_codes(pull: PullRequest) -> list[str]:
    return [blocker.code for blocker in list_blockers(pull)]


def test_a_rejection_stands_until_it_is_taken_back_or_the_data_moves(row: PullDataset, mira: Principal) -> None:
    services.judge_dataset(row=row, verdict="rejected", reason="Too few.", by=mira)
    assert "dataset_rejected" in list_codes(row.pull)
    with pytest.raises(Conflict, match="You rejected the data of /shop/orders"):
        services.add_review(pull=row.pull, verdict="approve", by=mira)

    move(row)
    assert "dataset_rejected" not in list_codes(row.pull)
    services.judge_dataset(row=row, verdict="rejected", reason="Still.", by=mira)
    assert "dataset_rejected" in list_codes(row.pull)
    services.judge_dataset(row=row, verdict="viewed", by=mira)
    assert "dataset_rejected" not in list_codes(row.pull)
    assert Viewed.objects.filter(place="/shop/orders").count() == 1
    services.judge_dataset(row=row, verdict="none", by=mira)
    assert not Viewed.objects.exists()
    assert [event.data["verdict"] for event in row.pull.events.filter(kind="judged")] == [
        "rejected",
        "rejected",
        "viewed",
    ]


def test_an_open_page_hears_that_its_rows_have_moved_and_what_was_viewed_is_not_any_more(
    row: PullDataset, ines: Principal, mira: Principal
) -> None:
    client, then = a_client(mira), str(row.after_id)
    shown = {"fragment": "moved", "dataset": row.path, "compared": row.compared, "before": "", "after": then}
    services.judge_dataset(row=row, verdict="viewed", by=mira)
    assert client.get(f"{PAGE}/data", shown).status_code == 204
    assert "1 of 1 viewed" in read_page(client, f"{PAGE}/data")

    move(row)
    moved = client.get(f"{PAGE}/data", shown).content.decode()
    assert [moved.count(f'title="{transaction}"') for transaction in (then, row.after_id)] == [1, 1]
    assert "Recompute" in moved
    assert "0 of 1 viewed" in read_page(client, f"{PAGE}/data")
    assert client.get(f"{PAGE}/data", {**shown, "dataset": "/shop/other"}).status_code == 204
    services.close_pull(pull=row.pull, by=ines)
    assert client.get(f"{PAGE}/data", shown).status_code == 204


def test_what_is_no_verdict_is_refused(row: PullDataset, ines: Principal, mira: Principal) -> None:
    refused: list[tuple[type[Exception], dict[str, Any]]] = [
        (InvalidInput, {"verdict": "perhaps", "by": mira}),
        (InvalidInput, {"verdict": "rejected", "reason": " ", "by": mira}),
        (PermissionDenied, {"verdict": "accepted", "by": ines}),
        (Conflict, {"verdict": "accepted", "by": mira, "expected_transaction": "another"}),
    ]
    for error, fields in refused:
        with pytest.raises(error):
            services.judge_dataset(row=row, **fields)
    row.after = None
    with pytest.raises(InvalidInput, match="no rows on feature yet"):
        services.judge_dataset(row=row, verdict="accepted", by=mira)
    services.close_pull(pull=row.pull, by=ines)
    move(row)
    with pytest.raises(Conflict, match="takes no more verdicts"):
        services.judge_dataset(row=row, verdict="accepted", by=mira)


def test_pages_and_rest_say_who_accepts_and_rejects_what(row: PullDataset, mira: Principal) -> None:
    client = a_client(mira)
    address = f"{REST}/datasets/{row.dataset_id}/verdict"
    answer = client.post(address, {"verdict": "accepted"}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    (verdict,) = client.get(f"{REST}/datasets").json()["results"][0]["verdicts"]
    assert (verdict["reviewer"], verdict["verdict"], verdict["void"]) == ("mira", "accepted", False)
    fields = {"dataset": row.path, "verdict": "rejected", "reason": "Too few.", "expected_transaction": row.after_id}
    client.post(f"{PAGE}/verdict", fields)

    reader = a_client(make.a_member(row.pull.repository, "reader", "olek"))
    data = read_page(reader, f"{PAGE}/data?dataset=/shop/orders")
    assert data.index("mira") < data.index("Too few.")
    assert "Take it back" not in data
    assert "Take it back" in read_page(client, f"{PAGE}/data?dataset=/shop/orders")
    conversation = read_page(reader, PAGE)
    assert "A reviewer rejected data" in conversation
    assert f'href="{PAGE}/data?dataset=/shop/orders"' in conversation
    assert conversation.count("rejected the data of") == 2  # in the timeline and in the merge box
    assert [entry["kind"] for entry in reader.get(f"{REST}/timeline").json()["results"]].count("judged") == 2
    make.a_repository("secret", by=make.a_person("olga"))
    row.path = "/secret/orders"
    row.save()
    row.pull.verdicts.update(path=row.path)
    row.pull.events.filter(kind="judged").update(data={"path": row.path, "verdict": "rejected", "reason": "Too few."})
    assert "Too few." not in read_page(reader, PAGE)
    assert "judged" not in {entry["kind"] for entry in reader.get(f"{REST}/timeline").json()["results"]}
    assert client.post(address, {"verdict": "none"}, content_type="application/json").status_code == 404
