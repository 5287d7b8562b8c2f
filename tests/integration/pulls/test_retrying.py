"""A merge whose rebuild failed says what failed, and who may merge has it tried again from its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from tests.integration.pulls.test_merging import publish
from webapp.accounts.models import AuditEntry
from webapp.builds.models import Build, Job, JobOutput
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.services.builds import end_build
from webapp.core.errors import Conflict
from webapp.pulls.models import Merge, PullRequest
from webapp.pulls.rules.states import MergeState
from webapp.pulls.services import pulls, retry_rebuild
from webapp.pulls.services.merging import merge_pull
from webapp.repositories.models import Protection

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
HERE = "/r/shop/pulls/1"


@pytest.fixture
def pull(home: Path, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A merged pull request whose rebuild is about to begin."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [])
    repository = make.a_repository("shop")
    Protection.objects.all().delete()
    make.a_branch(repository, "feature")
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature")
    for name in ("a", "b"):
        publish(repository, "master", "1", name=name)
        publish(repository, "feature", "2", name=name)
    by = make.maker_of(repository)
    pull = pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=by)
    merge_pull(pull=pull, by=by)
    pull.refresh_from_db()
    return pull


def fail(pull: PullRequest, *paths: str, reason: str = "ValueError: no such rate") -> Build:
    """End the rebuild with jobs that failed, besides one that did not."""
    build = Merge.objects.get(pull=pull).build
    assert build is not None
    states = [(path, JobState.FAILED, reason) for path in paths] + [("/shop/other", JobState.COMPLETED, "")]
    for number, (path, state, said) in enumerate(states, start=1):
        job = Job.objects.create(build=build, number=number, state=state, reason=said)
        JobOutput.objects.create(job=job, name="out", path=path)
    end_build(build=build, state=BuildState.FAILED, reason="Something failed.")
    return build


def test_failed_jobs_are_named_and_a_click_tries_them_again(pull: PullRequest) -> None:
    build = fail(pull, "/shop/a")
    client = a_client(make.a_member(pull.repository, "writer", "a-writer"))
    page = read_page(client, HERE)
    assert "Merged, but the rebuild failed" in page
    assert "1 of 2 jobs failed." in page
    assert f'<a href="/builds/{build.pk}?job=1#log-title">Job 1: /shop/a</a>' in page
    assert "ValueError: no such rate" in page
    assert "The code is on master, not all of its data" in page

    answer = client.post(f"{HERE}/retry")

    assert (answer.status_code, answer["Location"]) == (302, f"{HERE}#merge-title")
    again = Build.objects.get(retry_of=build)
    page = read_page(client, HERE)
    assert f"Build {again.pk} tries it again." in page
    assert "Merged, the rebuild is running" in page
    assert f"Build {again.pk} rebuilds the data" in page
    assert f'action="{HERE}/retry"' not in page
    assert AuditEntry.objects.get(actor="a-writer").verb == "retry_build"

    end_build(build=again, state=BuildState.COMPLETED, reason="")
    page = read_page(client, HERE)
    assert "rebuild failed" not in page
    assert f'<a href="/builds/{again.pk}">Build {again.pk}</a>' in page


def test_only_the_last_try_is_tried_again_and_only_once(pull: PullRequest) -> None:
    fail(pull, "/shop/a")
    by = make.a_member(pull.repository, "writer")
    retry_rebuild(pull=pull, by=by)
    with pytest.raises(Conflict, match="no rebuild that failed") as refused:
        retry_rebuild(pull=pull, by=by)
    assert refused.value.code == "not_failed"
    assert Merge.objects.get(pull=pull).state == MergeState.BUILDING
    assert Build.objects.filter(trigger="retry").count() == 1


def test_what_has_not_failed_is_not_tried_again(pull: PullRequest) -> None:
    build = Merge.objects.get(pull=pull).build
    assert build is not None
    end_build(build=build, state=BuildState.COMPLETED, reason="")
    with pytest.raises(Conflict, match="no rebuild that failed"):
        retry_rebuild(pull=pull, by=make.maker_of(pull.repository))


def test_a_rebuild_that_was_cancelled_says_why_and_can_be_tried_again(pull: PullRequest) -> None:
    build = Merge.objects.get(pull=pull).build
    assert build is not None
    end_build(build=build, state=BuildState.ABORTED, reason="Cancelled by mira.")
    page = read_page(a_client(make.a_member(pull.repository, "writer", "a-writer")), HERE)
    assert "Cancelled by mira." in page
    assert f'action="{HERE}/retry"' in page


def test_of_many_failed_jobs_the_first_are_named(pull: PullRequest) -> None:
    fail(pull, *(f"/shop/n{number}" for number in range(7)))
    page = read_page(a_client(make.a_member(pull.repository, "reader", "a-reader")), HERE)
    assert "7 of 8 jobs failed." in page
    assert "Job 5: /shop/n4" in page
    assert "/shop/n5" not in page


def test_who_may_not_merge_is_shown_no_button_and_refused(pull: PullRequest) -> None:
    fail(pull, "/shop/a")
    client = a_client(make.a_member(pull.repository, "reader", "a-reader"))
    page = read_page(client, HERE)
    assert "A retry needs the role writer." in page
    assert f'action="{HERE}/retry"' not in page
    client.post(f"{HERE}/retry")
    assert "needs the role writer" in read_page(client, HERE)
    assert not Build.objects.filter(trigger="retry").exists()


def test_a_reason_is_text(pull: PullRequest) -> None:
    fail(pull, "/shop/a", reason="<script>alert(1)</script>")
    page = read_page(a_client(make.a_member(pull.repository, "reader", "a-reader")), HERE)
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
