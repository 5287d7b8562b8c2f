"""Pages of repositories: what they show, what they refuse, and that no text is lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.factories import repositories as make
from tests.factories.pages import read_page
from webapp.accounts.models import User
from webapp.core.templatetags.ui import avatar
from webapp.git.values import Change, Person
from webapp.repositories import queries, services
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from django.http import HttpResponse

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def _browser(person: Principal) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=person.user_id))
    return client


@pytest.fixture
def web(ines: Principal) -> Client:
    """Return the maintainer's browser."""
    return _browser(ines)


def _text(response: Any, status: int = 200) -> str:
    assert response.status_code == status, response.content.decode()[-2000:]
    return read_page(response)


def _edit(web: Client, repository: Repository, path: str, content: str, **fields: str) -> HttpResponse:
    data = {
        "path": path,
        "content": content,
        "message": "Change it",
        "target": "direct",
        "branch": "",
        "head": queries.get_head(repository, "master"),
        **fields,
    }
    response: HttpResponse = web.post(f"/r/nyc/edit/master/{path}", data)  # type: ignore[assignment]
    return response


def test_every_page_opens(web: Client, repository: Repository) -> None:
    make.a_branch(repository, "feature/x")
    sha = make.a_commit(repository, {"pipelines/a.py": "x = 1\n", "docs/a b.md": "# Hi"}, branch="feature/x").sha
    for path in [
        "/repositories",
        "/repositories/new",
        "/r/nyc",
        "/r/nyc/",
        "/r/nyc/tree/feature/x",
        "/r/nyc/tree/feature%2Fx/pipelines",
        f"/r/nyc/tree/{sha}",
        f"/r/nyc/tree/{sha[:8]}/pipelines",
        "/r/nyc/blob/feature/x/pipelines/a.py",
        "/r/nyc/blob/feature/x/docs/a%20b.md",
        "/r/nyc/raw/feature/x/pipelines/a.py",
        "/r/nyc/find/feature/x",
        "/r/nyc/edit/feature/x/pipelines/a.py",
        "/r/nyc/new/feature/x/pipelines",
        "/r/nyc/new/master",
        "/r/nyc/delete/feature/x/pipelines/a.py",
        "/r/nyc/commits",
        "/r/nyc/commits/feature/x",
        "/r/nyc/commits/master?path=README.md",
        f"/r/nyc/commit/{sha}",
        f"/r/nyc/commit/{sha}?view=split&w=1",
        "/r/nyc/compare?base=master&head=feature/x",
        "/r/nyc/compare?base=master&head=feature/x&view=split",
        "/r/nyc/compare",
        "/r/nyc/branches",
        "/r/nyc/settings",
    ]:
        assert web.get(path).status_code == 200, path


def test_front_page_shows_files_readme_and_clone(web: Client, repository: Repository) -> None:
    text = _text(web.get("/r/nyc/"))
    assert "pipeline.toml" in text
    assert '<h3 id="md-nyc">nyc</h3>' in text
    assert "http://testserver/git/nyc.git" in text
    assert "maintainer" in text
    assert "publishing" in text


@pytest.mark.parametrize(
    "path",
    [
        "/r/none/",
        "/r/nyc/tree/nowhere",
        "/r/nyc/blob/master/nowhere.py",
        "/r/nyc/blob/master/..%2f..%2fconfig",
        "/r/nyc/raw/master/.git/config",
        "/r/nyc/raw/master/%2e%2e/%2e%2e/HEAD",
        "/r/nyc/tree/HEAD",
        "/r/nyc/tree/master~1",
        "/r/nyc/commit/nowhere",
        "/r/nyc/compare?head=nowhere",
        "/r/nyc/edit/master/nowhere.py",
        "/r/nyc/blob/master/a%00b",
    ],
)
def test_unknown_things_are_404(web: Client, repository: Repository, path: str) -> None:
    _text(web.get(path), 404)


