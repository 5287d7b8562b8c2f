"""The files of a pull request by REST, page by page: all of them once, and no page reads the lines of others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from tests.factories.clients import read_pages
from webapp.git import compare
from webapp.pulls.services import pulls

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
FILES = "/api/v1/repositories/shop/pulls/1/files"
LONG = "".join(f"line {number}\n" for number in range(40))


@pytest.fixture
def client(home: Path, admin: User, api_client: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch) -> APIClient:
    """A client of the admin; pull request 1 adds files, changes one, removes one and renames one."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines")
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"changed.txt": "old\n", "gone.txt": "old\n", "moved.txt": LONG}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    added = {f"added/{number}.txt": f"{number}\n" for number in range(8)}
    make.a_commit(
        repository,
        {"changed.txt": "new\n", "gone.txt": None, "moved.txt": None, "to/moved.txt": LONG + "more\n", **added},
        branch="feature",
        by=ines,
    )
    pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    return api_client(admin)


def test_pages_are_the_whole_in_one_order(client: APIClient) -> None:
    [whole] = read_pages(client, f"{FILES}?limit=250")
    changes = {file["path"]: (file["old_path"], file["status"]) for file in whole}
    assert len(changes) == len(whole) == 11
    assert changes["to/moved.txt"] == ("moved.txt", "renamed")
    assert changes["gone.txt"][1] == "deleted"
    assert all(file["hunks"] for file in whole)
    for limit in (1, 4, 11):
        assert list(chain.from_iterable(read_pages(client, f"{FILES}?limit={limit}"))) == whole


def test_a_page_reads_the_lines_of_its_files_alone(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    make_diff = compare.file_diff_of_patch

    def note(patch: Any) -> Any:
        read.append(patch.delta.new_file.path)
        return make_diff(patch)

    monkeypatch.setattr(compare, "file_diff_of_patch", note)
    page = client.get(f"{FILES}?limit=3").json()["results"]
    assert [file["path"] for file in page] == read[:3]
    assert len(read) == 4, "one more than a page has says whether there is another page"
