"""Absence in Git is no deletion: an older or foreign copy is refused, and nothing is deleted without somebody's act."""

from __future__ import annotations

import shutil
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from tests.factories import datasets as make_data
from tests.factories import repositories as make
from tests.factories.fsck import find
from webapp.accounts.queries import get_user
from webapp.builds import services as builds
from webapp.builds.services import sweeping
from webapp.core import clock
from webapp.core.errors import Unavailable
from webapp.datasets.models import DatasetBranch
from webapp.git.repository import GitRepository
from webapp.git.values import RefUpdate
from webapp.repositories import queries, services
from webapp.repositories.models import Branch, BranchDeletion, CopyDamage, Publication, Repository
from webapp.repositories.services import announcements

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from django.test import Client

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(announcements, "_memory", announcements._Memory())


@pytest.fixture
def dataset(repository: Repository) -> Dataset:
    """Data on master and on the Git branch feature."""
    user = repository.created_by
    assert user is not None
    dataset = make_data.a_dataset("/nyc/flights", by=user)
    make_data.write(make_data.a_client(user), dataset)
    make.a_branch(repository, "feature")
    make_data.write(make_data.a_client(user, "feature"), dataset)
    return dataset


@pytest.fixture
def older(repository: Repository) -> Callable[[], Path]:
    """Take a backup now; the call puts it in the place of the repository and returns where the newer copy is."""
    backup = repository.path.with_name("backup")
    shutil.copytree(repository.path, backup)

    def restore() -> Path:
        newer = repository.path.with_name("newer")
        repository.path.rename(newer)
        shutil.copytree(backup, repository.path)
        return newer

    return restore


def sweep() -> None:
    """What the sweeper does in some seconds."""
    for _ in range(3):
        services.sweep_settled_heads()
        services.sweep_deletions()


def is_whole(dataset: Dataset) -> bool:
    return DatasetBranch.objects.filter(dataset=dataset, name="feature").exists()


def test_an_older_git_folder_deletes_nothing_and_is_told(
    older: Callable[[], Path], repository: Repository, dataset: Dataset, client: Client
) -> None:
    newer = older()
    sweep()
    assert is_whole(dataset)
    assert Branch.objects.filter(repository=repository, name="feature").exists()
    assert Publication.objects.filter(repository=repository, branch="feature").exists()
    answer = client.get("/readyz").json()
    assert answer["repositories"] == "damaged"
    assert "nyc: " in answer["details"]["repositories"]
    assert "is older than the database" in answer["details"]["repositories"]

    shutil.rmtree(repository.path)
    newer.rename(repository.path)
    sweep()
    assert client.get("/readyz").json()["repositories"] == "ok"
    assert is_whole(dataset)


def test_an_older_copy_is_read_and_not_written(
    older: Callable[[], Path], repository: Repository, ines: Principal
) -> None:
    make.a_commit(repository, {"a.txt": "a"})
    head = repository.git.get_head("master")
    held = Repository.objects.get(pk=repository.pk)
    make.a_commit(repository, {"c.txt": "c"})
    older()
    # What a long-running process has in hand is as old as the folder.
    assert held.generation < repository.generation
    repository = held
    assert "pipeline.toml" in queries.list_files(repository, "master")
    attempts: list[Callable[[], object]] = [
        lambda: make.a_commit(repository, {"b.txt": "b"}),
        lambda: make.a_branch(repository, "other"),
        lambda: services.land_merge(repository=repository, branch="master", expected_head=head, sha=head, by=ines),
        lambda: builds.publish(repository=repository, branch="master", sha=repository.git.get_head("master")),
    ]
    for attempt in attempts:
        with pytest.raises(Unavailable, match="accept_repository nyc") as refused:
            attempt()
        assert refused.value.code == "repository_damaged"
    update = RefUpdate(ref="refs/heads/x", before="", after=head, fast_forward=False)
    [reason] = services.check_push(repository=repository, updates=[update], by=ines)
    assert "is older than the database" in reason


