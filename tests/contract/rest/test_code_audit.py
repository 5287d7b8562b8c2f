"""Reads of code and of job logs have an audit entry: one for each user, repository and hour.

A canary is in the files of a repository and in a log. Each operation or page whose answer shows it has to add an entry.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from django.test import Client

from tests.contract.rest.test_read_audit import list_reads
from tests.factories import repositories
from tests.factories.api_document import PREFIX
from tests.factories.crawl import Answer, ask
from tests.factories.everything import PULL, REPOSITORY, World, list_operations, list_pages, make_world
from webapp.accounts.models import AuditEntry
from webapp.accounts.services import readings
from webapp.builds.models import Job
from webapp.builds.runner.paths import log_path
from webapp.dispatch.logs import LogWriter
from webapp.pulls.models import PullRequest
from webapp.pulls.services import add_comment, refresh_pull
from webapp.repositories.models import Repository

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
FILE = "pipelines/formula.py"
CODE, LINE = "formula_of_mira_4711", "log-of-mira-4711"
PULL_PAGE = "/r/{repo}/pulls/{number}"
SHOW_CODE = {
    f"{REPOSITORY}/contents/{{path}}": "",
    f"{REPOSITORY}/commits/{{sha}}": "",
    f"{REPOSITORY}/compare": "base=master&head=fix",
    f"{PULL}/files": "",
    f"{PULL}/conflicts": "",
    "/r/{repo}": "",
    "/r/{repo}/blob/{rest}": "",
    "/r/{repo}/raw/{rest}": "",
    "/r/{repo}/edit/{rest}": "",
    "/r/{repo}/commit/{sha}": "",
    "/r/{repo}/compare": "base=master&head=fix",
    "/r/{repo}/pulls/new": "source=fix&target=master",
    PULL_PAGE: "",
    f"{PULL_PAGE}/code": "",
    f"{PULL_PAGE}/conflicts": "",
}
SHOW_LOG = {f"{PREFIX}/jobs/{{job_id}}/log", "/jobs/{job_id}/log", "/builds/{build_id}"}


@pytest.fixture
def world(readers: Path) -> World:
    """One of everything, with a canary in a file that both branches changed, in the README and in the log of a job."""
    world = make_world()
    shop = Repository.objects.get(name="shop")
    for branch in ("master", "fix"):
        files = {FILE: f"{CODE} = {branch!r}\n", "README.md": f"{CODE}\n"}
        commit = repositories.a_commit(shop, files, branch=branch)
    world.values |= {"path": FILE, "rest": f"master/{FILE}", "sha": commit.sha}
    pull = PullRequest.objects.get(number=world.values["number"])
    refresh_pull(pull=pull)
    add_comment(pull=pull, body="Why?", by=repositories.maker_of(shop), anchor={"path": FILE, "line": 1})
    writer = LogWriter(log_path(world.values["job_id"]))
    writer.write(LINE)
    writer.close()
    Job.objects.filter(pk=world.values["job_id"]).update(attempt=1)
    return world


def is_code_in(answer: Answer) -> bool:
    return CODE in answer.text or base64.b64encode(f"{CODE} = ".encode()).decode()[:20] in answer.text


def test_every_read_of_code_or_a_log_is_noted(world: World) -> None:
    browser = Client()
    browser.force_login(world.users["writer"])
    for path, query in {**SHOW_CODE, **dict.fromkeys(SHOW_LOG, "")}.items():
        answer, reads = list_reads(lambda: ask(browser, f"{world.address(path)}?{query}"))
        verb, is_shown = ("read_log", LINE in answer.text) if path in SHOW_LOG else ("read_code", is_code_in(answer))
        assert answer.status == 200, path
        assert is_shown, path
        assert [read[:3] for read in reads if read[1] in ("read_log", "read_code")] == [("a-writer", verb, "shop")], (
            path
        )
    readings.flush_readings()


def test_nothing_else_shows_code_or_a_log_without_noting_it(world: World) -> None:
    browser = Client(raise_request_exception=False)
    browser.force_login(world.users["admin"])
    addresses = [world.address(path) for method, path in list_operations() if method == "GET"]
    addresses += [world.address(path) for path in list_pages()]
    addresses += [f"{world.address(path)}?{query}" for path, query in SHOW_CODE.items() if query]
    shown, unnoted = 0, []
    for address in addresses:
        answer, reads = list_reads(lambda: ask(browser, address))
        verbs = {verb for _, verb, name, _ in reads if name == "shop"}
        if address.startswith(f"{PREFIX}/audit"):
            continue
        for is_shown, verb in ((is_code_in(answer), "read_code"), (LINE in answer.text, "read_log")):
            shown += is_shown
            if is_shown and verb not in verbs:
                unnoted.append((address, verb))
    assert unnoted == []
    assert shown > 12


def test_a_refused_read_or_one_without_code_is_none(world: World) -> None:
    browser = Client()
    browser.force_login(world.users["nobody"])
    for path in [*SHOW_CODE, *SHOW_LOG]:
        _answer, reads = list_reads(lambda: ask(browser, world.address(path)))
        assert reads == [], path
    browser.force_login(world.users["reader"])
    for path in (f"{REPOSITORY}/branches", f"{REPOSITORY}/commits", "/r/{repo}/commits", "/r/{repo}/branches", PULL):
        _answer, reads = list_reads(lambda: ask(browser, world.address(path)))
        assert reads == [], path


def test_many_reads_are_one_entry(world: World) -> None:
    browser = Client()
    browser.force_login(world.users["reader"])
    readings.flush_readings()
    AuditEntry.objects.filter(actor="a-reader").delete()
    for path in ("/r/shop", f"/r/shop/blob/master/{FILE}", f"/r/shop/raw/fix/{FILE}"):
        assert browser.get(path).status_code == 200
    readings.flush_readings()
    entries = AuditEntry.objects.filter(actor="a-reader").values_list("verb", "object", "count")
    assert sum(count for _, _, count in entries) == 3
    assert {entry[:2] for entry in entries} == {("read_code", "shop")}
    assert len(entries) <= 2  # two if an hour has just ended
