"""What a merge changes on its target is what the pull request showed, whatever its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pygit2
import pytest
from pygit2.enums import FileMode

from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client, read_page
from tests.factories.crossings import PUSHER, commit, cross
from webapp.accounts.models import User
from webapp.accounts.queries import principal_for_user
from webapp.core.errors import Conflict
from webapp.git.values import Change
from webapp.pulls import services
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import states
from webapp.pulls.rules.states import QueueState
from webapp.pulls.services import merging
from webapp.pulls.services.queueing import advance_queue
from webapp.repositories.models import Publication
from webapp.repositories.services import create_branch, set_protection

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
PAY = "pipelines/pay.txt"
GOOD, EVIL = "rate = 1\n", "rate = 9\n"


@pytest.fixture
def repository(home: object, ines: Principal, silent_bell: None) -> Repository:
    """A repository whose owner of the rates must approve a change of them; mallory and olek are writers."""
    repository = make.a_repository("shop", by=ines)
    for name in ("mallory", "olek", "paul"):
        make.a_member(repository, "writer", name)
    make.a_commit(repository, {"pipeline.toml": '[owners]\n"pipelines/*" = ["paul"]\n', PAY: GOOD}, by=ines)
    set_protection(repository=repository, branch="master", owners=True, allow_bypass=False, by=ines)
    return repository


def principal_of(name: str) -> Principal:
    return principal_for_user(User.objects.get(username=name))


def open_it(repository: Repository, branch: str, sha: str) -> PullRequest:
    """Push a branch and propose it, as mallory; its code is published."""
    mallory = principal_of("mallory")
    create_branch(repository=repository, name=branch, start_point=sha, by=mallory)
    Publication.objects.update_or_create(
        repository=repository, branch=branch, sha=sha, defaults={"status": "published"}
    )
    return services.open_pull(repository=repository, title=branch, source=branch, target="master", by=mallory)


def approve(pull: PullRequest, name: str = "olek") -> None:
    services.add_review(pull=pull, verdict=states.APPROVE, by=principal_of(name))


def read_pay(repository: Repository) -> str:
    return repository.git.read_blob(repository.git.get_head("master"), PAY).text


def list_codes(pull: PullRequest) -> list[str]:
    services.refresh_pull(pull=pull)
    return [blocker.code for blocker in queries.list_blockers(pull)]


def list_shown(pull: PullRequest) -> list[str]:
    return [file.path for file in queries.list_changes(pull).files]


@pytest.fixture
def second(repository: Repository) -> PullRequest:
    """The second of two pull requests that show one note each; the first has landed with one approval."""
    git = repository.git
    heads = cross(git, git.get_head("master"), path=PAY, hidden=EVIL, shown=("notes/a.txt", "notes/b.txt"))
    first = open_it(repository, "first", heads[0])
    assert list_shown(first) == ["notes/a.txt"]
    approve(first)
    services.merge_pull(pull=first, by=principal_of("mallory"))
    assert read_pay(repository) == GOOD
    pull = open_it(repository, "second", heads[1])
    assert list_shown(pull) == ["notes/b.txt"]
    approve(pull)
    return pull


@pytest.mark.parametrize("method", ["merge", "squash"])
def test_two_writers_land_nothing_in_a_file_that_neither_pull_request_shows(
    repository: Repository, second: PullRequest, method: str
) -> None:
    with pytest.raises(MergeBlocked) as refused:
        services.merge_pull(pull=second, by=principal_of("mallory"), method=method)
    assert "lands_unshown" in [reason["code"] for reason in refused.value.extra["blocked_by"]]
    assert read_pay(repository) == GOOD


def test_the_pull_request_names_the_file_and_needs_its_owner_once_it_is_updated(
    repository: Repository, second: PullRequest
) -> None:
    mallory = principal_of("mallory")
    shown = a_rest_client(mallory).get(f"/api/v1/repositories/shop/pulls/{second.number}").json()
    assert shown["mergeable"] is False
    [reason] = [reason for reason in shown["blocked_by"] if reason["code"] == "lands_unshown"]
    assert reason["message"] == (
        f"Merging would change {PAY} on master in a way that this pull request does not show. Update the branch with"
        " master: then it shows every change."
    )
    # Its owner is asked at once.
    assert "owner_approval_missing" in list_codes(second)
    for page in ("", "/code"):
        text = " ".join(read_page(a_client(mallory), f"/r/shop/pulls/{second.number}{page}").split())
        assert f"Merging would change {PAY} on master" in text
        assert "Update branch" in text

    services.update_branch(pull=second, by=mallory)
    assert list_shown(second) == ["notes/b.txt", PAY]
    codes = list_codes(second)
    assert "lands_unshown" not in codes
    assert {"approval_missing", "owner_approval_missing"} <= set(codes)


def test_neither_the_queue_nor_a_maintainer_lands_it(repository: Repository, second: PullRequest) -> None:
    set_protection(repository=repository, branch="master", owners=True, by=principal_of("ines"))
    for ask in (
        lambda: services.enqueue_pull(pull=second, by=principal_of("mallory")),
        lambda: services.merge_pull(pull=second, by=principal_of("ines"), bypass=True),
    ):
        with pytest.raises(MergeBlocked) as refused:
            ask()
        assert "lands_unshown" in [reason["code"] for reason in refused.value.extra["blocked_by"]]
    assert read_pay(repository) == GOOD


def test_a_merge_that_waits_in_the_queue_leaves_it_when_the_target_hides_what_it_changes(
    repository: Repository,
) -> None:
    git = repository.git
    heads = cross(git, git.get_head("master"), path=PAY, hidden=EVIL, shown=("notes/a.txt", "notes/b.txt"))
    waiting = open_it(repository, "second", heads[1])
    approve(waiting)
    queued = services.enqueue_pull(pull=waiting, by=principal_of("mallory"))
    assert queued.state == QueueState.WAITING

    first = open_it(repository, "first", heads[0])
    approve(first)
    services.merge_pull(pull=first, by=principal_of("mallory"))
    advance_queue(repository=repository, target="master")
    queued.refresh_from_db()
    assert queued.state == QueueState.EJECTED
    assert f"Merging would change {PAY} on master" in queued.reason
    assert read_pay(repository) == GOOD


def test_approvals_do_not_cover_what_is_taken_back_after_the_target_moved(repository: Repository) -> None:
    """The branch has the owner's fix and the opposite of it, and shows neither until the fix lands."""
    git = repository.git
    fix = commit(git, {PAY: "rate = 2\n"}, parents=(git.get_head("master"),))
    pull = open_it(repository, "back", commit(git, {PAY: GOOD, "notes/b.txt": "b\n"}, parents=(fix,)))
    assert list_shown(pull) == ["notes/b.txt"]
    approve(pull)
    approve(pull, "paul")
    assert list_codes(pull) == []

    fixing = open_it(repository, "fix", fix)
    approve(fixing, "paul")
    services.merge_pull(pull=fixing, by=principal_of("mallory"))
    codes = {blocker.code for blocker in queries.list_blockers(pull)}
    assert {"approval_missing", "owner_approval_missing"} <= codes
    assert list_codes(pull) == ["approval_missing", "owner_approval_missing"]
    reasons = set(pull.reviews.values_list("void_reason", flat=True))
    assert reasons == {f"merging into master now changes {PAY} in a way that was not shown"}
    assert read_pay(repository) == "rate = 2\n"


