"""The REST API of repositories: shapes, errors, and what each role may do."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.factories import repositories as make
from tests.factories.histories import announce_all, run_git
from webapp.repositories import queries

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
BASE = "/api/v1/repositories"


class Caller:
    """A client with somebody's token, speaking JSON."""

    def __init__(self, person: Principal | None) -> None:
        """Sign in."""
        self.client = APIClient()
        if person is not None:
            self.client.credentials(HTTP_AUTHORIZATION=f"Bearer {make.a_token(person)}")

    def __call__(self, method: str, path: str, body: Any = None, *, status: int = 200, **headers: str) -> Any:
        """Send a request, check its status and return the answer."""
        extra = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        # Written out here: the client's own encoder refuses the lone surrogates that a hostile caller sends.
        text = "" if body is None else json.dumps(body)
        response = self.client.generic(method.upper(), f"{BASE}{path}", text, content_type="application/json", **extra)
        assert response.status_code == status, response.content
        if status >= 400:
            assert response["Content-Type"] == "application/problem+json"
            assert {"type", "title", "status", "detail", "code"} <= set(response.json())
        self.last = response
        return response.json() if response.content else None


@pytest.fixture
def call(ines: Principal) -> Caller:
    """Call as the maintainer."""
    return Caller(ines)


def _commit(files: dict[str, str], **fields: Any) -> dict[str, Any]:
    changes = [{"path": path, "content": text} for path, text in files.items()]
    return {"branch": "master", "message": "Change", "changes": changes, **fields}


def test_repository_is_made_listed_changed_and_deleted(call: Caller) -> None:
    made = call("post", "", {"name": "shop", "description": "Orders"}, status=201)
    assert made["name"] == "shop"
    assert made["default_branch"] == "master"
    assert made["created_by"] == "ines"
    assert call.last["Location"] == "/api/v1/repositories/shop"
    assert [item["name"] for item in call("get", "")["results"]] == ["shop"]
    assert call("get", "/shop")["role"] == "maintainer"
    tag = call.last["ETag"]
    assert call("patch", "/shop", {"description": "All orders"}, if_match=tag)["description"] == "All orders"
    call("patch", "/shop", {"description": "Lost"}, if_match=tag, status=412)
    assert call("patch", "/shop", {"name": "other"}, status=422)["code"] == "name_is_fixed"
    assert call("patch", "/shop", {"name": "shop", "description": "Orders"})["description"] == "Orders"
    call("delete", "/shop", status=204)
    call("get", "/shop", status=404)


def test_what_changes_a_repository_looks_it_up_once(call: Caller, repository: Repository) -> None:
    """What writes to Git also asks how often the repository has moved, and locks its row: neither looks for it."""
    changes = [
        ("post", "/nyc/branches", {"name": "work", "start_point": "master"}, 201),
        ("post", "/nyc/commits", _commit({"notes.md": "# Notes\n"}, branch="work"), 201),
        ("patch", "/nyc", {"description": "Flights"}, 200),
        ("delete", "/nyc/branches/work", None, 204),
    ]
    lookup = re.compile(r'SELECT .* FROM "repositories_repository" WHERE "repositories_repository"."name" = ')

    for method, path, body, status in changes:
        with CaptureQueriesContext(connection) as queries:
            call(method, path, body, status=status)
        assert len([query for query in queries if lookup.match(query["sql"])]) == 1, path


def test_repository_errors(call: Caller, repository: Repository) -> None:
    assert call("post", "", {"name": "NYC"}, status=409)["errors"]["name"]
    assert call("post", "", {"name": "a b"}, status=422)["code"] == "illegal_name"
    assert call("post", "", {}, status=422)["errors"]["name"]
    assert call("post", "", {"name": "x", "template": "none"}, status=422)["code"] == "unknown_template"
    call("post", "", ["x"], status=400)
    call("get", "/none", status=404)


def test_an_idempotency_key_makes_one_repository_and_one_commit(call: Caller, repository: Repository) -> None:
    first = call("post", "", {"name": "once"}, status=201, idempotency_key="k1")
    assert call("post", "", {"name": "once"}, status=201, idempotency_key="k1") == first
    body = _commit({"a.txt": "1"})
    sha = call("post", "/nyc/commits", body, status=201, idempotency_key="k2")["sha"]
    assert call("post", "/nyc/commits", body, status=201, idempotency_key="k2")["sha"] == sha
    assert len(queries.list_commits(repository, "master")) == 2
    call("post", "/nyc/commits", _commit({"a.txt": "2"}), status=422, idempotency_key="k2")


