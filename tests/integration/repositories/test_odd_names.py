"""Files whose names are not text, or hold a line break: each has one address, on pages, in REST and in links."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client
from tests.factories.crawl import Markup
from webapp.git.paths import decode_path
from webapp.pulls import services as pulls
from webapp.repositories import services

if TYPE_CHECKING:
    from django.test import Client
    from rest_framework.test import APIClient

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
NAMES = [
    b"caf\xe9.txt",
    b"caf\xe8.txt",
    b"d\xe9/in.txt",
    b"line\nbreak.txt",
    b"end\n",
    b"tab\t.txt",
    rb"caf\xe9.txt",
    rb"back\slash.txt",
    b" spaces .txt ",
    "é?#%41&=;+\"'<b>.txt".encode(),
    b"%E9.txt",
]
TEXTS = {decode_path(name): name for name in NAMES}
REST = "/api/v1/repositories/nyc"


@pytest.fixture
def branch(repository: Repository) -> str:
    """Return a branch whose head has files of these names, each with its own content."""
    make.a_branch(repository, "odd")
    git = repository.git
    files = git.objects.list_all(git.objects.find_commit(git.get_head("odd")).tree)
    mode = next(iter(files.values()))[1]
    for path, raw in TEXTS.items():
        files[path] = (git.objects.create_blob(f"content of {path}".encode()), mode)
    before = git.get_head("odd")
    author = git.get_commit(before).author
    sha = git.objects.write_commit(git.objects.write_tree(files), (before,), "Add odd names", author, author)
    git.move_branch("odd", expected=before, sha=sha)
    services.announce(repository=repository, branch="odd", before=before, after=sha, by=None)
    return "odd"


@pytest.fixture
def web(ines: Principal) -> Client:
    return a_client(ines)


@pytest.fixture
def rest(ines: Principal) -> APIClient:
    return a_rest_client(ines)


def follow(web: Client, page: str) -> set[str]:
    """Open each link of a page that leads to a file; return what they open."""
    answer = web.get(page)
    assert answer.status_code == 200, page
    views = {f"/r/nyc/{view}/" for view in ("tree", "blob", "raw", "edit", "delete", "commits")}
    links = {link for link in Markup.read(answer.content.decode()).list_links() if link.startswith(tuple(views))}
    for link in links:
        assert web.get(link).status_code == 200, (page, link)
    return {urlsplit(link).path for link in links}


def test_each_listed_file_opens_everywhere(branch: str, web: Client, rest: APIClient, repository: Repository) -> None:
    opened = follow(web, "/r/nyc/tree/odd") | follow(web, "/r/nyc/find/odd")
    assert {f"/r/nyc/blob/odd/{quote(path)}" for path in TEXTS} <= opened
    for path, raw in TEXTS.items():
        address = f"odd/{quote(path)}"
        follow(web, f"/r/nyc/blob/{address}")
        assert web.get(f"/r/nyc/raw/{address}").content == f"content of {path}".encode()
        answer = rest.get(f"{REST}/contents/{quote(path)}?ref=odd")
        assert answer.status_code == 200, path
        assert (answer.json()["path"], base64.b64decode(answer.json()["content"])) == (
            path,
            f"content of {path}".encode(),
        )
        assert [
            commit["message"] for commit in rest.get(f"{REST}/commits?branch=odd&path={quote(path)}").json()["results"]
        ]
    listed = {entry["path"] for entry in rest.get(f"{REST}/contents/?ref=odd").json()}
    assert set(TEXTS) - {r"d\xe9/in.txt"} <= listed
    commit = rest.get(f"{REST}/commits/{repository.git.get_head('odd')}").json()
    assert {file["path"] for file in commit["files"]} == set(TEXTS)


def test_each_file_is_edited_moved_and_deleted(
    branch: str, web: Client, rest: APIClient, repository: Repository
) -> None:
    git = repository.git
    for path, raw in TEXTS.items():
        page = web.get(f"/r/nyc/edit/odd/{quote(path)}")
        fields = {**page.context["form"].initial, "message": "Change it", "source": path, "content": "new\n"}
        answer = web.post(f"/r/nyc/edit/odd/{quote(path)}", fields)
        assert answer.status_code == 302, answer.content.decode()
        assert web.get(answer.url).status_code == 200
        entries = git.objects.list_all(git.objects.find_commit(git.get_head("odd")).tree)
        assert git.read_blob(git.get_head("odd"), path).content == b"new\n", raw
        assert set(TEXTS) <= set(entries)
    changes = [{"path": path, "move_to": f"moved-{number}"} for number, path in enumerate(TEXTS) if number % 2]
    changes += [{"path": path, "delete": True} for number, path in enumerate(TEXTS) if not number % 2]
    body = {"branch": "odd", "message": "Clear", "changes": changes}
    assert rest.post(f"{REST}/commits", body, format="json").status_code == 201
    assert not set(TEXTS) & set(git.list_files(git.get_head("odd")))


def test_a_pull_request_shows_each_file(
    branch: str, web: Client, rest: APIClient, repository: Repository, ines: Principal
) -> None:
    pull = pulls.open_pull(repository=repository, source="odd", target="master", title="Odd", by=ines)
    follow(web, f"/r/nyc/pulls/{pull.number}/code")
    files = rest.get(f"{REST}/pulls/{pull.number}/files").json()["results"]
    assert {file["path"] for file in files} == set(TEXTS)
    for path in TEXTS:
        anchor = {"path": path, "line": 1, "side": "head"}
        answer = rest.post(f"{REST}/pulls/{pull.number}/comments", {"body": "See", "anchor": anchor}, format="json")
        assert answer.status_code == 201, answer.content
    assert web.get(f"/r/nyc/pulls/{pull.number}").status_code == 200


@pytest.mark.parametrize("path", ["caf\ufffd.txt", "line%0Abreak.txt", r"\x2egit/config", "a\0b"])
def test_other_texts_are_not_found(branch: str, web: Client, rest: APIClient, path: str) -> None:
    tail = quote(path, safe="%/")
    assert web.get(f"/r/nyc/blob/odd/{tail}").status_code == 404
    assert rest.get(f"{REST}/contents/{tail}?ref=odd").status_code == 404