def test_an_approval_of_an_earlier_view_is_refused_if_more_would_land(repository: Repository) -> None:
    git = repository.git
    start = git.get_head("master")
    fix = commit(git, {PAY: "rate = 2\n"}, parents=(start,))
    pull = open_it(repository, "back", commit(git, {PAY: GOOD, "notes/b.txt": "b\n"}, parents=(fix,)))
    page = read_page(a_client(principal_of("paul")), f"/r/shop/pulls/{pull.number}/code")
    assert f'name="expected_target" value="{start}"' in page
    git.move_branch("master", expected=start, sha=fix)

    web = a_client(principal_of("paul"))
    seen = {"verdict": "approve", "expected_head": pull.head_sha, "expected_target": start}
    answer = web.post(f"/r/shop/pulls/{pull.number}/review", seen, follow=True)
    assert f"merging into master now changes {PAY} in a way that was not shown" in answer.content.decode()
    rest = a_rest_client(principal_of("paul"))
    address = f"/api/v1/repositories/shop/pulls/{pull.number}/reviews"
    answer = rest.post(address, seen, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "target_moved")
    assert not pull.reviews.exists()
    answer = rest.post(address, {**seen, "expected_target": fix}, content_type="application/json")
    assert answer.status_code == 201


def test_what_came_since_a_review_leaves_nothing_out(repository: Repository, second: PullRequest) -> None:
    """The branch has the hidden content since before the review, so a comparison with the reviewed head lacks it."""
    services.update_branch(pull=second, by=principal_of("mallory"))
    for query in ("", "?since=review"):
        text = read_page(a_client(principal_of("olek")), f"/r/shop/pulls/{second.number}/code{query}")
        assert PAY in text
        assert "2 files changed" in " ".join(text.split())


