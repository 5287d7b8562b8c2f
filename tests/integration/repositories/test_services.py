"""Branches, commits, merges and protections through the services."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from webapp.accounts import services as accounts
from webapp.accounts.models import AuditEntry, Folder
from webapp.accounts.permissions import role_on_folder
from webapp.core.errors import AppError, Conflict, InvalidInput, NotFound, PermissionDenied, TooLarge
from webapp.git.values import Change
from webapp.repositories import queries, services, signals
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from django.dispatch import Signal

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def announced() -> Iterator[list[dict[str, Any]]]:
    """Collect the commits that are announced."""
    commits: list[dict[str, Any]] = []
    with listening(signals.commit_created, commits):
        yield commits


@contextmanager
def listening(signal: Signal, heard: list[dict[str, Any]]) -> Iterator[None]:
    """Collect what a signal says."""

    def receive(**values: Any) -> None:
        heard.append(values)

    signal.connect(receive)
    yield
    signal.disconnect(receive)


def test_create_repository_starts_a_protected_master(repository: Repository, ines: Principal) -> None:
    head = queries.get_head(repository, "master")
    assert "pipeline.toml" in queries.list_files(repository, "master")
    assert queries.read_file(repository, head, "pipeline.toml").decode().count("/nyc") == 1
    [branch] = queries.list_branches(repository)
    assert (branch.name, branch.head, branch.parent, branch.protected) == ("master", head, "", True)
    assert branch.publication is not None
    assert branch.publication.status == "pending"
    assert role_on_folder(ines, "nyc") == "maintainer"


@pytest.mark.parametrize("name", ["", "a b", "../x", ".git", "a/b", "new", "-x", "x" * 101, "é", "a.git"])
def test_create_repository_refuses_illegal_names(ines: Principal, name: str) -> None:
    with pytest.raises(InvalidInput):
        services.create_repository(name=name, by=ines)


def test_create_repository_refuses_a_name_taken_in_other_case(repository: Repository, ines: Principal) -> None:
    with pytest.raises(Conflict, match="unique without case"):
        services.create_repository(name="NYC", by=ines)
    assert repository.path.exists()


def test_create_repository_refuses_an_unknown_template(ines: Principal) -> None:
    with pytest.raises(InvalidInput, match="template"):
        services.create_repository(name="x", template="../../config", by=ines)


def test_create_repository_never_takes_a_folder_of_others(ines: Principal) -> None:
    accounts.claim_folder(folder="finance", creator=make.a_person("olek"))
    with pytest.raises(Conflict, match="belongs to somebody else"):
        services.create_repository(name="finance", by=ines)
    assert not Repository.objects.filter(name="finance").exists()


def test_pipeline_file_claims_free_folders_only(repository: Repository, ines: Principal) -> None:
    accounts.claim_folder(folder="finance", creator=make.a_person("olek"))
    make.a_commit(repository, {"pipeline.toml": '[pipeline]\nfolders = ["/nyc", "/weather", "/finance"]\n'})
    assert role_on_folder(ines, "weather") == "maintainer"
    assert role_on_folder(ines, "finance") is None
    assert AuditEntry.objects.filter(verb="claim_folder", outcome="refused").exists()
    assert Folder.objects.get(name="finance").repository == ""


def test_delete_repository_removes_everything(
    repository: Repository, ines: Principal, django_capture_on_commit_callbacks: Any
) -> None:
    path = repository.path
    with django_capture_on_commit_callbacks(execute=True):
        services.delete_repository(repository=repository, by=ines)
    assert not path.exists()
    with pytest.raises(NotFound):
        queries.get_repository(ines, "nyc")


def test_branch_knows_its_parent_and_chain(repository: Repository) -> None:
    make.a_branch(repository, "feature1")
    make.a_branch(repository, "feature2", start="feature1")
    assert queries.get_fallback_chain(repository, "feature2") == ("feature2", "feature1", "master")
    assert queries.get_fallback_chain(repository, "master") == ("master",)
    assert queries.get_fallback_chain(repository, "unknown") == ("unknown", "master")


def test_branch_children_are_adopted_when_their_parent_goes(repository: Repository, ines: Principal) -> None:
    make.a_branch(repository, "feature1")
    make.a_branch(repository, "feature2", start="feature1")
    services.delete_branch(repository=repository, name="feature1", by=ines)
    assert queries.get_fallback_chain(repository, "feature2") == ("feature2", "master")


@pytest.mark.parametrize(
    "name",
    ["main", "MAIN", "", "_job/1", "a b", "a..b", "-x", "x.lock", "refs/heads/master", "heads/x", "HEAD", "a" * 201]
    + ["deadbeef", "0" * 40, "tags/v1", "a//b", "a/", "ü", "a~1", "a^", "a:b", "a\x00b", ".a", "a/.b", "a@{1}"],
)
def test_create_branch_refuses_illegal_names(repository: Repository, ines: Principal, name: str) -> None:
    with pytest.raises(InvalidInput):
        services.create_branch(repository=repository, name=name, by=ines)
    assert queries.list_branch_names(repository) == ["master"]


@pytest.mark.parametrize("name", ["v1", "V1", "feature", "Feature", "master/x", "Feature/y"])
def test_create_branch_refuses_names_that_clash(repository: Repository, ines: Principal, name: str) -> None:
    make.a_branch(repository, "feature/x")
    store = repository.git.objects.store
    store.references.create("refs/tags/v1", store.head.target)
    with pytest.raises(Conflict) as error:
        services.create_branch(repository=repository, name=name, by=ines)
    assert error.value.code == "branch_exists"


@pytest.mark.parametrize("name", ["feature/x", "Feature/X", "FEATURE/x", "Master"])
def test_create_branch_refuses_taken_names_in_any_case(repository: Repository, ines: Principal, name: str) -> None:
    make.a_branch(repository, "feature/x")
    with pytest.raises(Conflict, match="exists already"):
        services.create_branch(repository=repository, name=name, by=ines)


def test_create_branch_refuses_a_name_below_another_branch(repository: Repository, ines: Principal) -> None:
    make.a_branch(repository, "feature")
    with pytest.raises(Conflict):
        services.create_branch(repository=repository, name="feature/x", by=ines)
    assert not repository.branches.filter(name="feature/x").exists()


def test_create_branch_refuses_an_unknown_start(repository: Repository, ines: Principal) -> None:
    for start in ["nowhere", "0" * 40, "HEAD", "master~1", "--upload-pack=x", "master^{tree}"]:
        with pytest.raises(NotFound):
            services.create_branch(repository=repository, name="f", start_point=start, by=ines)


def test_create_branch_at_a_commit_finds_its_parent(repository: Repository) -> None:
    make.a_branch(repository, "feature1")
    first = make.a_commit(repository, {"a.txt": "1"}, branch="feature1")
    make.a_commit(repository, {"a.txt": "2"}, branch="feature1")
    make.a_branch(repository, "feature2", start=first.sha)
    assert queries.get_fallback_chain(repository, "feature2") == ("feature2", "feature1", "master")


def test_delete_branch_refuses_the_default_and_protected_ones(repository: Repository, ines: Principal) -> None:
    make.a_branch(repository, "stable")
    services.set_protection(repository=repository, branch="stable", by=ines)
    for name in ["master", "stable"]:
        with pytest.raises(Conflict):
            services.delete_branch(repository=repository, name=name, by=ines)
    with pytest.raises(NotFound):
        services.delete_branch(repository=repository, name="nowhere", by=ines)


def test_a_deleted_branch_is_announced_as_that(
    repository: Repository, ines: Principal, announced: list[dict[str, Any]]
) -> None:
    head = make.a_branch(repository, "feature")
    deleted: list[dict[str, Any]] = []
    with listening(signals.branch_deleted, deleted):
        services.delete_branch(repository=repository, name="feature", data="keep", by=ines)
    assert [(item["before"], item["after"]) for item in announced] == [("", head)]
    assert [(item["branch"], item["head"], item["data"]) for item in deleted] == [("feature", head, "keep")]
    assert not Publication.objects.filter(branch="feature").exists()


def test_commit_is_announced_with_its_exact_heads(repository: Repository, announced: list[dict[str, Any]]) -> None:
    before = queries.get_head(repository, "master")
    commit = make.a_commit(repository, {"a.txt": "1"})
    [item] = announced
    assert (item["branch"], item["before"], item["after"]) == ("master", before, commit.sha)
    publication = queries.get_publication(repository, "master", commit.sha)
    assert publication is not None
    assert publication.status == "pending"
    assert commit.author.name == "ines"


def test_commit_from_an_old_head_names_the_new_one(repository: Repository) -> None:
    old = queries.get_head(repository, "master")
    new = make.a_commit(repository, {"a.txt": "1"}, expected_head=old)
    with pytest.raises(Conflict) as caught:
        make.a_commit(repository, {"a.txt": "2"}, expected_head=old)
    assert caught.value.code == "head_moved"
    assert caught.value.extra["head"] == new.sha
    assert queries.get_head(repository, "master") == new.sha


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([], InvalidInput),
        ([Change(path="none.txt", delete=True)], InvalidInput),
        ([Change(path="none.txt", move_to="x.txt")], InvalidInput),
        ([Change(path="README.md")], InvalidInput),
        ([Change(path="README.md", move_to="pipeline.toml")], InvalidInput),
        ([Change(path="README.md/x", content=b"")], InvalidInput),
        ([Change(path="pipelines", content=b"")], InvalidInput),
        ([Change(path="../x", content=b"")], InvalidInput),
        ([Change(path=".git/config", content=b"")], InvalidInput),
        ([Change(path="a/.GIT/hooks/x", content=b"")], InvalidInput),
        ([Change(path="a/.g\u200cit/x", content=b"")], InvalidInput),
        ([Change(path="git~1/x", content=b"")], InvalidInput),
        ([Change(path=".git./x", content=b"")], InvalidInput),
        ([Change(path="/etc/passwd", content=b"")], InvalidInput),
        ([Change(path="a\\b", content=b"")], InvalidInput),
        ([Change(path="a\nb", content=b"")], InvalidInput),
        ([Change(path="\ud800", content=b"")], InvalidInput),
        ([Change(path="x" * 300, content=b"")], InvalidInput),
        ([Change(path="big", content=b"x" * (20 * 1024 * 1024 + 1))], TooLarge),
    ],
)
def test_commit_refuses_bad_changes(
    repository: Repository, ines: Principal, changes: list[Change], error: type[AppError]
) -> None:
    head = queries.get_head(repository, "master")
    with pytest.raises(error):
        services.commit_files(repository=repository, branch="master", message="x", changes=changes, by=ines)
    assert queries.get_head(repository, "master") == head


def test_commit_refuses_no_change_no_message_no_branch(repository: Repository, ines: Principal) -> None:
    readme = queries.read_file(repository, "master", "README.md").decode()
    with pytest.raises(InvalidInput, match="leave every file"):
        make.a_commit(repository, {"README.md": readme})
    with pytest.raises(InvalidInput, match="message"):
        make.a_commit(repository, {"README.md": "x"}, message="  ")
    with pytest.raises(NotFound):
        make.a_commit(repository, {"README.md": "x"}, branch="nowhere")


def test_commit_moves_and_deletes(repository: Repository, ines: Principal) -> None:
    changes = [
        Change(path="README.md", move_to="docs/about.md"),
        Change(path="pipeline.toml", delete=True),
        Change(path="pipelines/__init__.py", move_to="pipelines/all.py", content=b"x = 1\n"),
    ]
    services.commit_files(repository=repository, branch="master", message="Move", changes=changes, by=ines)
    assert queries.list_files(repository, "master") == ["docs/about.md", "pipelines/all.py"]


def test_writers_do_not_commit_to_a_protected_branch(repository: Repository, ines: Principal) -> None:
    writer = make.a_member(repository, "writer")
    reader = make.a_member(repository, "reader")
    make.a_branch(repository, "feature", by=writer)
    make.a_commit(repository, {"a.txt": "1"}, branch="feature", by=writer)
    with pytest.raises(PermissionDenied, match="open a pull request"):
        make.a_commit(repository, {"a.txt": "1"}, by=writer)
    with pytest.raises(PermissionDenied):
        make.a_commit(repository, {"a.txt": "2"}, branch="feature", by=reader)
    with pytest.raises(NotFound):
        make.a_commit(repository, {"a.txt": "2"}, branch="feature", by=make.a_person())
    make.a_commit(repository, {"a.txt": "1"}, by=ines)
    assert AuditEntry.objects.filter(verb="commit_to_protected_branch").count() == 1
    services.set_protection(repository=repository, branch="master", allow_bypass=False, by=ines)
    with pytest.raises(PermissionDenied, match="open a pull request"):
        make.a_commit(repository, {"a.txt": "2"}, by=ines)


def test_a_name_that_is_protected_before_its_branch_is_there_is_made_by_maintainers(
    repository: Repository, ines: Principal
) -> None:
    writer = make.a_member(repository, "writer")
    make.a_branch(repository, "feature", by=writer)
    services.set_protection(repository=repository, branch="release", by=ines)
    with pytest.raises(PermissionDenied, match="a maintainer makes it"):
        make.a_branch(repository, "release", start="feature", by=writer)
    with pytest.raises(PermissionDenied, match="a maintainer makes it"):
        make.a_branch(repository, "RELEASE", start="feature", by=writer)
    make.a_branch(repository, "release", start="feature", by=ines)


def test_merge_and_squash_move_the_target(repository: Repository, ines: Principal) -> None:
    base = queries.get_head(repository, "master")
    make.a_branch(repository, "feature")
    source = make.a_commit(repository, {"a.txt": "1"}, branch="feature").sha
    order: dict[str, Any] = {"repository": repository, "source_sha": source, "target_sha": base, "by": ines}
    merged, squashed = (
        services.prepare_merge(**order, method=method, message="Bring it in") for method in ("merge", "squash")
    )
    landing: dict[str, Any] = {"repository": repository, "branch": "master", "expected_head": base, "by": ines}
    services.land_merge(**landing, sha=merged)
    commit = queries.get_commit(repository, "master")
    assert (commit.sha, commit.parents) == (merged, (base, source))
    with pytest.raises(Conflict):
        services.land_merge(**landing, sha=squashed)


def test_merge_names_conflicting_files(repository: Repository, ines: Principal) -> None:
    make.a_branch(repository, "feature")
    source = make.a_commit(repository, {"README.md": "theirs"}, branch="feature").sha
    head = make.a_commit(repository, {"README.md": "ours"}).sha
    assert queries.merge_state(repository, source, head).conflicts == ("README.md",)
    with pytest.raises(Conflict) as caught:
        services.prepare_merge(
            repository=repository, source_sha=source, target_sha=head, method="squash", message="m", by=ines
        )
    assert caught.value.extra["conflicts"] == ["README.md"]
    assert queries.get_head(repository, "master") == head


def test_sweep_repeats_what_was_lost(repository: Repository, announced: list[dict[str, Any]]) -> None:
    first = queries.get_head(repository, "master")
    announced.clear()
    git = repository.git
    lost = git.commit_changes(
        branch="master",
        message="x",
        changes=[Change(path="a", content=b"1")],
        author=git.get_commit(first).author,
    )
    git.create_branch("pushed", lost.sha)
    assert services.sweep_settled_heads() == {}
    assert services.sweep_settled_heads() == {"heads announced again": 2}
    assert {(item["branch"], item["before"], item["after"]) for item in announced} == {
        ("master", first, lost.sha),
        ("pushed", "", lost.sha),
    }
    assert services.sweep_settled_heads() == {}


def test_sweep_leaves_a_move_that_is_being_announced(repository: Repository, announced: list[dict[str, Any]]) -> None:
    git = repository.git
    head = git.get_head("master")
    git.commit_changes(
        branch="master", message="x", changes=[Change(path="a", content=b"1")], author=git.get_commit(head).author
    )
    assert services.sweep_settled_heads() == {}
    assert announced == []
    assert services.sweep_settled_heads() == {"heads announced again": 1}
    assert services.sweep_settled_heads() == {}
    assert len(announced) == 1


def test_a_commit_is_announced_once(repository: Repository, announced: list[dict[str, Any]]) -> None:
    commit = make.a_commit(repository, {"a.txt": "1"})
    services.announce(repository=repository, branch="master", before=commit.parents[0], after=commit.sha, by=None)
    assert len(announced) == 1


def test_export_leaves_links_out(repository: Repository, tmp_path: Path) -> None:
    left_out = queries.export_tree(repository, queries.get_head(repository, "master"), tmp_path / "out")
    assert left_out == []
    assert (tmp_path / "out" / "pipelines" / "__init__.py").read_bytes()


def test_set_publication_announces_its_end(repository: Repository) -> None:
    seen: list[Publication] = []

    def receive(publication: Publication, **_: Any) -> None:
        seen.append(publication)

    signals.publication_finished.connect(receive)
    head = queries.get_head(repository, "master")
    errors = [{"file": "a.py", "line": 3, "message": "no"}]
    services.set_publication(
        repository=repository, branch="master", sha=head, status=PublicationState.FAILED, errors=errors
    )
    signals.publication_finished.disconnect(receive)
    assert [item.errors for item in seen] == [errors]
    assert seen[0].finished_at is not None


def test_members_come_and_go(repository: Repository, ines: Principal) -> None:
    make.a_person("olek")
    services.set_member(repository=repository, username="olek", role="writer", by=ines)
    roles = {row.user.username: row.role for row in queries.list_members(ines, repository)}
    assert roles == {"ines": "maintainer", "olek": "writer"}
    services.remove_member(repository=repository, username="olek", by=ines)
    assert len(queries.list_members(ines, repository)) == 1
    with pytest.raises(NotFound):
        services.set_member(repository=repository, username="nobody", role="writer", by=ines)
    with pytest.raises(Conflict, match="maintainer"):
        services.remove_member(repository=repository, username="ines", by=ines)