def test_strangers_see_nothing_and_nobody_is_sent_to_sign_in(repository: Repository) -> None:
    stranger = _browser(make.a_person("zoe"))
    for path in ["/r/nyc/", "/r/nyc/branches", "/r/nyc/settings", "/r/nyc/blob/master/README.md"]:
        _text(stranger.get(path), 404)
        answer = Client().get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/login?next=")
    assert "nyc" not in _text(stranger.get("/repositories"))


def test_readers_may_look_only(repository: Repository) -> None:
    reader = _browser(make.a_member(repository, "reader"))
    text = _text(reader.get("/r/nyc/"))
    assert "New file" not in text
    assert "Create branch" not in text
    _text(reader.get("/r/nyc/edit/master/README.md"), 403)
    _text(reader.post("/r/nyc/branches", {"name": "x"}), 403)
    assert "You may look, not change" in _text(reader.get("/r/nyc/settings"))
    _text(reader.post("/r/nyc/settings", {"form": "description", "description": "x"}), 403)


def test_repository_is_made(web: Client) -> None:
    answer = web.post("/repositories/new", {"name": "shop", "description": "Orders", "template": "empty"})
    assert answer["Location"] == "/r/shop/"
    again = _text(web.post("/repositories/new", {"name": "Shop", "template": "empty"}), 409)
    assert "unique without case" in again
    assert "letters, digits" in _text(web.post("/repositories/new", {"name": "a b", "template": "empty"}), 422)


def test_branch_is_made_and_errors_stay_on_the_page(web: Client, repository: Repository) -> None:
    answer = web.post("/r/nyc/branches", {"name": "feature/x", "start_point": "master"})
    assert answer["Location"] == "/r/nyc/tree/feature/x"
    answer = web.post(
        "/r/nyc/branches", {"name": "feature/y", "start_point": "master", "open_editor": "on", "path": "README.md"}
    )
    assert answer["Location"] == "/r/nyc/edit/feature/y/README.md"
    assert "exists already" in _text(web.post("/r/nyc/branches", {"name": "FEATURE/X"}), 409)
    assert "cannot be called main" in _text(web.post("/r/nyc/branches", {"name": "main"}), 422)
    assert "okline" in _text(web.get("/r/nyc/branches/check?name=feature/z"))
    assert "exists already" in _text(web.get("/r/nyc/branches/check?name=Feature/X"))


def test_branch_is_deleted(web: Client, repository: Repository) -> None:
    make.a_branch(repository, "old")
    web.post("/r/nyc/branches/delete", {"name": "old", "data": "keep"})
    assert queries.list_branch_names(repository) == ["master"]
    answer = web.post("/r/nyc/branches/delete", {"name": "master", "data": "delete"}, follow=True)
    assert "default branch" in _text(answer)


LOSSY = {
    "latin.txt": b"caf\xe9\nna\xefve\n",
    "mixed.txt": b"a\r\nb\nc\r\n",
    "mac.txt": b"a\rb\r",
    "cr.txt": b"a\r\r\nb\r\n",
    "utf16.csv": "a;b\n".encode("utf-16-le")[1:].replace(b"\0", b"\xff"),
}
EXACT = {
    "bom.txt": b"\xef\xbb\xbfa\r\n",
    "open.txt": b"\n\na",
    "feed.py": "a\f\v\u2028b\x1b\u0085\n".encode(),
    "none.txt": b"",
}


