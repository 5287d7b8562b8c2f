"""What merging costs is said before the button: what the jobs took when they ran last."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.factories import repositories as make
from tests.integration.pulls.test_merging import publish
from webapp.accounts.models import User
from webapp.builds.models import Build, Job, JobOutput
from webapp.builds.queries import read_costs
from webapp.builds.rules.states import BuildState, JobState
from webapp.core import clock
from webapp.datasets.models import Dataset
from webapp.pulls.models import PullRequest
from webapp.pulls.services import pulls
from webapp.repositories.models import Publication
from webapp.repositories.rules.states import PublicationState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def pull(home: Any, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A pull request that changes the JobSpecs of two datasets."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines", is_admin=True)
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    for name in ("a", "b"):
        publish(repository, "master", "1", name=name)
        publish(repository, "feature", "2", name=name)
    Publication.objects.filter(repository=repository).update(status=PublicationState.PUBLISHED)
    return pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


def a_run(*paths: str, branch: str, seconds: float, rows: int, state: str = JobState.COMPLETED, **more: Any) -> Job:
    """A job of a build of its own that has made these datasets."""
    by = User.objects.get(username="ines")
    build = Build.objects.create(branch=branch, chain=[branch], targets=list(paths), by=by, state=BuildState.COMPLETED)
    end = clock.now()
    times = {"started_at": end - timedelta(seconds=seconds), "finished_at": end}
    job = Job.objects.create(build=build, number=1, state=state, **times, **more)
    for path in paths:
        Dataset.objects.get_or_create(path=path, defaults={"table": path})
        JobOutput.objects.create(job=job, name="out", path=path, summary={"rows": rows})
    return job


def read(pull: PullRequest) -> str:
    client = Client()
    client.force_login(User.objects.get(username="ines"))
    return " ".join(client.get(f"/r/shop/pulls/{pull.number}").content.decode().split())


def test_the_newest_jobs_of_either_branch_are_added_up(pull: PullRequest) -> None:
    paths, branches = ("/shop/a", "/shop/b", "/shop/c"), ("feature", "master")
    a_run("/shop/a", branch="master", seconds=1000, rows=1)
    a_run("/shop/a", branch="feature", seconds=60, rows=1200)
    a_run("/shop/b", branch="master", seconds=9, rows=34)
    a_run("/shop/b", branch="elsewhere", seconds=5000, rows=5)
    a_run("/shop/b", branch="master", seconds=5000, rows=5, state=JobState.FAILED)
    a_run("/shop/b", branch="master", seconds=5000, rows=5, skipped=True)
    cost, of_one = read_costs([paths, paths[:1]], branches=branches)
    assert (cost.jobs, round(cost.seconds), cost.rows, cost.unknown) == (2, 69, 1234, 1)
    assert (of_one.jobs, round(of_one.seconds), of_one.rows, of_one.unknown) == (1, 60, 1200, 0)
    a_run("/shop/a", "/shop/b", branch="feature", seconds=10, rows=7)
    (cost,) = read_costs([paths], branches=branches)
    assert (cost.jobs, round(cost.seconds), cost.rows, cost.unknown) == (1, 10, 14, 1), "one job made both"


def test_costs_are_found_without_the_history_of_a_dataset(
    pull: PullRequest, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        a_run("/shop/a", branch="master", seconds=1, rows=1)
    with django_assert_num_queries(1) as asked:
        (cost,) = read_costs([["/shop/a"]], branches=["master"])
    assert cost.jobs == 1
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + asked.captured_queries[0]["sql"])
            steps = [step for *_, step in cursor.fetchall()]
        assert "SEARCH U0 USING INDEX output_newest (path=?)" in steps
        assert not [step for step in steps if "TEMP B-TREE" in step]


def test_the_box_says_what_it_took_and_what_nobody_knows(pull: PullRequest) -> None:
    assert "Nobody has built them yet: what it takes is not known." in read(pull)
    a_run("/shop/a", branch="feature", seconds=69, rows=1234)
    page = read(pull)
    assert "When last built, that took 1 job and 1 min 09 s of work for" in page
    assert "; 1 dataset never built." in page


def test_what_the_reader_may_not_see_is_rebuilt_and_counted_too(
    pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.accounts.permissions.list_hidden", lambda *_: {"/shop/b"})
    page = read(pull)
    assert "Not listed: 1 dataset that you may not see" in page
    assert "and 2 datasets into" in page
    assert "Merging rebuilds <b>2 datasets</b>" in page
