"""Commits have rows as soon as a head is announced, and the rows say what Git says, whatever becomes of branches."""

from __future__ import annotations

import time
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.factories import repositories as make
from tests.factories.fsck import find, repair
from tests.factories.histories import announce_all, import_history, run_git
from webapp.core.errors import Conflict
from webapp.core.fsck import Finding
from webapp.git.repository import GitRepository
from webapp.repositories import services, signals
from webapp.repositories.models import Commit, Repository
from webapp.repositories.services import check_repositories, recording

if TYPE_CHECKING:
    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)


def list_rows(repository: Repository) -> list[str]:
    return sorted(repository.commits.values_list("sha", flat=True))


def list_in_git(repository: Repository, *refs: str) -> list[str]:
    return sorted(run_git(repository.path, "rev-list", *(refs or ["--all"])).split())


def check_rows(repository: Repository) -> None:
    """Every row is what Git says, and stands above its parents."""
    levels = dict(repository.commits.values_list("sha", "level"))
    for row in repository.commits.all():
        told = repository.git.get_commit(row.sha)
        assert row.info == told
        assert row.info.authored_at.isoformat() == told.authored_at.isoformat()
        assert row.info.committed_at.isoformat() == told.committed_at.isoformat()
        assert row.level == 1 + max((levels[parent] for parent in row.parents), default=0)


def test_a_commit_has_its_row_when_it_is_announced(repository: Repository, ines: Principal) -> None:
    commit = make.a_commit(repository, {"a.txt": "a"}, message="Change a\n\nBecause.")
    row = repository.commits.get(sha=commit.sha)
    assert row.info == commit
    assert (row.level, row.parents) == (2, list(commit.parents))
    make.a_branch(repository, "feature")
    assert repository.commits.count() == 2
    check_rows(repository)


def test_rows_are_of_the_announcement_or_not_at_all(repository: Repository) -> None:
    def refuse(**_of: object) -> None:
        raise Conflict("Not now.")

    import_history(repository, commits=5)
    signals.commit_created.connect(refuse)
    try:
        with pytest.raises(Conflict):
            announce_all(repository)
    finally:
        signals.commit_created.disconnect(refuse)
    assert repository.commits.count() == 1


def test_a_merge_a_forced_push_and_a_deletion_keep_rows_true(repository: Repository, ines: Principal) -> None:
    git, start = repository.git, repository.git.get_head("master")
    make.a_branch(repository, "feature")
    lost = make.a_commit(repository, {"b.txt": "b"}, branch="feature").sha
    make.a_commit(repository, {"a.txt": "a"})
    merged = services.prepare_merge(
        repository=repository,
        source_sha=lost,
        target_sha=git.get_head("master"),
        method="merge",
        message="Merge",
        by=ines,
    )
    services.land_merge(
        repository=repository, branch="master", expected_head=git.get_head("master"), sha=merged, by=ines
    )
    assert list_rows(repository) == list_in_git(repository)
    git.move_branch("feature", expected=lost, sha=start)
    services.announce(repository=repository, branch="feature", before=lost, after=start, by=ines)
    alone = make.a_commit(repository, {"c.txt": "c"}, branch="feature").sha
    services.delete_branch(repository=repository, name="feature", by=ines)
    assert alone in list_rows(repository)
    services.create_branch(repository=repository, name="again", start_point=alone, by=ines)
    assert list_rows(repository) == list_in_git(repository)
    check_rows(repository)


def test_two_repositories_have_rows_of_their_own_for_one_commit(repository: Repository, ines: Principal) -> None:
    other = make.a_repository("other", by=ines)
    import_history(repository, commits=3)
    run_git(other.path, "fetch", "-q", str(repository.path), "+refs/heads/master:refs/heads/theirs")
    announce_all(repository)
    announce_all(other)
    head = repository.git.get_head("master")
    assert Commit.objects.filter(sha=head).count() == 2
    assert list_rows(other) == list_in_git(other)
    services.delete_repository(repository=repository, by=ines)
    assert Commit.objects.get(sha=head).repository == other
    assert not Commit.objects.filter(repository_id=repository.pk).exists()


def test_what_pushers_write_into_a_commit_is_kept_as_it_is_shown(repository: Repository) -> None:
    head, tree = run_git(repository.path, "log", "-1", "--format=%H %T").split()
    texts = {
        "of the year 9999": f"x <x@example.org> 253402300799 -0500\ncommitter x <x@example.org> {2**40} +0000\n\nLate",
        "without names": "<> 0 -1200\ncommitter <> 0 +1345\n\n",
    }
    for name, text in texts.items():
        commit = f"tree {tree}\nparent {head}\nauthor {text}"
        path = repository.path / "commit"
        path.write_bytes(commit.encode() + b"\x00 and \xff no text")
        sha = run_git(repository.path, "hash-object", "-t", "commit", "-w", "--literally", str(path)).strip()
        run_git(repository.path, "update-ref", f"refs/heads/{name.replace(' ', '-')}", sha)
    announce_all(repository)
    assert repository.commits.count() == 1 + len(texts)
    check_rows(repository)


def test_a_history_that_begins_in_the_middle_is_left_to_git(repository: Repository) -> None:
    """The row of a head promises its whole history."""
    import_history(repository, commits=4)
    gone = run_git(repository.path, "rev-parse", "master~2").strip()
    (repository.path / "objects" / gone[:2] / gone[2:]).unlink()
    head = repository.git.get_head("master")
    services.announce(repository=repository, branch="late", before="", after=head, by=None)
    assert repository.branches.get(name="late").announced_head == head
    assert repository.commits.count() == 1