def test_branches(call: Caller, repository: Repository) -> None:
    head = queries.get_head(repository, "master")
    made = call("post", "/nyc/branches", {"name": "feature/x", "start_point": "master"}, status=201)
    published = made.pop("published")
    assert made == {
        "name": "feature/x",
        "head": head,
        "parent": "master",
        "protected": False,
        "ahead": 0,
        "behind": 0,
        "default": False,
    }
    assert published["status"] == "pending"
    make.a_commit(repository, {"a.txt": "1"}, branch="feature/x")
    make.a_commit(repository, {"b.txt": "1"})
    make.a_commit(repository, {"b.txt": "2"})
    found = call("get", "/nyc/branches/feature%2Fx")
    assert (found["ahead"], found["behind"]) == (1, 2)
    tag = call.last["ETag"]
    call("get", "/nyc/branches/feature%2Fx", status=304, if_none_match=tag)
    assert [item["name"] for item in call("get", "/nyc/branches")["results"]] == ["master", "feature/x"]
    call("delete", "/nyc/branches/feature%2Fx", status=412, if_match='"other"')
    call("delete", "/nyc/branches/feature%2Fx?data=burn", status=400)
    call("delete", "/nyc/branches/feature%2Fx?data=keep", status=204, if_match=tag)
    call("get", "/nyc/branches/feature%2Fx", status=404)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "taken"}, 409, "branch_exists"),
        ({"name": "TAKEN"}, 409, "branch_exists"),
        ({"name": "main"}, 422, "branch_name"),
        ({"name": "_job/1"}, 422, "branch_name"),
        ({"name": "a b"}, 422, "branch_name"),
        ({"name": "x", "start_point": "nowhere"}, 404, "unknown_ref"),
        ({"start_point": "master"}, 422, "invalid_input"),
        ({"name": ["x"]}, 422, "invalid_input"),
    ],
)
def test_branch_errors(call: Caller, repository: Repository, body: Any, status: int, code: str) -> None:
    make.a_branch(repository, "taken")
    assert call("post", "/nyc/branches", body, status=status)["code"] == code


def test_default_branch_cannot_be_deleted(call: Caller, repository: Repository) -> None:
    assert call("delete", "/nyc/branches/master", status=409)["code"] == "default_branch"
    call("delete", "/nyc/branches/nowhere", status=404)


def test_commit_answers_with_its_publication(call: Caller, repository: Repository) -> None:
    made = call("post", "/nyc/commits", _commit({"a.txt": "1\n"}), status=201)
    assert made["published"] == {"status": "pending", "jobspecs": 0, "errors": [], "branch": "master"}
    one = call("get", f"/nyc/commits/{made['sha']}")
    assert one["files"][0]["path"] == "a.txt"
    assert one["files"][0]["hunks"][0]["lines"][0] == {
        "kind": "added",
        "old": None,
        "new": 1,
        "text": "1",
        "no_newline": False,
        "end": "lf",
    }
    listed = call("get", "/nyc/commits?branch=master&limit=1")
    assert [item["sha"] for item in listed["results"]] == [made["sha"]]
    rest = call.client.get(listed["next"]).json()
    assert len(rest["results"]) == 1
    assert rest["next"] is None


def test_times_of_commits_are_in_utc_whatever_the_zone_of_their_writer(call: Caller, repository: Repository) -> None:
    head, tree = run_git(repository.path, "log", "-1", "--format=%H %T").split()
    who = "Ines <ines@example.org> 1762419600"
    text = f"tree {tree}\nparent {head}\nauthor {who} +0200\ncommitter {who} -0730\n\nSay when\n"
    path = repository.path / "commit"
    path.write_text(text)
    sha = run_git(repository.path, "hash-object", "-t", "commit", "-w", str(path)).strip()
    run_git(repository.path, "update-ref", "refs/heads/zones", sha)
    announce_all(repository)
    assert repository.commits.get(sha=sha).authored_zone == 120
    [listed] = call("get", "/nyc/commits?branch=zones&limit=1")["results"]
    for commit in (listed, call("get", f"/nyc/commits/{sha}")):
        assert (commit["authored_at"], commit["committed_at"]) == ("2025-11-06T09:00:00Z", "2025-11-06T09:00:00Z")


