"""Links and submodules: wherever they are listed, their address says what they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pygit2
import pytest
from pygit2.enums import FileMode

from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client
from webapp.pulls import services as pulls
from webapp.repositories import services

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
SUBMODULE = "1234567890123456789012345678901234567890"


@pytest.fixture
def maintainer(repository: Repository) -> Principal:
    """Return the maker of a repository whose branch `kinds` adds a link, a submodule and a program; a pull request is open."""
    by = make.maker_of(repository)
    before = make.a_branch(repository, "kinds")
    git = repository.git
    files = git.objects.list_all(git.objects.find_commit(before).tree)
    files["link"] = (git.objects.create_blob(b"../secret"), FileMode.LINK)
    files["lib/module"] = (pygit2.Oid(hex=SUBMODULE), FileMode.COMMIT)
    files["run.sh"] = (git.objects.create_blob(b"true\n"), FileMode.BLOB_EXECUTABLE)
    author = git.get_commit(before).author
    sha = git.objects.write_commit(git.objects.write_tree(files), (before,), "Add kinds", author, author)
    git.move_branch("kinds", expected=before, sha=sha)
    services.announce(repository=repository, branch="kinds", before=before, after=sha, by=None)
    pulls.open_pull(repository=repository, title="Kinds", source="kinds", target="master", by=by)
    return by


@pytest.mark.parametrize(
    ("path", "words"),
    [("link", "A symbolic link to <code>../secret</code>"), ("lib/module", "A submodule: commit"), ("run.sh", "true")],
)
def test_every_listed_entry_has_a_page(maintainer: Principal, path: str, words: str) -> None:
    browser = a_client(maintainer)
    pages = ["/r/nyc/tree/kinds", "/r/nyc/tree/kinds/lib", "/r/nyc/pulls/1/code", "/r/nyc/commits/kinds"]
    links = {link for page in pages for link in re.findall(r'href="([^"#]*)"', browser.get(page).content.decode())}
    mine = {link for link in links if urlsplit(link).path.endswith(f"/{path}")}
    assert f"/r/nyc/blob/kinds/{path}" in mine
    assert {link: browser.get(link, follow=True).status_code for link in mine} == dict.fromkeys(mine, 200)
    page = browser.get(f"/r/nyc/blob/kinds/{path}").content.decode()
    assert words in page
    assert f"/r/nyc/commits/kinds?path={path}" in page
    is_edited = path == "run.sh"
    assert (f"/r/nyc/edit/kinds/{path}" in links) == is_edited
    for view in ("edit", "tree"):
        answer = browser.get(f"/r/nyc/{view}/kinds/{path}", follow=True)
        assert answer.status_code == 200
        assert words in answer.content.decode() or is_edited


def test_rest_names_the_kind_of_each_entry(maintainer: Principal) -> None:
    rest = a_rest_client(maintainer)
    listed = {entry["path"]: entry["type"] for entry in rest.get("/api/v1/repositories/nyc/contents/?ref=kinds").json()}
    assert listed["link"] == "symlink"
    module = rest.get("/api/v1/repositories/nyc/contents/lib/module?ref=kinds").json()
    assert (module["type"], module["sha"], module["content"]) == ("submodule", SUBMODULE, "")
    files = rest.get("/api/v1/repositories/nyc/pulls/1/files").json()["results"]
    modes = {file["path"]: (file["mode_before"], file["mode_after"]) for file in files}
    assert modes == {"link": (None, "120000"), "lib/module": (None, "160000"), "run.sh": (None, "100755")}
