"""The files of a pull request by REST, page by page: all of them once, and no page reads the lines of others."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.factories import repositories as make
from tests.factories.clients import read_pages
from webapp.git import compare
from webapp.git.values import Change, Person
from webapp.pulls.models import PullRequest
from webapp.pulls.services import pulls
from webapp.repositories.models import Repository
from webapp.repositories.services import commit_files

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

    def note(patch: Any, **sides: Any) -> Any:
        read.append(patch.delta.new_file.path)
        return make_diff(patch, **sides)

    monkeypatch.setattr(compare, "file_diff_of_patch", note)
    page = client.get(f"{FILES}?limit=3").json()["results"]
    assert [file["path"] for file in page] == read[:3]
    assert len(read) == 3, "the files of other pages are not compared"


def test_code_that_hides_something_is_drawn_and_announced(home: Path, client: APIClient, admin: User) -> None:
    repository = Repository.objects.get(name="shop")
    files = {"lies.py": b"if user != '\xe2\x80\xae admin':\n    pass\n", "latin.txt": b"caf\xe9\r\n"}
    commit_files(
        repository=repository,
        branch="feature",
        message="Fix \u2066nothing\u2069",
        changes=[Change(path=path, content=content) for path, content in files.items()],
        by=make.maker_of(repository),
        author=Person(name="I\u200bnes", email="ines@example.com"),
    )
    pulls.refresh_pull(pull=PullRequest.objects.get())
    listed = {file["path"]: file for file in client.get(f"{FILES}?limit=250").json()["results"]}
    assert listed["lies.py"]["hidden_characters"] == [
        {"character": "U+202E right-to-left override", "side": "after", "lines": [1]}
    ]
    assert listed["lies.py"]["hunks"][0]["lines"][0]["text"] == "if user != '\u202e admin':"
    assert listed["latin.txt"]["after"] == {"encoding": "iso-8859-1", "byte_order_mark": False, "line_ends": "crlf"}
    assert (listed["latin.txt"]["before"], listed["latin.txt"]["mode_before"]) == (None, None)
    assert (listed["latin.txt"]["mode_after"], listed["latin.txt"]["hunks"][0]["lines"][0]["end"]) == ("100644", "crlf")
    assert client.patch("/api/v1/repositories/shop/pulls/1", {"title": "Safe\u202e"}, format="json").status_code == 200
    browser = Client()
    browser.force_login(admin)
    for tab in ("", "/code", "/code?view=split", "/commits"):
        page = browser.get(f"/r/shop/pulls/1{tab}").content.decode()
        assert "U+202E" in page.partition("</title>")[0], tab
        assert not re.search(r"(?<!>)[\u202e\u2066\u200b]", re.sub(r' (?:value|data-[a-z]+)="[^"]*"', "", page)), tab
        assert 'id="hidden-characters"' in page
        assert "/code?path=lies.py#file-lies.py" in page
    blob = browser.get("/r/shop/blob/feature/lies.py").content.decode()
    assert "U+202E right-to-left override" in blob
    latin = browser.get("/r/shop/blob/feature/latin.txt").content.decode()
    assert "caf\xe9" in latin
    assert "ISO 8859-1, CRLF" in latin