def test_commit_from_an_old_head_names_the_new_one(call: Caller, repository: Repository) -> None:
    old = queries.get_head(repository, "master")
    new = call("post", "/nyc/commits", _commit({"a.txt": "1"}, expected_head=old), status=201)["sha"]
    problem = call("post", "/nyc/commits", _commit({"a.txt": "2"}, expected_head=old), status=409)
    assert problem["code"] == "head_moved"
    assert problem["head"] == new
    call("post", "/nyc/commits", _commit({"a.txt": "2"}), status=412, if_match=f'"{old}"')


def test_commit_writes_bytes_moves_and_deletes(call: Caller, repository: Repository) -> None:
    body = {
        "branch": "master",
        "message": "Rearrange",
        "changes": [
            {"path": "data.bin", "content_base64": base64.b64encode(b"\x00\xff").decode()},
            {"path": "README.md", "move_to": "docs/README.md"},
            {"path": "pipeline.toml", "delete": True},
            {"path": "empty.txt", "content": ""},
        ],
    }
    call("post", "/nyc/commits", body, status=201)
    found = call("get", "/nyc/contents/data.bin")
    assert base64.b64decode(found["content"]) == b"\x00\xff"
    assert [item["name"] for item in call("get", "/nyc/contents/?ref=master")] == [
        "docs",
        "pipelines",
        "data.bin",
        "empty.txt",
    ]
    assert call("get", "/nyc/contents/docs")[0]["path"] == "docs/README.md"
    call("get", "/nyc/contents/pipeline.toml", status=404)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"path": "a", "content": "1", "content_base64": "MQ=="}, 422),
        ({"path": "pipeline.toml", "content": "1", "delete": True}, 422),
        ({"path": "pipeline.toml", "move_to": "b", "delete": True}, 422),
        ({"path": "a", "content": 1}, 422),
        ({"path": "pipeline.toml", "delete": "true"}, 422),
        ({"path": "a", "content_base64": "%%%"}, 422),
        ({"path": "a", "content_base64": "é"}, 422),
        ({"path": "a", "content": "\ud800"}, 422),
        ({"path": "a"}, 422),
        ({"content": "1"}, 422),
        ({"path": "../a", "content": "1"}, 422),
        ({"path": ".GIT/config", "content": "1"}, 422),
        ({"path": "none", "delete": True}, 422),
        ({"path": "a", "content": 1.5, "delete": "x"}, 422),
    ],
)
def test_commit_errors(call: Caller, repository: Repository, change: dict[str, Any], status: int) -> None:
    body = {"branch": "master", "message": "x", "changes": [change]}
    assert call("post", "/nyc/commits", body, status=status)["errors"]["changes"]


def test_commit_needs_message_branch_and_changes(call: Caller, repository: Repository) -> None:
    call("post", "/nyc/commits", _commit({"a": "1"}, message=""), status=422)
    call("post", "/nyc/commits", _commit({"a": "1"}, branch="nowhere"), status=404)
    call("post", "/nyc/commits", _commit({}), status=422)


@pytest.mark.parametrize(
    "path",
    ["nowhere.txt", "..%2f..%2fconfig", "%2e%2e/HEAD", "README.md/x", "pipelines/nowhere", "a%00b", ".git/config"],
)
def test_unknown_paths_are_404(call: Caller, repository: Repository, path: str) -> None:
    call("get", f"/nyc/contents/{path}", status=404)


@pytest.mark.parametrize("ref", ["nowhere", "HEAD~1", "master:README.md", "--all", "@{-1}", "0" * 40, "refs/heads/x"])
def test_unknown_refs_are_404(call: Caller, repository: Repository, ref: str) -> None:
    for path in ["/nyc/contents/README.md?ref=", "/nyc/commits?branch=", "/nyc/compare?head="]:
        assert call("get", path + ref, status=404)["code"] == "unknown_ref"


def test_contents_have_an_etag(call: Caller, repository: Repository) -> None:
    call("get", "/nyc/contents/README.md")
    call("get", "/nyc/contents/README.md", status=304, if_none_match=call.last["ETag"])


