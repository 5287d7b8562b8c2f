"""A merge that is cut at any point is taken on, once: it lands or it does not, with exactly one build."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from webapp.accounts.models import AuditEntry, User
from webapp.builds.models import Build, PublishedOutput, PublishedSpec
from webapp.builds.rules.states import BuildState
from webapp.builds.services.builds import cancel_build, end_build, retry_build
from webapp.comparisons.models import Comparison
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, Unavailable
from webapp.git import locks, merges
from webapp.git.values import Change, Person
from webapp.pulls.models import Merge, PullDataset, PullRequest
from webapp.pulls.pages.conversation import read_conversation
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import MergeState, PullState
from webapp.pulls.serializers import PullDetailSerializer
from webapp.pulls.services import build_pull, merging, pulls
from webapp.repositories.models import Protection, Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class Crash(BaseException):
    """Stands for the death of the process: nothing catches it."""


@pytest.fixture(autouse=True)
def own_home(home: Path) -> Path:
    return home


@pytest.fixture
def pull(db: None, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A pull request of one commit that nothing blocks and that modifies one dataset."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines")
    repository = make.a_repository("shop", by=ines)
    Protection.objects.all().delete()
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    for branch, digest in (("master", "1"), ("feature", "2")):
        publish(repository, branch, digest)
    made = pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    monkeypatch.setattr(merging, "refresh_pull", lambda **_: None)
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [])
    assert [row.change for row in PullDataset.objects.filter(pull=made)] == [states.MODIFIED]
    return made


def publish(repository: Repository, branch: str, digest: str, *, name: str = "a") -> None:
    spec = PublishedSpec.objects.create(
        repository=repository,
        branch=branch,
        sha="0" * 40,
        changed_sha="0" * 40,
        function=f"pipelines.{name}:{name}",
        file=f"pipelines/{name}.py",
        line=1,
        profile="light",
        digest=digest,
        spec={"inputs": [], "outputs": [{"name": "out", "path": f"/shop/{name}"}]},
    )
    PublishedOutput.objects.create(spec=spec, branch=branch, path=f"/shop/{name}")


def merge(pull: PullRequest) -> Merge:
    return merging.merge_pull(pull=pull, by=make.maker_of(pull.repository))


def let_time_pass() -> None:
    Merge.objects.update(created_at=clock.now() - timedelta(minutes=1))


def heads(pull: PullRequest) -> str:
    return pull.repository.git.get_head("master")


def crash_at(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def die(*_args: Any, **_kwargs: Any) -> None:
        raise Crash

    monkeypatch.setattr(merging, where, die)


def test_a_review_and_a_merge_lead_to_their_commits(pull: PullRequest) -> None:
    maker = make.maker_of(pull.repository)
    review = pulls.add_review(pull=pull, verdict=states.COMMENT, body="Why?", by=maker)
    merge(pull)

    done = Merge.objects.select_related("source_commit", "target_commit", "landed_commit").get()
    assert review.head == done.source_commit == pull.head
    assert done.target_commit == pull.base
    assert done.landed_commit is not None
    assert done.landed_commit.sha == heads(pull)


def test_a_cut_merge_that_was_rejected_meanwhile_does_not_land(
    pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = heads(pull)
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, "_land")
        with pytest.raises(Crash):
            merge(pull)
    rejected = approvals.Blocker("rejected", "mira asked for changes.")
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [rejected])
    let_time_pass()
    merging.sweep_merges()
    pull.refresh_from_db()
    assert (heads(pull), pull.state) == (before, PullState.OPEN)
    assert Merge.objects.get(pull=pull).state == MergeState.ABANDONED


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("_land", "ines is merging the code into master as"),
        ("_record_landed", "ines is merging the code into master as"),
        ("_start_build", "ines merged the code as"),
    ],
)
def test_a_cut_merge_is_taken_on_once(pull: PullRequest, point: str, said: str) -> None:
    before = heads(pull)
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, point)
        with pytest.raises(Crash):
            merge(pull)
    assert (heads(pull) == before) is (point == "_land")
    box = read_conversation(make.maker_of(pull.repository), "shop", pull.number).merge
    assert box.title == "Merging"
    assert box.text.startswith(said)
    let_time_pass()
    assert merging.sweep_merges() == 1
    merging.sweep_merges()
    done = Merge.objects.get(pull=pull)
    pull.refresh_from_db()
    assert pull.state == PullState.MERGED
    assert done.state == MergeState.BUILDING
    assert heads(pull) == done.merge_commit
    (build,) = Build.objects.filter(trigger="merge")
    assert done.build == build
    assert build.targets == ["/shop/a"]
    assert build.branch == "master"
    assert pull.events.filter(kind="merged").count() == 1


@pytest.mark.parametrize("point", ["_land", "_record_landed"])
def test_a_cut_merge_is_never_taken_on_into_another_target(pull: PullRequest, point: str) -> None:
    """The new target stands where the old one stood, so that Git alone would let the merge land there."""
    by = make.maker_of(pull.repository)
    make.a_branch(pull.repository, "release", by=by)
    before = heads(pull)
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, point)
        with pytest.raises(Crash):
            merge(pull)
    with pytest.raises(Conflict, match="being merged"):
        pulls.update_pull(pull=pull, changes={"target": "release"}, by=by)
    PullRequest.objects.update(target="release")  # as a process of an earlier release does
    let_time_pass()
    merging.sweep_merges()
    pull.refresh_from_db()
    assert pull.repository.git.get_head("release") == before
    if point == "_land":
        assert (heads(pull), pull.state, pull.target) == (before, PullState.OPEN, "release")
        assert not Build.objects.filter(trigger="merge").exists()
    else:
        assert (heads(pull), pull.state) == (Merge.objects.get(pull=pull).merge_commit, PullState.MERGED)
        assert pull.target == "master"
        assert Build.objects.get(trigger="merge").branch == "master"


def test_a_cut_before_the_build_row_is_kept_leaves_no_half(pull: PullRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of the merge and the build are one atomic block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging.builds, "start_build", raise_crash)
        with pytest.raises(Crash):
            merge(pull)
    assert Merge.objects.get(pull=pull).state == MergeState.LANDED
    let_time_pass()
    merging.sweep_merges()
    assert Build.objects.filter(trigger="merge").count() == 1


def test_a_merge_that_meets_a_lock_waits_for_it_and_lands_by_itself(
    pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "UNCHANGED_SECONDS", 0.2)
    monkeypatch.setattr("webapp.git.repository.LOCK_SECONDS", 0.5)
    before = heads(pull)
    writer = locks.Lease(pull.repository.path)
    (pull.repository.path / "refs/heads/master.lock").touch()
    with pytest.raises(Unavailable, match=r"refs/heads/master\.lock") as refused:
        merge(pull)
    assert (refused.value.code, heads(pull)) == ("repository_locked", before)
    assert Merge.objects.get(pull=pull).state == MergeState.PREPARED
    writer.release()
    let_time_pass()
    merging.sweep_merges()
    pull.refresh_from_db()
    assert pull.state == PullState.MERGED
    assert heads(pull) == Merge.objects.get(pull=pull).merge_commit


def raise_crash(**_: Any) -> None:
    raise Crash


def test_the_branch_that_its_own_merge_moves_changes_nothing_of_what_was_reviewed(
    pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker looks again as soon as the target moves, which is before the pull request is called merged."""
    reviewed = pull.base_sha, list(pull.datasets.values("path", "change", "lands_reason"))
    record = merging._record_landed  # noqa: SLF001 the moment before it

    def look_again(merge: Merge) -> None:
        assert heads(pull) == merge.merge_commit
        pulls.refresh_by_id(pull_id=pull.pk)
        record(merge)

    monkeypatch.setattr(merging, "_record_landed", look_again)
    merge(pull)
    pull.refresh_from_db()
    assert (pull.base_sha, list(pull.datasets.values("path", "change", "lands_reason"))) == reviewed
    assert not pull.events.filter(kind="target_moved").exists()


