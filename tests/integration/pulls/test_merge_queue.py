"""Merges that are asked for when they are ready: what would land is built before it lands, each on top of those before it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.protocol import CodeError, PublishResult
from tests.factories import build_rows
from tests.factories import repositories as make
from tests.factories.build_rows import World
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.queries import principal_for_user
from webapp.accounts.services import grant_role
from webapp.builds.models import Build, PublishedSpec
from webapp.builds.rules.states import BuildState
from webapp.builds.services import publication
from webapp.builds.services.builds import end_build, retry_build
from webapp.core import clock
from webapp.core.errors import Conflict, PermissionDenied
from webapp.notices.models import Notification
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.models import Merge, PullRequest, QueuedMerge
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import MergeState, PullState, QueueState
from webapp.pulls.services import enqueue_pull, leave_queue, merge_pull, merging, pulls, queueing
from webapp.pulls.services.queueing import advance_queue, sweep_branches
from webapp.repositories import queries as repositories
from webapp.repositories.models import Protection, Repository
from webapp.repositories.rules.checks import MERGE_RESULT

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
QUEUE = "/api/v1/repositories/shop/queue"
BRANCH_BUILT = {"build_missing", "build_failed"}
"""What would speak against these branches, whose datasets no test builds."""


class Crash(BaseException):
    """Stands for the death of the process: nothing catches it."""


@pytest.fixture
def shop(home: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A repository whose commits declare a dataset for each of their files in `specs`, which holds digest and inputs."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(publication, "import_commit", import_commit)
    list_blockers = approvals.list_blockers
    monkeypatch.setattr(
        "webapp.pulls.rules.approvals.list_blockers",
        lambda facts: [blocker for blocker in list_blockers(facts) if blocker.code not in BRANCH_BUILT],
    )
    shop = build_rows.a_world("shop", raw=())
    Protection.objects.all().delete()
    commit(shop, {"specs/a": "1", "specs/b": "1 /shop/a"})
    return shop


def import_commit(*, repository: Repository, sha: str, held: Any = None) -> PublishResult:
    specs = []
    for entry in repositories.list_entries(repository, sha, "specs"):
        digest, *inputs = repositories.read_file(repository, sha, entry.path).decode().split()
        if digest == "broken":
            return PublishResult(errors=(CodeError(file=entry.path, line=3, message="NameError: rate"),))
        specs.append(build_rows.a_jobspec(entry.name, inputs=inputs, outputs=[f"/shop/{entry.name}"], digest=digest))
    return PublishResult(jobspecs=tuple(specs))


def commit(shop: World, files: dict[str, str | None], branch: str = "master") -> str:
    """Commit and publish."""
    sha = make.a_commit(shop.repository, files, branch=branch, by=shop.maker).sha
    shop.publish(*import_commit(repository=shop.repository, sha=sha).jobspecs, branch=branch)
    return sha


def propose(shop: World, branch: str, files: dict[str, str | None]) -> PullRequest:
    """Open a pull request from a branch off master."""
    make.a_branch(shop.repository, branch, by=shop.maker)
    commit(shop, files, branch=branch)
    return pulls.open_pull(
        repository=shop.repository, title=f"Change {branch}", source=branch, target="master", by=shop.maker
    )


def enqueue(shop: World, *asked: PullRequest) -> list[QueuedMerge]:
    """Ask for merges and let a worker look."""
    rows = [enqueue_pull(pull=pull, by=shop.maker) for pull in asked]
    advance(shop, *rows)
    return rows


def advance(shop: World, *rows: QueuedMerge) -> None:
    advance_queue(repository=shop.repository, target="master")
    for row in rows:
        row.refresh_from_db()


def end(queued: QueuedMerge, *, is_green: bool = True) -> None:
    """End the build of a test."""
    queued.refresh_from_db()
    assert queued.build is not None
    state = BuildState.COMPLETED if is_green else BuildState.FAILED
    assert end_build(build=queued.build, state=state, reason="" if is_green else "Job 1 (/shop/a) failed: no column x")


def head(shop: World) -> str:
    return shop.repository.git.get_head("master")


def states_of(*rows: QueuedMerge) -> list[QueueState]:
    for row in rows:
        row.refresh_from_db()
    return [row.state for row in rows]


def kinds(pull: PullRequest) -> list[str]:
    return [event.kind for event in pull.events.all()]


def test_what_lands_is_what_was_tested(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    moved = commit(shop, {"specs/b": "2 /shop/a"})
    [queued] = enqueue(shop, pull)

    assert (queued.state, queued.base_sha) == (QueueState.TESTING, moved)
    build = Build.objects.get()
    assert (build.trigger, build.code_sha, build.chain) == ("queue", queued.tested_sha, [queued.test_branch, "master"])
    assert build.targets == ["/shop/a", "/shop/b"], "b reads a, and both sides have changed one of them"
    assert head(shop) == moved, "nothing lands before its test is green"

    end(queued)
    advance(shop, queued)
    pull.refresh_from_db()
    assert (queued.state, pull.state) == (QueueState.LANDED, PullState.MERGED)
    assert head(shop) == queued.tested_sha == Merge.objects.get().merge_commit
    assert shop.repository.git.get_commit(head(shop)).parents == (moved, pull.head_sha)
    rebuild = Build.objects.get(trigger="merge")
    assert (rebuild.branch, rebuild.targets) == ("master", ["/shop/a"])
    assert kinds(pull)[-2:] == ["queued", "merged"]
    assert PublishedSpec.objects.filter(branch=queued.test_branch).exists()
    sweep_branches()
    assert not PublishedSpec.objects.filter(branch=queued.test_branch).exists()
    assert set(AuditEntry.objects.values_list("verb", flat=True)) >= {"queue_merge", "merge_pull"}


def test_what_the_branch_was_built_with_is_not_built_twice(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    [queued] = enqueue(shop, pull)
    assert (queued.state, queued.build) == (QueueState.LANDED, None)
    assert head(shop) == queued.tested_sha


def test_each_is_tested_on_top_of_those_before_it_and_again_when_one_is_ejected(shop: World) -> None:
    before = commit(shop, {"notes": "1"})
    first, second, third = (propose(shop, name, {f"specs/{name}": "1"}) for name in ("one", "two", "three"))
    commit(shop, {"notes": "2"})
    rows = enqueue(shop, first, second, third)
    assert states_of(*rows) == [QueueState.TESTING] * 3
    assert [row.base_sha for row in rows] == [head(shop), rows[0].tested_sha, rows[1].tested_sha]
    assert rows[2].targets == ["/shop/three"], "what those before it bring is tested with them"
    assert rows[2].build is not None
    assert rows[2].build.chain == [*(row.test_branch for row in reversed(rows)), "master"]

    end(rows[1], is_green=False)
    end(rows[2])
    advance(shop, *rows)
    assert states_of(*rows) == [QueueState.TESTING, QueueState.RED, QueueState.GREEN], "the first may be to blame"
    assert head(shop) != before

    end(rows[0])
    tested_before = rows[2].tested_sha
    advance(shop, *rows)
    assert states_of(*rows) == [QueueState.LANDED, QueueState.EJECTED, QueueState.TESTING]
    assert "ended failed: Job 1 (/shop/a) failed: no column x" in rows[1].reason
    second.refresh_from_db()
    assert (second.state, kinds(second)[-1]) == (PullState.OPEN, "ejected")
    assert Notification.objects.filter(fact="pull_ejected", pull=second, user_id=shop.maker.user_id).count() == 1
    assert rows[2].base_sha == head(shop) == rows[0].tested_sha
    assert rows[2].tested_sha != tested_before

    end(rows[2])
    advance(shop, *rows)
    assert rows[2].state == QueueState.LANDED
    assert {entry.name for entry in shop.repository.git.list_entries(head(shop), "specs")} == {"a", "b", "one", "three"}


def test_a_target_that_moves_has_everything_tested_again(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    commit(shop, {"notes": "1"})
    [queued] = enqueue(shop, pull)
    build = queued.build
    assert build is not None
    moved = commit(shop, {"notes": "2"})
    advance(shop, queued)
    build.refresh_from_db()
    assert (build.state, queued.base_sha, queued.state) == (BuildState.ABORTED, moved, QueueState.TESTING)
    end(queued)
    moved = commit(shop, {"notes": "3"})
    advance(shop, queued)
    assert (queued.state, queued.base_sha, head(shop)) == (QueueState.TESTING, moved, moved)


def test_it_waits_for_approvals_and_leaves_when_one_becomes_void(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    commit(shop, {"notes": "1"})
    Protection.objects.create(repository=shop.repository, branch="master", approvals=1)
    [queued] = enqueue(shop, pull)
    assert (queued.state, queued.place, queued.build) == (QueueState.WAITING, 0, None)
    mira = make.a_member(shop.repository, "writer", "mira")
    pulls.add_review(pull=pull, verdict=states.APPROVE, by=mira)
    advance(shop, queued)
    assert queued.state == QueueState.TESTING
    pulls.add_review(pull=pull, verdict=states.REJECT, by=mira)
    end(queued)
    advance(shop, queued)
    assert (queued.state, Merge.objects.count()) == (QueueState.EJECTED, 0)
    assert "mira asked for changes." in queued.reason

    with pytest.raises(MergeBlocked, match="mira asked for changes"):
        enqueue_pull(pull=pull, by=shop.maker)


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (lambda shop, pull: pulls.close_pull(pull=pull, by=shop.maker), "The pull request is closed."),
        (lambda shop, pull: leave_queue(pull=pull, by=shop.maker), "Taken out by maker-of-shop."),
        (lambda shop, pull: commit(shop, {"more": "1"}, branch=pull.source), "The head moved from"),
    ],
    ids=["closed", "withdrawn", "pushed to"],
)
def test_what_nobody_asks_for_any_more_leaves(shop: World, leave: Any, reason: str) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    before = commit(shop, {"notes": "1"})
    [queued] = enqueue(shop, pull)
    build = queued.build
    assert build is not None
    leave(shop, pull)
    pulls.refresh_pull(pull=pull)
    advance(shop, queued)
    build.refresh_from_db()
    assert (queued.state, build.state, head(shop)) == (QueueState.WITHDRAWN, BuildState.ABORTED, before)
    assert queued.reason.startswith(reason)
    with pytest.raises(Conflict, match="Nobody asks"):
        leave_queue(pull=pull, by=shop.maker)


def test_one_that_conflicts_with_those_before_it_waits_for_what_becomes_of_them(shop: World) -> None:
    one, two = (propose(shop, name, {"specs/a": name}) for name in ("one", "two"))
    commit(shop, {"notes": "1"})
    rows = enqueue(shop, one, two)
    assert states_of(*rows) == [QueueState.TESTING, QueueState.RED]
    assert "specs/a" in rows[1].reason
    end(rows[0], is_green=False)
    advance(shop, *rows)
    assert states_of(*rows) == [QueueState.EJECTED, QueueState.TESTING]

    [again] = enqueue(shop, one)
    assert again.state == QueueState.RED
    end(rows[1])
    advance(shop, *rows, again)
    assert states_of(rows[1], again) == [QueueState.LANDED, QueueState.EJECTED]
    assert "Conflicts with master in specs/a" in again.reason


def test_whoever_asked_must_have_the_right_to_merge_when_it_lands(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    before = commit(shop, {"notes": "1"})
    writer = make.a_member(shop.repository, "writer", "wim")
    queued = enqueue_pull(pull=pull, by=writer)
    advance(shop, queued)
    end(queued)
    grant_role(repository="shop", user=User.objects.get(username="wim"), role="reader", by=None)
    advance(shop, queued)
    assert (queued.state, head(shop)) == (QueueState.EJECTED, before)
    assert queued.reason.startswith("wim, who asked for it, may no longer merge it:")
    with pytest.raises(PermissionDenied):
        enqueue_pull(pull=pull, by=writer)


def test_code_that_does_not_publish_together_is_ejected(shop: World) -> None:
    pull = propose(shop, "one", {"notes.txt": "new"})
    make.a_commit(shop.repository, {"specs/c": "broken"})
    [queued] = enqueue(shop, pull)
    advance(shop, queued)
    assert queued.state == QueueState.EJECTED
    assert "specs/c:3 NameError: rate" in queued.reason


def test_a_test_that_is_tried_again_counts(shop: World) -> None:
    one, two = (propose(shop, name, {f"specs/{name}": "1"}) for name in ("one", "two"))
    commit(shop, {"notes": "1"})
    rows = enqueue(shop, one, two)
    end(rows[1], is_green=False)
    advance(shop, *rows)
    assert rows[1].state == QueueState.RED
    assert rows[1].build is not None
    again = retry_build(build=rows[1].build, by=shop.maker)
    assert states_of(rows[1]) == [QueueState.TESTING]
    assert rows[1].build == again
    end(rows[1])
    assert states_of(rows[1]) == [QueueState.GREEN]


@pytest.mark.parametrize("point", ["_land", "_record_landed", "_start_build"])
def test_a_landing_that_is_cut_is_taken_on_once(shop: World, point: str) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    commit(shop, {"notes": "1"})
    [queued] = enqueue(shop, pull)
    end(queued)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, point, die)
        with pytest.raises(Crash):
            advance(shop)
    assert states_of(queued) == [QueueState.LANDING]
    with pytest.raises(Conflict):
        leave_queue(pull=pull, by=shop.maker)
    Merge.objects.update(created_at=clock.now() - timedelta(minutes=1))
    merging.sweep_merges()
    advance(shop, queued)
    assert (queued.state, head(shop)) == (QueueState.LANDED, queued.tested_sha)
    assert Build.objects.filter(trigger="merge").count() == 1
    assert kinds(pull).count("merged") == 1


def test_a_landing_that_loses_the_race_is_tested_again(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    commit(shop, {"notes": "1"})
    [queued] = enqueue(shop, pull)
    end(queued)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_land", die)
        with pytest.raises(Crash):
            advance(shop)
    moved = commit(shop, {"notes": "2"})
    Merge.objects.update(created_at=clock.now() - timedelta(minutes=1))
    merging.sweep_merges()
    advance(shop, queued)
    assert Merge.objects.get().state == MergeState.ABANDONED
    assert (queued.state, queued.base_sha, head(shop)) == (QueueState.TESTING, moved, moved)
    end(queued)
    advance(shop, queued)
    assert (queued.state, head(shop)) == (QueueState.LANDED, queued.tested_sha)


def test_a_worker_that_dies_over_a_test_is_replaced(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    commit(shop, {"notes": "1"})
    queued = enqueue_pull(pull=pull, by=shop.maker)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queueing, "_start_build", die)
        with pytest.raises(Crash):
            advance(shop)
    advance(shop, queued)
    assert (queued.state, queued.build) == (QueueState.TESTING, None), "another worker seems to be at it"
    QueuedMerge.objects.update(lease_until=clock.now() - timedelta(seconds=1))
    advance(shop, queued)
    advance(shop, queued)
    assert Build.objects.get() == queued.build


def die(*_args: Any, **_kwargs: Any) -> None:
    raise Crash


def test_a_required_merge_result_is_given_by_the_queue_alone(shop: World) -> None:
    pull = propose(shop, "one", {"specs/a": "2"})
    Protection.objects.create(repository=shop.repository, branch="master", approvals=0, checks=[MERGE_RESULT])
    assert queries.list_blockers(pull) == [], "the target has not moved"
    commit(shop, {"notes": "1"})
    pulls.refresh_pull(pull=pull)
    with pytest.raises(MergeBlocked, match="1 commit that the branch was not built with") as refused:
        merge_pull(pull=pull, by=shop.maker)
    assert [blocker["code"] for blocker in refused.value.extra["blocked_by"]] == ["merge_result_untested"]

    [queued] = enqueue(shop, pull)
    [check] = [check for check in queries.list_checks(pull) if check.name == MERGE_RESULT]
    assert (check.state, check.detail, check.build) == ("pending", "what would land is being tested", queued.build_id)
    end(queued)
    assert queries.list_blockers(pull) == []
    advance(shop, queued)
    assert queued.state == QueueState.LANDED


def test_rest_and_pages_show_the_queue_and_lead_out_of_it(shop: World) -> None:
    one, two = (propose(shop, name, {f"specs/{name}": "1"}) for name in ("one", "two"))
    commit(shop, {"notes": "1"})
    writer = principal_for_user(User.objects.create_user("wim"))
    grant_role(repository="shop", user=User.objects.get(username="wim"), role="writer", by=None)
    client, rest = (a(User.objects.get(pk=writer.user_id)) for a in (a_client, a_rest_client))
    assert "Nothing waits to be merged" in read_page(client, "/r/shop/queue")
    assert "Merge when ready" in read_page(client, f"/r/shop/pulls/{one.number}")
    form = {"method": "squash", "rebuild": "affected", "expected_head": one.head_sha}
    assert client.post(f"/r/shop/pulls/{one.number}/queue", form).status_code == 302

    at = f"/api/v1/repositories/shop/pulls/{two.number}/queue"
    answer = rest.post(at, {"expected_head": "0" * 40}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "head_moved")
    answer = rest.post(at, {}, format="json")
    assert answer.status_code == 202
    assert (answer.json()["place"], answer.json()["state"]) == (2, "queued")
    assert rest.post(at, {}, format="json").json()["code"] == "queued_already"

    advance(shop)
    listed = rest.get(f"{QUEUE}?target=master").json()["results"]
    assert [(row["number"], row["place"], row["state"], row["method"]) for row in listed] == [
        (one.number, 1, "testing", "squash"),
        (two.number, 2, "testing", "merge"),
    ]
    assert listed[1]["base"] == listed[0]["tested"]
    assert rest.get(f"{QUEUE}?target=other").json()["results"] == []
    assert rest.get(f"/api/v1/repositories/shop/pulls/{two.number}").json()["queued"] == listed[1]
    page = read_page(client, "/r/shop/queue")
    assert "Into master" in page
    assert "Change one" in page
    assert "Number 2 in the merge queue" in read_page(client, f"/r/shop/pulls/{two.number}")

    assert client.post(f"/r/shop/pulls/{two.number}/leave-queue").status_code == 302
    assert rest.delete(at).json()["code"] == "not_queued"
    end(QueuedMerge.objects.get(pull=one), is_green=False)
    advance(shop)
    page = read_page(client, f"/r/shop/pulls/{one.number}")
    assert "Ejected from the merge queue" in page
    assert "no column x" in page
    assert "Merge when ready" in page
    assert "Landed or left" in read_page(client, "/r/shop/queue")

    reader, stranger = User.objects.create_user("rita"), User.objects.create_user("sam")
    grant_role(repository="shop", user=reader, role="reader", by=None)
    assert a_rest_client(reader).get(QUEUE).status_code == 200
    assert a_rest_client(reader).post(at, {}, format="json").status_code == 403
    assert a_rest_client(reader).delete(at).status_code == 403
    assert a_rest_client(stranger).get(QUEUE).status_code == 404
    assert a_client(stranger).get("/r/shop/queue").status_code == 404