def test_compare_is_from_the_merge_base(call: Caller, repository: Repository) -> None:
    make.a_branch(repository, "feature")
    make.a_commit(repository, {"a.txt": "one\ntwo\n"}, branch="feature")
    make.a_commit(repository, {"b.txt": "on master only\n"})
    found = call("get", "/nyc/compare?base=master&head=feature")
    assert (found["ahead"], found["behind"]) == (1, 1)
    assert [file["path"] for file in found["files"]] == ["a.txt"]
    assert found["files"][0]["additions"] == 2
    assert len(found["commits"]) == 1
    call("get", "/nyc/compare", status=400)


def test_members_and_protections(call: Caller, repository: Repository) -> None:
    make.a_person("olek")
    call("post", "/nyc/members", {"user": "olek", "role": "writer"}, status=201)
    call("post", "/nyc/members", {"user": "olek", "role": "king"}, status=422)
    call("post", "/nyc/members", {"user": "nobody", "role": "writer"}, status=404)
    assert {item["user"]: item["role"] for item in call("get", "/nyc/members")["results"]} == {
        "ines": "maintainer",
        "olek": "writer",
    }
    call("delete", "/nyc/members/olek", status=204)
    call("delete", "/nyc/members/ines", status=409)
    [master] = call("get", "/nyc/protections")["results"]
    assert (master["branch"], master["approvals"], master["allow_bypass"]) == ("master", 1, True)
    made = call("post", "/nyc/protections", {"branch": "release/1", "approvals": 2, "checks": ["build"]}, status=201)
    assert made["checks"] == ["Build"]
    assert call("post", "/nyc/protections", {"branch": "x", "checks": ["ci"]}, status=422)["code"] == "unknown_check"
    call("get", "/nyc/protections/release%2F1")
    tag = call.last["ETag"]
    assert call("patch", "/nyc/protections/release%2F1", {"approvals": 3}, if_match=tag)["approvals"] == 3
    call("patch", "/nyc/protections/release%2F1", {"approvals": 4}, if_match=tag, status=412)
    assert call("post", "/nyc/protections", {"branch": "x", "groups": ["none"]}, status=422)["code"] == "unknown_group"
    call("post", "/nyc/protections", {"branch": "x", "approvals": -1}, status=422)
    taken_for_release = {"branch": "refs/heads/release/1"}
    assert call("post", "/nyc/protections", taken_for_release, status=400)["code"] == "branch_name"
    call("delete", "/nyc/protections/release%2F1", status=204)
    call("delete", "/nyc/protections/release%2F1", status=404)


WRITES = [
    ("post", "/nyc/branches", {"name": "b"}),
    ("delete", "/nyc/branches/feature", None),
    ("post", "/nyc/commits", _commit({"a": "1"}, branch="feature")),
]
MAINTENANCE = [
    ("patch", "/nyc", {"description": "x"}),
    ("delete", "/nyc", None),
    ("post", "/nyc/members", {"user": "ines", "role": "reader"}),
    ("delete", "/nyc/members/ines", None),
    ("post", "/nyc/protections", {"branch": "x"}),
    ("delete", "/nyc/protections/master", None),
    ("patch", "/nyc/protections/master", {"approvals": 0}),
    ("post", "/nyc/commits", _commit({"a": "1"})),
]
READS = ["", "/branches", "/branches/master", "/commits", "/contents/README.md", "/members", "/protections"]


@pytest.mark.parametrize("role", ["reader", "writer", "stranger", "nobody"])
def test_roles(repository: Repository, role: str) -> None:
    make.a_branch(repository, "feature")
    if role == "nobody":
        call = Caller(None)
    else:
        call = Caller(make.a_person("zoe") if role == "stranger" else make.a_member(repository, role))
    hidden = {"stranger": 404, "nobody": 401}.get(role)
    for path in READS:
        call("get", f"/nyc{path}", status=hidden or 200)
    if role == "stranger":
        assert call("get", "")["results"] == []
    for method, path, body in MAINTENANCE:
        call(method, path, body, status=hidden or 403)
    if role != "writer":
        for method, path, body in WRITES:
            call(method, path, body, status=hidden or 403)


def test_bodies_that_are_too_large_or_too_deep_are_refused(call: Caller, repository: Repository) -> None:
    large = call.client.post(f"{BASE}/nyc/branches", "x" * 10_000_001, content_type="application/json")
    assert large.status_code == 413
    deep = call.client.post(f"{BASE}/nyc/commits", "[" * 200_000, content_type="application/json")
    assert deep.status_code == 400
    deep = call.client.post(f"{BASE}/nyc/commits", '{"a":' * 200_000, content_type="application/json")
    assert deep.status_code == 400