def test_a_merge_whose_target_moved_is_given_up(pull: PullRequest) -> None:
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, "_land")
        with pytest.raises(Crash):
            merge(pull)
    make.a_commit(pull.repository, {"other.txt": "x\n"}, branch="master", by=make.maker_of(pull.repository))
    let_time_pass()
    merging.sweep_merges()
    pull.refresh_from_db()
    assert pull.state == PullState.OPEN
    assert Merge.objects.get(pull=pull).state == MergeState.ABANDONED
    assert not Build.objects.filter(trigger="merge").exists()
    assert merge(pull).state == MergeState.BUILDING


def test_two_merges_at_once_are_one(pull: PullRequest) -> None:
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, "_land")
        with pytest.raises(Crash):
            merge(pull)
    with pytest.raises(Conflict) as refused:
        merge(pull)
    assert refused.value.code == "merge_running"


@pytest.mark.parametrize("method", [states.MERGE_METHOD, states.SQUASH])
def test_what_lands_is_the_merge_of_both_heads(pull: PullRequest, method: str) -> None:
    make.a_commit(pull.repository, {"other.txt": "x\n"}, branch="master", by=make.maker_of(pull.repository))
    target = heads(pull)
    tree = merges.preview_merge(pull.repository.git, source=pull.head_sha, target=target).tree
    made = merging.merge_pull(pull=pull, by=make.maker_of(pull.repository), method=method)
    landed = pull.repository.git.get_commit(made.merge_commit)
    assert landed.tree == tree
    assert landed.parents == ((target, pull.head_sha) if method == states.MERGE_METHOD else (target,))


