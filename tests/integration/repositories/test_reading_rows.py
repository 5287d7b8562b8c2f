"""Lists of commits and branches cost the same however many there are, and rows that fail cannot make them untrue."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import repositories as make
from tests.factories.histories import announce_all, import_history
from webapp.accounts.models import User
from webapp.repositories import queries
from webapp.repositories.models import Commit, Publication
from webapp.repositories.pages.repositories import repositories_page
from webapp.repositories.queries import history
from webapp.repositories.services import announcements

if TYPE_CHECKING:
    from collections.abc import Callable

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
WALKS = (
    "webapp.git.program._run",
    *(
        f"webapp.git.repository.GitRepository.{name}"
        for name in ("ahead_behind", "commit_time", "get_commit", "iterate_commits")
    ),
)
"""What of Git costs more the more there is: a process, a walk, and a commit read by itself."""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)


def fill(repository: Repository, *, commits: int, branches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import_history(repository, commits=commits, branches=branches)
    monkeypatch.setattr(announcements, "_find_parent", lambda *_of: "master")
    announce_all(repository)


def count_costs(act: Callable[[], Any]) -> tuple[int, list[str]]:
    """Do it; return how many queries that took, and what was asked of Git."""
    asked: list[str] = []

    def note(name: str) -> Any:
        original = resolve_name(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return original(*args, **kwargs)

        return mock.patch(name, call)

    with CaptureQueriesContext(connection) as caught:
        patches = [note(name) for name in WALKS]
        for patch in patches:
            patch.start()
        try:
            act()
        finally:
            for patch in patches:
                patch.stop()
    return len(caught), asked


def test_lists_cost_the_same_in_a_large_repository(ines: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(User.objects.get(pk=ines.user_id))
    costs = {}
    for name, commits, branches in (("small", 60, 60), ("large", 10_000, 500)):
        repository = make.a_repository(name, by=ines)
        fill(repository, commits=commits, branches=branches, monkeypatch=monkeypatch)
        api = f"/api/v1/repositories/{name}"
        paths = {
            "history": f"/r/{name}/commits/master",
            "history of a branch": f"/r/{name}/commits/line-007",
            "commits": f"{api}/commits",
            "branches": f"/r/{name}/branches",
            "branches by REST": f"{api}/branches?limit=50",
            "repositories": "/repositories",
        }
        for what, path in paths.items():

            def read(path: str = path) -> None:
                assert client.get(path).status_code == 200

            read()
            costs[name, what] = count_costs(read)
        assert len(queries.BranchList(repository)) == branches + 1
    for what in paths:
        small, large = costs["small", what], costs["large", what]
        assert small[1] == large[1] == [], what
        # Rows are read in portions that double: 10,000 are seven more.
        assert large[0] <= small[0] + (7 if "branches" in what else 0), what


def test_publications_are_read_at_once(
    repository: Repository, ines: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(repository, commits=12, branches=3, monkeypatch=monkeypatch)
    client = Client()
    client.force_login(User.objects.get(pk=ines.user_id))

    def read() -> None:
        assert client.get(f"/r/{repository.name}/commits/master").status_code == 200

    read()
    before, _ = count_costs(read)
    published = set(repository.publications.values_list("sha", flat=True))
    Publication.objects.bulk_create(
        Publication(repository=repository, branch="master", sha=sha)
        for sha in set(repository.commits.values_list("sha", flat=True)) - published
    )
    assert count_costs(read) == (before, [])


def test_rows_that_are_lost_or_out_of_order_are_not_believed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(repository, commits=12, branches=3, monkeypatch=monkeypatch)
    lists = describe(repository)
    middle = repository.git.get_commit(repository.git.get_head("line-002")).parents[0]
    row = repository.commits.get(sha=middle)
    for level in (1, 50):
        repository.commits.filter(pk=row.pk).update(level=level)
        assert describe(repository) == lists
    row.delete()
    assert describe(repository) == lists
    repository.commits.filter(sha=repository.git.get_head("master")).delete()
    assert describe(repository) == lists
    Commit.objects.all().delete()
    assert describe(repository) == lists


def test_repositories_show_their_newest_commit_without_rows(repository: Repository, ines: Principal) -> None:
    page = repositories_page(ines, q="", parameters={})
    assert [row.commit for row in page.rows] == [queries.get_commit(repository, "master")]
    Commit.objects.all().delete()
    assert repositories_page(ines, q="", parameters={}) == page


def test_what_lies_far_apart_is_asked_of_git(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch without a commit in common with the others would have all rows read for each list."""
    fill(repository, commits=12, branches=3, monkeypatch=monkeypatch)
    lists = describe(repository)
    monkeypatch.setattr(history, "FARTHEST", 3)
    assert describe(repository) == lists


def describe(repository: Repository) -> Any:
    """What lists say."""
    branches = queries.list_branches(repository)
    return (
        branches,
        [queries.list_commits(repository, branch.name) for branch in branches],
        [queries.list_commits(repository, branch.name, not_in="master") for branch in branches],
        [queries.compare_overview(repository, "master", branch.name) for branch in branches],
        [queries.compare_overview(repository, branch.name, "master") for branch in branches],
    )