def test_the_editor_changes_no_byte_that_nobody_touched(web: Client, repository: Repository, ines: Principal) -> None:
    changes = [Change(path=path, content=content) for path, content in {**LOSSY, **EXACT}.items()]
    services.commit_files(repository=repository, branch="master", message="m", changes=changes, by=ines)
    head = queries.get_head(repository, "master")
    for path, content in {**LOSSY, **EXACT}.items():
        page = web.get(f"/r/nyc/edit/master/{path}")
        is_lossy = path in LOSSY
        assert bool(page.context["read_only"]) == is_lossy, path
        assert ("The text is read-only here." in _text(page)) == is_lossy, path
        shown = page.context["form"].initial["content"]
        sent = re.sub(r"\r\n|\r|\n", "\r\n", shown)
        fields = {"source": path, "path": path, "content": sent, "message": "Change", "target": "direct", "head": head}
        address = f"/r/nyc/edit/master/{path}"
        assert "leave every file as it is" in _text(web.post(address, fields), 422), path
        assert not [name for name in _open_beside(web, "edit", "README.md", "README.md", fields) if "draft" in name], (
            path
        )
        if is_lossy:
            assert "is read-only here." in _text(web.post(address, {**fields, "content": sent + "x"}), 422)
        moved = f"moved/{path}"
        assert web.post(address, {**fields, "path": moved}).status_code == 302
        head = queries.get_head(repository, "master")
        assert queries.read_file(repository, "master", moved) == content
        if not is_lossy:
            fields |= {"path": moved, "source": moved, "content": sent + "x", "head": head}
            assert web.post(f"/r/nyc/edit/master/{moved}", fields).status_code == 302
            assert queries.read_file(repository, "master", moved) == content + b"x"
            head = queries.get_head(repository, "master")


def test_edit_commits_and_keeps_line_ends(web: Client, repository: Repository) -> None:
    make.a_commit(repository, {"crlf.txt": "a\r\nb\r\n", "lf.txt": "a\n"})
    _edit(web, repository, "crlf.txt", "a\r\nc\r\n")
    _edit(web, repository, "lf.txt", "b\r\n")
    assert queries.read_file(repository, "master", "crlf.txt") == b"a\r\nc\r\n"
    assert queries.read_file(repository, "master", "lf.txt") == b"b\n"


def test_edit_moves_a_file(web: Client, repository: Repository) -> None:
    data = {"path": "docs/about.md", "content": "Hi", "message": "Move", "target": "direct", "branch": ""}
    data["head"] = queries.get_head(repository, "master")
    answer = web.post("/r/nyc/edit/master/README.md", data)
    assert answer["Location"] == "/r/nyc/blob/master/docs/about.md"
    assert "README.md" not in queries.list_files(repository, "master")


def test_edit_to_a_new_branch(web: Client, repository: Repository) -> None:
    answer = _edit(web, repository, "README.md", "New", target="new", branch="ines/patch-1")
    assert answer["Location"] == "/r/nyc/pulls/new?source=ines%2Fpatch-1"
    assert queries.get_fallback_chain(repository, "ines/patch-1") == ("ines/patch-1", "master")
    text = _text(_edit(web, repository, "README.md", "My text", target="new", branch="main"), 422)
    assert "My text" in text
    assert "cannot be called main" in text
    readme = queries.read_file(repository, "master", "README.md").decode()
    _text(_edit(web, repository, "README.md", readme, target="new", branch="empty"), 422)
    assert "empty" not in queries.list_branch_names(repository)


def test_edit_conflict_keeps_the_text_and_shows_their_change(web: Client, repository: Repository) -> None:
    old = queries.get_head(repository, "master")
    make.a_commit(repository, {"README.md": "their line\n"})
    text = _text(_edit(web, repository, "README.md", "my line\n", head=old), 409)
    assert "my line" in text
    assert "their line" in text
    assert "Somebody else changed this file" in text
    newest = queries.get_head(repository, "master")
    assert f'name="head" value="{newest}"' in text
    answer = _edit(web, repository, "README.md", "both lines\n", head=newest)
    assert answer.status_code == 302
    assert queries.read_file(repository, "master", "README.md") == b"both lines\n"


def test_edit_goes_on_when_others_changed_other_files(web: Client, repository: Repository) -> None:
    old = queries.get_head(repository, "master")
    make.a_commit(repository, {"other.txt": "x"})
    assert _edit(web, repository, "README.md", "mine\n", head=old).status_code == 302
    assert queries.read_file(repository, "master", "other.txt") == b"x"


