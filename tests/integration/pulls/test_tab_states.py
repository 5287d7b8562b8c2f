"""What each tab of a pull request shows where there is nothing, not yet, no more, or nothing that the reader may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import datasets as make_data
from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.builds.models import Build
from webapp.builds.rules.states import BuildState
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import ComparisonState
from webapp.pulls import services
from webapp.pulls.rules import states
from webapp.repositories.models import Publication
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
UNSEEN = "No dataset that you may see is changed"


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request that changes a text alone."""
    shop = make.a_repository("shop", by=ines)
    make.a_branch(shop, "feature", by=ines)
    make.a_commit(shop, {"notes.txt": "two\n"}, branch="feature", by=ines)
    pull = services.open_pull(repository=shop, title="Change", source="feature", target="master", by=ines)
    Publication.objects.update_or_create(
        repository=shop, branch="feature", sha=pull.head_sha, defaults={"status": PublicationState.PUBLISHED}
    )
    services.refresh_pull(pull=pull)
    return pull


def test_tabs_without_anything_say_what_there_could_be(pull: PullRequest, ines: Principal) -> None:
    git = pull.repository.git
    git.move_branch("master", expected=git.resolve("master"), sha=pull.head_sha)
    services.refresh_pull(pull=pull)
    client = a_client(ines)
    for tab, said in {
        "": "This branch changes no dataset.",
        "/commits": "No commit of its own",
        "/code": "No code is changed",
        "/schema": "No dataset is changed",
        "/data": "No dataset is changed",
        "/lineage": "No dataset is changed",
        "/builds": "Nothing is built yet",
        "/checks": "No queries as checks",
    }.items():
        assert said in read_page(client, f"{PAGE}{tab}")


def test_tabs_say_that_a_comparison_runs_and_why_it_failed_with_the_way_to_try_again(
    pull: PullRequest, ines: Principal
) -> None:
    change_data(pull)
    Comparison.objects.update(schema={})
    client = a_client(ines)
    for tab, said in {"/schema": "Queued", "/data": "Waiting to be compared"}.items():
        page = read_page(client, f"{PAGE}{tab}")
        assert said in page
        assert "every " in page.partition('id="page-tabs"')[2]

    Comparison.objects.update(state=ComparisonState.FAILED, error="It held more than 512 MB of memory.")
    for tab, said in {"/schema": "Failed", "/data": "The rows could not be compared"}.items():
        page = read_page(client, f"{PAGE}{tab}")
        for part in (said, "It held more than 512 MB of memory.", "Compare again"):
            assert part in page


def test_lists_follow_a_comparison_until_it_has_ended(pull: PullRequest, ines: Principal) -> None:
    change_data(pull)
    reviewer = make.a_member(pull.repository, "maintainer")
    for end, asks in (({}, True), ({"state": ComparisonState.FAILED}, False)):
        Comparison.objects.update(schema={}, **end)
        for person, address, part in (
            (reviewer, "/", "to-review"),
            (ines, "/pulls", "pull-list"),
            (ines, "/r/shop/pulls", "pull-list"),
        ):
            list_of_pulls = read_page(a_client(person), address).partition(f'id="{part}"')[2].partition("</section>")[0]
            assert pull.title in list_of_pulls
            assert ("every 4s" in list_of_pulls) is asks


def change_data(pull: PullRequest) -> None:
    """Fill a dataset on the branch, which is to be compared then."""
    dataset = make_data.a_dataset("/shop/orders", by=pull.author)
    transaction = make_data.a_transaction(dataset, pull.author, branch="feature", chain=("master",))
    make_data.fill(transaction, pull.author)
    make_data.commit(transaction, pull.author)
    services.refresh_pull(pull=pull)


def test_builds_are_followed_while_they_run_and_say_why_they_failed(pull: PullRequest, ines: Principal) -> None:
    client, page = a_client(ines), f"{PAGE}/builds"
    build = Build.objects.create(
        repository=pull.repository,
        branch="feature",
        sha=pull.head_sha,
        chain=["feature", "master"],
        targets=["/shop/a"],
        by=pull.author,
        state=BuildState.RUNNING,
    )
    assert 'hx-trigger="every 2s"' in read_page(client, page)
    Build.objects.filter(pk=build.pk).update(state=BuildState.FAILED, reason="The disk of the warehouse is full.")
    ended = read_page(client, page)
    assert "The disk of the warehouse is full." in ended
    assert "Build what is changed" in ended, "the way to try again"
    assert 'hx-trigger="every 2s"' not in ended


def test_tabs_tell_who_may_not_see_the_data_that_there_is_some(pull: PullRequest, ines: Principal) -> None:
    make.a_repository("vault", by=ines)
    dataset = make_data.a_dataset("/vault/secret", by=pull.author)
    pull.datasets.create(path=dataset.path, dataset=dataset, change=states.MODIFIED)
    reader = a_client(make.a_member(pull.repository, "reader", "olek"))
    for tab in ("schema", "data", "lineage"):
        page = read_page(reader, f"{PAGE}/{tab}")
        assert UNSEEN in page
        assert "secret" not in page
        assert UNSEEN not in read_page(a_client(ines), f"{PAGE}/{tab}")
    assert "Build what is changed" not in read_page(reader, f"{PAGE}/builds")
