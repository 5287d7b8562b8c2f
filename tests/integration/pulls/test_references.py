"""What comments name leads there, for who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, read_page
from webapp.datasets.services import create_dataset
from webapp.pulls import services

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request beside a dataset that everybody in the repository sees, and one of somewhere else."""
    repository = make.a_repository("shop", by=ines)
    make.a_repository("secret", by=ines)
    for path in ("/shop/raw", "/secret/raw"):
        create_dataset(path=path, by=ines)
    make.a_commit(repository, {"notes.txt": "one\n"}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "two\n"}, branch="feature", by=ines)
    return services.open_pull(
        repository=repository, title="Change", body="After #1.", source="feature", target="master", by=ines
    )


def test_names_become_links_to_what_the_reader_may_see(pull: PullRequest, ines: Principal) -> None:
    sha = pull.head_sha
    body = f"As {sha[:8]} says of /shop/raw and /secret/raw, see #1, #2 and build 99."
    services.add_comment(pull=pull, body=body, by=ines, anchor={"path": "notes.txt", "line": 1})
    reader = make.a_member(pull.repository, "reader", "olek")
    links = ['href="/d/shop/raw"', f'href="/r/shop/commit/{sha}"', 'href="/r/shop/pulls/1"']
    for who, secret in ((ines, 1), (reader, 0)):
        for tab in ("", "/code"):
            page = read_page(a_client(who), f"{PAGE}{tab}")
            said = page[page.rindex("says of") - 200 : page.rindex("and build 99")]
            assert [said.count(link) for link in links] == [1, 1, 1]
            assert said.count('href="/d/secret/raw"') == secret
            assert "/pulls/2" not in said
    assert 'After <a href="/r/shop/pulls/1"' in read_page(a_client(reader), PAGE)