def test_edit_of_a_protected_branch_offers_a_new_one(repository: Repository) -> None:
    writer = _browser(make.a_member(repository, "writer", "wim"))
    text = _text(writer.get("/r/nyc/edit/master/README.md"))
    assert "protected: open a pull request instead" in text
    assert 'value="wim/patch-1"' in text
    refused = _text(_edit(writer, repository, "README.md", "kept text"), 403)
    assert "kept text" in refused
    assert "open a pull request" in refused


def test_file_is_made_and_deleted(web: Client, repository: Repository) -> None:
    head = queries.get_head(repository, "master")
    data = {"path": "pipelines/new.py", "content": "x = 1", "message": "Add", "target": "direct", "head": head}
    assert web.post("/r/nyc/new/master/pipelines", data)["Location"] == "/r/nyc/blob/master/pipelines/new.py"
    data = {"message": "Delete", "target": "direct", "head": queries.get_head(repository, "master")}
    answer = web.post("/r/nyc/delete/master/pipelines/new.py", data)
    assert answer["Location"] == "/r/nyc/tree/master/pipelines"
    data = {"path": "../x", "content": "x", "message": "Add", "target": "direct"}
    data["head"] = queries.get_head(repository, "master")
    assert "empty, &#x27;.&#x27; or &#x27;..&#x27;" in _text(web.post("/r/nyc/new/master", data), 422)


def test_raw_files_are_attachments(web: Client, repository: Repository) -> None:
    make.a_commit(repository, {"evil.html": "<script>alert(1)</script>", "evil.svg": "<svg onload=alert(1)>"})
    for name in ["evil.html", "evil.svg"]:
        response = web.get(f"/r/nyc/raw/master/{name}")
        assert response["Content-Type"] == "text/plain; charset=utf-8"
        assert response["Content-Disposition"].startswith("attachment")
        assert response["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in response["Content-Security-Policy"]


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7|add:7 }}"


def test_hostile_text_stays_text(web: Client, repository: Repository) -> None:
    services.update_repository(repository=repository, description=HOSTILE, by=make.maker_of(repository))
    make.a_branch(repository, "feature")
    sha = make.a_commit(
        repository,
        {"<img src=x>.py": HOSTILE, "README.md": HOSTILE + "\n[x](javascript:alert(1))"},
        branch="feature",
        message=HOSTILE,
    ).sha
    errors = [{"file": "README.md", "line": 1, "message": HOSTILE}]
    services.set_publication(
        repository=repository, branch="feature", sha=sha, status=PublicationState.FAILED, errors=errors
    )
    for path in [
        "/repositories",
        "/r/nyc/tree/feature",
        "/r/nyc/commits/feature",
        f"/r/nyc/commit/{sha}",
        "/r/nyc/blob/feature/%3Cimg%20src=x%3E.py",
        "/r/nyc/blob/feature/README.md",
        "/r/nyc/edit/feature/README.md",
        "/r/nyc/find/feature",
        "/r/nyc/branches",
        "/r/nyc/compare?head=feature",
    ]:
        text = _text(web.get(path))
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert 'href="javascript:' not in text


def test_commit_page_follows_publication(web: Client, repository: Repository) -> None:
    sha = make.a_commit(repository, {"a.py": "x = 1\n"}).sha
    pending = web.get(f"/r/nyc/commit/{sha}?fragment=publications", HTTP_HX_REQUEST="true")
    assert 'hx-trigger="every 2s"' in _text(pending)
    errors = [{"file": "a.py", "line": 1, "message": "no such column"}]
    services.set_publication(
        repository=repository, branch="master", sha=sha, status=PublicationState.FAILED, errors=errors
    )
    done = web.get(f"/r/nyc/commit/{sha}?fragment=publications", HTTP_HX_REQUEST="true")
    text = _text(done, 286)
    assert f"/r/nyc/blob/{sha}/a.py#L1" in text
    assert "no such column" in text
    text = _text(web.get("/r/nyc/blob/master/a.py"))
    assert "could not be published" in text
    assert "/r/nyc/blob/master/a.py#L1" in text
    assert 'class="row-bad"' in text


