"""Clone, fetch and push with real Git against the real server."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pygit2
import pytest

from tests.factories.builds import wait_until
from tests.integration.repositories.live import Clone, LiveServer

pytestmark = pytest.mark.integration

SETUP = """
from django.contrib.auth import get_user_model
from tests.factories import repositories as make
from webapp.accounts import services as accounts
ines = make.a_person("ines"); olek = make.a_person("olek"); rita = make.a_person("rita"); zoe = make.a_person("zoe")
repository = make.a_repository("nyc", by=ines)
for name, role in [("olek", "writer"), ("rita", "reader")]:
    accounts.grant_role(repository="nyc", user=get_user_model().objects.get(username=name), role=role, by=None)
result = {person.username: make.a_token(person) for person in [ines, olek, rita, zoe]}
"""
STATE = """
from webapp.repositories.models import Branch, Publication
result = {
    "branches": {row.name: [row.announced_head, row.parent] for row in Branch.objects.all()},
    "published": sorted([row.branch, row.sha] for row in Publication.objects.all()),
}
"""
CLONES = """
from webapp.accounts.models import AuditEntry
rows = AuditEntry.objects.filter(verb="clone", outcome="allowed")
result = sorted(map(list, rows.values_list("actor", "object").distinct()))
"""


@pytest.fixture(scope="module")
def tokens(server: LiveServer) -> dict[str, str]:
    """Return the token of each person."""
    return dict(server.run(SETUP))


@pytest.fixture
def clone(server: LiveServer, tokens: dict[str, str], tmp_path: Path) -> Clone:
    """Return a clone of a writer."""
    return _clone(server, tokens, "olek", tmp_path / "olek")


def _clone(server: LiveServer, tokens: dict[str, str], user: str, folder: Path) -> Clone:
    folder.mkdir()
    clone = Clone(folder)
    clone.git("clone", server.url("nyc", user=user, token=tokens[user]), ".")
    return clone


def _state(server: LiveServer) -> dict[str, Any]:
    return dict(server.run(STATE))


def test_clone_is_audited(server: LiveServer, tokens: dict[str, str], tmp_path: Path) -> None:
    _clone(server, tokens, "rita", tmp_path / "rita")
    with pytest.raises(AssertionError, match="zoe|not"):
        _clone(server, tokens, "zoe", tmp_path / "zoe")
    wait_until(lambda: ["rita", "nyc"] in server.run(CLONES), seconds=20)
    assert not any(actor == "zoe" for actor, _ in server.run(CLONES))


def test_push_of_a_branch_is_announced(server: LiveServer, clone: Clone) -> None:
    clone.git("checkout", "-b", "feature/delays")
    clone.write("pipelines/delays.py", "x = 1\n")
    said = clone.git("push", "origin", "feature/delays")
    head = clone.head()
    assert "remote: feature/delays: JobSpecs are being published" in said
    assert "/r/nyc/pulls/new?source=feature%2Fdelays" in said
    clone.git("checkout", "-b", "feature/more")
    clone.write("pipelines/more.py", "x = 2\n")
    clone.git("push", "origin", "feature/more")
    state = _state(server)
    assert state["branches"]["feature/delays"] == [head, "master"]
    assert state["branches"]["feature/more"] == [clone.head(), "feature/delays"]
    assert ["feature/delays", head] in state["published"]


def test_fetch_sees_what_others_pushed(
    server: LiveServer, tokens: dict[str, str], clone: Clone, tmp_path: Path
) -> None:
    reader = _clone(server, tokens, "rita", tmp_path / "rita")
    clone.git("checkout", "-b", "seen")
    clone.write("seen.txt", "1")
    clone.git("push", "origin", "seen")
    reader.git("fetch", "origin")
    assert reader.head("origin/seen") == clone.head()
    reader.git("checkout", "-b", "mine")
    reader.write("x.txt", "1")
    assert "403" in reader.git("push", "origin", "mine", fails=True)


def test_push_to_protected_master_is_refused_for_writers(
    server: LiveServer, tokens: dict[str, str], clone: Clone, tmp_path: Path
) -> None:
    before = clone.head()
    clone.write("direct.txt", "1")
    said = clone.git("push", "origin", "master", fails=True)
    assert "remote: Branch master is protected: open a pull request." in said
    assert "[remote rejected]" in said
    assert _state(server)["branches"]["master"][0] == before
    maintainer = _clone(server, tokens, "ines", tmp_path / "ines")
    maintainer.write("direct.txt", "1")
    maintainer.git("push", "origin", "master")
    assert _state(server)["branches"]["master"][0] == maintainer.head()
    maintainer.git("reset", "--hard", "HEAD~1")
    maintainer.write("other.txt", "1")
    assert "only moves forward" in maintainer.git("push", "--force", "origin", "master", fails=True)
    assert "default branch" in maintainer.git("push", "origin", ":master", fails=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("main", "cannot be called main"),
        ("MASTER", "unique without case"),
        ("_job/1", "no legal branch name"),
        ("deadbeef", "looks like a commit"),
        ("refs/heads/master", "means something else"),
        ("caf\u00e9", "no legal branch name"),
        ("a,b", "no legal branch name"),
    ],
)
def test_push_of_an_illegal_branch_name_is_refused(clone: Clone, name: str, words: str) -> None:
    said = clone.git("push", "origin", f"HEAD:refs/heads/{name}", fails=True)
    assert words in said or "protected" in said


def test_another_repository_in_its_place_is_not_cloned(server: LiveServer, clone: Clone) -> None:
    whose = server.home / "repositories" / "nyc.git" / "tributary"
    said = whose.read_text()
    whose.write_text(f"{'0' * 32} 999\n")
    try:
        assert "503" in clone.git("fetch", "origin", fails=True)
    finally:
        whose.write_text(said)
    clone.git("fetch", "origin")


def test_clients_of_git_lfs_are_told_that_there_is_none(server: LiveServer) -> None:
    for route in ("objects/batch", "locks/verify"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.url('nyc')}/info/lfs/{route}", data=b"{}", timeout=20)
        answer = caught.value
        assert (answer.code, answer.headers["Content-Type"]) == (501, "application/vnd.git-lfs+json")
        assert "git lfs untrack" in json.load(answer)["message"]


def test_push_of_other_refs_is_refused(clone: Clone) -> None:
    for ref in ["refs/pull/1/head", "refs/notes/commits", "refs/tributary/x"]:
        assert "only branches and tags" in clone.git("push", "origin", f"HEAD:{ref}", fails=True)
    clone.git("push", "origin", "HEAD:refs/tags/v1")
    assert "has the name of a branch" in clone.git("push", "origin", "HEAD:refs/tags/master", fails=True)
    assert "there is a tag 'v1'" in clone.git("push", "origin", "HEAD:refs/heads/V1", fails=True)
    both = ("HEAD:refs/heads/both", "HEAD:refs/tags/both")
    assert "both" in clone.git("push", "origin", *both, fails=True)
    assert "folder of the other" in clone.git("push", "origin", "HEAD:refs/heads/master/x", fails=True)
    assert "unique without case" in clone.git("push", "origin", "HEAD:refs/heads/Master/x", fails=True)


def test_push_of_two_names_that_differ_in_case_only_is_refused(clone: Clone) -> None:
    said = clone.git("push", "origin", "HEAD:refs/heads/Twin", "HEAD:refs/heads/twin", fails=True)
    assert "unique without case" in said


def test_several_refs_and_deletions_in_one_push(server: LiveServer, clone: Clone) -> None:
    clone.git("push", "origin", "HEAD:refs/heads/one", "HEAD:refs/heads/two")
    assert {"one", "two"} <= set(_state(server)["branches"])
    clone.git("push", "origin", ":one", ":two", "HEAD:refs/heads/three")
    names = set(_state(server)["branches"])
    assert "three" in names
    assert not {"one", "two"} & names


def test_force_push_of_an_unprotected_branch_is_announced(server: LiveServer, clone: Clone) -> None:
    clone.git("checkout", "-b", "rewritten")
    clone.write("a.txt", "1")
    clone.git("push", "origin", "rewritten")
    clone.git("commit", "--amend", "-m", "Again")
    clone.git("push", "--force", "origin", "rewritten")
    assert _state(server)["branches"]["rewritten"][0] == clone.head()


def test_large_push_arrives_whole(server: LiveServer, clone: Clone) -> None:
    clone.git("checkout", "-b", "large")
    content = random.Random(1).randbytes(12 * 1024 * 1024)
    (clone.folder / "large.bin").write_bytes(content)
    clone.git("add", "large.bin")
    clone.git("commit", "-m", "Large")
    clone.git("push", "origin", "large")
    head = clone.head()
    code = f"""
