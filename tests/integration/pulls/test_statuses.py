"""What programs of others report of commits: shown on pages, and required of a merge where the rules say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.accounts.models import User
from webapp.accounts.services import create_token
from webapp.pulls import services
from webapp.pulls.queries import pulls as queries
from webapp.repositories.services import set_protection, statuses

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "one\n"}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


def report(pull: PullRequest, by: Principal, *, expect: int = 201, **status: Any) -> Any:
    """Report of the head as a program does: with a token, by REST."""
    token = create_token(user=User.objects.get(pk=by.user_id), name="ci")[1]
    answer = Client().post(
        f"/api/v1/repositories/shop/commits/{pull.head_sha}/statuses",
        {"name": "ci/lint", "state": "success", **status},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == expect, answer.content
    return answer.json()


def read_blocker(pull: PullRequest) -> str:
    return " ".join(blocker.message for blocker in queries.list_blockers(pull) if blocker.code == "check_failed")


def test_a_report_stands_among_the_checks_and_on_the_commit(pull: PullRequest, ines: Principal) -> None:
    report(pull, ines, state="pending", description="running")
    shown = report(pull, ines, state="failure", description="3 errors", target_url="https://ci.example.org/7")
    assert (shown["state"], shown["reported_by"]) == ("failure", "ines")

    [check] = [check for check in queries.list_checks(pull) if check.name == "ci/lint"]
    assert (check.state, check.detail, check.url) == ("red", "3 errors", "https://ci.example.org/7")
    for page in (PAGE, f"/r/shop/commit/{pull.head_sha}"):
        text = read_page(a_client(ines), page)
        assert 'href="https://ci.example.org/7"' in text
        assert "3 errors" in text
        assert "running" not in text


def test_what_the_rules_require_is_reported_of_this_head(pull: PullRequest, ines: Principal) -> None:
    report(pull, ines)
    set_protection(repository=pull.repository, branch="master", approvals=0, checks=["ci/lint"], by=ines)
    assert read_blocker(pull) == ""

    make.a_commit(pull.repository, {"notes.txt": "two\n"}, branch="feature", by=ines)
    services.refresh_pull(pull=pull)
    pull.refresh_from_db()
    assert f"nothing was reported of {pull.head_sha[:7]} yet" in read_blocker(pull)
    report(pull, ines, state="error", description="no runner")
    assert "ci/lint is not green: no runner" in read_blocker(pull)
    report(pull, ines)
    assert read_blocker(pull) == ""


def test_a_check_of_datasets_is_green_where_it_is_for_each(pull: PullRequest, ines: Principal) -> None:
    report(pull, ines, dataset="/shop/a")
    report(pull, ines, dataset="/shop/b", state="failure", description="late rows")
    set_protection(repository=pull.repository, branch="master", approvals=0, checks=["ci/lint"], by=ines)
    assert "/shop/b: late rows" in read_blocker(pull)
    assert "/shop/a" not in read_blocker(pull)
    assert "/shop/b" in read_page(a_client(ines), PAGE)


@pytest.mark.parametrize(
    ("status", "expect", "word"),
    [
        ({"name": "build"}, 422, "own checks"),
        ({"state": "green"}, 422, "state"),
        ({"target_url": "javascript:alert(1)"}, 422, "https://"),
        ({"target_url": "//ci.example.org"}, 422, "https://"),
        ({"dataset": "shop/a"}, 422, "path"),
        ({"name": ""}, 422, "name"),
    ],
)
def test_what_is_no_report_is_refused(
    pull: PullRequest, ines: Principal, status: dict[str, str], expect: int, word: str
) -> None:
    assert word in str(report(pull, ines, expect=expect, **status))


def test_readers_report_nothing(pull: PullRequest) -> None:
    report(pull, make.a_member(pull.repository, "reader", "olek"), expect=403)
    report(pull, make.a_person("stranger"), expect=404)


def test_one_commit_has_so_many_at_most(pull: PullRequest, ines: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "MAX_STATUSES", 2)
    for name in ("a", "b", "b"):
        report(pull, ines, name=name)
    assert report(pull, ines, name="c", expect=409)["code"] == "too_many_statuses"