def test_a_copy_that_was_put_there_since_a_move_was_allowed_is_not_announced(
    older: Callable[[], Path], repository: Repository
) -> None:
    make.a_commit(repository, {"a.txt": "a"})
    older()
    head = repository.git.get_head("master")
    with pytest.raises(Unavailable, match="is older than the database"):
        announcements.announce(repository=repository, branch="late", before="", after=head, by=None)
    identity = repository.git.read_identity()
    assert identity is not None
    assert identity.generation < repository.generation
    assert not Branch.objects.filter(name="late").exists()


def test_a_copy_of_another_installation_is_refused(repository: Repository) -> None:
    (repository.path / "tributary").write_text("0123456789abcdef0123456789abcdef 999\n")
    with pytest.raises(Unavailable, match="another installation"):
        make.a_commit(repository, {"b.txt": "b"})
    (repository.path / "tributary").unlink()
    with pytest.raises(Unavailable, match="does not say which repository it is"):
        make.a_commit(repository, {"b.txt": "b"})


def test_code_of_another_repository_in_its_place_is_not_shown(
    repository: Repository, ines: Principal, client: Client
) -> None:
    secret = make.a_repository("secret", by=ines)
    make.a_commit(secret, {"secret.py": "PASSWORD = 'canary'\n"})
    aside = repository.path.with_name("aside")
    repository.path.rename(aside)
    shutil.copytree(secret.path, repository.path)
    with pytest.raises(Unavailable, match="is a copy of another repository") as refused:
        queries.list_files(repository, "master")
    assert refused.value.code == "repository_damaged"
    client.force_login(get_user(ines.username))
    for address in ("/r/nyc", "/r/nyc/blob/master/secret.py", "/api/v1/repositories/nyc/contents/secret.py?ref=master"):
        answer = client.get(address)
        assert (answer.status_code, b"canary" in answer.content) == (503, False), address
    listed = client.get("/repositories")
    assert listed.status_code == 200, "one that is damaged hides no other"
    assert b"Git copy unreadable" in listed.content
    assert b"1</b>" in listed.content, "the other one's branch"
    shutil.rmtree(repository.path)
    aside.rename(repository.path)
    assert "pipeline.toml" in queries.list_files(repository, "master")


def test_a_repository_of_before_copies_said_whose_they_are_goes_on(repository: Repository) -> None:
    (repository.path / "tributary").unlink()
    Repository.objects.update(generation=0)
    repository.refresh_from_db()
    make.a_commit(repository, {"b.txt": "b"})
    repository.refresh_from_db()
    identity = repository.git.read_identity()
    assert identity is not None
    assert (identity.uid, identity.generation) == (repository.uid.hex, repository.generation)
    assert repository.generation == 1


def test_a_branch_that_vanishes_from_the_right_copy_is_told_and_its_data_stays(
    repository: Repository, dataset: Dataset, client: Client
) -> None:
    repository.git.delete_branch("feature", expected=repository.git.get_head("feature"))
    sweep()
    assert is_whole(dataset)
    assert "Git lacks feature" in client.get("/readyz").json()["details"]["repositories"]


def test_an_older_copy_that_is_accepted_is_gone_on_with(
    older: Callable[[], Path], repository: Repository, dataset: Dataset, client: Client
) -> None:
    older()
    sweep()
    out = StringIO()
    call_command("accept_repository", "nyc", stdout=out)
    assert "feature is not in it: the branch is gone, its data stays." in out.getvalue()
    sweep()
    assert client.get("/readyz").json()["repositories"] == "ok"
    assert is_whole(dataset)
    assert not Branch.objects.filter(repository=repository, name="feature").exists()
    repository.refresh_from_db()
    make.a_commit(repository, {"b.txt": "b"})
    with pytest.raises(CommandError, match="There is no repository other"):
        call_command("accept_repository", "other")


@pytest.mark.usefixtures("silent_bell")
def test_an_older_copy_takes_no_publication_away(older: Callable[[], Path], repository: Repository) -> None:
    make.a_commit(repository, {"a.txt": "a"})
    pending = Publication.objects.get(sha=repository.git.get_head("master"))
    older()
    Publication.objects.update(rung_at=clock.now() - timedelta(minutes=1))
    sweeping.ring_pending_publications()
    pending.refresh_from_db()
    assert clock.now() - pending.rung_at < timedelta(minutes=1), "it was due"
    assert Publication.objects.filter(pk=pending.pk).exists()


