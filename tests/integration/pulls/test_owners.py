"""Owners of what a pull request changes are asked for a review, and must approve where the rules say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group

from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import User
from webapp.accounts.queries import principal_for_user
from webapp.git.values import Change
from webapp.notices.models import Notification
from webapp.pulls import services
from webapp.pulls.models import PullDataset
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.reviewers import list_reviewers
from webapp.repositories.services import commit_files, set_protection

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PIPELINE = """
[owners]
"notes/*" = ["mira", "ines", "stranger", "nobody"]
"/shop/*" = ["group:finance"]
"other/*" = ["olek"]
"""


@pytest.fixture
def repository(ines: Principal, silent_bell: None) -> Repository:
    """A repository whose master names owners, with a branch that changes a file of theirs."""
    repository = make.a_repository("shop", by=ines)
    for name, role in (("mira", "writer"), ("zoe", "writer"), ("olek", "writer")):
        make.a_member(repository, role, name)
    make.a_person("stranger")
    Group.objects.create(name="finance").user_set.set(User.objects.filter(username="zoe"))
    make.a_commit(repository, {"pipeline.toml": PIPELINE}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    # A branch does not choose its own reviewers.
    make.a_commit(repository, {"notes/a.txt": "one\n", "pipeline.toml": ""}, branch="feature", by=ines)
    return repository


def open_it(repository: Repository, by: Principal, *, draft: bool = False) -> PullRequest:
    names = {"source": "feature", "target": "master"}
    return services.open_pull(repository=repository, title="Change", draft=draft, by=by, **names)


def principal_of(name: str) -> Principal:
    return principal_for_user(User.objects.get(username=name))


def list_asked(pull: PullRequest) -> list[str]:
    return sorted(standing.name for standing in list_reviewers(pull, uncounted=()) if standing.asked_at)


def list_missing(pull: PullRequest) -> list[str]:
    blockers = queries.list_blockers(pull)
    return [blocker.message for blocker in blockers if blocker.code == "owner_approval_missing"]


def test_owners_of_files_are_asked_when_it_opens_and_of_datasets_when_it_changes_them(
    repository: Repository, ines: Principal
) -> None:
    pull = open_it(repository, ines)
    assert list_asked(pull) == ["mira"]
    assert [told.user.username for told in Notification.objects.filter(fact="review_request")] == ["mira"]

    PullDataset.objects.create(pull=pull, path="/shop/totals", change="affected")
    assert queries.list_owned(pull, pull.datasets.all())[0].pattern == "notes/*"
    pull.datasets.update(change="modified")
    assert [change.pattern for change in queries.list_owned(pull, pull.datasets.all())] == ["/shop/*", "notes/*"]
    page = " ".join(read_page(a_client(ines), "/r/shop/pulls/1").split())
    assert "Owners were asked for a review: mira" in page


def test_whoever_is_asked_no_more_is_left_alone(repository: Repository, ines: Principal) -> None:
    pull = open_it(repository, ines)
    services.unask_reviewers(pull=pull, users=["mira"], by=ines)
    make.a_commit(repository, {"notes/a.txt": "two\n", "other/b.txt": "x\n"}, branch="feature", by=ines)
    services.refresh_pull(pull=pull)
    services.refresh_pull(pull=pull)
    assert list_asked(pull) == ["olek"]


def test_owners_of_a_draft_are_asked_when_it_is_ready(repository: Repository, ines: Principal) -> None:
    pull = open_it(repository, ines, draft=True)
    assert list_asked(pull) == []
    services.update_pull(pull=pull, changes={"draft": False}, by=ines)
    assert list_asked(pull) == ["mira"]


def test_an_owner_must_approve_where_the_rules_say_so(repository: Repository, ines: Principal) -> None:
    pull = open_it(repository, ines)
    assert list_missing(pull) == []
    set_protection(repository=repository, branch="master", approvals=0, owners=True, by=ines)
    [missing] = list_missing(pull)
    assert missing == "None of the owners of notes/* (notes/a.txt) has approved: mira, ines, stranger, nobody."
    page = " ".join(read_page(a_client(ines), "/r/shop/pulls/1").split())
    assert "An owner has to approve" in page
    assert "approval by an owner of notes/*" in page

    services.add_review(pull=pull, verdict="approve", by=principal_of("olek"))
    assert list_missing(pull) == [missing]
    services.add_review(pull=pull, verdict="approve", by=principal_of("mira"))
    assert list_missing(pull) == []


def test_a_file_that_moves_away_is_still_its_owners_and_still_under_its_paths(
    repository: Repository, ines: Principal
) -> None:
    Group.objects.create(name="ops").user_set.set(User.objects.filter(username="zoe"))
    set_protection(
        repository=repository, branch="master", owners=True, paths=[{"pattern": "other/*", "group": "ops"}], by=ines
    )
    make.a_commit(repository, {"other/rules.txt": "one\ntwo\nthree\n"}, by=ines)
    make.a_branch(repository, "moving", by=ines)
    move = Change(path="other/rules.txt", move_to="away/rules.txt")
    commit_files(repository=repository, branch="moving", message="Move", changes=[move], by=ines)
    pull = services.open_pull(repository=repository, title="Move", source="moving", target="master", by=ines)
    assert [(file.old_path, file.path) for file in queries.list_changes(pull).files] == [
        ("other/rules.txt", "away/rules.txt")
    ]
    assert list_asked(pull) == ["olek"]
    assert list_missing(pull) == ["None of the owners of other/* (other/rules.txt) has approved: olek."]
    blockers = queries.list_blockers(pull)
    missing = "A change of other/* needs 1 approval by the group ops; none so far."
    assert missing in [blocker.message for blocker in blockers]


def test_more_files_than_are_compared_have_owners_and_a_page(
    repository: Repository, ines: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.git.compare.MAX_DIFF_FILES", 2)
    set_protection(repository=repository, branch="master", owners=True, by=ines)
    make.a_commit(repository, {f"other/{number}.txt": "1\n" for number in range(5)}, branch="feature", by=ines)
    pull = open_it(repository, ines)
    assert list_asked(pull) == ["mira", "olek"]
    assert len(list_missing(pull)) == 2
    client = a_client(ines)
    assert "None of the owners of other/*" in read_page(client, "/r/shop/pulls/1")
    text = read_page(client, "/r/shop/pulls/1/code")
    assert "The comparison touches 7 files, more than 2." in text
    assert f"git diff {pull.base_sha} {pull.head_sha}" in text
    answer = a_rest_client(ines).post("/api/v1/repositories/shop/pulls/1/close")
    assert (answer.status_code, answer.json()["state"]) == (200, "closed")
