"""Pages cost the same in an installation of many as in one of few: in queries, and in how these find their rows."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urljoin

import pytest
from django.db import connection
from django.test import Client
from django.urls import resolve

from tests.factories import large
from tests.factories.everything import list_operations, list_pages, write_route
from webapp.accounts.queries import principal_for_user
from webapp.pulls.pages import conversation
from webapp.pulls.queries.waiting import list_reviews
from webapp.site.pages import home as home_page

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.timeout(900)]

GROWING = (
    "accounts_auditentry",
    "builds_build",
    "builds_job",
    "builds_jobinput",
    "builds_joboutput",
    "builds_publishedinput",
    "builds_publishedoutput",
    "builds_publishedspec",
    "datasets_dataset",
    "datasets_datasetbranch",
    "datasets_transaction",
    "notices_notification",
    "previews_codepreview",
    "pulls_comment",
    "pulls_pulldataset",
    "pulls_pullrequest",
    "pulls_review",
    "pulls_timelineevent",
    "sql_query",
)
"""Tables that no page may read from end to end."""


MOST_BYTES = 250_000
WHOLE = {"REST: a build"}
"""What is promised whole: a build with all its jobs."""
NOT_MEASURED = {
    "/builds/{build_id}/plan": "reads one stored value of a build",
    "/datasets/{dataset_id}/blame": "reads stored rows",
    "/guide": "has no rows",
    "/guide/{name}": "has no rows",
    "/healthz": "has no rows",
    "/inbox/{notification}": "leads to what it is about",
    "/jobs/{job_id}/log": "reads the end of a file",
    "/login": "has no rows",
    "/login/provider": "leads elsewhere",
    "/login/provider/return": "leads elsewhere",
    "/logout/provider": "leads elsewhere",
    "/r/{repo}": "leads to the same page with a slash",
    "/r/{repo}/commits": "measured with a branch",
    "/r/{repo}/delete/{rest}": "is the editor without a text",
    "/r/{repo}/pulls/{number}/comments/{comment_id}/change": "has one comment",
    "/r/{repo}/pulls/{number}/pending/{pending_id}/change": "has one comment",
    "/r/{repo}/pulls/{number}/comments/{comment_id}/versions": "has one comment's earlier texts",
    "/r/{repo}/pulls/{number}/versions": "has one description's earlier texts",
    "/r/{repo}/raw/{rest}": "is a file",
    "/r/{repo}/tree/{rest}": "measured as the page of files",
    "/readyz": "asks parts, no rows",
    "/settings/password": "has no rows",
    "/styleguide": "has no rows",
    "/upload/{draft}": "reads one file that was sent",
    "/api/v1/audit.csv": "a stream of all that is asked for",
    "/api/v1/audit.jsonl": "a stream of all that is asked for",
    "/api/v1/datasets/{dataset_id}/blame": "reads stored rows",
    "/api/v1/datasets/{dataset_id}/changelog": "reads stored rows",
    "/api/v1/datasets/{dataset_id}/compare": "reads stored rows",
    "/api/v1/datasets/{dataset_id}/compare/rows.csv": "reads stored rows",
    "/api/v1/datasets/{dataset_id}/compare/rows.parquet": "reads stored rows",
    "/api/v1/datasets/{dataset_id}/compare/statistics": "reads stored rows",
    "/api/v1/datasets/{dataset_id}/preview": "reads rows of a table",
    "/api/v1/datasets/{dataset_id}/schema": "reads a table's metadata",
    "/api/v1/jobs/{job_id}/log": "reads the end of a file",
    "/api/v1/repositories/{repo}/pulls/{number}/conflicts": "reads files of two commits",
    "/api/v1/repositories/{repo}/contents/": "measured with a branch",
    **{
        f"/api/v1/repositories/{{repo}}/previews/{{preview_id}}/{name}": "reads stored rows"
        for name in ("log", "rows", "difference")
    },
    "/api/v1/repositories/{repo}/protections/{branch}": "one row of the list that is measured",
    "/api/v1/repositories/{repo}/queries/{query_id}/difference": "reads stored rows",
    "/api/v1/repositories/{repo}/queries/{query_id}/rows": "reads stored rows",
    "/api/v1/repositories/{repo}/pulls/{number}/uploads": "is about what people loaded by hand on one branch",
    "/api/v1/repositories/{repo}/webhooks/{number}": "one row of the list that is measured",
    "/api/v1/repositories/{repo}/webhooks/{number}/deliveries": "keeps the newest alone",
    **{
        f"/api/v1/repositories/{{repo}}/pulls/{{number}}/datasets/{{dataset_id}}/{name}": "reads stored rows"
        for name in ("rows", "rows.csv", "rows.parquet", "schema", "spread", "statistics", "three-ways")
    },
}
"""What is read and has no costs here, and why they do not grow with an installation."""


def _list_scans(queries: Iterable[large.Query]) -> list[str]:
    """Return which growing tables SQLite would read from end to end to answer these.

    Walking one in the order that is asked for, until the page is full, is no such thing.
    """
    scans = []
    with connection.cursor() as cursor:
        for sql, params in queries:
            if not sql.startswith("SELECT"):
                continue
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            steps = [step for *_, step in cursor.fetchall()]
            stops = "LIMIT" in sql and not any("TEMP B-TREE FOR ORDER BY" in step for step in steps)
            scans += [
                f"{step}: {sql}"
                for step in steps
                if step.startswith("SCAN") and step.split()[1] in GROWING and not stops
            ]
    return scans


def _list_lookups(queries: Iterable[large.Query]) -> list[str]:
    """Return the statements that look up one repository."""
    one = r'FROM "repositories_repository" WHERE "repositories_repository"."(name|id)" (=|LIKE) '
    return [sql for sql, _ in queries if re.search(one, sql)]


def _list_repeats(queries: Iterable[large.Query]) -> list[str]:
    """Return the statements about roles, owners of folders and protections that are asked more than once."""
    rights = r'SELECT [^()]* FROM "(accounts_repositoryrole|accounts_folder|repositories_protection)"'
    counts = Counter((sql, str(params)) for sql, params in queries if re.match(rights, sql))
    return [sql for (sql, _params), number in counts.items() if number > 1]


def _walk(client: Client, url: str, what: str) -> list[str]:
    """Return what a pattern finds on a page and on all that its links call the next, in their order."""
    names: list[str] = []
    while url:
        answer = client.get(url)
        assert answer.status_code == 200, url
        text = answer.content.decode()
        names += dict.fromkeys(re.findall(what, text))
        following = re.search(r'href="([^"]*)"\s+rel="next"', text)
        url = urljoin(url, html.unescape(following[1])) if following else ""
    return names


def test_everything_that_is_read_is_measured(home: Path) -> None:
    seeded = large.seed(large.SMALL, prefix="small")
    measured = [url for part in seeded.all_parts for url in part.values()]
    routes = {write_route(str(resolve(url.partition("?")[0]).route)) for url in measured}
    reading = {path for path in set(list_pages()) if _is_read(path)}
    reading |= {path for method, path in list_operations() if method == "GET"}

    assert (reading - routes - NOT_MEASURED.keys(), NOT_MEASURED.keys() - (reading - routes)) == (set(), set())


def _is_read(path: str) -> bool:
    """Whether a page answers GET: those that only write say before all else that they do not."""
    return Client().get(re.sub(r"{\w+}", "1", path)).status_code != HTTPStatus.METHOD_NOT_ALLOWED


def test_pages_ask_no_more_where_there_is_more_and_lose_nothing(home: Path) -> None:
    small = large.seed(large.SMALL, prefix="small")
    alone = large.measure_all(small)
    size = large.MEDIUM
    medium = large.seed(size, prefix="medium")
    among = large.measure_all(medium)
    counted = {name: tuple(len(costs[name].queries) for costs in (alone, among)) for name in among}
    assert {name: numbers for name, numbers in counted.items() if len(set(numbers)) > 1} == {}
    assert {name: cost.bytes for name, cost in among.items() if cost.bytes > MOST_BYTES and name not in WHOLE} == {}
    assert {name for name, cost in among.items() if len(_list_lookups(cost.queries)) > 1} == set()
    repeats = {name: repeated for name, cost in among.items() if (repeated := _list_repeats(cost.queries))}
    assert repeats == {}, repeats
    if connection.vendor == "sqlite":
        assert [scan for cost in among.values() for scan in _list_scans(cost.queries)] == []
    client = Client()
    client.force_login(medium.reader)
    pages = medium.pages
    repositories = _walk(client, pages["repositories"], r'data-item="(medium-\d+) ')
    assert sorted(repositories) == sorted(f"medium-{number}" for number in range(size.repositories))
    jobs = _walk(client, pages["a build"], r'<tr id="job-(\d+)"')
    assert jobs == [str(number) for number in range(1, size.build_jobs + 1)]
    assert 'id="job-350"' in client.get(f"{pages['a build']}?job=350").content.decode()
    specs = _walk(client, pages["JobSpecs"], r"pipelines\.m:(s\d+)")
    assert specs == [f"s{number:05d}" for number in range(len(range(0, size.specs, size.repositories)))]
    assert _walk(client, f"{pages['JobSpecs']}?q=s00031", r"pipelines\.m:(s\d+)") == ["s00031"]
    files = _walk(client, pages["its code"], r'id="file-pipelines/part_\d+/step_(\d+)\.py"')
    assert sorted(map(int, files)) == list(range(size.files))
    named = f"{pages['its code']}?path=pipelines/part_5/step_299.py"
    assert 'id="file-pipelines/part_5/step_299.py"' in client.get(named).content.decode()
    assert _walk(client, f"{pages['its code']}?q=step_123", r'id="file-[^"]*/step_(\d+)\.py"') == ["123"]
    for page in ("two refs", "a commit"):
        files = _walk(client, pages[page], r'data-file tabindex="-1" aria-label="pipelines/part_\d+/step_(\d+)\.py"')
        assert sorted(map(int, files)) == list(range(size.files))
    numbers = _walk(client, pages["find a file"], r"pipelines/part_\d+/step_(\d+)\.py</a>")
    assert sorted(map(int, numbers)) == list(range(size.files))
    assert _walk(client, f"{pages['find a file']}?q=step_123", r"/step_(\d+)\.py</a>") == ["123"]
    remarks = _walk(client, f"{pages['a pull request']}?before={conversation.ENTRIES}", r"<p>(Remark \d+)</p>")
    assert set(remarks) == {f"Remark {number}" for number in range(size.comments)}
    newest = client.get(pages["a pull request"]).content.decode()
    assert "Remark 0<" in newest
    assert "opened this pull request" in newest
    titles = _walk(client, "/pulls?review=me", r"Change number (\d+)<")
    waiting = list_reviews(principal_for_user(medium.reader)).values_list("title", flat=True)
    assert titles == [title.removeprefix("Change number ") for title in waiting]
    assert len(titles) > home_page.REVIEWS