def test_outcome_of_each_dataset_is_judged(pull: PullRequest) -> None:
    from webapp.pulls.queries import pulls as queries

    done = merge(pull)
    done.outcome = {"/shop/a": {"comparison": None}}
    assert queries.describe_outcome(done) == {"/shop/a": {"comparison": None, "state": "not_compared"}}


def test_a_pull_request_that_adds_a_dataset_is_not_stale_until_the_target_moves(pull: PullRequest) -> None:
    """Neither side of the comparison has a transaction on the target: nothing that could have moved."""
    by = make.maker_of(pull.repository)
    row = PullDataset.objects.get(pull=pull)
    dataset = make_datasets.a_dataset("/shop/a", by=User.objects.get(pk=by.user_id))
    row.comparison = Comparison.objects.create(identity="0", dataset=dataset)
    row.dataset = dataset
    row.save()
    assert not describe(pull)["stale"]
    make.a_commit(pull.repository, {"other.txt": "x\n"}, branch="master", by=by)
    pulls.refresh_pull(pull=pull)
    assert describe(pull)["stale"]


def test_where_only_the_code_of_the_target_moved_no_data_is_said_to_be_apart(pull: PullRequest, client: Client) -> None:
    by = make.maker_of(pull.repository)
    client.force_login(User.objects.get(pk=by.user_id))
    make.a_commit(pull.repository, {"other.txt": "x\n"}, branch="master", by=by)
    pulls.refresh_pull(pull=pull)

    page = client.get(f"/r/{pull.repository.name}/pulls/{pull.number}").content.decode()

    assert "master has commits that the branch lacks" in page
    assert "shown apart" not in page


def test_a_side_with_nothing_to_build_keeps_the_other_from_starting(pull: PullRequest) -> None:
    PublishedSpec.objects.filter(branch="master").delete()
    with pytest.raises(InvalidInput, match="no base side"):
        build_pull(pull=pull, by=make.maker_of(pull.repository), sides=("head", "base"))
    assert not Build.objects.exists()


@pytest.mark.parametrize("sides", [["head"], ["base"], ["head", "base"]])
def test_building_sides_is_one_act_of_who_asked(pull: PullRequest, sides: list[str]) -> None:
    started = build_pull(pull=pull, by=make.maker_of(pull.repository), sides=sides)
    assert list_actors("start_build") == ["ines", "system"][: len(sides)]
    assert len(started) == len(sides)


def test_who_cancels_the_rebuild_of_a_merge_did_it(pull: PullRequest) -> None:
    rebuild = merge(pull).build
    assert rebuild is not None
    cancel_build(build=rebuild, by=make.maker_of(pull.repository))
    assert (list_actors("start_build"), list_actors("cancel_build")) == (["system"], ["ines"])


