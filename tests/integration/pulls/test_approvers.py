"""Nobody passes review alone: whose approval counts, over every way to bring code into a pull request."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from tests.factories import repositories as make
from webapp.accounts.models import User
from webapp.accounts.services import grant_role
from webapp.core.errors import AppError, Conflict, PermissionDenied
from webapp.core.principals import Principal
from webapp.git.errors import HeadMoved
from webapp.git.values import Change, Person, RefUpdate
from webapp.pulls import serializers, services
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.models import PullRequest
from webapp.pulls.pages.head import load, read_head
from webapp.repositories import queries as repositories
from webapp.repositories.models import HeadMove, Repository
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services import (
    announce_pushed,
    check_push,
    commit_files,
    create_branch,
    rebuild_commits,
    set_publication,
)

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PEOPLE = ("ines", "mira", "wanda")


@dataclass
class Desk:
    """A repository with three writers, and an open pull request of Ines's branch `fix`."""

    repository: Repository
    people: dict[str, Principal]
    pull: PullRequest
    brought: dict[str, set[str]] = field(default_factory=dict)
    """Commit → who is behind it, as this test knows and Git does not."""
    numbers: int = 0

    def head(self) -> str:
        head = self.repository.git.find_head("fix")
        assert head is not None
        return head

    def publish(self) -> None:
        set_publication(repository=self.repository, branch="fix", sha=self.head(), status=PublicationState.PUBLISHED)

    def _change(self) -> list[Change]:
        self.numbers += 1
        return [Change(path=f"notes/{self.numbers}.md", content=b"x\n")]

    def edit(self, who: str) -> str:
        """Commit in the browser."""
        commit = commit_files(
            repository=self.repository, branch="fix", message="Edit", changes=self._change(), by=self.people[who]
        )
        self.brought[commit.sha] = {who}
        self.publish()
        return commit.sha

    def push(self, who: str, *, named: str, times: int = 1) -> str:
        """Push commits that name somebody else as author and committer."""
        before = self.head()
        person = Person(name=named, email=f"{named}@example.org")
        for _ in range(times):
            commit = self.repository.git.commit_changes(
                branch="fix", message="Push", changes=self._change(), author=person, committer=person,
                expected_head=self.head(),
            )  # fmt: skip
            self.brought[commit.sha] = {who}
        self._announce(who, before, self.head())
        return self.head()

    def force(self, who: str, sha: str) -> None:
        """Set the branch back to an earlier commit."""
        before = self.head()
        self.repository.git.move_branch("fix", expected=before, sha=sha)
        self._announce(who, before, sha)

    def _announce(self, who: str, before: str, after: str) -> None:
        update = RefUpdate(ref="refs/heads/fix", before=before, after=after, fast_forward=True)
        by = self.people[who]
        assert check_push(repository=self.repository, updates=[update], by=by) == []
        announce_pushed(repository=self.repository, updates=[update], by=by)
        self.publish()

    def approve(self, who: str, **more: Any) -> None:
        services.add_review(pull=self.pull, verdict="approve", by=self.people[who], **more)

    def detail(self) -> dict[str, Any]:
        services.refresh_pull(pull=self.pull)
        return serializers.PullDetailSerializer(self.pull, context={"principal": self.people["ines"]}).data

    def own_commits(self) -> list[str]:
        commits = repositories.list_commits(self.repository, self.head(), not_in="master", limit=None)
        return [commit.sha for commit in commits]

    def sides(self) -> set[str]:
        """Who is behind what the pull request would merge now."""
        return {"ines"}.union(*(self.brought.get(sha, set()) for sha in self.own_commits()))


@pytest.fixture
def desk(home: Path) -> Desk:
    return a_desk()


def a_desk(name: str = "shop", *, ending: str = "") -> Desk:
    repository = make.a_repository(name)
    people = {who: make.a_member(repository, "writer", f"{who}{ending}") for who in PEOPLE}
    sha = make.a_commit(repository, {"notes.md": "x\n"}, branch=_branch(repository), by=people["ines"]).sha
    pull = services.open_pull(repository=repository, title="Fix", source="fix", target="master", by=people["ines"])
    desk = Desk(repository, people, pull, {sha: {"ines"}})
    desk.publish()
    return desk


def _branch(repository: Repository) -> str:
    make.a_branch(repository, "fix")
    return "fix"


def test_who_pushes_into_anothers_pull_request_does_not_approve_it(desk: Desk) -> None:
    sha = desk.push("wanda", named="nobody")
    desk.approve("wanda")

    detail = desk.detail()
    assert [blocker["code"] for blocker in detail["blocked_by"]] == ["approval_missing"]
    assert f"The approval by wanda does not count: wanda pushed {sha[:7]}." in detail["blocked_by"][0]["message"]
    assert detail["reviews"][-1]["ineligible_reason"] == f"pushed {sha[:7]}"
    with pytest.raises(MergeBlocked):
        services.merge_pull(pull=desk.pull, by=desk.people["wanda"])
    with pytest.raises(PermissionDenied):
        desk.approve("ines")
    desk.approve("mira")
    assert desk.detail()["mergeable"]


def test_who_edits_in_the_browser_does_not_approve_it(desk: Desk) -> None:
    desk.edit("wanda")
    desk.approve("wanda")
    assert "wanda pushed" in desk.detail()["blocked_by"][0]["message"]
    head = read_head(desk.people["wanda"], load(desk.people["wanda"], "shop", desk.pull.number))
    assert (head.may_approve, "Yours would not count: you pushed" in head.approve_note) == (False, True)
    assert read_head(desk.people["mira"], load(desk.people["mira"], "shop", desk.pull.number)).may_approve


def test_who_wrote_a_commit_that_another_pushed_does_not_approve_it(desk: Desk) -> None:
    desk.push("mira", named="wanda")
    desk.approve("wanda")
    assert "does not count: wanda wrote" in desk.detail()["blocked_by"][0]["message"]


def test_a_trailer_takes_no_approval_away_but_is_shown(desk: Desk) -> None:
    message = "Edit\n\nCo-authored-by: Somebody <mira@example.org>\n"
    commit = commit_files(
        repository=desk.repository, branch="fix", message=message, changes=desk._change(), by=desk.people["ines"]
    )
    desk.publish()
    desk.approve("mira")
    assert desk.detail()["mergeable"]
    client = Client()
    client.force_login(User.objects.get(username="wanda"))
    page = client.get(f"/r/shop/pulls/{desk.pull.number}").content.decode()
    assert page.lower().count(f"named as co-author of {commit.sha[:7]}") == 2, "in the list and at the approval"


def test_a_forced_push_of_another_does_not_hide_who_brought_what_stays(desk: Desk) -> None:
    first = desk.push("wanda", named="nobody", times=2)
    kept = desk.repository.git.get_commit(first).parents[0]
    desk.force("ines", kept)
    desk.approve("wanda")
    assert f"wanda pushed {kept[:7]}" in desk.detail()["blocked_by"][0]["message"]
    desk.force("ines", desk.own_commits()[-1])
    desk.approve("wanda")
    assert desk.detail()["mergeable"], "nothing of what she brought is left"


def test_a_branch_that_begins_in_the_middle_of_a_push_does_not_hide_who_pushed(desk: Desk) -> None:
    last = desk.push("wanda", named="nobody", times=2)
    middle = desk.repository.git.get_commit(last).parents[0]
    create_branch(repository=desk.repository, name="part", start_point=middle, by=desk.people["ines"])
    desk.pull = services.open_pull(
        repository=desk.repository, title="Part", source="part", target="master", by=desk.people["ines"]
    )
    set_publication(repository=desk.repository, branch="part", sha=middle, status=PublicationState.PUBLISHED)

    desk.approve("wanda")
    assert f"wanda pushed {middle[:7]}" in desk.detail()["blocked_by"][0]["message"]
    rebuild_commits(repository=desk.repository)
    assert f"wanda pushed {middle[:7]}" in desk.detail()["blocked_by"][0]["message"], "Git does not know it"
    desk.approve("mira")
    assert desk.detail()["mergeable"]


def test_a_push_after_the_approval_voids_it(desk: Desk) -> None:
    desk.approve("wanda")
    assert desk.detail()["mergeable"]
    head = desk.head()
    desk.push("mira", named="mira")
    detail = desk.detail()
    assert (detail["mergeable"], detail["reviews"][0]["void"]) == (False, True)
    with pytest.raises(Conflict):
        desk.approve("wanda", expected_head=head)


def test_an_approval_ends_with_the_right_to_give_it(desk: Desk) -> None:
    desk.approve("wanda")
    wanda = User.objects.get(username="wanda")
    grant_role(repository="shop", user=wanda, role="reader", by=None)
    assert "wanda may no longer write here" in desk.detail()["blocked_by"][0]["message"]
    grant_role(repository="shop", user=wanda, role="writer", by=None)
    assert desk.detail()["mergeable"]
    User.objects.filter(username="wanda").update(is_active=False)
    assert "wanda is no longer active" in desk.detail()["blocked_by"][0]["message"]


def test_a_push_is_kept_before_its_refs_move(desk: Desk) -> None:
    """What a crash between Git and the database loses is announced by nobody: the pusher must be known by then."""
    update = RefUpdate(ref="refs/heads/fix", before=desk.head(), after="f" * 40, fast_forward=True)
    assert check_push(repository=desk.repository, updates=[update], by=desk.people["wanda"]) == []
    assert HeadMove.objects.filter(after="f" * 40).values_list("by__username", flat=True).get() == "wanda"


@pytest.mark.parametrize("seed", range(6))
def test_no_walk_of_acts_merges_what_only_one_person_has_seen(home: Path, seed: int) -> None:
    walk(seed, acts=25)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_no_long_walk_of_acts_merges_what_only_one_person_has_seen(home: Path, seed: int) -> None:
    walk(seed, acts=60)


def walk(seed: int, *, acts: int) -> None:
    """Do things at random; whatever merges has an approval of its very head by somebody who brought none of it."""
    dice = random.Random(seed)
    desk = a_desk(f"walk{seed}")
    approved: dict[str, str] = {}
    log = [f"seed {seed}"]
    for _ in range(acts):
        who = dice.choice(PEOPLE)
        act = dice.choice(("edit", "push", "force", "approve", "approve", "reject", "target", "merge", "merge"))
        log.append(f"{act} by {who}")
        sides = desk.sides()
        try:
            with transaction.atomic():
                if act == "edit":
                    desk.edit(who)
                elif act == "push":
                    desk.push(who, named=dice.choice((*PEOPLE, "nobody")), times=dice.randint(1, 3))
                elif act == "force":
                    desk.force(who, dice.choice(desk.own_commits()))
                elif act == "approve":
                    desk.approve(who)
                    approved[who] = desk.head()
                elif act == "reject":
                    services.add_review(pull=desk.pull, verdict="comment", body="b", by=desk.people[who])
                elif act == "target":
                    services.update_pull(pull=desk.pull, by=desk.people[who], changes={"title": f"by {who}"})
                else:
                    services.merge_pull(pull=desk.pull, by=desk.people[who])
        except (AppError, MergeBlocked):
            continue
        if act == "merge":
            independent = {name for name, head in approved.items() if head == desk.pull.head_sha} - sides
            assert independent, log
            return


def test_an_approval_of_something_else_is_none_of_what_is_merged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody approves between the look at the heads and the look at the approvals: of a newer head, for another target."""
    merging = "webapp.pulls.services.merging.refresh_pull"

    def push_and_approve(*, pull: PullRequest) -> None:
        services.refresh_pull(pull=pull)
        desk.push("mira", named="mira")
        desk.approve("wanda")

    with monkeypatch.context() as patch:
        patch.setattr(merging, push_and_approve)
        with pytest.raises(MergeBlocked):
            services.merge_pull(pull=load_pull(desk), by=desk.people["ines"])

    def retarget_and_approve(*, pull: PullRequest) -> None:
        services.refresh_pull(pull=pull)
        services.update_pull(pull=load_pull(desk), by=desk.people["ines"], changes={"target": "other"})
        services.add_review(pull=load_pull(desk), verdict="approve", by=desk.people["wanda"])

    make.a_branch(desk.repository, "other")
    with monkeypatch.context() as patch:
        patch.setattr(merging, retarget_and_approve)
        with pytest.raises(MergeBlocked):
            services.merge_pull(pull=load_pull(desk), by=desk.people["ines"])


@pytest.mark.django_db(transaction=True)
def test_no_race_of_acts_lands_a_tree_that_nobody_else_has_approved(home: Path) -> None:
    for seed in range(8):
        race(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.django_db(transaction=True)
def test_no_race_of_a_thousand_lands_a_tree_that_nobody_else_has_approved(home: Path) -> None:
    outcomes = [race(seed) for seed in range(1000, 2000)]
    print(f"{sum(outcomes)} of {len(outcomes)} races landed something")
    assert {*outcomes} == {True, False}


def race(seed: int) -> bool:
    """Push, edit, approve, move the target and merge at the same moment; return whether something landed."""
    dice = random.Random(seed)
    desk = a_desk(f"race{seed}", ending=str(seed))
    make.a_branch(desk.repository, "other")
    if dice.random() < 0.5:
        desk.approve("wanda")
    start = desk.repository.git.get_head("master")

    def target() -> None:
        services.update_pull(
            pull=desk.pull, by=desk.people["ines"], changes={"target": dice.choice(("other", "master"))}
        )

    acts: dict[str, Callable[[], object]] = {
        "push by mira": lambda: desk.push("mira", named="nobody"),
        "edit by mira": lambda: desk.edit("mira"),
        "approval by wanda": lambda: desk.approve("wanda"),
        "approval by mira": lambda: desk.approve("mira"),
        "target": target,
        "merge by ines": lambda: services.merge_pull(pull=load_pull(desk), by=desk.people["ines"]),
        "merge by mira": lambda: services.merge_pull(pull=load_pull(desk), by=desk.people["mira"]),
    }
    chosen = [*dice.sample([*acts][:5], 3), "merge by ines", "merge by mira"]
    begin = threading.Barrier(len(chosen))
    pauses = {name: dice.random() * 0.05 for name in chosen}

    def act(name: str) -> None:
        begin.wait()
        time.sleep(pauses[name])
        try:
            with suppress(AppError, MergeBlocked, HeadMoved):
                acts[name]()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(chosen)) as pool:
        list(pool.map(act, chosen))
    return check_landed(desk, start, f"seed {seed}: {chosen}")


def load_pull(desk: Desk) -> PullRequest:
    return PullRequest.objects.get(pk=desk.pull.pk)


def check_landed(desk: Desk, start: str, about: str) -> bool:
    """Whatever master has got is a merge of a head that somebody approved who brought none of it."""
    git = desk.repository.git
    head = git.get_head("master")
    if head == start:
        return False
    first, merged = git.get_commit(head).parents
    assert first == start, about
    brought = {commit.sha for commit in repositories.list_commits(desk.repository, merged, not_in=start, limit=None)}
    sides = {"ines"}.union(*(desk.brought[sha] for sha in brought))
    names = {person.username: who for who, person in desk.people.items()}
    approving = {
        names[review.reviewer.username]
        for review in desk.pull.reviews.select_related("reviewer")
        if review.verdict == "approve" and review.seen["head"] == merged and review.seen["target"] == "master"
    }
    assert approving - sides, about
    return True