import hashlib
from webapp.repositories import queries
repository = queries.repository_by_name("nyc")
result = hashlib.sha256(queries.read_file(repository, {head!r}, "large.bin")).hexdigest()
"""
    import hashlib

    assert server.run(code) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("user", "secret", "status"),
    [("", "", 401), ("olek", "wrong", 401), ("ines", "olek", 401), ("zoe", "zoe", 404), ("rita", "rita", 200)],
)
def test_fetch_asks_who_it_is(server: LiveServer, tokens: dict[str, str], user: str, secret: str, status: int) -> None:
    path = "/git/nyc.git/info/refs?service=git-upload-pack"
    try:
        answered, _ = server.fetch(path, user=user, token=tokens.get(secret, secret))
    except urllib.error.HTTPError as error:
        answered = error.code
        if status == 401:
            assert error.headers["WWW-Authenticate"].startswith("Basic")
    assert answered == status


@pytest.mark.parametrize(
    "path",
    [
        "/git/nyc.git/HEAD",
        "/git/nyc.git/config",
        "/git/nyc.git/objects/info/packs",
        "/git/nyc.git/../../db.sqlite3",
        "/git/nyc.git/%2e%2e/%2e%2e/db.sqlite3",
        "/git/..%2fnyc.git/info/refs?service=git-upload-pack",
        "/git/nyc.git/info/refs",
        "/git/nyc.git/info/refs?service=git-upload-archive",
        "/git/nyc.git/git-upload-pack",
        "/git/other.git/info/refs?service=git-upload-pack",
    ],
)
def test_nothing_else_is_served(server: LiveServer, tokens: dict[str, str], path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.fetch(path, user="ines", token=tokens["ines"])
    assert caught.value.code in {403, 404}
    assert "git" not in caught.value.headers["Content-Type"]


HOSTILE_TREES = [
    {".git": ("040000", {"config": ("100644", b"[core]\n  fsmonitor = touch /tmp/canary\n")})},
    {".GIT": ("040000", {"hooks": ("100644", b"x")})},
    {"..": ("040000", {"up": ("100644", b"x")})},
    {".": ("100644", b"x")},
    {"a/b": ("100644", b"x")},
    {".gitmodules": ("120000", b"/etc/passwd")},
    {".gitmodules": ("100644", b'[submodule "../../x"]\n\tpath = x\n\turl = https://example.org/x\n')},
    {".gitmodules": ("100644", b'[submodule "x"]\n\tpath = x\n\turl = --upload-pack=x\n')},
]


def _tree(raw: pygit2.Repository, content: dict[str, Any]) -> str:
    lines = b""
    for name, (mode, value) in content.items():
        if isinstance(value, dict):
            sha = _tree(raw, value)
        elif mode == "160000":
            sha = "1" * 40
        else:
            sha = str(raw.create_blob(value))
        lines += f"{mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(sha)
    return str(raw.write(pygit2.enums.ObjectType.TREE, lines))


@pytest.mark.parametrize("content", HOSTILE_TREES)
def test_push_of_a_hostile_tree_is_refused(server: LiveServer, clone: Clone, content: dict[str, Any]) -> None:
    raw = pygit2.Repository(str(clone.folder))
    pygit2.settings.enable_strict_object_creation(False)
    try:
        signature = pygit2.Signature("x", "x@example.org")
        commit = raw.create_commit(None, signature, signature, "m", pygit2.Oid(hex=_tree(raw, content)), [])
    finally:
        pygit2.settings.enable_strict_object_creation(True)
    said = clone.git("push", "origin", f"{commit}:refs/heads/hostile", fails=True)
    assert "fsck error" in said or "unpack" in said or "hasDot" in said
    assert "hostile" not in _state(server)["branches"]


def test_a_client_that_leaves_during_a_push_leaves_no_process(server: LiveServer, tokens: dict[str, str]) -> None:
    with _begin_push(server, tokens["olek"]):
        time.sleep(0.5)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _children(server):
        time.sleep(0.2)
    assert _children(server) == []


def test_a_server_killed_in_a_push_leaves_no_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Git's own waits for the rest of a body whose length it knows, even when nobody is left to send it."""
    server = LiveServer.start(tmp_path_factory.mktemp("killed"))
    try:
        tokens = dict(server.run(SETUP))
        with _begin_push(server, tokens["olek"]):
            wait_until(lambda: _serving(server.home), seconds=60)
            server.stop(signal.SIGKILL)
        wait_until(lambda: not _serving(server.home), seconds=60)
    finally:
        server.close()


