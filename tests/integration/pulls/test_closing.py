"""Closing, changing the target and merging at once: exactly one of them succeeds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from tests.factories import repositories as make
from tests.factories.clients import a_rest_client
from tests.factories.tiers import thin
from webapp.accounts.models import AuditEntry
from webapp.core.errors import AppError, Conflict
from webapp.pulls import services
from webapp.pulls.models import Merge, PullRequest, SpecRecord
from webapp.pulls.rules.states import MergeState, PullState, QueueState
from webapp.pulls.services import merging
from webapp.pulls.services.queueing import advance_queue
from webapp.repositories.models import Protection, Publication
from webapp.repositories.services import create_branch

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def repository(home: object, ines: Principal, silent_bell: None) -> Repository:
    """A repository whose branches nothing protects, with a second branch to merge into."""
    repository = make.a_repository("shop", by=ines)
    Protection.objects.all().delete()
    make.a_commit(repository, {"notes.txt": "one\n"}, by=ines)
    make.a_branch(repository, "other", by=ines)
    return repository


def open_it(repository: Repository, by: Principal, name: str = "feature") -> PullRequest:
    """Propose a branch with one commit."""
    create_branch(repository=repository, name=name, start_point="master", by=by)
    sha = make.a_commit(repository, {f"{name}.txt": "new\n"}, branch=name, by=by).sha
    Publication.objects.update_or_create(repository=repository, branch=name, sha=sha, defaults={"status": "published"})
    return services.open_pull(repository=repository, title=name, source=name, target="master", by=by)


def is_on_master(pull: PullRequest) -> bool:
    return pull.repository.git.find_kind(pull.repository.git.get_head("master"), f"{pull.source}.txt") == "file"


def read_again(pull: PullRequest) -> PullRequest:
    return PullRequest.objects.get(pk=pull.pk)


def run_before(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object]) -> list[str]:
    """Do something just before a step of the merge; return the codes with which it is refused."""
    codes: list[str] = []
    go_on = getattr(merging, step)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(merging, step, go_on)
        try:
            act()
        except AppError as error:
            codes.append(error.code)
        return go_on(*args, **kwargs)

    monkeypatch.setattr(merging, step, interrupted)
    return codes


CHANGES: dict[str, Callable[[PullRequest, Any], object]] = {
    "close": lambda pull, by: services.close_pull(pull=read_again(pull), by=by),
    "close by an edit": lambda pull, by: services.update_pull(
        pull=read_again(pull), by=by, changes={"state": "closed"}
    ),
    "retarget": lambda pull, by: services.update_pull(pull=read_again(pull), by=by, changes={"target": "other"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_merge_is_refused_once_the_pull_request_was_changed(
    repository: Repository, ines: Principal, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    pull = open_it(repository, ines)
    codes = run_before(monkeypatch, "prepare_commit", lambda: CHANGES[change](pull, ines))
    with pytest.raises(Conflict) as refused:
        services.merge_pull(pull=read_again(pull), by=ines)
    assert (codes, refused.value.code) == ([], "not_open")
    pull = read_again(pull)
    assert (pull.state, pull.target) != (PullState.OPEN, "master")
    assert pull.state != PullState.MERGED
    assert not is_on_master(pull)
    assert not Merge.objects.exists()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_once_the_merge_has_begun(
    repository: Repository, ines: Principal, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    pull = open_it(repository, ines)
    codes = run_before(monkeypatch, "_land", lambda: CHANGES[change](pull, ines))
    services.merge_pull(pull=read_again(pull), by=ines)
    assert codes == ["merge_running"]
    pull = read_again(pull)
    assert (pull.state, pull.target, is_on_master(pull)) == (PullState.MERGED, "master", True)
    assert not AuditEntry.objects.filter(verb__in=["close_pull", "update_pull"]).exists()
    assert not pull.events.filter(kind__in=["closed", "retargeted"]).exists()


def test_closing_while_the_queue_lands_it_is_refused(
    repository: Repository, ines: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = open_it(repository, ines)
    SpecRecord.objects.create(repository=repository, sha=pull.head_sha, specs={})  # nothing to build
    queued = services.enqueue_pull(pull=pull, by=ines)
    codes = run_before(monkeypatch, "_land", lambda: services.close_pull(pull=read_again(pull), by=ines))
    advance_queue(repository=repository, target="master")
    queued.refresh_from_db()
    assert (codes, queued.state, read_again(pull).state) == (["merge_running"], QueueState.LANDED, PullState.MERGED)


def test_a_merge_that_was_given_up_keeps_nobody_from_closing(repository: Repository, ines: Principal) -> None:
    pull = open_it(repository, ines)
    Merge.objects.create(
        pull=pull, repository=repository, method="merge", rebuild="modified", state=MergeState.ABANDONED,
        source_sha=pull.head_sha, target="master", target_sha=pull.base_sha, merge_commit="0" * 40,
        merged_by_id=ines.user_id,
    )  # fmt: skip
    services.close_pull(pull=pull, by=ines)
    assert read_again(pull).state == PullState.CLOSED


@pytest.mark.parametrize("rounds", thin([4, 40], every_run=[4]))
def test_of_closing_and_merging_at_once_exactly_one_succeeds(
    repository: Repository, ines: Principal, rounds: int
) -> None:
    for number in range(rounds):
        pull = open_it(repository, ines, f"feature-{number}")
        here = f"/api/v1/repositories/shop/pulls/{pull.number}"
        answers = act_at_once(ines, [f"{here}/merge", f"{here}/close", f"{here}/close"])
        won = [name for name, status in answers if status < 300]
        pull = read_again(pull)
        assert len(won) == 1, answers
        assert all(status in (202, 200, 409) for _, status in answers), answers
        is_merged = won == [f"{here}/merge"]
        assert pull.state == (PullState.MERGED if is_merged else PullState.CLOSED), answers
        assert is_on_master(pull) == is_merged
        assert Merge.objects.filter(pull=pull).exclude(state=MergeState.ABANDONED).exists() == is_merged


def act_at_once(by: Principal, addresses: list[str]) -> list[tuple[str, int]]:
    """Post to addresses at the same moment, each from a thread of its own; return the statuses."""
    clients = [a_rest_client(by) for _ in addresses]
    start = threading.Barrier(len(addresses))
    answers: list[tuple[str, int]] = []

    def post(address: str, client: Any) -> None:
        try:
            start.wait(30)
            answers.append((address, client.post(address, {}, format="json").status_code))
        finally:
            connection.close()

    threads = [threading.Thread(target=post, args=pair) for pair in zip(addresses, clients, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers
