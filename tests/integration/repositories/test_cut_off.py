"""kill -9 at each step that writes, of everything that moves a ref: nobody's move is lost from the audit log or in it twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pkgutil import resolve_name
from typing import Any
from unittest import mock

import pytest
from django.db import connection, connections

from tests.factories import repositories as make
from webapp.accounts.models import AuditEntry
from webapp.core import clock
from webapp.core.idempotency import _noting_effects
from webapp.core.models import IdempotencyRecord
from webapp.core.principals import Principal
from webapp.git.program import run_git
from webapp.git.repository import GitRepository
from webapp.git.values import Change, RefUpdate
from webapp.repositories import services
from webapp.repositories.models import BranchDeletion, HeadMove, PendingMove, Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

SOAK = pytest.mark.soak
SURVIVED = 7
MOST_STEPS = 60
MOVERS = (
    *(f"webapp.git.repository.GitRepository.{name}" for name in ("create_branch", "move_branch", "delete_branch")),
    *(f"{module}.run_git" for module in ("webapp.git.repository", "webapp.git.merges", __name__)),
)
VERBS = ("commit_files", "commit_to_protected_branch", "create_branch", "delete_branch", "push", "revert_pull")


def any_changes() -> list[Change]:
    """Never the same: a commit of the same second would have the same name."""
    return [Change(path="a.txt", content=os.urandom(8).hex().encode())]


def any_other_changes() -> list[Change]:
    """Of a file that no other commit changes."""
    return [Change(path="b.txt", content=os.urandom(8).hex().encode())]


class Death:
    """Counts the steps of this process that write, and kills it at one of them."""

    def __init__(self, number: int) -> None:
        self._left = number

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if not sql.startswith("SELECT"):
            self.step()
        return execute(sql, *rest)

    def before_and_after(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            self.step()
            answer = method(*arguments, **named)
            self.step()
            return answer

        return run


def is_killed(act: Callable[[], object], number: int) -> bool:
    """Do something in a process that dies at its N-th step; False where it has no more so many."""
    connections.close_all()
    pid = os.fork()
    if pid == 0:
        try:
            death = Death(number)
            with ExitStack() as patches:
                patches.enter_context(connection.execute_wrapper(death.execute))
                for name in MOVERS:
                    patches.enter_context(mock.patch(name, death.before_and_after(resolve_name(name))))
                act()
            connections.close_all()
            os._exit(SURVIVED)
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == SURVIVED, f"step {number} failed instead"
    return False


def sweep_late() -> None:
    """Let time pass, and the sweeps run."""
    long_ago = clock.now() - timedelta(hours=2)
    PendingMove.objects.update(at=long_ago)
    BranchDeletion.objects.update(created_at=long_ago)
    services.sweep_deletions()
    services.sweep_settled_heads()
    services.sweep_settled_heads()
    services.sweep_moves()


def push(repository: Repository, by: Principal, ref: str, before: str, after: str) -> None:
    """What the server does in a push; Git itself moves the ref between the two hooks."""
    updates = [RefUpdate(ref=ref, before=before, after=after, fast_forward=True)]
    assert services.check_push(repository=repository, updates=updates, by=by) == []
    run_git(
        repository.git.path, "update-ref", *(("-d", ref, before) if not after else (ref, after, before or "0" * 40))
    )
    services.announce_pushed(repository=repository, updates=updates, by=by)


Act = Callable[[Repository, Principal], object]


def commit(repository: Repository, by: Principal) -> object:
    return services.commit_files(repository=repository, branch="work", message="m", changes=any_changes(), by=by)


def commit_to_new(repository: Repository, by: Principal) -> object:
    edit = services.Edit(
        mode="new",
        path="",
        target="new.py",
        text="x = 1\n",
        message="m",
        head=repository.git.get_head("master"),
        new_branch="new",
    )
    return services.save_file(repository=repository, branch="master", edit=edit, by=by)


def merge(repository: Repository, by: Principal) -> object:
    """What brings a branch up to date: a commit that another one has is merged into it."""
    git = repository.git
    me = services.Person(name="m", email="m@example.org")
    sha = git.prepare_commit(parent=git.get_head("master"), message="m", changes=any_other_changes(), author=me)
    return services.merge_into_branch(
        repository=repository, branch="work", expected_head=git.get_head("work"), sha=sha, message="m", by=by
    )


def revert(repository: Repository, by: Principal) -> object:
    """What takes a merge back: a branch with a commit of its own."""
    sha = repository.git.get_head("master")
    return services.revert_to_new_branch(
        repository=repository,
        parent="master",
        branch="new",
        sha=sha,
        message="m",
        by=by,
        verb="revert_pull",
        object="cut#1",
    )


def create(repository: Repository, by: Principal) -> object:
    return services.create_branch(repository=repository, name="new", by=by)


def delete(repository: Repository, by: Principal) -> object:
    return services.delete_branch(repository=repository, name="work", by=by)


def prepare(repository: Repository) -> str:
    git = repository.git
    me = services.Person(name="m", email="m@example.org")
    return git.prepare_commit(parent=git.get_head("work"), message="m", changes=any_changes(), author=me)


def push_commit(repository: Repository, by: Principal) -> None:
    push(repository, by, "refs/heads/work", repository.git.get_head("work"), prepare(repository))


def push_branch(repository: Repository, by: Principal) -> None:
    push(repository, by, "refs/heads/new", "", prepare(repository))


def push_deletion(repository: Repository, by: Principal) -> None:
    push(repository, by, "refs/heads/work", repository.git.get_head("work"), "")


def push_tag(repository: Repository, by: Principal) -> None:
    push(repository, by, "refs/tags/v1", "", repository.git.get_head("master"))


ACTS = (commit, commit_to_new, merge, revert, create, delete, push_commit, push_branch, push_deletion, push_tag)


POSTED = (commit, commit_to_new, create)
"""Those that come with an Idempotency-Key."""


def act_for(record: IdempotencyRecord, act: Act, repository: Repository, by: Principal) -> None:
    """Do what a request with an Idempotency-Key asks for."""
    with _noting_effects(record):
        act(repository, by)


def read_refs(repository: Repository) -> dict[str, str]:
    git = repository.git
    return {**git.list_heads(), **{tag: git.find_ref(f"refs/tags/{tag}") or "" for tag in git.list_tags()}}


@pytest.fixture
def repository() -> Iterator[Repository]:
    repository = make.a_repository("cut", by=make.a_person("maker"))
    make.a_commit(repository, {"c.txt": "1\n"})
    make.a_branch(repository, "work")
    yield repository
    connections.close_all()


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(act, id=act.__name__, marks=() if act in (commit, create, push_commit, push_deletion) else SOAK)
        for act in ACTS
    ],
)
def test_who_is_killed_at_any_step_has_one_entry_for_what_moved(repository: Repository, act: Act) -> None:
    number, moved, unmoved = 0, 0, 0
    writer = make.a_member(repository, "writer", "olek")
    start = read_refs(repository)
    is_alive = False
    while not is_alive and number < MOST_STEPS:
        number += 1
        before = AuditEntry.objects.count()
        record = IdempotencyRecord.objects.create(user_id=writer.user_id, key=f"{number}")
        is_alive = not is_killed(lambda: act_for(record, act, repository, writer), number)
        sweep_late()
        entries = list(AuditEntry.objects.order_by("pk").values_list("actor", "verb")[before:])
        acts = [(actor, verb) for actor, verb in entries if verb in VERBS]
        has_moved = read_refs(repository) != start
        assert [actor for actor, _ in acts] == ["olek"] * has_moved, f"step {number}: {acts}"
        assert dict(repository.branches.values_list("name", "announced_head")).items() <= read_refs(repository).items()
        assert not PendingMove.objects.exists(), f"step {number}"
        record.refresh_from_db()
        assert act not in POSTED or bool(record.effect) == has_moved, f"step {number}: {record.effect}"
        assert not BranchDeletion.objects.exists(), f"step {number}"
        moved, unmoved = moved + (has_moved and not is_alive), unmoved + (not has_moved)
        # Else the next process would find its row, and have fewer steps than this one.
        HeadMove.objects.filter(by_id=writer.user_id).delete()
        if has_moved and not is_alive:
            put_back(repository, start)
    assert is_alive, f"{number} steps and no end"
    assert moved, "no kill came behind the ref's move"
    assert unmoved, "no kill came before it"


def put_back(repository: Repository, refs: dict[str, str]) -> None:
    """Begin anew with the refs of before."""
    by = make.maker_of(repository)
    git = repository.git
    for name in set(git.list_heads()) - set(refs):
        services.delete_branch(repository=repository, name=name, by=by)
    for tag in git.list_tags():
        run_git(git.path, "update-ref", "-d", f"refs/tags/{tag}")
    for name, head in refs.items():
        if git.find_head(name) is None:
            services.create_branch(repository=repository, name=name, start_point=head, by=by)
        elif git.find_head(name) != head:
            push(repository, by, f"refs/heads/{name}", git.get_head(name), head)


def test_a_move_that_was_cut_off_is_its_movers_even_behind_somebody_elses(repository: Repository) -> None:
    """Between the ref's move and its announcement: another pushes on top, and is announced first."""
    olek, mira = make.a_member(repository, "writer", "olek"), make.a_member(repository, "writer", "mira")
    with (
        mock.patch("webapp.repositories.services.commits.announce", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        commit(repository, olek)
    changes = [Change(path="b.txt", content=b"b")]
    services.commit_files(repository=repository, branch="work", message="m", changes=changes, by=mira)
    entries = AuditEntry.objects.filter(verb="commit_files").order_by("pk").values_list("actor", flat=True)
    assert sorted(entries) == ["mira", "olek"]
    sweep_late()
    assert AuditEntry.objects.filter(verb="commit_files").count() == 2
    assert set(HeadMove.objects.filter(branch="work").values_list("by__username", flat=True)) >= {"mira", "olek"}


def test_a_key_whose_commit_was_cut_off_is_used_up_once_it_is_found_and_free_where_it_never_came(
    repository: Repository,
) -> None:
    olek = make.a_member(repository, "writer", "olek")
    record = IdempotencyRecord.objects.create(user_id=olek.user_id, key="k")
    with (
        mock.patch.object(GitRepository, "move_branch", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        act_for(record, commit, repository, olek)
    assert PendingMove.objects.get().request == record.pk
    assert not services.is_move_undecided(record.pk)
    assert not PendingMove.objects.exists()
    with (
        mock.patch("webapp.repositories.services.commits.announce", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        act_for(record, commit, repository, olek)
    assert services.is_move_undecided(record.pk)
    sweep_late()
    record.refresh_from_db()
    assert (services.is_move_undecided(record.pk), record.effect) == (False, "cut")


def test_a_key_is_free_once_another_process_has_carried_on_the_move_of_a_dead_one(repository: Repository) -> None:
    """As the sweep does with a merge whose request died before the branch moved."""
    olek = make.a_member(repository, "writer", "olek")
    record = IdempotencyRecord.objects.create(user_id=olek.user_id, key="k")
    before, after = repository.git.get_head("work"), prepare(repository)

    def land(repository: Repository, by: Principal) -> None:
        services.land_merge(repository=repository, branch="work", expected_head=before, sha=after, by=by)

    with (
        mock.patch.object(GitRepository, "move_branch", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        act_for(record, land, repository, olek)
    land(repository, olek)
    assert not services.is_move_undecided(record.pk)
    assert not PendingMove.objects.exists()


def test_a_move_that_git_refused_is_nobodys(repository: Repository) -> None:
    """What was only meant stays out of the log, also when somebody else does the same."""
    olek, mira = make.a_member(repository, "writer", "olek"), make.a_member(repository, "writer", "mira")
    before, after = repository.git.get_head("work"), prepare(repository)
    updates = [RefUpdate(ref="refs/heads/work", before=before, after=after, fast_forward=True)]
    assert services.check_push(repository=repository, updates=updates, by=olek) == []
    push(repository, mira, "refs/heads/work", before, after)
    sweep_late()
    assert list(AuditEntry.objects.filter(verb="push").values_list("actor", flat=True)) == ["mira"]
    assert not PendingMove.objects.exists()
