"""Who is told what, what they may still see of it, and what they do with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pyiceberg.types import StringType

from tests.factories import build_rows, datasets
from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.accounts.models import RepositoryRole, User
from webapp.builds.rules.states import BuildState
from webapp.core import clock
from webapp.core.errors import InvalidInput
from webapp.datasets.models import Dataset
from webapp.notices import services
from webapp.notices.models import Notification, PullStanding, Watch
from webapp.notices.queries.inbox import InboxFilter, count_unread, list_notifications
from webapp.notices.rules import facts
from webapp.notices.rules.facts import Reason
from webapp.notices.services.telling import tell
from webapp.pulls import services as pulls
from webapp.pulls import signals
from webapp.pulls.models import PullRequest
from webapp.pulls.services.remarks import record_event
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services import delete_repository, report_status, set_publication

if TYPE_CHECKING:
    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
API = "/api/v1/notifications"


def list_told(person: Principal) -> list[tuple[str, str]]:
    """Fact and reason of what somebody is told, the oldest first."""
    rows = list_notifications(person, InboxFilter(state="all")).order_by("pk")
    return list(rows.values_list("fact", "reason"))


def test_people_are_told_once_for_the_first_of_their_reasons(
    pull: PullRequest, ines: Principal, olek: Principal
) -> None:
    stranger = make.a_person("jo.doe")
    pulls.add_comment(pull=pull, body="`@ines` is code. @olek? @jo.doe!", by=ines)
    assert list_told(olek) == [("comment", "mentioned")]
    assert list_told(stranger) == [], "who may not see the repository is told nothing"
    thread = pulls.add_comment(pull=pull, body="Why?", by=olek)
    pulls.add_comment(pull=pull, body="So that @OLEK. sees it", by=ines, reply_to=thread.pk)
    pulls.add_comment(pull=pull, body="Because", by=ines, reply_to=thread.pk)
    pulls.edit_comment(comment=thread, body="Why, @ines and @olek?", by=olek)
    assert list_told(ines) == [("comment", "participating"), ("comment", "mentioned")]
    assert list_told(olek)[1:] == [("comment", "mentioned"), ("comment", "replied")]


def look(pull: PullRequest) -> None:
    """Look at a pull request as the worker does, until nothing has moved since."""
    while PullStanding.objects.filter(pull=pull).exclude(asked_at=None).exists():
        services.look_at(pull_id=pull.pk)


def test_authors_are_told_of_reviews_merges_and_where_their_pull_request_stands(
    pull: PullRequest, ines: Principal, olek: Principal
) -> None:
    signals.reviewers_asked.send(sender=PullRequest, pull=pull, users=[olek.user_id, ines.user_id], by=ines)
    assert list_told(olek) == [("review_request", "review_requested")]
    look(pull)
    publish(pull)
    report(pull, "failure", by=ines)
    pulls.add_review(pull=pull, verdict="approve", by=olek)
    look(pull)
    assert list_told(ines) == [("review", "reviewed")], "a required report failed"
    for result in ("success", "failure", "success"):
        report(pull, result, by=ines)
        look(pull)
    assert list_told(ines)[1:] == [("pull_mergeable", "mergeable")], "while it is unread it is said once"
    pulls.merge_pull(pull=pull, by=olek)
    look(pull)
    assert list_told(ines)[2:] == [("pull_merged", "merged")]
    assert len(list_told(olek)) == 1, "nobody is told what they did"


def publish(pull: PullRequest) -> None:
    """Let the head count as published, and require a report."""
    set_publication(
        repository=pull.repository, branch=pull.source, sha=pull.head_sha, status=PublicationState.PUBLISHED
    )
    protection = pull.repository.protections.get()
    protection.checks = ["lint"]
    protection.save()
    pulls.refresh_pull(pull=pull)


def report(pull: PullRequest, result: str, *, by: Principal) -> None:
    report_status(repository=pull.repository, sha=pull.head_sha, name="lint", result=result, by=by)


def test_authors_are_told_once_that_theirs_became_stale(pull: PullRequest, ines: Principal) -> None:
    look(pull)
    assert list_told(ines) == []
    for name in ("a.txt", "b.txt"):
        make.a_commit(pull.repository, {name: "x\n"}, by=ines)
        pulls.refresh_pull(pull=pull)
        look(pull)
    assert list_told(ines) == [("pull_stale", "stale")]
    PullStanding.objects.update(asked_at=clock.now() - timedelta(minutes=1))
    assert services.sweep_standings() == 1, "what no worker was rung for is rung for again"


def test_own_merge_does_not_tell_that_yours_is_stale(pull: PullRequest, ines: Principal) -> None:
    make.a_branch(pull.repository, "other", by=ines)
    make.a_commit(pull.repository, {"other.txt": "one\n"}, branch="other", by=ines)
    order = {"repository": pull.repository, "title": "Other", "source": "other", "target": "master"}
    other = pulls.open_pull(**order, by=ines)
    for one in (pull, other):
        look(one)
    set_publication(repository=pull.repository, branch="other", sha=other.head_sha, status=PublicationState.PUBLISHED)
    pulls.merge_pull(pull=other, by=ines, bypass=True)
    for one in (pull, other):
        pulls.refresh_pull(pull=one)
        look(one)
    assert PullStanding.objects.get(pull=pull).is_stale
    assert "pull_stale" not in [fact for fact, _reason in list_told(ines)]
    # While its own merge lands, the target has moved and the pull request is still open.
    PullRequest.objects.filter(pk=other.pk).update(state="open")
    PullStanding.objects.filter(pull=other).update(asked_at=clock.now())
    look(other)
    assert "pull_stale" not in [fact for fact, _reason in list_told(ines)]


def test_author_is_told_that_data_was_rejected(pull: PullRequest, ines: Principal, olek: Principal) -> None:
    dataset = datasets.a_dataset("/shop/orders")
    data = {"path": dataset.path, "verdict": "rejected", "reason": "@ines, look: a week is missing"}
    record_event(pull=pull, kind="judged", actor="olek", data=data)
    record_event(pull=pull, kind="judged", actor="olek", data={**data, "verdict": "accepted"})
    assert list_told(ines) == [("review", "mentioned")]
    assert list_told(olek) == []
    page = read_page(a_client(User.objects.get(username="ines")), "/inbox")
    assert "olek rejected the data of /shop/orders." in page
    assert Notification.objects.get().get_absolute_url() == "/r/shop/pulls/1/data?dataset=/shop/orders"


def test_what_somebody_may_not_see_any_more_is_not_there(pull: PullRequest, ines: Principal, olek: Principal) -> None:
    pulls.add_comment(pull=pull, body="@olek", by=ines)
    page = read_page(a_client(olek), "/inbox")
    number = Notification.objects.get().pk
    assert "Count &lt;late&gt; (#1)" in page
    assert "Inbox, 1 unread" in page
    RepositoryRole.objects.filter(user=olek.user_id).delete()
    assert (count_unread(olek), list_told(olek)) == (0, [])
    client = a_client(olek)
    assert "All read" in read_page(client, "/inbox")
    assert client.get(f"/inbox/{number}").status_code == 404
    assert a_client(ines).get(f"/inbox/{number}").status_code == 404, "it is another's"


def test_readers_mark_follow_and_filter(pull: PullRequest, ines: Principal, olek: Principal) -> None:
    comment = pulls.add_comment(pull=pull, body="@olek", by=ines)
    pulls.add_comment(pull=pull, body="@olek again", by=ines)
    client = a_client(olek)
    second, first = list_notifications(olek, InboxFilter())
    answer = client.get(f"/inbox/{first.pk}")
    assert answer["Location"] == f"/r/shop/pulls/1#comment-{comment.pk}"
    assert count_unread(olek) == 1
    client.post("/inbox/mark", {"notification": second.pk, "state": "done"})
    assert "Nothing here" not in read_page(client, "/inbox?state=done")
    assert [row.pk for row in list_notifications(olek, InboxFilter(state="all"))] == [first.pk]
    assert "Nothing found" in read_page(client, "/inbox?state=all&reason=watching")
    assert client.get("/inbox?state=none").status_code == 422
    client.post("/inbox/mark", {"notification": first.pk, "state": "unread"})
    client.post("/inbox/mark", {"all": "1", "state": "read"})
    assert count_unread(olek) == 0
    with pytest.raises(InvalidInput):
        services.mark_notifications(by=olek, state="gone")
    services.mark_notifications(by=ines, state="done", numbers=[first.pk])
    assert list_told(olek) == [("comment", "mentioned")], "nobody marks what another is told"


def test_rest_lists_and_marks(pull: PullRequest, ines: Principal, olek: Principal) -> None:
    pulls.add_comment(pull=pull, body="@olek", by=ines)
    client = a_client(olek)
    listed = client.get(f"{API}?reason=mentioned").json()["results"]
    assert [(row["fact"], row["by"], row["repository"], row["pull"]) for row in listed] == [
        ("comment", "ines", "shop", 1)
    ]
    body = {"state": "read", "ids": [listed[0]["id"]]}
    assert client.post(f"{API}/mark", body, "application/json").json() == {"count": 1}
    assert client.post(f"{API}/mark", {"state": "read"}, "application/json").json() == {"count": 0}
    assert client.get(API).json()["results"] == []
    assert client.post(f"{API}/mark", {"state": "gone"}, "application/json").status_code == 422
    beyond = {"state": "read", "ids": [2**63]}
    assert client.post(f"{API}/mark", beyond, "application/json").status_code == 422, "no row has such a number"
    settings = client.patch(
        f"{API}/settings", {"channels": {"mentioned": "none"}, "address": "o@example.org"}, "application/json"
    ).json()
    assert (settings["address"], settings["channels"]["mentioned"]) == ("o@example.org", "none")
    assert client.patch(f"{API}/settings", {"address": "no"}, "application/json").status_code == 422
    pulls.add_comment(pull=pull, body="@olek", by=ines)
    assert client.get(API).json()["results"] == [], "who does not want to be told is not"


def test_watchers_hear_of_pull_requests_builds_and_schemas(ines: Principal) -> None:
    world = build_rows.a_world("shop")
    dataset = Dataset.objects.get(path="/shop/raw")
    mira, timo = (make.a_member(world.repository, "reader", name) for name in ("mira", "timo"))
    client = a_client(mira)
    client.post("/r/shop/watch", {"watch": "1"})
    assert "You watch shop. Watch it no more" in read_page(client, "/r/shop/")
    a_client(timo).put(f"/api/v1/datasets/{dataset.pk}/watch")
    assert a_client(timo).get(f"/api/v1/datasets/{dataset.pk}/watch").json() == {"watching": True}

    catalog = datasets.a_pyiceberg(world.user).load_table("shop.raw")
    with catalog.update_schema() as update:
        update.add_column("note", StringType())
    assert list_told(mira) == list_told(timo) == [("schema_changed", "watching")]

    world.publish(build_rows.a_jobspec("clean", inputs=["/shop/raw"], outputs=["/shop/clean"]))
    build = world.start("/shop/none")
    assert build.state == BuildState.FAILED
    assert list_told(world.maker)[-1] == ("build_failed", "build_failed")
    assert list_told(mira)[-1] == ("build_failed", "watching")
    make.a_branch(world.repository, "fix", by=world.maker)
    make.a_commit(world.repository, {"a.txt": "a\n"}, branch="fix", by=world.maker)
    pull = pulls.open_pull(
        repository=world.repository, title="Fix", source="fix", target="master", body="Look, @timo", by=world.maker
    )
    assert list_told(mira)[-1] == ("pull_opened", "watching")
    assert list_told(timo)[-1] == ("pull_opened", "mentioned")
    row = pull.datasets.create(path="/shop/raw", dataset=dataset, change="modified")
    signals.dataset_joined.send(sender=type(row), row=row)
    assert list_told(timo)[-1] == ("changes_dataset", "watching")
    client.post("/r/shop/watch")
    assert not Watch.objects.filter(user=mira.user_id).exists()


def test_a_crowd_is_told_by_few_statements(pull: PullRequest, ines: Principal) -> None:
    def count_statements(people: int) -> int:
        users = User.objects.bulk_create(User(username=f"u{people}-{number}") for number in range(people))
        RepositoryRole.objects.bulk_create(
            RepositoryRole(user=user, repository="shop", role="reader") for user in users
        )
        with CaptureQueriesContext(connection) as queries:
            tell(
                fact=facts.OPENED,
                to={Reason.WATCHING: [user.pk for user in users]},
                actor_id=ines.user_id,
                pull=pull,
                repository=pull.repository,
            )
        assert Notification.objects.filter(user__in=users).count() == people
        return len(queries)

    few = count_statements(2)
    assert few <= 4
    assert count_statements(400) <= few + 4, "SQLite takes some rows a statement"


def test_old_notifications_go(pull: PullRequest, ines: Principal, olek: Principal) -> None:
    for text in ("@olek one", "@olek two", "@olek three"):
        pulls.add_comment(pull=pull, body=text, by=ines)
    done, old, young = Notification.objects.order_by("pk")
    services.mark_notifications(by=olek, state="done", numbers=[done.pk])
    Notification.objects.filter(pk=done.pk).update(created_at=clock.now() - timedelta(days=31))
    Notification.objects.filter(pk=old.pk).update(created_at=clock.now() - timedelta(days=181))
    assert services.remove_old() == {"notifications removed": 2}
    assert list(Notification.objects.all()) == [young]
    assert services.remove_old() == {}


def test_what_is_gone_takes_its_notifications_with_it(pull: PullRequest, ines: Principal, olek: Principal) -> None:
    pulls.add_comment(pull=pull, body="@olek", by=ines)
    delete_repository(repository=pull.repository, by=ines)
    assert list_told(olek) == []
    assert not Notification.objects.exists()