def test_a_change_of_a_file_that_the_target_moved_to_another_owner_waits_for_an_update(repository: Repository) -> None:
    git = repository.git
    text = "".join(f"{number}\n" for number in range(20))
    git.commit_changes(
        branch="master", message="m", changes=[Change(path="notes/x.txt", content=text.encode())], author=PUSHER
    )
    edited = commit(git, {"notes/x.txt": f"{text}evil\n"}, parents=(git.get_head("master"),))
    pull = open_it(repository, "edit", edited)
    approve(pull)
    assert list_codes(pull) == []
    move = Change(path="notes/x.txt", move_to="pipelines/x.txt")
    git.commit_changes(branch="master", message="Move", changes=[move], author=PUSHER)
    codes = list_codes(pull)
    assert {"lands_unshown", "owner_approval_missing"} <= set(codes)


def test_a_target_that_moves_during_the_merge_is_not_merged_into(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = repository.git
    start = git.get_head("master")
    pull = open_it(repository, "note", commit(git, {"notes/b.txt": "b\n"}, parents=(start,)))
    approve(pull)
    moved = commit(git, {"pipelines/other.txt": "x\n"}, parents=(start,))

    def move(*_args: object) -> None:
        git.move_branch("master", expected=start, sha=moved)

    monkeypatch.setattr(merging, "check_loads", move)
    with pytest.raises(Conflict):
        services.merge_pull(pull=pull, by=principal_of("mallory"))
    assert git.get_head("master") == moved


KINDS = {
    "executable": FileMode.BLOB_EXECUTABLE,
    "link": FileMode.LINK,
    "submodule": FileMode.COMMIT,
    "gone": None,
}


@pytest.mark.parametrize("kind", KINDS)
def test_another_kind_of_file_is_a_change_that_its_owner_approves(repository: Repository, kind: str) -> None:
    git = repository.git
    start = git.get_head("master")
    files = git.objects.list_all(git.objects.find_commit(start).tree)
    blob, _mode = files.pop(PAY)
    mode = KINDS[kind]
    if mode is not None:
        files[PAY] = (pygit2.Oid(hex=start) if mode == FileMode.COMMIT else blob, mode)
    head = git.objects.write_commit(git.objects.write_tree(files), (start,), "m", PUSHER, PUSHER)
    pull = open_it(repository, "kind", head)
    assert set(list_shown(pull)) == {PAY}
    approve(pull)
    assert "owner_approval_missing" in list_codes(pull)