def test_pages_of_a_branch_follow_the_publication_of_its_head(web: Client, repository: Repository) -> None:
    sha = queries.get_head(repository, "master")
    for path in ["/r/nyc/", "/r/nyc/blob/master/README.md"]:
        assert f"/r/nyc/commit/{sha}?fragment=status&amp;branch=master" in _text(web.get(path))
    status = f"/r/nyc/commit/{sha}?fragment=status&branch=master"
    assert "every 2s" in _text(web.get(status))
    services.set_publication(
        repository=repository, branch="master", sha=sha, status=PublicationState.PUBLISHED, jobspecs=7
    )
    assert "7 JobSpecs published" in _text(web.get(status))
    assert 'id="publishing"' not in _text(web.get("/r/nyc/"))


def test_links_binary_and_large_files_are_told(web: Client, repository: Repository, ines: Principal) -> None:
    changes = [
        services.Change(path="data.bin", content=b"\0\1\2"),
        services.Change(path="empty.txt", content=b""),
        services.Change(path="long.py", content=b"x = 1\n" * 2000),
        services.Change(path="huge.txt", content=b"x\n" * 1_100_000),
    ]
    services.commit_files(repository=repository, branch="master", message="Files", changes=changes, by=ines)
    assert "A binary file" in _text(web.get("/r/nyc/blob/master/data.bin"))
    assert "An empty file" in _text(web.get("/r/nyc/blob/master/empty.txt"))
    assert "Too large to show" in _text(web.get("/r/nyc/blob/master/huge.txt"))
    assert "The first 1,500 of 2,000 lines" in _text(web.get("/r/nyc/blob/master/long.py"))
    assert 'id="L2000"' in _text(web.get("/r/nyc/blob/master/long.py?lines=all"))
    assert web.get("/r/nyc/edit/master/data.bin")["Location"] == "/r/nyc/blob/master/data.bin"


def test_long_diffs_are_cut_and_unfold(web: Client, repository: Repository) -> None:
    make.a_commit(repository, {"long.py": "".join(f"x{number} = 1\n" for number in range(1000))})
    sha = queries.get_head(repository, "master")
    text = _text(web.get(f"/r/nyc/commit/{sha}"))
    assert "x399" in text
    assert "x401 " not in text
    assert "Show the whole diff" in text
    assert "x999" in _text(web.get(f"/r/nyc/commit/{sha}?file=long.py"))


def test_settings_change_members_and_protections(web: Client, repository: Repository) -> None:
    make.a_person("olek")
    web.post("/r/nyc/settings", {"form": "description", "description": "Flights"})
    web.post("/r/nyc/settings", {"form": "member", "member-user": "olek", "member-role": "writer"})
    data = {"form": "protection", "protection-branch": "release", "protection-approvals": "2"}
    web.post("/r/nyc/settings", {**data, "protection-checks": "build, data current"})
    repository.refresh_from_db()
    assert repository.description == "Flights"
    text = _text(web.get("/r/nyc/settings"))
    assert "olek" in text
    assert queries.get_protection(repository, "release").checks == ["Build", "Data current"]
    unknown = {"form": "member", "member-user": "nobody", "member-role": "writer"}
    assert "nobody" in _text(web.post("/r/nyc/settings", unknown), 404)
    bad = {**data, "protection-paths": "only-a-pattern"}
    assert "is not a rule" in _text(web.post("/r/nyc/settings", bad), 422)
    web.post("/r/nyc/settings/members/remove", {"user": "olek"})
    web.post("/r/nyc/settings/protections/remove", {"branch": "release"})
    assert [item.branch for item in queries.list_protections(repository)] == ["master"]
    web.post("/r/nyc/settings/delete", {"name": "no"})
    assert Repository.objects.filter(name="nyc").exists()
    web.post("/r/nyc/settings/delete", {"name": "nyc"})
    assert not Repository.objects.filter(name="nyc").exists()


