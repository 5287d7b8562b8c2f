"""The branch of a pull request that is over is deleted from its page, and brought back with the data that went with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import AuditEntry, User
from webapp.core.errors import Conflict
from webapp.datasets.models import Dataset, DatasetBranch, DeletedBranch
from webapp.datasets.queries import latest_committed
from webapp.datasets.services import delete_branch as delete_dataset_branch
from webapp.datasets.services import intend_deletions
from webapp.pulls import services
from webapp.pulls.models import PullRequest
from webapp.pulls.queries import pulls as queries
from webapp.repositories import services as repositories
from webapp.repositories.models import Repository
from webapp.repositories.services import set_protection

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
HERE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1"


@pytest.fixture
def repository(home: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [])
    return make.a_repository("shop", by=make.a_person("ines", is_admin=True))


@pytest.fixture
def pull(repository: Repository) -> PullRequest:
    """A merged pull request from the branch fix."""
    pull = a_pull(repository)
    services.merge_pull(pull=pull, by=make.maker_of(repository))
    pull.refresh_from_db()
    return pull


def a_pull(repository: Repository, *, source: str = "fix", target: str = "master") -> PullRequest:
    by = make.maker_of(repository)
    if source not in repository.git.list_heads():
        make.a_branch(repository, source, by=by)
        make.a_commit(repository, {f"{source}.txt": "1\n"}, branch=source, by=by)
    return services.open_pull(repository=repository, source=source, target=target, title="Fix", by=by)


def a_dataset(name: str, *, branch: str = "fix") -> Dataset:
    """A dataset with rows on master, and others on the branch."""
    user = User.objects.get(username="ines")
    dataset = make_datasets.a_dataset(f"/shop/{name}", by=user)
    for place in (None, branch):
        make_datasets.write(make_datasets.a_client(user, place), dataset)
    return dataset


def a_user(repository: Repository, role: str) -> User:
    user = User.objects.filter(username=f"a-{role}").first()
    return user or User.objects.get(pk=make.a_member(repository, role, f"a-{role}").user_id)


def test_two_clicks_delete_the_branch_and_bring_it_back_with_its_data(
    repository: Repository, pull: PullRequest
) -> None:
    dataset = a_dataset("a")
    before = latest_committed(dataset, "fix")
    client = a_client(a_user(repository, "writer"))
    assert "fix is not needed any more" in read_page(client, HERE)

    assert client.post(f"{HERE}/delete-branch")["Location"] == f"{HERE}#merge-title"

    page = read_page(client, HERE)
    assert "fix is deleted." in page
    assert f"Restoring makes it again at {pull.head_sha[:7]}" in page
    assert "deleted the source branch" in page
    assert "fix" not in repository.git.list_heads()
    assert latest_committed(dataset, "fix") is None

    client.post(f"{HERE}/restore-branch")

    page = read_page(client, HERE)
    assert "fix is back, with its data of 1 dataset." in page
    assert "restored the source branch" in page
    assert "fix is not needed any more" in page
    assert repository.git.get_head("fix") == pull.head_sha
    assert repository.branches.get(name="fix").parent == "master"
    assert latest_committed(dataset, "fix") == before
    verbs = list(AuditEntry.objects.filter(actor="a-writer").order_by("pk").values_list("verb", flat=True))
    assert verbs == ["delete_branch", "delete_dataset_branch", "restore_dataset_branch", "restore_branch"]


def test_a_closed_pull_request_is_opened_again_with_its_branch(repository: Repository) -> None:
    pull, by = a_pull(repository), make.maker_of(repository)
    services.close_pull(pull=pull, by=by)
    client = a_client(a_user(repository, "writer"))
    assert "The branch and its data are untouched." in read_page(client, HERE)
    client.post(f"{HERE}/delete-branch")
    assert "fix is deleted. With its branch it may be opened again." in read_page(client, HERE)
    client.post(f"{HERE}/restore-branch")
    services.reopen_pull(pull=pull, by=by)
    assert pull.state == "open"


def test_an_open_pull_request_restores_its_branch_by_a_button(repository: Repository) -> None:
    pull, by = a_pull(repository), make.maker_of(repository)
    client = a_client(a_user(repository, "writer"))
    assert "Restore branch" not in read_page(client, HERE)
    assert "Delete branch" not in read_page(client, HERE)
    repositories.delete_branch(repository=repository, name="fix", by=by)
    assert f'action="{HERE}/restore-branch"' in read_page(client, HERE)
    assert "Restore branch" not in read_page(a_client(a_user(repository, "reader")), HERE)
    assert "fix is back" in client.post(f"{HERE}/restore-branch", follow=True).text
    assert repository.git.get_head("fix") == pull.head_sha
    assert "Restore branch" not in read_page(client, HERE)


def test_rest_restores_once_and_says_what_came_back(repository: Repository, pull: PullRequest) -> None:
    a_dataset("a")
    client = a_rest_client(a_user(repository, "writer"))
    assert client.post(f"{REST}/restore-branch").json()["code"] == "branch_exists"
    services.delete_source(pull=pull, by=make.maker_of(repository))
    answer = client.post(f"{REST}/restore-branch")
    assert answer.status_code == 201
    assert answer.json() == {"branch": "fix", "head": pull.head_sha, "datasets": ["/shop/a"], "lost": {}}
    again = client.post(f"{REST}/restore-branch")
    assert (again.status_code, again.json()["code"]) == (409, "branch_exists")


def test_only_the_data_that_went_with_it_comes_back(repository: Repository, pull: PullRequest) -> None:
    """Not what somebody deleted by hand, nor what a later branch of that name had."""
    by = make.maker_of(repository)
    own, by_hand = a_dataset("own"), a_dataset("by-hand")
    delete_dataset_branch(dataset=by_hand, name="fix", by=by)
    newest = latest_committed(own, "fix")
    services.delete_source(pull=pull, by=by)
    make.a_branch(repository, "fix", by=by)
    make.a_commit(repository, {"later.txt": "1\n"}, branch="fix", by=by)
    later = a_dataset("later")
    second = a_pull(repository)
    services.close_pull(pull=second, by=by)
    services.delete_source(pull=second, by=by)

    data = services.restore_source(pull=pull, by=by)

    assert (data.paths, data.lost) == (["/shop/own"], {})
    assert latest_committed(own, "fix") == newest
    assert latest_committed(by_hand, "fix") is None
    assert latest_committed(later, "fix") is None
    assert not pull.events.filter(kind="source_deleted").count() > 1, "the later branch was not its own"


def test_what_cannot_come_back_is_named_and_the_rest_does(repository: Repository, pull: PullRequest) -> None:
    for name in ("a", "b"):
        a_dataset(name)
    by = make.maker_of(repository)
    services.delete_source(pull=pull, by=by)
    taken = DeletedBranch.objects.get(dataset__path="/shop/a")
    DatasetBranch.objects.create(dataset=taken.dataset, name="fix", name_lower="fix")
    client = a_client(a_user(repository, "writer"))
    client.post(f"{HERE}/restore-branch")
    page = read_page(client, HERE)
    assert "fix is back, with its data of 1 dataset." in page
    assert "/shop/a is not back on fix:" in page
    assert repository.git.get_head("fix") == pull.head_sha


def test_a_restore_that_was_cut_off_goes_on(
    repository: Repository, pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, by = a_dataset("a"), make.maker_of(repository)
    services.delete_source(pull=pull, by=by)

    def die(**_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("webapp.repositories.services.restore_branch", die)
        with pytest.raises(KeyboardInterrupt):
            services.restore_source(pull=pull, by=by)
    assert "fix" not in repository.git.list_heads()
    assert services.restore_source(pull=pull, by=by).lost == {}
    assert repository.git.get_head("fix") == pull.head_sha
    assert latest_committed(dataset, "fix") is not None


def test_nothing_is_restored_while_it_is_still_being_deleted(repository: Repository, pull: PullRequest) -> None:
    a_dataset("a")
    by = make.maker_of(repository)
    services.delete_source(pull=pull, by=by)
    a_dataset("b")
    intend_deletions(folders=["shop"], branch="fix", git_head=pull.head_sha, by=by)
    with pytest.raises(Conflict, match="still being deleted") as refused:
        services.restore_source(pull=pull, by=by)
    assert refused.value.code == "being_deleted"
    assert "fix" not in repository.git.list_heads()


@pytest.mark.parametrize(("source", "target"), [("fix", "release"), ("more", "fix")])
def test_what_an_open_pull_request_uses_stays(
    repository: Repository, pull: PullRequest, source: str, target: str
) -> None:
    make.a_branch(repository, "release", start=pull.merge.target_sha)
    other = a_pull(repository, source=source, target=target)
    client = a_client(a_user(repository, "writer"))
    assert "Delete branch" not in read_page(client, HERE)
    client.post(f"{HERE}/delete-branch")
    assert f"#{other.number} is open and needs fix." in read_page(client, HERE)
    assert "fix" in repository.git.list_heads()


def test_what_has_more_than_the_pull_request_shows_stays(repository: Repository, pull: PullRequest) -> None:
    make.a_commit(repository, {"more.txt": "1\n"}, branch="fix")
    assert "Delete branch" not in read_page(a_client(a_user(repository, "writer")), HERE)
    with pytest.raises(Conflict, match="has moved to") as refused:
        services.delete_source(pull=pull, by=make.maker_of(repository))
    assert refused.value.code == "head_moved"


def test_what_is_protected_or_still_open_or_gone_is_not_deleted(repository: Repository) -> None:
    pull, by = a_pull(repository), make.maker_of(repository)
    client = a_client(a_user(repository, "writer"))
    assert "Delete branch" not in read_page(client, HERE)
    assert find_refusal(pull) == "still_open"
    services.close_pull(pull=pull, by=by)
    protection = set_protection(repository=repository, branch="fix", by=by)
    assert "Delete branch" not in read_page(client, HERE)
    assert find_refusal(pull) == "branch_protected"
    protection.delete()
    services.delete_source(pull=pull, by=by)
    assert find_refusal(pull) == "source_missing"


def find_refusal(pull: PullRequest) -> str:
    with pytest.raises(Conflict) as refused:
        services.delete_source(pull=pull, by=make.maker_of(pull.repository))
    return refused.value.code


def test_who_may_not_write_is_shown_no_button_and_refused(repository: Repository, pull: PullRequest) -> None:
    reader = a_client(a_user(repository, "reader"))
    assert "Delete branch" not in read_page(reader, HERE)
    reader.post(f"{HERE}/delete-branch")
    assert "fix" in repository.git.list_heads()
    services.delete_source(pull=pull, by=make.maker_of(repository))
    assert "Restore branch" not in read_page(reader, HERE)
    assert a_rest_client(a_user(repository, "reader")).post(f"{REST}/restore-branch").status_code == 403
    stranger: Any = APIClient()
    stranger.force_login(User.objects.create_user("nora"))
    assert stranger.post(f"{REST}/restore-branch").status_code == 404
    assert "fix" not in repository.git.list_heads()


def test_what_went_with_the_branch_is_not_awaited(repository: Repository, pull: PullRequest) -> None:
    client = a_client(a_user(repository, "writer"))
    assert "being published" in read_page(client, HERE)  # nobody has looked at the head here

    services.delete_source(pull=pull, by=make.maker_of(repository))
    page = read_page(client, HERE)
    assert "being published" not in page
    assert "its JobSpecs went with the branch" in page
    assert "What was known of the head went with the branch." in page
    assert queries.list_checks(pull) == []
