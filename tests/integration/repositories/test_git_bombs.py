"""Some bytes that Git unpacks to gigabytes, and folders that name each other to billions of files: pushed, then looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import ObjectType

from tests.factories.crowds import read_peak_mib
from tests.integration.repositories.live import Clone, LiveServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
SETUP = """
from tests.factories import repositories as make
olek = make.a_person("olek")
make.a_repository("nyc", by=olek)
result = make.a_token(olek)
"""
BRANCHES = """
from webapp.repositories.models import Branch
result = list(Branch.objects.values_list("name", flat=True))
"""
MIB = 1024**2
AT_MOST_MIB = 120
"""What a page may cost; unpacked, each of these files is larger or takes more to compare."""


@pytest.fixture(scope="module")
def token(server: LiveServer) -> str:
    return str(server.run(SETUP))


@pytest.fixture
def clone(server: LiveServer, token: str, tmp_path: Path) -> Clone:
    folder = tmp_path / "clone"
    folder.mkdir()
    clone = Clone(folder)
    clone.git("clone", server.url("nyc", user="olek", token=token), ".")
    return clone


def write_tree(raw: pygit2.Repository, mode: str, child: str, *, times: int) -> str:
    """A folder that names one and the same thing many times."""
    lines = b"".join(f"{mode} {n:03d}".encode() + b"\0" + bytes.fromhex(child) for n in range(times))
    return str(raw.write(ObjectType.TREE, lines))


def nest(raw: pygit2.Repository, mode: str, leaf: str, *, levels: int, times: int) -> str:
    """Folders in folders, each of which names the next many times."""
    tree = write_tree(raw, mode, leaf, times=times)
    for _ in range(levels):
        tree = write_tree(raw, "40000", tree, times=times)
    return tree


BOMBS: dict[str, Callable[[pygit2.Repository], str]] = {
    "files": lambda raw: nest(raw, "100644", str(raw.create_blob(b"x")), levels=9, times=10),
    "modules": lambda raw: nest(raw, "160000", "1" * 40, levels=9, times=10),
    "nothing": lambda raw: nest(raw, "40000", str(raw.write(ObjectType.TREE, b"")), levels=9, times=10),
    "depth": lambda raw: nest(raw, "100644", str(raw.create_blob(b"x")), levels=150, times=1),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_folders_that_unpack_to_more_than_a_commit_may_have_are_refused(
    server: LiveServer, clone: Clone, bomb: str
) -> None:
    raw = pygit2.Repository(str(clone.folder))
    pygit2.settings.enable_strict_object_creation(False)
    try:
        someone, tree = pygit2.Signature("x", "x@example.org"), BOMBS[bomb](raw)
        commit = raw.create_commit(None, someone, someone, "bomb", pygit2.Oid(hex=tree), [])
        after = raw.create_commit(None, someone, someone, "gone", raw[raw.head.target].tree.id, [commit])
    finally:
        pygit2.settings.enable_strict_object_creation(True)
    for head in (commit, after):
        said = clone.git("push", "origin", f"{head}:refs/heads/bomb", fails=True)
        assert "holds more than a commit may have" in said, said
    assert "bomb" not in server.run(BRANCHES)


def test_a_file_that_unpacks_to_more_than_a_repository_takes_is_refused(server: LiveServer, clone: Clone) -> None:
    with (clone.folder / "zeros").open("wb") as file:
        file.truncate(101 * MIB)
    clone.git("add", ".")
    clone.git("commit", "-m", "Add zeros")
    said = clone.git("push", "origin", "HEAD:refs/heads/zeros", fails=True)
    assert "has 105,906,176 bytes, more than 104,857,600" in said, said


def test_pages_of_a_branch_with_large_files_unpack_none_of_them(server: LiveServer, clone: Clone, token: str) -> None:
    before = read_peak_mib(server.pid)
    clone.git("checkout", "-b", "large")
    for number in range(2):
        with (clone.folder / f"zeros{number}").open("wb") as file:
            file.truncate((70 + number) * MIB)
    (clone.folder / "lines.csv").write_bytes(b"\n" * 4 * MIB)
    clone.git("add", ".")
    clone.git("commit", "-m", "Add large files")
    clone.git("push", "origin", "large")
    head = {"Authorization": f"Bearer {token}"}
    base = "/api/v1/repositories/nyc"
    for path in ("contents?ref=large", "compare?base=master&head=large"):
        status, body = server.fetch(f"{base}/{path}", headers=head)
        assert (status, b"lines.csv" in body) == (200, True)
    assert read_peak_mib(server.pid) < before + AT_MOST_MIB