def test_branches_are_paged_and_searched(web: Client, repository: Repository) -> None:
    head = queries.get_head(repository, "master")
    for number in range(120):
        repository.git.create_branch(f"b/{number:03}", head)
    first = _text(web.get("/r/nyc/branches"))
    assert "121 branches" in first
    assert "b/048" in first
    assert 'href="/r/nyc/tree/b/119"' not in first
    assert "b/119" in _text(web.get("/r/nyc/branches?page=3"))
    found = _text(web.get("/r/nyc/branches?q=B/11"))
    assert "10 branches with" in found
    assert "No branch of that name" in _text(web.get("/r/nyc/branches?q=nowhere"))
    assert "71 more: type a part of the name" in _text(web.get("/r/nyc/"))


def test_pickers_find_branches_that_they_do_not_list(web: Client, repository: Repository) -> None:
    head = queries.get_head(repository, "master")
    for number in range(60):
        repository.git.create_branch(f"b/{number:03}", head)
    for page, view in (("/r/nyc/", "tree"), ("/r/nyc/commits/master", "commits"), ("/r/nyc/find/b/059", "find")):
        assert f"/r/nyc/branches/options?view={view}" in _text(web.get(page))
        listed = _text(web.get(f"/r/nyc/branches/options?view={view}&find=B/05"))
        assert re.findall(r'<a href="([^"]*)"', listed) == [f"/r/nyc/{view}/b/{number:03}" for number in range(50, 60)]
    assert "b/059" in _text(web.get("/r/nyc/find/b/059")).split('id="bp-list"')[1].split("</ul>")[0]
    assert "11 more: type a part of the name" in _text(web.get("/r/nyc/branches/options?view=tree"))
    chosen = _text(web.get("/r/nyc/compare?base=master&head=b/059"))
    assert "<option selected>b/059</option>" in chosen
    assert "b/058" not in chosen
    options = _text(web.get("/r/nyc/branches/options?view=select&find=58"))
    assert re.findall(r"<option[^>]*>([^<]*)", options) == ["b/058"]
    assert web.get("/r/nyc/branches/options?view=//else.where").status_code == 404


def test_diffs_show_as_many_lines_around_as_wanted(web: Client, repository: Repository) -> None:
    lines = [f"v{number} = 1\n" for number in range(100)]
    make.a_commit(repository, {"long.py": "".join(lines)})
    lines[50] = "changed = 2\n"
    sha = make.a_commit(repository, {"long.py": "".join(lines)}).sha
    assert "v40" not in _text(web.get(f"/r/nyc/commit/{sha}"))
    assert "v40" in _text(web.get(f"/r/nyc/commit/{sha}?around=25"))
    assert "v99" in _text(web.get(f"/r/nyc/commit/{sha}?around=all"))


README = """# Delays & more

See [the code](pipelines/a.py), [its line](./pipelines/a.py#L2), [docs](/docs), [all](.), [below](#more-of-it),
[elsewhere](https://example.org/a.py) and [out](../../../etc/passwd), [bad](javascript:alert(1)).

## More of it

```python
def f(x):
    return "<b>" + x
```
"""


def test_links_of_a_readme_lead_to_files_and_headings_and_its_code_has_colours(
    web: Client, repository: Repository
) -> None:
    make.a_branch(repository, "feature/x")
    files = {
        "README.md": README,
        "docs/more.md": "[up](../pipelines/a.py) [beside](b%20c.md)",
        "pipelines/a.py": "x = 1\n",
    }
    make.a_commit(repository, files, branch="feature/x")
    base = "/r/nyc/blob/feature/x"
    for page in (_text(web.get("/r/nyc/tree/feature/x")), _text(web.get(f"{base}/README.md"))):
        for link in (
            f'href="{base}/pipelines/a.py"',
            f'href="{base}/pipelines/a.py#L2"',
            f'href="{base}/docs"',
            'href="/r/nyc/tree/feature/x"',
            'href="#md-more-of-it"',
            'href="https://example.org/a.py"',
            f'href="{base}/etc/passwd"',
        ):
            assert link in page, link
        assert '<h4 id="md-more-of-it">' in page
        assert '<span class="k">def</span>' in page
        assert "&lt;b&gt;" in page
        assert 'href="javascript' not in page
    assert web.get(f"{base}/pipelines/a.py").status_code == 200
    assert web.get(f"{base}/docs").status_code == 302
    deeper = _text(web.get(f"{base}/docs/more.md"))
    assert f'href="{base}/pipelines/a.py"' in deeper
    assert f'href="{base}/docs/b%20c.md"' in deeper


