"""Pages and endpoints of builds: what each role sees, every state drawn, refusals in their shape."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.factories import datasets, repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from tests.factories.pages import list_ticked, read_page
from webapp.accounts.models import User
from webapp.builds.models import Build, Job
from webapp.builds.pages import builds as build_pages
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import builds
from webapp.core import clock
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.dispatch.logs import LogWriter
from webapp.pulls.services import close_pull, open_pull

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
    page = read_page(browser_of(world.maker.user_id).get(f"/builds/{build.pk}"))
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


def test_finished_build_page_offers_another_try_to_who_may_start_it(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    for job in build.jobs.exclude(state__in=["FAILED", "ABORTED", "COMPLETED"]):
        Job.objects.filter(pk=job.pk).update(state=JobState.RUN_PENDING)
        builds.end_job(job=job, state=JobState.ABORTED, reason="x")
    builds.advance_build(build=build)
    browser = browser_of(world.maker.user_id)
    page = read_page(browser.get(f"/builds/{build.pk}"))
    assert f"/builds/{build.pk}/retry" in page
    assert f"/events/builds/{build.pk}" not in page
    reader = browser_of(repositories.a_member(world.repository, "reader").user_id)
    shown = read_page(reader.get(f"/builds/{build.pk}"))
    assert f"/builds/{build.pk}/retry" not in shown
    assert "Retry" in shown  # greyed, with the reason
    answer = browser.post(f"/builds/{build.pk}/retry")
    assert answer.status_code == 302
    assert Build.objects.get(pk=int(answer["Location"].split("/")[-1])).retry_of == build
    Build.objects.filter(pk=build.pk).update(state=BuildState.COMPLETED)
    for client in (browser, reader):
        assert "Retry" not in read_page(client.get(f"/builds/{build.pk}")), "there is nothing to try again"


def test_banner_names_each_failure_with_its_cause_and_line(world: World, browser_of: Callable[[int], Client]) -> None:
    sha = repositories.a_commit(world.repository, {"pipelines/m.py": "1\n2\n"}).sha
    world.publish(
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
        a_jobspec("three", inputs=["/shop/raw"], outputs=["/shop/three"]),
        a_jobspec("four", inputs=["/shop/three"], outputs=["/shop/four"]),
        a_jobspec("five", inputs=["/shop/two", "/shop/four"], outputs=["/shop/five"]),
        a_jobspec("six", inputs=["/shop/raw"], outputs=["/shop/six"]),
    )
    build = world.start("/shop/five", "/shop/six", upstream=True)
    jobs = {job.function.partition(":")[2]: job for job in build.jobs.all()}
    for name, line in (("one", 1), ("three", 2)):
        Job.objects.filter(pk=jobs[name].pk).update(sha=sha, repository="shop")
        error = {"message": name, "file": "pipelines/m.py", "line": line}
        builds.end_job(job=jobs[name], state=JobState.FAILED, reason=f"KeyError: {name}", error=error)
        builds.advance_build(build=build)
    number = {name: job.number for name, job in jobs.items()}
    page = read_page(browser_of(world.maker.user_id).get(f"/builds/{build.pk}"))
    for name, made, stopped, line in (("one", "one", "two", 1), ("three", "three", "four", 2)):
        below = " and ".join(map(str, sorted((number[stopped], number["five"]))))
        assert (
            f"Job {number[name]} failed, /shop/{made}.</b>KeyError: {name} Jobs {below} were not run because of it."
            in page
        )
        assert f'href="/r/shop/blob/{sha}/pipelines/m.py#L{line}"' in page
        assert f'href="/builds/{build.pk}?job={number[name]}#log-title"' in page
    assert f"Job {number['six']} goes on." in page


def test_build_that_could_not_be_planned_says_why(world: World, browser_of: Callable[[int], Client]) -> None:
    build = world.start("/shop/nothing")
    page = read_page(browser_of(world.maker.user_id).get(f"/builds/{build.pk}"))
    assert "This build could not be planned." in page
    assert "No JobSpec makes /shop/nothing" in page
    assert "Commit a transform with it as output, or load a file into it." in page


def test_reader_sees_the_build_and_why_he_cannot_cancel(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    reader = repositories.a_member(world.repository, "reader")
    browser = browser_of(reader.user_id)
    page = read_page(browser.get(f"/builds/{build.pk}"))
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
    assert f'href="/builds/{build.pk}"' in read_page(browser.get("/builds?branch=feature"))
    assert "No build matches" in read_page(browser.get("/builds?branch=elsewhere"))
    assert f'href="/builds/{build.pk}"' in read_page(browser.get("/r/shop/builds?state=RUNNING"))
    assert browser.get("/builds?state=NONSENSE").status_code == 422
    stranger = browser_of(repositories.a_person().user_id)
    page = read_page(stranger.get("/builds"))
    assert f'href="/builds/{build.pk}"' not in page
    assert "No build yet" in page


def test_list_shows_what_it_is_filtered_by(world: World, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    page = read_page(browser.get("/builds?branch=elsewhere&by=x&repository=y&page=2"))
    assert "<option selected>elsewhere</option>" in page
    for name, value, rest in (
        ("by", "x", "branch=elsewhere&amp;repository=y"),
        ("repository", "y", "branch=elsewhere&amp;by=x"),
    ):
        assert f'<input type="hidden" name="{name}" value="{value}">' in page
        assert f'<a class="chip" aria-current="true" href="?{rest}">' in page
    assert "remove this filter" not in read_page(browser.get("/r/shop/builds?repository=y"))


def test_states_to_filter_by_are_called_as_rows_call_them(world: World, browser_of: Callable[[int], Client]) -> None:
    page = read_page(browser_of(world.maker.user_id).get("/r/shop/builds?state=RUNNING"))
    assert '<option value="RUNNING" selected>Running</option>' in page


@pytest.mark.usefixtures("build")
def test_next_page_keeps_the_filters(
    world: World, browser_of: Callable[[int], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_pages, "PAGE_SIZE", 1)
    world.start("/shop/one", resolve=False)
    filters = "by=maker-of-shop&amp;repository=shop"
    page = read_page(browser_of(world.maker.user_id).get("/builds?by=maker-of-shop&repository=shop"))
    assert f'<a class="btn" rel="next" href="?{filters}&amp;page=2&amp;cursor=' in page


@pytest.mark.parametrize(
    ("filters", "is_counted", "moves"),
    [
        ("", True, True),
        ("branch=feature", True, True),
        ("branch=elsewhere", False, False),
        ("state=COMPLETED", False, True),
        ("by=x", False, False),
    ],
)
@pytest.mark.usefixtures("build")
def test_list_counts_what_runs_among_what_it_shows(
    world: World, browser_of: Callable[[int], Client], filters: str, is_counted: bool, moves: bool
) -> None:
    page = read_page(browser_of(world.maker.user_id).get(f"/builds?{filters}"))
    assert ("1 running" in page) is is_counted
    assert ('hx-trigger="every 4s"' in page) is moves


def test_build_without_a_title_is_called_by_what_it_makes(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    Build.objects.filter(pk=build.pk).update(title="")
    browser = browser_of(world.maker.user_id)
    for address in (f"/builds/{build.pk}", "/builds", f"/search?q={build.pk}", "/"):
        assert "Build of /shop/two" in read_page(browser.get(address)), address


def test_new_build_shows_the_plan_before_it_starts(world: World, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    empty = read_page(browser.get("/builds/new?repository=shop&chosen=1"))
    assert "Choose what to build" in empty
    planned = read_page(browser.get("/builds/new?repository=shop&branch=master&target=/shop/two&upstream=1"))
    assert "2 of 2 jobs run" in planned
    assert "Start build" in planned
    refused = read_page(browser.get("/builds/new?repository=shop&branch=master&target=/shop/two"))
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


def test_new_build_has_ticked_what_is_stale(world: World, browser_of: Callable[[int], Client]) -> None:
    world.publish(
        a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]),
        a_jobspec("two", inputs=["/shop/one"], outputs=["/shop/two"]),
        a_jobspec("lost", inputs=["/shop/nowhere"], outputs=["/shop/lost"]),
    )
    browser = browser_of(world.maker.user_id)
    page = read_page(browser.get("/builds/new?repository=shop"))
    assert list_ticked(page) == ["/shop/one", "/shop/two"]  # what nothing can be made from would spoil the plan
    assert "All that is stale (2)" in page
    assert "2 of 2 jobs run" in page
    assert "Start build" in page
    assert list_ticked(browser.get("/builds/new?repository=shop&chosen=1&target=/shop/one&pick=none").content) == []
    again = browser.get("/builds/new?repository=shop&chosen=1&target=/shop/lost&pick=stale")
    assert list_ticked(again.content) == ["/shop/one", "/shop/two"]


def test_new_build_takes_in_what_lies_downstream(world: World, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    page = read_page(browser.get("/builds/new?repository=shop&target=/shop/one&downstream=1"))
    assert list_ticked(page) == ["/shop/one"]
    assert "1 dataset downstream" in page
    assert "2 of 2 jobs run" in page
    targets = re.findall(r'<input type="hidden" name="target" value="([^"]+)"', page)
    assert browser.post("/builds/new", {"repository": "shop", "target": targets}).status_code == 302
    assert Build.objects.latest("pk").targets == ["/shop/one", "/shop/two"]


def test_new_build_lists_the_first_of_many_datasets_and_finds_the_others(
    world: World, browser_of: Callable[[int], Client]
) -> None:
    world.publish(
        *(a_jobspec(f"f{n}", inputs=["/shop/nowhere"], outputs=[f"/shop/many/{n:02}"]) for n in range(70)),
        a_jobspec("last", inputs=["/shop/raw"], outputs=["/shop/z/last"]),
    )
    browser = browser_of(world.maker.user_id)
    page = read_page(browser.get("/builds/new?repository=shop"))
    assert list_ticked(page) == ["/shop/z/last"]  # stale, and therefore above those that are listed by name
    listed = re.findall(r'data-item="(/shop/[^"]+)"', page)
    assert listed == ["/shop/z/last", *(f"/shop/many/{n:02}" for n in range(50))]
    assert "20 more: type a part of the name" in page
    address = "/builds/new?repository=shop&chosen=1&target=/shop/z/last&target=/shop/many/07"
    part = read_page(browser.get(f"{address}&fragment=targets&q=MANY/6", headers={"HX-Request": "true"}))
    assert "<html" not in part
    assert list_ticked(part) == ["/shop/many/07", "/shop/z/last"]
    listed = re.findall(r'data-item="(/shop/[^"]+)"', part)
    assert listed == ["/shop/many/07", "/shop/z/last", *(f"/shop/many/{n}" for n in range(60, 70))]
    whole = read_page(browser.get(f"{address}&q=nothing"))
    assert list_ticked(whole) == ["/shop/many/07", "/shop/z/last"]
    assert 'name="q" value="nothing"' in whole


def test_new_build_makes_the_plan_alone_when_a_tick_changes(world: World, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    htmx = {"HX-Request": "true"}
    plan = read_page(browser.get("/builds/new?repository=shop&chosen=1&target=/shop/one", headers=htmx))
    assert "1 of 1 job runs" in plan
    assert 'type="checkbox"' not in plan
    none = read_page(browser.get("/builds/new?repository=shop&chosen=1", headers=htmx))
    assert "Choose what to build" in none
    restored = {**htmx, "HX-History-Restore-Request": "true"}
    assert "<html" in read_page(browser.get("/builds/new?repository=shop&chosen=1", headers=restored))


def test_pickers_of_builds_find_branches_that_they_do_not_list(
    world: World, browser_of: Callable[[int], Client]
) -> None:
    git = world.repository.git
    for number in range(60):
        git.create_branch(f"b/{number:02}", git.get_head("master"))
    browser = browser_of(world.maker.user_id)
    for page, address in (
        ("/builds/new?repository=shop", "/builds/new?branch=b%2F59&repository=shop"),
        ("/r/shop/jobspecs", "/r/shop/jobspecs?branch=b%2F59"),
    ):
        shown = read_page(browser.get(page))
        assert "11 more: type a part of the name" in shown
        url = html.unescape(re.findall(r'data-finds="[^"]+" hx-get="([^"]+)"', shown)[0])
        part = read_page(browser.get(f"{url}&find=59", headers={"HX-Request": "true"}))
        assert [html.unescape(link) for link in re.findall(r'<a href="([^"]+)"', part)] == [address]


def test_new_build_shows_a_reader_the_plan_and_why_it_is_not_his_to_start(
    world: World, browser_of: Callable[[int], Client]
) -> None:
    reader = repositories.a_member(world.repository, "reader")
    browser = browser_of(reader.user_id)
    page = read_page(browser.get("/builds/new?repository=shop"))
    assert "jobs run" in page
    assert "You may look, not start this." in page
    assert '<button class="btn primary"' not in page
    assert browser.post("/builds/new", {"repository": "shop", "target": "/shop/one"}).status_code == 422
    assert not Build.objects.exists()


def test_new_build_calls_nothing_fresh_that_cannot_be_built(world: World, browser_of: Callable[[int], Client]) -> None:
    world.publish()
    world.publish(a_jobspec("lost", inputs=["/shop/nowhere"], outputs=["/shop/lost"]))
    page = read_page(browser_of(world.maker.user_id).get("/builds/new?repository=shop"))
    assert "Everything here is fresh" not in page


def test_new_build_says_where_everything_is_fresh(world: World, browser_of: Callable[[int], Client]) -> None:
    world.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]))
    browser = browser_of(world.maker.user_id)
    assert "Everything here is fresh" not in read_page(browser.get("/builds/new?repository=shop"))
    build = world.start("/shop/one")
    build.jobs.update(state=JobState.COMPLETED, finished_at=clock.now())
    Transaction.objects.filter(state=TransactionState.OPEN).update(
        state=TransactionState.COMMITTED, closed_at=clock.now(), schema_id=0
    )
    page = read_page(browser.get("/builds/new?repository=shop"))
    assert "Everything here is fresh" in page
    assert "All that is stale (0)" in page
    assert list_ticked(page) == []
    assert "Start build</button>" not in page
    # Newer data of the input end it.
    dataset = Dataset.objects.get(path="/shop/raw")
    datasets.write(datasets.a_client(world.user), dataset, rows=1, total=4)
    page = read_page(browser.get("/builds/new?repository=shop"))
    assert "Everything here is fresh" not in page
    assert list_ticked(page) == ["/shop/one"]


def test_completed_build_leads_to_its_rows_and_a_pull_request(
    world: World, build: Build, browser_of: Callable[[int], Client]
) -> None:
    browser = browser_of(world.maker.user_id)
    address = f"/builds/{build.pk}"
    assert "See the rows" not in read_page(browser.get(address))
    Build.objects.filter(pk=build.pk).update(state="COMPLETED", finished_at=clock.now(), targets=["/shop/more"])
    page = read_page(browser.get(address))
    assert re.search(r'href="/d/shop/more\?branch=feature">.*See the rows', page)
    assert 'href="/r/shop/pulls/new?source=feature"' in page
    repositories.a_commit(world.repository, {"a.txt": "1"}, branch="feature", message="Count")
    order = {"repository": world.repository, "source": "feature", "target": "master", "title": "T"}
    pull = open_pull(**order, by=world.maker)
    page = read_page(browser.get(address))
    assert f"Go to pull request #{pull.number}" in page
    assert f'href="/r/shop/pulls/{pull.number}"' in page
    assert "Open a pull request" not in page
    close_pull(pull=pull, by=world.maker)
    assert "Open a pull request" in read_page(browser.get(address))
    reader = repositories.a_member(world.repository, "reader")
    seen = read_page(browser_of(reader.user_id).get(address))
    assert "See the rows" in seen
    assert "Open a pull request" not in seen
    Build.objects.filter(pk=build.pk).update(branch="master")
    assert "Open a pull request" not in read_page(browser.get(address))


def test_jobspecs_page_sidebars_and_lineage(world: World, build: Build, browser_of: Callable[[int], Client]) -> None:
    browser = browser_of(world.maker.user_id)
    page = read_page(browser.get("/r/shop/jobspecs?branch=feature"))
    assert "by fallback" in page
    assert "/shop/apart2" in page
    sidebar = read_page(browser.get("/r/shop/jobspecs?fragment=sidebar"))
    assert "<html" not in sidebar
    assert "Published JobSpecs" in sidebar
    assert "Latest build on feature" in read_page(browser.get("/r/shop/builds?fragment=sidebar&branch=feature"))
    dataset = Dataset.objects.get(path="/shop/one")
    lineage = read_page(browser.get(f"/datasets/{dataset.pk}/lineage"))
    assert 'data-node="shop-raw"' in lineage
    assert 'data-node="shop-two"' in lineage
    assert "Plan a build" in read_page(browser.get(f"/datasets/{dataset.pk}/lineage?fragment=freshness"))


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
        ({"branch": "master", "targets": ["/shop/one"], "unknown": 1}, 400),
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
