"""Trees, names and options that make Git run or follow something: pushed by a real client, then read on every way.

The canary lies outside of the repository: nothing opens it, and no program but Git is started for any of it.
"""

from __future__ import annotations

import re
import sys
import urllib.error
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pygit2
import pytest

from tests.factories.strace import noting
from tests.integration.repositories.live import ROOT, Clone, LiveServer

pytestmark = pytest.mark.integration
SETUP = """
from tests.factories import repositories as make
olek = make.a_person("olek")
make.a_repository("nyc", by=olek)
result = make.a_token(olek)
"""
CALLS = "execve,execveat,open,openat,openat2,readlink,readlinkat,unlink,unlinkat,rename,renameat,renameat2,symlink,symlinkat"
HOOKS = ROOT / "webapp" / "git" / "hooks"
"""Our own, which run our own Python."""
PROGRAMS = {"git", "git-http-backend", "git-receive-pack", "git-upload-pack"}
FILE, PROGRAM, LINK, MODULE, FOLDER = "100644", "100755", "120000", "160000", "40000"
GIT_NAMES = (
    ".git", ".GIT", ".Git", ".giT", "git~1", "GIT~1", ".git ", ".git.", ".git...", ".git::$INDEX_ALLOCATION",
    ".git\\x", ".g\u200cit", ".gi\u200dt", "\u200e.git", ".git\u200f", ".g\u202ait", "\ufeff.git", ".git:x", "GIT~2", ".git~1",
)  # fmt: skip
DOT_FILES = (".gitmodules", ".gitattributes", ".gitignore", ".mailmap", ".GITMODULES", "gitmod~1")
URLS = (
    "ext::sh -c touch% {}", "--upload-pack=touch {}", "-u./x", "file://{}", "../../../{}", "fd::17", "ssh://-oProxyCommand=x/y",
    "ssh://x/$(touch {})", "http://127.0.0.1:1/x\n\tfetch = y", "{}",
)  # fmt: skip
ATTRIBUTES = (
    "filter=evil",
    "diff=evil",
    "merge=evil",
    "export-subst",
    "ident",
    "working-tree-encoding=UTF-16",
    "text eol=crlf",
)
CONFIG = '[core]\n\tfsmonitor = touch {}\n\thooksPath = .\n\tsshCommand = touch {}\n[filter "evil"]\n\tsmudge = touch {}\n\tclean = touch {}\n'
Content = dict[str, Any]


def list_trees(canary: Path) -> list[Content]:
    """Every hostile tree."""
    config = (FILE, CONFIG.replace("{}", str(canary)).encode())
    hook = (PROGRAM, f"#!/bin/sh\ntouch {canary}\ncat {canary}\n".encode())
    link = (LINK, str(canary).encode())
    trees: list[Content] = [{name: (FOLDER, {"config": config, "HEAD": (FILE, b"ref: x\n")})} for name in GIT_NAMES]
    trees += [{name: link} for name in GIT_NAMES[:6]]
    trees += [{name: link} for name in DOT_FILES]
    for url in URLS:
        text = f'[submodule "x"]\n\tpath = x\n\turl = {url.replace("{}", str(canary))}\n'
        trees.append({".gitmodules": (FILE, text.encode()), "x": (MODULE, b"")})
    for name in ("../../hooks", "-x", "x/../../y", ".git/modules"):
        text = f'[submodule "{name}"]\n\tpath = {name}\n\turl = ./x\n\tupdate = !touch {canary}\n'
        trees.append({".gitmodules": (FILE, text.encode()), "x": (MODULE, b"")})
    trees += [
        {
            ".gitattributes": (FILE, f"* {attribute}\n".encode()),
            "a.txt": (FILE, b"$Format:%H$ $Id$\r\n"),
            "config": config,
        }
        for attribute in ATTRIBUTES
    ]
    trees += [
        {"hooks": (FOLDER, {name: hook})}
        for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "pre-push")
    ]
    trees += [{"objects": (FOLDER, {"info": (FOLDER, {"alternates": (FILE, f"{canary.parent}\n".encode())})})}]
    trees += [
        {"config": config},
        {"HEAD": (FILE, b"ref: refs/heads/evil\n")},
        {"info": (FOLDER, {"attributes": config})},
    ]
    targets = (str(canary), f"../../../../../../../..{canary}", "/proc/self/environ", "..", ".", "link", "/")
    trees += [{"link": (LINK, target.encode()), "a.py": (FILE, b"x = 1\n")} for target in targets]
    trees += [{"pipelines": link}, {"pipeline.toml": link}, {"README.md": link}]
    trees += [
        {name: (FILE, b"x")}
        for name in ("..", ".", "a/b", "-rf", "--upload-pack=x", "\n", "\x1b[31m", "a" * 5000, "con", "x\\..\\y")
    ]
    return trees


