"""A branch is brought up to date with its target by a button: what the target has since is merged into it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import repositories
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.queries import principal_for_user
from webapp.accounts.services import grant_role
from webapp.pulls import services
from webapp.pulls.models import PullRequest
from webapp.repositories.models import Repository
from webapp.repositories.services import delete_branch, set_protection

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
HERE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1"


@pytest.fixture
def repository(home: Any) -> Repository:
    """A repository whose branch `fix` has a commit, and whose master has two others since."""
    repository = repositories.a_repository("shop")
    repositories.a_branch(repository, "fix")
    repositories.a_commit(repository, {"fix.txt": "1\n"}, branch="fix", message="Fix it")
    for number in range(2):
        repositories.a_commit(repository, {"other.txt": f"{number}\n"}, message=f"Go on {number}")
    return repository


@pytest.fixture
def pull(repository: Repository) -> PullRequest:
    maker = repositories.maker_of(repository)
    return services.open_pull(repository=repository, source="fix", target="master", title="Fix", by=maker)


def a_person(name: str, role: str) -> User:
    user = User.objects.create_user(name)
    grant_role(repository="shop", user=user, role=role, by=None)
    return user


def test_a_click_merges_what_the_target_has_since(repository: Repository, pull: PullRequest) -> None:
    writer = a_person("wim", "writer")
    client = a_client(writer)
    page = read_page(client, HERE)
    assert "master has 2 commits that fix has not" in page
    assert "Updating merges them into the branch, or makes the branch's own commits anew on top" in page
    head = repository.git.get_head("fix")

    answer = client.post(f"{HERE}/update", {"expected_head": head})

    assert answer.status_code == 302
    merged = repository.git.get_commit(repository.git.get_head("fix"))
    assert merged.parents == (head, repository.git.get_head("master"))
    assert merged.message.strip() == "Merge branch master into fix"
    assert merged.author.name == "wim"
    assert {entry.name for entry in repository.git.list_entries(merged.sha)} >= {"fix.txt", "other.txt"}
    page = read_page(client, HERE)
    assert "fix has every commit of master now." in page
    assert "that fix has not" not in page
    assert "pushed 1 commit and took 2 commits of master" in page
    assert "Go on 1" not in page, "the commits of the target are not those of the pull request"
    assert AuditEntry.objects.filter(verb="commit_files", actor="wim", branch="fix").count() == 1


def test_a_rebase_makes_the_commits_anew_on_top(repository: Repository, pull: PullRequest) -> None:
    repositories.a_commit(repository, {"more.txt": "1\n"}, branch="fix", message="Fix more")
    before = repository.git.get_commit(repository.git.get_head("fix"))
    writer = a_person("wim", "writer")
    client = a_client(writer)
    answer = client.post(f"{HERE}/update", {"expected_head": before.sha, "method": "rebase"})
    assert answer.status_code == 302
    last = repository.git.get_commit(repository.git.get_head("fix"))
    first = repository.git.get_commit(last.parents[0])
    assert first.parents == (repository.git.get_head("master"),)
    assert [commit.subject for commit in (first, last)] == ["Fix it", "Fix more"]
    assert (last.author, last.authored_at, last.committer.name) == (before.author, before.authored_at, "wim")
    assert {entry.name for entry in repository.git.list_entries(last.sha)} >= {"fix.txt", "more.txt", "other.txt"}
    page = read_page(client, HERE)
    assert "fix has every commit of master now." in page
    assert "pushed 2 commits and took 2 commits of master" in page
    services.add_review(pull=pull, verdict="approve", by=principal_for_user(writer))
    assert "The approval by wim does not count" in read_page(client, HERE)


def test_a_rebase_that_loses_what_a_merge_settled_is_refused(repository: Repository, pull: PullRequest) -> None:
    client = a_rest_client(a_person("wim", "writer"))
    rebase = {"method": "rebase"}
    repositories.a_commit(repository, {"fix.txt": "2\n"})
    head = repository.git.get_head("fix")
    conflict = client.post(f"{REST}/update", rebase, format="json")
    assert (conflict.status_code, conflict.json()["conflicts"]) == (409, ["fix.txt"])
    settled = {"resolutions": [{"path": "fix.txt", "content": "3\n"}]}
    assert client.post(f"{REST}/update", rebase | settled, format="json").status_code == 422
    assert repository.git.get_head("fix") == head
    assert client.post(f"{REST}/update", settled, format="json").status_code == 200
    repositories.a_commit(repository, {"other.txt": "new\n"})
    head = repository.git.get_head("fix")
    refused = client.post(f"{REST}/update", rebase, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "cannot_rebase")
    assert "(Fix it) conflicts with what it would stand on" in refused.json()["detail"]
    assert repository.git.get_head("fix") == head


def test_who_updates_does_not_approve_and_approvals_are_void(repository: Repository, pull: PullRequest) -> None:
    reviewer, writer = a_person("rita", "writer"), a_person("wim", "writer")
    services.add_review(pull=pull, verdict="approve", by=principal_for_user(reviewer))
    services.update_branch(pull=pull, by=principal_for_user(writer))
    page = read_page(a_client(reviewer), HERE)
    assert "The approval of rita became void" in page
    services.add_review(pull=pull, verdict="approve", by=principal_for_user(writer))
    assert "The approval by wim does not count: wim pushed" in read_page(a_client(reviewer), HERE)


def test_rules_of_the_target_hold_in_whatever_case_they_name_it(repository: Repository) -> None:
    maker = repositories.maker_of(repository)
    repositories.a_branch(repository, "release")
    services.open_pull(repository=repository, source="fix", target="release", title="Fix", by=maker)
    client = a_rest_client(User.objects.get(pk=maker.user_id))
    set_protection(repository=repository, branch="Release", approvals=2, by=maker)
    assert "approval_missing" in {blocker["code"] for blocker in client.get(REST).json()["blocked_by"]}
    assert "0 of 2" in read_page(client, "/r/shop/pulls")


@pytest.mark.parametrize("gone", ["fix", "release"])
def test_no_branch_is_stale_where_one_is_gone(repository: Repository, gone: str) -> None:
    maker = repositories.maker_of(repository)
    repositories.a_branch(repository, "release")
    services.open_pull(repository=repository, source="fix", target="release", title="Fix", by=maker)
    client = a_rest_client(User.objects.get(pk=maker.user_id))
    assert client.get(REST).json()["stale"]
    assert "release has commits that the branch lacks" in read_page(client, HERE)
    delete_branch(repository=repository, name=gone, by=maker)
    assert not client.get(REST).json()["stale"]
    page = read_page(client, HERE)
    assert "release has commits that the branch lacks" not in page
    assert f"there is no {gone}" in page


def test_rest_updates_once_and_says_when_there_is_nothing_to_take(repository: Repository, pull: PullRequest) -> None:
    client = a_rest_client(a_person("wim", "writer"))
    head = repository.git.get_head("fix")
    answer = client.post(f"{REST}/update", {"expected_head": head}, format="json")
    assert answer.status_code == 200
    assert answer.json()["head"] == repository.git.get_head("fix") != head
    again = client.post(f"{REST}/update", {}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "up_to_date")
    assert again.json()["detail"] == "fix has every commit of master."
    moved = client.post(f"{REST}/update", {"expected_head": head}, format="json")
    assert (moved.status_code, moved.json()["code"]) == (409, "head_moved")


def test_files_that_conflict_are_named_and_nothing_moves(repository: Repository, pull: PullRequest) -> None:
    repositories.a_commit(repository, {"fix.txt": "2\n"})
    head = repository.git.get_head("fix")
    maker = repositories.maker_of(repository)
    user = User.objects.get(pk=maker.user_id)
    answer = a_rest_client(user).post(f"{REST}/update", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "merge_conflict")
    assert answer.json()["conflicts"] == ["fix.txt"]
    page = read_page(a_client(user), HERE)
    assert "master has 3 commits that fix has not" in page
    assert "Update branch" not in page, "the conflict is in the way, and is named above"
    assert repository.git.get_head("fix") == head


def test_who_may_not_move_the_branch_is_shown_no_button_and_refused(repository: Repository, pull: PullRequest) -> None:
    head = repository.git.get_head("fix")
    reader = a_person("rolf", "reader")
    assert "Update branch" not in read_page(a_client(reader), HERE)
    assert a_rest_client(reader).post(f"{REST}/update", {}, format="json").status_code == 403
    set_protection(repository=repository, branch="fix", by=repositories.maker_of(repository))
    writer = a_person("wim", "writer")
    assert "Update branch" not in read_page(a_client(writer), HERE)
    refused = a_rest_client(writer).post(f"{REST}/update", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "branch_protected")
    assert repository.git.get_head("fix") == head


def test_a_closed_pull_request_leaves_its_branch_alone(repository: Repository, pull: PullRequest) -> None:
    maker = repositories.maker_of(repository)
    services.close_pull(pull=pull, by=maker)
    user = User.objects.get(pk=maker.user_id)
    assert "that fix has not" not in read_page(a_client(user), HERE)
    answer = a_rest_client(user).post(f"{REST}/update", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_open")


def test_a_push_that_brings_only_commits_of_the_target_says_so(repository: Repository, pull: PullRequest) -> None:
    repository.git.move_branch("fix", expected=repository.git.get_head("fix"), sha=repository.git.get_head("master"))
    services.refresh_pull(pull=pull)
    maker = User.objects.get(pk=repositories.maker_of(repository).user_id)
    assert "took 2 commits of master" in read_page(a_client(maker), HERE)