def _begin_push(server: LiveServer, token: str) -> socket.socket:
    credentials = base64.b64encode(f"olek:{token}".encode())
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(
        b"POST /git/nyc.git/git-receive-pack HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000000\r\n"
        b"Authorization: Basic " + credentials + b"\r\n\r\n00a0"
    )
    return connection


def _serving(home: Path) -> list[int]:
    """The processes of Git that serve a home's repositories, whoever their parent is."""
    mark = f"GIT_PROJECT_ROOT={home}/".encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes():
                pids.append(int(folder.name))
    return pids


def _children(server: LiveServer) -> list[str]:
    import subprocess

    assert server.process is not None
    listed = subprocess.run(
        ["ps", "-s", str(server.process.pid), "-o", "comm="], capture_output=True, text=True, check=False
    ).stdout
    groups = subprocess.run(["ps", "-eo", "ppid=,comm="], capture_output=True, text=True, check=True).stdout
    return [line for line in groups.splitlines() if "git" in line and str(server.process.pid) in line.split()] + [
        line for line in listed.splitlines() if line.startswith("git")
    ]


def test_concurrent_pushes_are_all_announced(server: LiveServer, tokens: dict[str, str], tmp_path: Path) -> None:
    clones = [_clone(server, tokens, "olek", tmp_path / f"c{number}") for number in range(3)]
    for number, clone in enumerate(clones):
        clone.git("checkout", "-b", f"together{number}")
        clone.write(f"t{number}.txt", "1")
    threads = [
        threading.Thread(target=clone.git, args=("push", "origin", f"together{number}"))
        for number, clone in enumerate(clones)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    branches = _state(server)["branches"]
    assert [branches[f"together{number}"][0] for number in range(3)] == [clone.head() for clone in clones]


def test_server_killed_in_a_push_is_healed_by_the_sweep(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    server = LiveServer.start(tmp_path_factory.mktemp("killed"))
    try:
        tokens = dict(server.run(SETUP))
        clone = _clone(server, tokens, "olek", tmp_path / "olek")
        clone.git("checkout", "-b", "lost")
        for number in range(4):
            clone.write(f"f{number}.txt", "x" * 200_000)
            pushing = threading.Thread(target=_push_whatever_happens, args=(clone,))
            pushing.start()
            time.sleep(0.15 + 0.1 * number)
            server.stop(signal.SIGKILL)
            pushing.join()
            server.boot()
            result = server.run(
                "from webapp.repositories import queries, services\n"
                "services.sweep_settled_heads()\n"
                "services.sweep_settled_heads()\n"
                "repository = queries.repository_by_name('nyc')\n"
                "heads = repository.git.list_heads()\n"
                "result = heads == dict(repository.branches.values_list('name', 'announced_head'))"
            )
            assert result is True
        bare = Clone(server.home / "repositories" / "nyc.git")
        bare.git("fsck", "--strict")
        clone.git("push", "origin", "lost")
        assert _state(server)["branches"]["lost"][0] == clone.head()
    finally:
        server.close()


def _push_whatever_happens(clone: Clone) -> None:
    try:
        clone.git("push", "origin", "lost")
    except AssertionError:
        return


ENTRIES = """
from webapp.accounts.models import AuditEntry
result = [list(row) for row in AuditEntry.objects.filter(verb="push", object__startswith="nyc:").order_by("pk")
          .values_list("actor", "object", "detail__before", "detail__after")]
"""


def test_every_ref_of_a_push_has_one_entry_in_the_audit_log(server: LiveServer, clone: Clone) -> None:
    seen = len(server.run(ENTRIES))
    first = clone.head()
    clone.git("push", "origin", "HEAD:refs/heads/audited/a", "HEAD:refs/heads/audited/b", "HEAD:refs/tags/audited")
    clone.write("audited.txt", "x")
    second = clone.head()
    assert second != first
    clone.git("push", "origin", "HEAD:refs/heads/audited/a")
    clone.git("push", "origin", "HEAD:refs/heads/audited/a")  # nothing moves
    clone.git("push", "origin", ":audited/a", ":audited/b")
    a, b = "nyc:refs/heads/audited/a", "nyc:refs/heads/audited/b"
    assert sorted(server.run(ENTRIES)[seen:]) == sorted(
        [
            ["olek", a, "", first],
            ["olek", b, "", first],
            ["olek", "nyc:refs/tags/audited", "", first],
            ["olek", a, first, second],
            ["olek", a, second, ""],
            ["olek", b, first, ""],
        ]
    )