def write_tree(raw: pygit2.Repository, content: Content) -> str:
    """Write a tree as it is given, which no client of good faith would."""
    lines = b""
    for name, (mode, value) in content.items():
        if mode == FOLDER:
            sha = write_tree(raw, value)
        else:
            sha = "1" * 40 if mode == MODULE else str(raw.create_blob(value))
        lines += f"{mode} {name}".encode() + b"\0" + bytes.fromhex(sha)
    return str(raw.write(pygit2.enums.ObjectType.TREE, lines))


@pytest.fixture
def token(server: LiveServer) -> str:
    """The token of somebody who may write."""
    return str(server.run(SETUP))


def read_everything(server: LiveServer, token: str, branch: str, names: Sequence[str]) -> list[bytes]:
    """What REST says of a branch: files, contents, commits, what changed."""
    head = {"Authorization": f"Bearer {token}"}
    base = "/api/v1/repositories/nyc"
    ref = quote(branch, safe="")
    paths = [f"{base}/contents?ref={ref}", f"{base}/commits?branch={ref}", f"{base}/compare?base=master&head={ref}"]
    paths += [f"{base}/contents/{quote(name, safe='')}?ref={ref}" for name in names]
    paths += [f"{base}/contents/{quote(name, safe='')}/config?ref={ref}" for name in names]
    answers = []
    for path in paths:
        try:
            answers.append(server.fetch(path, headers=head)[1])
        except urllib.error.HTTPError as error:
            assert error.code < 500, (path, error.read())
            answers.append(error.read())
    return answers


def test_some_hostile_trees_start_git_alone(server: LiveServer, token: str, tmp_path: Path) -> None:
    push_all(server, token, tmp_path, every=12)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_all_hostile_trees_start_git_alone(server: LiveServer, token: str, tmp_path: Path) -> None:
    push_all(server, token, tmp_path, every=1)


def push_all(server: LiveServer, token: str, folder: Path, *, every: int) -> None:
    """Push every n-th tree to a branch of its own, and read what was taken."""
    canary = folder / "canary"
    canary.write_bytes(b"the canary sings")
    clone = Clone(folder / "clone")
    clone.folder.mkdir()
    clone.git("clone", server.url("nyc", user="olek", token=token), ".")
    raw = pygit2.Repository(str(clone.folder))
    trees = list_trees(canary)
    assert len(trees) >= 80
    note = folder / "calls"
    taken = 0
    with noting(list_processes(server.pid), note, calls=CALLS):
        for number, tree in list(enumerate(trees))[::every]:
            branch = f"hostile-{number}"
            commit = write_commit(raw, tree)
            said = clone.git("push", "origin", f"{commit}:refs/heads/{branch}", fails=None)
            taken += "new branch" in said
            for answer in read_everything(server, token, branch, list(tree)):
                assert canary.read_bytes() not in answer, tree
    calls = note.read_text(errors="replace")
    assert canary.read_bytes() == b"the canary sings"
    assert not [line for line in calls.splitlines() if re.search(rf'"[^"]*{re.escape(canary.name)}"', line)]
    programs = {Path(program) for program in re.findall(r'execve\("([^"]+)"', calls)}
    assert programs
    assert [
        path for path in programs if path.name not in PROGRAMS and path.parent != HOOKS and path != Path(sys.executable)
    ] == []
    print(f"{len(trees[::every])} trees, {taken} taken, programs {sorted(map(str, programs))}")
    assert 0 < taken < len(trees[::every])


def write_commit(raw: pygit2.Repository, tree: Content) -> str:
    pygit2.settings.enable_strict_object_creation(False)
    try:
        signature = pygit2.Signature("x", "x@example.org")
        return str(raw.create_commit(None, signature, signature, "m", pygit2.Oid(hex=write_tree(raw, tree)), []))
    finally:
        pygit2.settings.enable_strict_object_creation(True)


def list_processes(pid: int) -> list[int]:
    """A process and all below it."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [
        pid,
        *(each for path in children for child in path.read_text().split() for each in list_processes(int(child))),
    ]