def test_a_person_has_one_name_and_colour_on_all_pages(web: Client, ines: Principal, repository: Repository) -> None:
    User.objects.filter(pk=ines.user_id).update(first_name="Ines", last_name="Okafor", email="Ines@example.org")
    make.a_branch(repository, "feature/x")
    sha = services.commit_files(
        repository=repository,
        branch="feature/x",
        message="Change it",
        changes=[Change(path="a.py", content=b"x = 1\n")],
        by=ines,
    ).sha
    stranger = Person(name="Sam Stranger", email="sam@example.org")
    make.a_branch(repository, "feature/y")
    strange = services.commit_files(
        repository=repository,
        branch="feature/y",
        message="Change that",
        changes=[Change(path="b.py", content=b"y = 1\n")],
        by=ines,
        author=stranger,
    ).sha
    assert queries.get_commit(repository, sha).author.name == "Ines Okafor"
    tone = re.findall(r"av-\d", avatar("ines"))[0]
    for path in (
        "tree/feature/x",
        "blob/feature/x/a.py",
        "commits/feature/x",
        f"commit/{sha}",
        "compare?head=feature/x",
    ):
        page = _text(web.get(f"/r/nyc/{path}"))
        assert "Ines Okafor" not in page, path
        assert tone in page, path
    assert "Ines Okafor" not in _text(web.get("/r/nyc/branches"))
    assert "Sam Stranger" in _text(web.get(f"/r/nyc/commit/{strange}"))


def test_publishing_is_said_once_and_asks_until_it_is_known(web: Client, repository: Repository) -> None:
    make.a_branch(repository, "feature/x")
    sha = make.a_commit(repository, {"docs/a.md": "# Hi"}, branch="feature/x").sha
    publication = Publication.objects.get(branch="feature/x", sha=sha)
    Publication.objects.filter(pk=publication.pk).update(status="pending")
    front = _text(web.get("/r/nyc/tree/feature/x"))
    assert 'id="publishing"' in front
    assert "st-run" not in front, "beside the message above the files nothing says it again"
    state = f"/r/nyc/commit/{sha}?fragment=state&amp;branch=feature%2Fx"
    assert state in _text(web.get("/r/nyc/commits/feature/x"))
    assert state in _text(web.get("/r/nyc/branches"))
    part = _text(web.get(state.replace("&amp;", "&")))
    assert state in part
    Publication.objects.filter(pk=publication.pk).update(status="published", jobspecs=3)
    answer = _text(web.get(state.replace("&amp;", "&")))
    assert "3 JobSpecs" in answer
    assert "hx-" not in answer


def _open_beside(web: Client, view: str, path: str, key: str, fields: dict[str, str]) -> dict[str, str]:
    """Open a file from the editor of another one; return what its form sends."""
    answer = web.post(f"/r/nyc/{view}/master/{path}", {**fields, "open": key})
    assert answer.status_code == 200, answer.content.decode()[-2000:]
    form, page = answer.context["form"], answer.context["page"]
    sent = {name: form[name].value() or "" for name in ("path", "content", "message", "target", "branch", "head")}
    sent["source"] = page.path if page.mode == "edit" else ""
    for number, (draft, _url) in enumerate(answer.context["drafts"]):
        names = ("path", "target", "text")
        sent.update({f"draft-{name}-{number}": getattr(draft, name) for name in names})
    return sent


