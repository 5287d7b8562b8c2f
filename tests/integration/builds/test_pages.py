"""Pages and endpoints of builds: what each role sees, every state drawn, refusals in their shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.factories import repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.accounts.models import User
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import JobState
from webapp.builds.runner import paths
from webapp.builds.runner.logs import LogWriter
from webapp.builds.services import builds
from webapp.core import clock
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def world(home: Any) -> World:
    """Return transforms of which one fails, one runs, one waits and one is done."""
    made = a_world()
    made.publish(
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
        a_jobspec("apart", inputs=["/shop/raw"], outputs=["/shop/apart", "/shop/apart2"]),
        a_jobspec("more", inputs=["/shop/raw"], outputs=["/shop/more"]),
    )
    return made


@pytest.fixture
def build(world: World) -> Build:
    """Return a build on a branch in the middle of its work."""
    world.branch("feature")
    made = world.start("/shop/two", "/shop/apart", "/shop/more", upstream=True, branch="feature")
    failed = made.jobs.get(function="pipelines.m:one")
    Job.objects.filter(pk=failed.pk).update(
        state=JobState.RUNNING, attempt=1, started_at=clock.now(), lease_until=clock.now()
    )
    log = LogWriter(paths.log_path(failed.pk))
    log.write("ValueError: <script>alert(1)</script>")
    log.end("failed", 1)
    log.close()
    builds.end_job(job=failed, state=JobState.FAILED, reason="ValueError: <b>no</b> (pipelines/m.py:3)")
    builds.advance_build(build=made)
    made.jobs.filter(function="pipelines.m:apart").update(
        state=JobState.RUNNING,
        attempt=1,
        started_at=clock.now(),
        lease_until=clock.now(),
        progress={"done": 31, "total": 50, "unit": "rows"},
    )
    made.refresh_from_db()
    return made


@pytest.fixture
def browser_of() -> Callable[[int], Client]:
    """Return a signed-in browser of a user."""

    def make(user_id: int) -> Client:
        client = Client()
        client.force_login(User.objects.get(pk=user_id))
        return client

    return make


def test_build_page_shows_every_state_and_escapes_what_jobs_say(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    page = browser_of(world.maker.user_id).get(f"/builds/{build.pk}").content.decode()
    for words in (
        f"Build {build.pk}",
        "1 failed",
        "1 running",
        "1 aborted",
        "1 waiting",
        "31 of 50 rows · 62 %",
        "Not run: job",
        "this branch",
        "by fallback",
        "Cancel",
        f"/events/builds/{build.pk}",
        "First error",
        "Plan as JSON",
    ):
        assert words in page, words
    assert "<script>alert" not in page
    assert "<b>no</b>" not in page
    assert 'data-node="job-1"' in page
    fragment = browser_of(world.maker.user_id).get(f"/builds/{build.pk}?fragment=live", headers={"HX-Request": "true"})
    assert b"<html" not in fragment.content
    assert b'id="build-live"' in fragment.content


def test_finished_build_page_offers_another_try(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    for job in build.jobs.exclude(state__in=["FAILED", "ABORTED", "COMPLETED"]):
        Job.objects.filter(pk=job.pk).update(state=JobState.RUN_PENDING)
        builds.end_job(job=job, state=JobState.ABORTED, reason="x")
    builds.advance_build(build=build)
    browser = browser_of(world.maker.user_id)
    page = browser.get(f"/builds/{build.pk}").content.decode()
    assert "Retry" in page
    assert f"/events/builds/{build.pk}" not in page
    answer = browser.post(f"/builds/{build.pk}/retry")
    assert answer.status_code == 302
    assert Build.objects.get(pk=int(answer["Location"].split("/")[-1])).retry_of == build


def test_build_that_could_not_be_planned_says_why(world: World, browser_of: Callable[[int], Client]) -> None:
    build = world.start("/shop/nothing")
    page = browser_of(world.maker.user_id).get(f"/builds/{build.pk}").content.decode()
    assert "This build could not be planned." in page
    assert "No JobSpec makes /shop/nothing" in page


def test_reader_sees_the_build_and_why_he_cannot_cancel(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    reader = repositories.a_member(world.repository, "reader")
    browser = browser_of(reader.user_id)
    page = browser.get(f"/builds/{build.pk}").content.decode()
    assert f"/builds/{build.pk}/cancel" not in page
    assert "is not enough" in page
    assert browser.post(f"/builds/{build.pk}/cancel").status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/builds/{build}",
        "/builds/{build}/plan",
        "/jobs/{job}/log",
        "/r/shop/builds",
        "/r/shop/jobspecs",
        "/datasets/{dataset}/lineage",
        "/builds/new?repository=shop",
    ],
)
def test_pages_are_for_those_who_may_see_them(
    world: World, build: Build, browser_of: Callable[[int], Client], path: str
) -> None:
    job = build.jobs.get(function="pipelines.m:one")
    url = path.format(build=build.pk, job=job.pk, dataset=Dataset.objects.get(path="/shop/one").pk)
    assert browser_of(world.maker.user_id).get(url).status_code == 200
    assert browser_of(repositories.a_person().user_id).get(url).status_code == 404
    assert Client().get(url)["Location"].startswith("/login?next=")


def test_lists_filter_and_hide_what_is_not_yours(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    browser = browser_of(world.maker.user_id)
    assert f'href="/builds/{build.pk}"' in browser.get("/builds?branch=feature").content.decode()
    assert "No build matches" in browser.get("/builds?branch=elsewhere").content.decode()
    assert f'href="/builds/{build.pk}"' in browser.get("/r/shop/builds?state=RUNNING").content.decode()
    assert browser.get("/builds?state=NONSENSE").status_code == 422
    stranger = browser_of(repositories.a_person().user_id)
    page = stranger.get("/builds").content.decode()
    assert f'href="/builds/{build.pk}"' not in page
    assert "No build yet" in page


def test_new_build_shows_the_plan_before_it_starts(world: World, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    assert "Choose what to build" in browser.get("/builds/new?repository=shop").content.decode()
    planned = browser.get("/builds/new?repository=shop&branch=master&target=/shop/two&upstream=1").content.decode()
    assert "2 of 2 jobs run" in planned
    assert "Start build" in planned
    refused = browser.get("/builds/new?repository=shop&branch=master&target=/shop/two").content.decode()
    assert "which has no data on any branch of the chain" in refused
    assert "Start build" not in refused
    before = Build.objects.count()
    bad = browser.post("/builds/new", {"repository": "shop", "branch": "master", "target": "/shop/two"})
    assert (bad.status_code, Build.objects.count()) == (422, before)
    answer = browser.post(
        "/builds/new", {"repository": "shop", "branch": "master", "target": "/shop/two", "upstream": "1"}
    )
    assert answer.status_code == 302
    assert Build.objects.latest("pk").upstream is True


def test_jobspecs_page_sidebars_and_lineage(world: World, build: Build, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    page = browser.get("/r/shop/jobspecs?branch=feature").content.decode()
    assert "by fallback" in page
    assert "/shop/apart2" in page
    sidebar = browser.get("/r/shop/jobspecs?fragment=sidebar").content.decode()
    assert "<html" not in sidebar
    assert "Published JobSpecs" in sidebar
    assert "Latest build on feature" in browser.get("/r/shop/builds?fragment=sidebar&branch=feature").content.decode()
    dataset = Dataset.objects.get(path="/shop/one")
    lineage = browser.get(f"/datasets/{dataset.pk}/lineage").content.decode()
    assert 'data-node="shop-raw"' in lineage
    assert 'data-node="shop-two"' in lineage
    assert "Plan a build" in browser.get(f"/datasets/{dataset.pk}/lineage?fragment=freshness").content.decode()


def test_log_is_downloaded_as_text(world: World, build: Build, browser_of: Callable[[int], Client]) -> None:
    job = build.jobs.get(function="pipelines.m:one")
    answer = browser_of(world.maker.user_id).get(f"/jobs/{job.pk}/log")
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert b"__END__ failed rc=1" in b"".join(answer)
    silent = build.jobs.get(function="pipelines.m:more")
    assert browser_of(world.maker.user_id).get(f"/jobs/{silent.pk}/log").status_code == 404


# --- the REST API ---------------------------------------------------------------------------------


def test_api_of_a_build(world: World, build: Build, api_client: Callable[..., APIClient]) -> None:
    client = api_client(world.user)
    found = client.get(f"/api/v1/builds/{build.pk}").json()
    assert found["state"] == "RUNNING"
    assert found["plan"]["branch"] == "feature"
    assert {job["state"] for job in found["jobs"]} == {"FAILED", "ABORTED", "RUNNING", "RUN_PENDING"}
    assert found["jobs"][0]["inputs"][0]["path"] == "/shop/raw"
    job = client.get(f"/api/v1/jobs/{found['jobs'][0]['id']}").json()
    assert job["outputs"][0]["transaction"]
    listed = client.get("/api/v1/builds?branch=feature").json()
    assert [each["id"] for each in listed["results"]] == [build.pk]
    assert "jobs" not in listed["results"][0]
    failed = build.jobs.get(function="pipelines.m:one")
    log = client.get(f"/api/v1/jobs/{failed.pk}/log").json()
    assert (log["next"], log["done"]) == (1, True)
    assert log["lines"][0]["stream"] == "job"
    assert client.get(f"/api/v1/jobs/{failed.pk}/log?after=x").status_code == 400
    cancelled = client.post(f"/api/v1/builds/{build.pk}/cancel")
    assert (cancelled.status_code, cancelled["Location"]) == (202, f"/api/v1/builds/{build.pk}")
    assert client.post(f"/api/v1/builds/{build.pk}/retry").status_code == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"branch": "master"}, 422),
        ({"branch": "master", "targets": "/shop/one"}, 422),
        ({"branch": "master", "targets": ["/shop/one"], "force": "yes"}, 422),
        ({"branch": "master", "targets": ["/shop/one"], "unknown": 1}, 422),
        ({"branch": "main", "targets": ["/shop/one"]}, 422),
        ({"branch": "master", "targets": ["/elsewhere/one"]}, 404),
        ({"branch": "master", "targets": ["/shop/one"], "repository": "elsewhere"}, 404),
    ],
)
def test_api_refuses_orders_it_cannot_read(
    world: World, api_client: Callable[..., APIClient], body: dict[str, Any], status: int
) -> None:
    answer = api_client(world.user).post("/api/v1/builds", body, format="json")
    assert answer.status_code == status, answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    assert Build.objects.count() == 0


def test_api_start_is_once_per_idempotency_key(world: World, api_client: Callable[..., APIClient]) -> None:
    client = api_client(world.user)
    order = {"branch": "master", "targets": ["/shop/one"]}
    answers = [
        client.post("/api/v1/builds", order, format="json", headers={"Idempotency-Key": "k-1"}) for _ in range(2)
    ]
    assert [each.status_code for each in answers] == [202, 202]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert Build.objects.count() == 1


def test_api_hides_builds_of_others(world: World, build: Build, api_client: Callable[..., APIClient]) -> None:
    stranger = api_client(User.objects.get(pk=repositories.a_person().user_id))
    job = build.jobs.first()
    assert job is not None
    for path in (
        f"builds/{build.pk}",
        f"jobs/{job.pk}",
        f"jobs/{job.pk}/log",
        "repositories/shop/jobspecs",
        "builds/99999",
    ):
        assert stranger.get(f"/api/v1/{path}").status_code == 404
    for path in (f"builds/{build.pk}/cancel", f"builds/{build.pk}/retry"):
        assert stranger.post(f"/api/v1/{path}").status_code == 404
    assert stranger.get("/api/v1/builds").json()["results"] == []
    assert api_client().get("/api/v1/builds").status_code == 401


def test_api_lists_jobspecs_with_the_branch_of_each(world: World, api_client: Callable[..., APIClient]) -> None:
    world.branch("feature")
    world.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"], digest="d2"), branch="feature")
    found = api_client(world.user).get("/api/v1/repositories/shop/jobspecs?branch=feature").json()["results"]
    assert {spec["outputs"][0]["path"]: spec["branch"] for spec in found} == {
        "/shop/one": "feature",
        "/shop/two": "master",
        "/shop/apart": "master",
        "/shop/more": "master",
    }
