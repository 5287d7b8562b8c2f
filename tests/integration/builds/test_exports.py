"""Exports of commits for jobs: none stays half, none that is too large is begun again, and all have a bounded part of the disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import ObjectType

from tests.factories import repositories as make
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import JobState
from webapp.builds.runner import paths
from webapp.builds.services import publication, trees
from webapp.core import clock
from webapp.git import repository as git
from webapp.repositories import queries
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
LONG_AGO = time.time() - 600


@pytest.fixture
def repository(home: Path) -> Repository:
    return make.a_repository("shop")


def list_exports() -> list[Path]:
    return list(paths.trees_folder().glob("*/*"))


def commit(repository: Repository, name: str, *, size: int = 1) -> str:
    return make.a_commit(repository, {name: "x" * size}).sha


def test_a_commit_that_is_too_large_fails_once_by_name_and_leaves_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = commit(repository, "large", size=100_000)
    Publication.objects.all().delete()
    row = Publication.objects.create(repository=repository, branch="master", sha=sha)
    monkeypatch.setattr(git, "MAX_EXPORT_BYTES", 50_000)
    publication.publish(repository=repository, branch="master", sha=sha)
    row.refresh_from_db()
    assert row.status == PublicationState.FAILED
    assert "too large to be run" in row.errors[0]["message"]
    assert list_exports() == []


def test_an_export_that_stops_half_way_leaves_nothing(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = commit(repository, "a")

    def write_some(_repository: Repository, _sha: str, folder: Path) -> None:
        folder.mkdir()
        (folder / "a").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(queries, "export_tree", write_some)
    with pytest.raises(OSError, match="No space"):
        trees.export(repository=repository, sha=sha)
    assert list_exports() == []


def test_what_a_dead_process_left_goes_before_whole_exports(repository: Repository) -> None:
    whole = trees.export(repository=repository, sha=commit(repository, "a"))
    partial = whole.with_name(f".{whole.name}.1")
    partial.mkdir()
    for folder in (whole, partial):
        os.utime(folder, (time.time() - 7200,) * 2)
    trees.sweep_trees()
    assert list_exports() == [whole]


def test_the_exports_of_a_repository_have_a_part_of_the_disk(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were used longest ago go first; what a job runs on stays, and so does what was just used."""
    monkeypatch.setattr(trees, "MOST_BYTES", 100_000)
    shas = [commit(repository, name, size=40_000) for name in "abcd"]
    build = Build.objects.create(
        repository=repository, branch="master", chain=["master"], targets=["/shop/x"], by=repository.created_by
    )
    Job.objects.create(
        build=build, number=1, repository="shop", sha=shas[0], state=JobState.RUNNING, lease_until=clock.now()
    )
    folders = []
    for age, sha in enumerate(shas[:3]):
        folders.append(trees.export(repository=repository, sha=sha))
        os.utime(folders[-1], (LONG_AGO + age,) * 2)
    trees.export(repository=repository, sha=shas[3])
    assert [folder.exists() for folder in folders] == [True, False, False]
    trees.export(repository=repository, sha=commit(repository, "e"))
    assert len(list_exports()) == 3


def test_names_that_are_no_text_are_left_out(repository: Repository) -> None:
    raw = repository.git.objects.store
    blob = bytes.fromhex(str(raw.create_blob(b"x")))
    tree = raw.write(ObjectType.TREE, b"".join(b"100644 " + name + b"\0" + blob for name in (b"a", b"x\xfe", b"x\xff")))
    someone = pygit2.Signature("x", "x@example.org")
    sha = str(raw.create_commit(None, someone, someone, "m", tree, []))
    folder = trees.export(repository=repository, sha=sha)
    assert [file.name for file in folder.iterdir()] == ["a"]