def test_several_files_are_written_one_after_the_other_and_committed_at_once(
    web: Client, repository: Repository
) -> None:
    make.a_commit(repository, {"a.py": "a\r\n", "b.py": "b\n", "c.py": "c\n"})
    head = queries.get_head(repository, "master")
    page = _text(web.get("/r/nyc/edit/master/a.py"))
    assert 'name="open" value="b.py" formaction="/r/nyc/edit/master/b.py"' in page
    fields = {"source": "a.py", "path": "a.py", "content": "A\r\n", "message": "Change a.py", "head": head}
    fields = _open_beside(web, "edit", "b.py", "b.py", {**fields, "target": "direct"})
    assert (fields["content"], fields["message"]) == ("b\n", "Change 2 files")
    fields = _open_beside(web, "edit", "c.py", "c.py", fields)
    assert "draft-path-1" not in fields, "b.py is as it was"
    fields = _open_beside(web, "new", "", "", {**fields, "path": "moved.py"})
    fields = _open_beside(web, "edit", "a.py", "a.py", {**fields, "path": "docs/new.py", "content": "<new>\n"})
    assert fields["content"] == "A\r\n", "what was typed first is kept"
    preview = web.post("/r/nyc/edit/master/a.py", {**fields, "message": "", "act": "preview"})
    assert [(file.path, file.status) for file in preview.context["changes"]] == [
        ("a.py", "modified"),
        ("moved.py", "renamed"),
        ("docs/new.py", "added"),
    ]
    assert "&lt;new&gt;" in preview.content.decode()
    assert "Nothing was committed" not in preview.content.decode(), "a message is not needed yet"
    assert queries.get_head(repository, "master") == head, "nothing is committed"
    make.a_commit(repository, {"other.py": "x\n"})
    answer = web.post("/r/nyc/edit/master/a.py", fields)
    newest = queries.get_head(repository, "master")
    assert answer["Location"] == f"/r/nyc/commit/{newest}"
    assert queries.get_commit(repository, newest).subject == "Change 3 files"
    assert queries.read_file(repository, "master", "a.py") == b"A\r\n"
    assert queries.read_file(repository, "master", "moved.py") == b"c\n"
    assert queries.read_file(repository, "master", "docs/new.py") == b"<new>\n"
    assert "c.py" not in queries.list_files(repository, "master")


def test_a_file_that_others_changed_holds_up_the_whole_commit(web: Client, repository: Repository) -> None:
    make.a_commit(repository, {"a.py": "a\n", "b.py": "b\n"})
    draft = {"draft-path-1": "b.py", "draft-target-1": "b.py", "draft-text-1": "mine\r\n"}
    fields = {"source": "a.py", "head": queries.get_head(repository, "master"), **draft}
    make.a_commit(repository, {"b.py": "theirs\n"})
    newest = queries.get_head(repository, "master")
    text = _text(_edit(web, repository, "a.py", "A\n", **fields), 409)
    assert "Somebody else changed one of these files" in text
    assert "theirs" in text
    assert "mine" in text
    dropped = _text(_edit(web, repository, "a.py", "A\n", drop="b.py", **{**fields, "head": newest}))
    assert "mine" not in dropped
    many = {f"draft-target-{number}": f"{number}.py" for number in range(31)}
    assert "has at most 31 files" in _text(_edit(web, repository, "a.py", "A\n", **many), 422)
    assert queries.get_head(repository, "master") == newest


def test_a_file_that_cannot_be_opened_leaves_the_editor_where_it_was(web: Client, repository: Repository) -> None:
    make.a_commit(repository, {"a.py": "a\n", "data.bin": "\0"})
    fields = {"source": "a.py", "path": "a.py", "content": "typed", "head": queries.get_head(repository, "master")}
    text = _text(web.post("/r/nyc/edit/master/data.bin", {**fields, "open": "data.bin"}), 404)
    assert "cannot be edited here" in text
    assert "typed" in text
    assert 'action="/r/nyc/edit/master/a.py"' in text


def test_a_draft_on_a_path_outside_is_refused(web: Client, repository: Repository) -> None:
    draft = {"draft-path-1": "", "draft-target-1": "../x.py", "draft-text-1": "x"}
    assert "x.py" in _text(_edit(web, repository, "README.md", "A\n", **draft), 422)