def test_the_sweep_records_what_the_release_before_announced(repository: Repository) -> None:
    import_history(repository, commits=5, branches=2)
    for name, head in repository.git.list_heads().items():
        repository.branches.update_or_create(name=name, defaults={"name_lower": name, "announced_head": head})
    assert services.sweep_commits() == {"heads recorded": 3}
    assert list_rows(repository) == list_in_git(repository)
    assert services.sweep_commits() == {}


def test_a_history_that_git_cannot_read_keeps_no_other_from_being_recorded(
    repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    import_history(repository, commits=4)
    head = repository.git.get_head("master")
    good = run_git(repository.path, "rev-parse", "master~3").strip()
    gone = run_git(repository.path, "rev-parse", "master~2").strip()
    for name, sha in {"a": head, "b": good}.items():
        repository.branches.create(name=name, name_lower=name, announced_head=sha)
    (repository.path / "objects" / gone[:2] / gone[2:]).unlink()
    assert services.sweep_commits() == {"heads recorded": 1}
    assert list_rows(repository) == list_in_git(repository, good)
    caplog.clear()
    assert services.sweep_commits() == {}
    assert caplog.records == [], "it is looked at again in ten minutes"


def test_a_sweep_leaves_the_rest_to_the_next_one(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    import_history(repository, commits=5, branches=2)
    for name, head in repository.git.list_heads().items():
        repository.branches.update_or_create(name=name, defaults={"name_lower": name, "announced_head": head})
    monkeypatch.setattr(recording, "SWEEP_SECONDS", 0)
    assert services.sweep_commits() == {"heads recorded": 1}
    assert list_rows(repository) != list_in_git(repository)
    while services.sweep_commits():
        pass
    assert list_rows(repository) == list_in_git(repository)


def test_rows_of_a_repository_that_the_release_before_deleted_go(repository: Repository) -> None:
    assert repository.commits.exists()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE repositories_commit SET repository_id = 4711")
    assert services.sweep_orphaned_commits() == {"commits of deleted repositories removed": 1}
    assert not Commit.objects.filter(repository_id=4711).exists()


def test_a_history_longer_than_a_batch_is_written_batch_by_batch(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "BATCH", 10)
    import_history(repository, commits=35, branches=3)
    announce_all(repository)
    assert list_rows(repository) == list_in_git(repository)
    check_rows(repository)
    assert list(recording.find_untrue(repository, repository.git)) == []


@pytest.mark.damage("commit_unrecorded")
def test_fsck_names_a_head_without_a_row(repository: Repository) -> None:
    head = make.a_commit(repository, {"a.txt": "a"}).sha
    repository.commits.filter(sha=head).delete()
    assert find("repositories") == [("commit_unrecorded", f"nyc:{head[:7]}")]
    assert repair("repositories")["clean"]


@pytest.mark.damage("commit_untrue")
@pytest.mark.parametrize(
    "untruth", [{"message": "I said so"}, {"level": 7}, {"parents": []}, {"author_name": "Olek"}, {"authored_zone": 60}]
)
def test_fsck_names_a_row_that_is_untrue(repository: Repository, untruth: dict[str, object]) -> None:
    head = make.a_commit(repository, {"a.txt": "a"}).sha
    repository.commits.filter(sha=head).update(**untruth)
    assert find("repositories") == [("commit_untrue", f"nyc:{head[:7]}")]
    assert repair("repositories")["clean"]
    check_rows(repository)


def test_untrue_rows_are_written_anew_once(repository: Repository) -> None:
    import_history(repository, commits=4)
    announce_all(repository)
    repository.commits.update(message="I said so")
    findings = [item for item in check_repositories() if isinstance(item, Finding)]
    assert [finding.code for finding in findings] == ["commit_untrue"] * 5
    assert [finding.repair is None for finding in findings] == [False, True, True, True, True]


def test_rebuilding_writes_what_git_has_and_keeps_commits_of_deleted_branches(
    repository: Repository, ines: Principal
) -> None:
    make.a_branch(repository, "feature")
    alone = make.a_commit(repository, {"b.txt": "b"}, branch="feature").sha
    services.delete_branch(repository=repository, name="feature", by=ines)
    repository.commits.filter(sha=repository.git.get_head("master")).update(message="untrue", level=9)
    out = StringIO()
    call_command("rebuild_commits", stdout=out)
    assert out.getvalue() == "nyc: 2 commits\n"
    assert alone in list_rows(repository)
    check_rows(repository)
    with pytest.raises(CommandError, match="There is no repository nowhere"):
        call_command("rebuild_commits", "nowhere")


def test_a_foreign_copy_is_neither_recorded_nor_rebuilt(repository: Repository, ines: Principal) -> None:
    other = make.a_repository("other", by=ines)
    before = list_rows(repository)
    repository.path.rename(repository.path.with_name("away"))
    other.path.rename(repository.path)
    with pytest.raises(CommandError, match="Not rebuilt: nyc"):
        call_command("rebuild_commits", "nyc", stderr=StringIO())
    services.sweep_commits()
    assert list_rows(repository) == before
    assert GitRepository(repository.path).get_head("master")


def test_a_first_push_of_ten_thousand_commits_is_quick(repository: Repository) -> None:
    import_history(repository, commits=10_000)
    began = time.perf_counter()
    announce_all(repository)
    took = time.perf_counter() - began
    print(f"10,000 commits were recorded in {took:.2f} s")
    assert repository.commits.count() == 10_001
    assert took < 20
