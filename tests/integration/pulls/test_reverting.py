"""What was merged is taken back by a pull request of its own, which says whether the data is again what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.factories import repositories
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.services import grant_role
from webapp.core.errors import Conflict
from webapp.pulls import services
from webapp.pulls.models import PullRequest
from webapp.pulls.queries.reverts import find_revert
from webapp.repositories.models import Repository
from webapp.repositories.services import delete_branch

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
HERE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1"


@pytest.fixture
def repository(home: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [])
    repository = repositories.a_repository("shop")
    repositories.a_commit(repository, {"rates.txt": "one\n"})
    return repository


def merge_a_change(repository: Repository, *, method: str = "merge", text: str = "two\n") -> PullRequest:
    """Merge a pull request from the branch fix/rates that changes one file and adds one."""
    maker = repositories.maker_of(repository)
    repositories.a_branch(repository, "fix/rates")
    for files in ({"rates.txt": text}, {"new.txt": "new\n"}):
        repositories.a_commit(repository, files, branch="fix/rates")
    pull = services.open_pull(repository=repository, source="fix/rates", target="master", title="Fix rates", by=maker)
    return merge(pull, method=method)


def merge(pull: PullRequest, *, method: str = "merge") -> PullRequest:
    services.merge_pull(pull=pull, by=repositories.maker_of(pull.repository), method=method)
    pull.refresh_from_db()
    return pull


def a_person(name: str, role: str) -> User:
    user = User.objects.create_user(name)
    grant_role(repository="shop", user=user, role=role, by=None)
    return user


def read_file(repository: Repository, branch: str, path: str) -> str:
    git = repository.git
    return git.read_blob(git.get_head(branch), path).content.decode()


def list_paths(repository: Repository, branch: str) -> list[str]:
    return repository.git.list_files(repository.git.get_head(branch))


def list_branches(repository: Repository) -> set[str]:
    return set(repository.git.list_heads())


@pytest.mark.parametrize("method", ["merge", "squash"])
def test_a_click_takes_back_what_a_merge_brought(repository: Repository, method: str) -> None:
    pull = merge_a_change(repository, method=method)
    repositories.a_commit(repository, {"other.txt": "since\n"})
    client = a_client(a_person("wim", "writer"))
    assert "It can be taken back" in read_page(client, HERE)

    answer = client.post(f"{HERE}/revert")

    assert (answer.status_code, answer["Location"]) == (302, "/r/shop/pulls/2")
    revert = PullRequest.objects.get(number=2)
    assert (revert.title, revert.source, revert.target) == ('Revert "Fix rates"', "revert-1-fix-rates", "master")
    assert revert.reverts == pull
    commit = repository.git.get_commit(revert.head_sha)
    assert commit.parents == (repository.git.get_head("master"),)
    assert commit.message.startswith(f'Revert "Fix rates"\n\nThis reverts commit {pull.merge.merge_commit}')
    assert commit.author.name == "wim"
    assert read_file(repository, revert.source, "rates.txt") == "one\n"
    assert "new.txt" not in list_paths(repository, revert.source)
    assert read_file(repository, revert.source, "other.txt") == "since\n", "what others did since stays"
    assert read_file(repository, "master", "rates.txt") == "two\n", "until the revert is merged"
    entry = AuditEntry.objects.get(actor="wim")
    assert (entry.verb, entry.object, entry.branch) == ("revert_pull", "shop#1", "revert-1-fix-rates")
    assert entry.detail == {"sha": commit.sha, "reverted": pull.merge.merge_commit}
    assert AuditEntry.objects.get(verb="open_pull", object="shop#2").actor == "system", "it follows from that"


def test_both_pages_lead_to_each_other(repository: Repository) -> None:
    merge_a_change(repository)
    client = a_client(a_person("wim", "writer"))
    client.post(f"{HERE}/revert")
    page, reverted = read_page(client, "/r/shop/pulls/2"), read_page(client, HERE)
    assert "Opened. #1 is reverted once this is merged." in page
    assert 'reverts <a href="/r/shop/pulls/1">#1</a>' in page
    link = '<a href="/r/shop/pulls/1" rel="noopener noreferrer">#1</a>'
    assert f"<p>Reverts {link}, which was merged into master as" in page
    assert 'To be reverted by <a href="/r/shop/pulls/2">#2</a>' in reverted
    assert '<a class="strong" href="/r/shop/pulls/2">#2</a> was opened by wim to revert this' in reverted
    assert f'action="{HERE}/revert"' not in reverted

    merge(PullRequest.objects.get(number=2))

    reverted = read_page(client, HERE)
    assert 'Reverted by <a href="/r/shop/pulls/2">#2</a>' in reverted
    assert "master no longer has what this brought." in reverted
    assert read_file(repository, "master", "rates.txt") == "one\n"


def test_rest_reverts_once(repository: Repository) -> None:
    merge_a_change(repository)
    client = a_rest_client(a_person("wim", "writer"))
    answer = client.post(f"{REST}/revert")
    assert answer.status_code == 201
    assert answer["Location"] == "/api/v1/repositories/shop/pulls/2"
    assert (answer.json()["number"], answer.json()["reverts"], answer.json()["reverted_by"]) == (2, 1, None)
    assert client.get(REST).json()["reverted_by"] == 2
    again = client.post(f"{REST}/revert")
    assert (again.status_code, again.json()["code"], again.json()["revert"]) == (409, "already_reverted", 2)
    assert again.json()["detail"] == "#2 would revert it already."
    merge(PullRequest.objects.get(number=2))
    again = client.post(f"{REST}/revert")
    assert (again.status_code, again.json()["code"]) == (409, "already_reverted")
    assert again.json()["detail"] == "#2 reverted it already."
    assert PullRequest.objects.count() == 2


def test_a_revert_is_reverted_and_then_what_it_took_back_can_be_again(repository: Repository) -> None:
    first = merge_a_change(repository)
    by = repositories.maker_of(repository)
    second = merge(services.revert_pull(pull=first, by=by))
    third = merge(services.revert_pull(pull=second, by=by))
    assert third.title == 'Revert "Revert "Fix rates""'
    assert read_file(repository, "master", "rates.txt") == "two\n"
    assert find_revert(first) is None
    assert find_revert(second) == third
    fourth = services.revert_pull(pull=first, by=by)
    assert fourth.source == "revert-1-fix-rates-2"
    merge(fourth)
    assert read_file(repository, "master", "rates.txt") == "one\n"
    assert find_revert(first) == fourth


def test_one_whose_revert_was_closed_can_be_reverted(repository: Repository) -> None:
    pull = merge_a_change(repository)
    by = repositories.maker_of(repository)
    services.close_pull(pull=services.revert_pull(pull=pull, by=by), by=by)
    assert services.revert_pull(pull=pull, by=by).source == "revert-1-fix-rates-2"


def test_files_that_changed_since_are_named_with_the_way_out_and_nothing_is_left(repository: Repository) -> None:
    pull = merge_a_change(repository)
    repositories.a_commit(repository, {"rates.txt": "three\n"})
    branches = list_branches(repository)
    user = a_person("wim", "writer")
    answer = a_rest_client(user).post(f"{REST}/revert")
    assert (answer.status_code, answer.json()["code"]) == (409, "merge_conflict")
    assert answer.json()["conflicts"] == ["rates.txt"]
    command = f"git revert -m 1 {pull.merge.merge_commit[:7]}"
    assert "master has changed the same lines since, in rates.txt." in answer.json()["detail"]
    assert command in answer.json()["detail"]
    client = a_client(user)
    assert client.post(f"{HERE}/revert")["Location"] == f"{HERE}#merge-title"
    assert command in read_page(client, HERE)
    assert list_branches(repository) == branches
    assert PullRequest.objects.count() == 1
    assert not AuditEntry.objects.filter(actor="wim").exists()


def test_a_squash_is_reverted_by_hand_without_a_mainline(repository: Repository) -> None:
    pull = merge_a_change(repository, method="squash")
    repositories.a_commit(repository, {"rates.txt": "three\n"})
    with pytest.raises(Conflict, match=f"`git revert {pull.merge.merge_commit[:7]}`"):
        services.revert_pull(pull=pull, by=repositories.maker_of(repository))


def test_what_was_taken_back_by_hand_leaves_nothing_to_revert(repository: Repository) -> None:
    pull = merge_a_change(repository)
    repositories.a_commit(repository, {"rates.txt": "one\n", "new.txt": None})
    with pytest.raises(Conflict, match="Nothing is left on master") as refused:
        services.revert_pull(pull=pull, by=repositories.maker_of(repository))
    assert refused.value.code == "already_reverted"
    assert "revert-1-fix-rates" not in list_branches(repository)


def test_a_branch_of_that_name_is_in_the_way(repository: Repository) -> None:
    """As a crash leaves it, or somebody else who reverts at the same moment."""
    pull = merge_a_change(repository)
    by = repositories.maker_of(repository)
    repositories.a_branch(repository, "Revert-1-fix-rates")
    with pytest.raises(Conflict, match="Open a pull request from it, or delete it") as refused:
        services.revert_pull(pull=pull, by=by)
    assert refused.value.code == "branch_exists"
    delete_branch(repository=repository, name="Revert-1-fix-rates", by=by)
    assert services.revert_pull(pull=pull, by=by).number == 2


def test_only_what_the_target_still_has_is_reverted(repository: Repository) -> None:
    pull = merge_a_change(repository)
    git = repository.git
    git.move_branch("master", expected=git.get_head("master"), sha=pull.merge.target_sha)
    client = a_rest_client(a_person("wim", "writer"))
    answer = client.post(f"{REST}/revert")
    assert (answer.status_code, answer.json()["code"]) == (409, "merge_lost")


@pytest.mark.parametrize("state", ["open", "closed"])
def test_what_is_not_merged_has_nothing_to_take_back(repository: Repository, state: str) -> None:
    repositories.a_branch(repository, "fix")
    repositories.a_commit(repository, {"fix.txt": "1\n"}, branch="fix")
    by = repositories.maker_of(repository)
    pull = services.open_pull(repository=repository, source="fix", target="master", title="Fix", by=by)
    if state == "closed":
        services.close_pull(pull=pull, by=by)
    user = a_person("wim", "writer")
    answer = a_rest_client(user).post(f"{REST}/revert")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_merged")
    assert "The way back" not in read_page(a_client(user), HERE)


def test_who_may_not_write_is_shown_no_button_and_refused(repository: Repository) -> None:
    pull = merge_a_change(repository)
    reader = a_person("rolf", "reader")
    assert "The way back" not in read_page(a_client(reader), HERE)
    assert a_rest_client(reader).post(f"{REST}/revert").status_code == 403
    assert a_client(reader).post(f"{HERE}/revert").status_code == 302
    assert a_rest_client(User.objects.create_user("nora")).post(f"{REST}/revert").status_code == 404
    assert PullRequest.objects.count() == 1
    services.revert_pull(pull=pull, by=repositories.maker_of(repository))
    assert 'To be reverted by <a href="/r/shop/pulls/2">#2</a>' in read_page(a_client(reader), HERE)


def test_a_long_title_and_a_long_name_are_cut(repository: Repository) -> None:
    name = f"{'x' * 169}/{'y' * 30}"
    repositories.a_branch(repository, name)
    repositories.a_commit(repository, {"fix.txt": "1\n"}, branch=name)
    by = repositories.maker_of(repository)
    pull = services.open_pull(repository=repository, source=name, target="master", title="t" * 250, by=by)
    revert = services.revert_pull(pull=merge(pull), by=by)
    assert len(revert.title) == 249
    assert revert.source == f"revert-1-{'x' * 169}"


def test_what_was_taken_back_and_by_whom_is_in_the_timeline(repository: Repository) -> None:
    merge_a_change(repository)
    client: Any = a_rest_client(a_person("wim", "writer"))
    client.post(f"{REST}/revert")
    *_, entry = client.get(f"{REST}/timeline").json()["results"]
    assert (entry["kind"], entry["actor"], entry["data"]) == ("reverted", "wim", {"revert": 2})