def test_a_folder_that_the_database_does_not_know_is_kept(repository: Repository, ines: Principal) -> None:
    head = repository.git.get_head("master")
    Repository.objects.all().delete()
    services.create_repository(name="nyc", by=ines)
    [kept] = repository.path.parent.glob("nyc.found-*")
    assert GitRepository(kept).get_head("master") == head


def test_damage_of_a_machine_that_is_gone_is_forgotten(repository: Repository, client: Client) -> None:
    row = CopyDamage.objects.create(repository=repository, place="gone:/var", problem="It is older.")
    assert client.get("/readyz").json()["repositories"] == "damaged"
    CopyDamage.objects.filter(pk=row.pk).update(seen_at=clock.now() - timedelta(minutes=6))
    assert client.get("/readyz").json()["repositories"] == "ok"


class Crash(BaseException):
    """Stands for the death of the process: nothing catches it."""


def test_a_deletion_that_died_before_the_ref_went_is_finished(
    repository: Repository, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def die(*_args: Any, **_kwargs: Any) -> None:
            raise Crash

        patch.setattr("webapp.git.repository.GitRepository.delete_branch", die)
        with pytest.raises(Crash):
            services.delete_branch(repository=repository, name="feature", by=make.maker_of(repository))
    sweep()
    assert is_whole(dataset)
    BranchDeletion.objects.update(created_at=clock.now() - timedelta(minutes=1))
    sweep()
    assert repository.git.find_head("feature") is None
    assert not is_whole(dataset)
    assert not BranchDeletion.objects.exists()


def test_a_deletion_that_died_after_the_ref_went_is_finished(
    repository: Repository, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def die(*_args: Any, **_kwargs: Any) -> None:
            raise Crash

        patch.setattr("webapp.repositories.services.deletions.announce", die)
        with pytest.raises(Crash):
            services.delete_branch(repository=repository, name="feature", by=make.maker_of(repository))
    assert repository.git.find_head("feature") is None
    BranchDeletion.objects.update(created_at=clock.now() - timedelta(minutes=1))
    sweep()
    assert not is_whole(dataset)
    assert not CopyDamage.objects.exists()


def test_a_pushed_deletion_whose_server_died_is_finished_and_a_refused_one_is_not(
    repository: Repository, dataset: Dataset
) -> None:
    head = repository.git.get_head("feature")
    update = RefUpdate(ref="refs/heads/feature", before=head, after="", fast_forward=False)
    by = make.maker_of(repository)
    assert services.check_push(repository=repository, updates=[update], by=by) == []
    BranchDeletion.objects.update(created_at=clock.now() - timedelta(minutes=1))
    sweep()
    assert repository.git.find_head("feature") == head
    assert is_whole(dataset)
    repository.git.delete_branch("feature", expected=head)
    sweep()
    assert not is_whole(dataset)

    head = make.a_branch(repository, "other")
    update = RefUpdate(ref="refs/heads/other", before=head, after="", fast_forward=False)
    assert services.check_push(repository=repository, updates=[update], by=by) == []
    BranchDeletion.objects.update(created_at=clock.now() - timedelta(hours=1))
    sweep()
    assert repository.git.find_head("other") == head
    assert not BranchDeletion.objects.exists()


def test_a_branch_that_moved_since_is_not_deleted(repository: Repository, dataset: Dataset) -> None:
    head = repository.git.get_head("feature")
    BranchDeletion.objects.create(
        repository=repository, branch="feature", head=head, created_at=clock.now() - timedelta(minutes=1)
    )
    make.a_commit(repository, {"a.txt": "a"}, branch="feature")
    sweep()
    assert repository.git.find_head("feature") is not None
    assert is_whole(dataset)
    assert not BranchDeletion.objects.exists()


@pytest.mark.damage("copy_refused")
def test_fsck_names_a_refused_copy_and_a_branch_without_an_act(
    older: Callable[[], Path], repository: Repository
) -> None:
    make.a_branch(repository, "feature")
    newer = older()
    assert find("repositories") == [("copy_refused", "nyc")]
    shutil.rmtree(repository.path)
    newer.rename(repository.path)
    assert find("repositories") == []
    repository.git.delete_branch("feature", expected=repository.git.get_head("feature"))
    assert find("repositories") == [("branch_missing", "nyc:feature")]