def describe(pull: PullRequest) -> Any:
    """Return a pull request as REST writes it."""
    return PullDetailSerializer(pull, context={"principal": make.maker_of(pull.repository)}).data


def list_actors(verb: str) -> list[str]:
    """Return who did what has this verb in the audit log."""
    return list(AuditEntry.objects.filter(verb=verb).order_by("pk").values_list("actor", flat=True))


def test_a_merge_follows_the_retries_of_its_rebuild(pull: PullRequest) -> None:
    by = make.maker_of(pull.repository)
    rebuild = merge(pull).build
    assert rebuild is not None
    end_build(build=rebuild, state=BuildState.FAILED, reason="The disk was full.")
    assert describe(pull)["merge"]["state"] == MergeState.DONE
    first, second = (retry_build(build=rebuild, by=by, is_trusted=True) for _ in range(2))
    shown = describe(pull)["merge"]
    assert (shown["state"], shown["build"]["id"]) == (MergeState.BUILDING, second.pk)

    # The last one decides, whichever ends first.
    end_build(build=first, state=BuildState.COMPLETED, reason="")
    assert describe(pull)["merge"]["state"] == MergeState.BUILDING
    end_build(build=second, state=BuildState.COMPLETED, reason="")
    shown = describe(pull)["merge"]
    assert (shown["state"], shown["build"]) == (MergeState.DONE, {"id": second.pk, "state": "COMPLETED"})
    assert list(shown["outcome"]) == ["/shop/a"]
    box = read_conversation(by, "shop", pull.number).merge
    assert (box.tone, box.title) == ("merged", "Merged")
    assert [event.data["state"] for event in pull.events.filter(kind="rebuilt")] == ["FAILED", "COMPLETED"]


def test_a_merge_whose_commit_is_not_there_is_given_up(pull: PullRequest) -> None:
    """As a disk leaves it that was full when the commit was written, or a copy of the repository from before it."""
    before = heads(pull)
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, "_land")
        with pytest.raises(Crash):
            merge(pull)
    Merge.objects.filter(pull=pull).update(merge_commit="b" * 40)
    let_time_pass()
    merging.sweep_merges()
    pull.refresh_from_db()
    assert (pull.state, heads(pull)) == (PullState.OPEN, before)
    assert Merge.objects.get(pull=pull).state == MergeState.ABANDONED
    assert merge(pull).state == MergeState.BUILDING


def test_a_squash_names_everybody_who_wrote_a_part(pull: PullRequest) -> None:
    maker = make.maker_of(pull.repository)
    wim = make.a_member(pull.repository, "writer", "wim")
    git = pull.repository.git
    head = pull.head_sha
    for number, (author, message) in enumerate(
        [
            (Person(name="Nora", email="Nora@example.org"), "One\n\nReviewed-by: R <r@example.org>\nCloses: #7"),
            (Person(name="N.", email="nora@example.org"), "Two\n\nReviewed-by: R <r@example.org>"),
            (Person(name="Ines at home", email="ines@localhost"), "Three"),
            (Person(name="wim", email="wim@example.org"), "Four\n\nCo-authored-by: olek <olek@example.org>"),
        ]
    ):
        content = Change(path=f"{number}.txt", content=b"x")
        head = git.prepare_commit(parent=head, message=message, changes=[content], author=author)
    make.a_commit(pull.repository, {"other.txt": "x"})
    clean = git.objects.find_commit(merges.prepare_merge(
        git, source=heads(pull), target=head, method="merge", message="Update", author=Person(name="Mira", email="m@x.y")
    ))  # fmt: skip
    pull.head_sha, pull.body = str(clean.id), "Why.\n\nCo-authored-by: W <wim@localhost>"
    sha = merging.prepare_commit(pull=pull, by=wim, method=states.SQUASH, target_sha=heads(pull))
    commit = git.get_commit(sha)
    assert commit.author.email == f"{maker.username}@example.org"
    assert commit.message == (
        f"Change (#{pull.number})\n\nWhy.\n\nCo-authored-by: W <wim@localhost>\nCo-authored-by: Nora <Nora@example.org>\n"
        "Reviewed-by: R <r@example.org>\nCloses: #7\nCo-authored-by: olek <olek@example.org>\n"
    )
