"""What PATCH of a pull request changes: all that is asked or nothing, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from webapp.pulls.models import PullRequest
from webapp.pulls.rules.states import PullState
from webapp.pulls.services import pulls

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
ADDRESS = "/api/v1/repositories/shop/pulls"


@pytest.fixture
def client(home: Path, admin: User, api_client: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch) -> APIClient:
    """A client of the admin, in an installation with pull request 1 and two branches to merge into."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines")
    repository = make.a_repository("shop", by=ines)
    for branch in ("feature", "other"):
        make.a_branch(repository, branch, by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    return api_client(admin)


def change(client: APIClient, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.patch(f"{ADDRESS}/1", body, format="json")
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"title": ""}, "title"),
        ({"title": "x" * 251}, "title"),
        ({"title": None}, "title"),
        ({"body": 5}, "body"),
        ({"draft": "yes"}, "draft"),
        ({"state": "banana"}, "state"),
        ({"state": "merged"}, "state"),
        ({"target": "nothing"}, "target"),
        ({"target": "feature"}, "source"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_nothing_is(client: APIClient, body: dict[str, Any], field: str) -> None:
    status, problem = change(client, **{"body": "Because.", "title": "Other", **body})
    assert (status, list(problem["errors"])) == (422, [field])
    found = PullRequest.objects.get()
    assert (found.state, found.title, found.body, found.target) == (PullState.OPEN, "Change", "", "master")


def test_every_member_that_cannot_be_changed_is_named(client: APIClient) -> None:
    status, problem = change(client, number=7, head="x", title="Other")
    assert (status, sorted(problem["errors"])) == (400, ["head", "number"])
    assert PullRequest.objects.get().title == "Change"
    assert client.patch(f"{ADDRESS}/9", {"number": 7}, format="json").status_code == 404


@pytest.mark.parametrize("head", ["   ", "0" * 40])
@pytest.mark.parametrize(("act", "body"), [("merge", {}), ("reviews", {"verdict": "comment", "body": "Hm"})])
def test_a_head_that_is_not_the_expected_one_is_a_conflict(
    client: APIClient, act: str, body: dict[str, str], head: str
) -> None:
    answer = client.post(f"{ADDRESS}/1/{act}", {**body, "expected_head": head}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "head_moved")


@pytest.mark.parametrize(
    ("act", "body"),
    [
        ("merge", {}),
        ("queue", {}),
        ("update", {}),
        ("reviews", {"verdict": "approve"}),
        ("suggestions", {"comments": [1]}),
    ],
)
def test_an_empty_guard_is_refused(client: APIClient, act: str, body: dict[str, Any]) -> None:
    answer = client.post(f"{ADDRESS}/1/{act}", {**body, "expected_head": ""}, format="json")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["expected_head"])


def test_what_a_member_that_is_null_would_say_is_the_default(client: APIClient) -> None:
    body = {"title": "Second", "source": "feature", "target": "other", "body": None, "draft": None}
    shown = client.post(ADDRESS, body, format="json").json()
    assert (shown["body"], shown["draft"]) == ("", False)


def test_all_changes_at_once(client: APIClient) -> None:
    status, shown = change(client, title="Other", body="Because.", draft=True, target="other")
    assert status == 200
    assert (shown["title"], shown["body"], shown["draft"], shown["target"]) == ("Other", "Because.", True, "other")
    assert change(client, body=None)[1]["body"] == ""
    assert change(client, state="closed")[1]["state"] == "closed"
    assert change(client, state="open")[1]["state"] == "open"


def test_a_target_with_an_open_pull_request_is_refused(client: APIClient) -> None:
    second = client.post(ADDRESS, {"title": "Second", "source": "feature", "target": "other"}, format="json")
    assert second.status_code == 201
    status, problem = change(client, title="New", target="other")
    assert (status, problem["code"]) == (409, "pull_exists")
    assert PullRequest.objects.get(number=1).title == "Change"


def test_a_merged_pull_request_is_not_opened_again(client: APIClient) -> None:
    PullRequest.objects.update(state=PullState.MERGED)
    assert change(client, state="open")[0] == 409
    for address in ("close", "reopen"):
        assert client.post(f"{ADDRESS}/1/{address}").status_code == 409
    assert change(client, state="closed")[0] == 409
    assert change(client, body="Afterwards.", state="merged")[0] == 200


@pytest.mark.parametrize("line", [True, "3", None, 1.5])
def test_the_line_of_an_anchor_is_a_number(client: APIClient, line: object) -> None:
    anchor = {"path": "notes.txt", "line": line, "side": "head"}
    answer = client.post(f"{ADDRESS}/1/comments", {"body": "x", "anchor": anchor}, format="json")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["anchor"])


def test_an_anchor_is_not_longer_than_what_is_said(client: APIClient) -> None:
    anchor = {"path": "x" * 900_000, "line": 1, "side": "head"}
    answer = client.post(f"{ADDRESS}/1/comments", {"body": "x", "anchor": anchor}, format="json")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["anchor"])
    assert len(answer.content) < 1_000


def test_a_body_of_too_many_values_is_refused_before_each_is_looked_at(client: APIClient) -> None:
    answer = client.patch(f"{ADDRESS}/1", {"title": "x", "more": [[{"pattern": 1}] * 10_000] * 2}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "too_many_values")


def test_lists_are_of_one_state_or_all(client: APIClient) -> None:
    counts = {
        state: len(client.get(ADDRESS, {"state": state}).json()["results"]) for state in ("open", "closed", "all")
    }
    assert counts == {"open": 1, "closed": 0, "all": 1}
    assert len(client.get(ADDRESS).json()["results"]) == 1
    assert client.get(ADDRESS, {"state": ""}).status_code == 400
    assert client.get(ADDRESS, {"state": "bad"}).status_code == 422
