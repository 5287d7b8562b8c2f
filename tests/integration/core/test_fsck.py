"""`manage.py fsck`: each kind of damage is done, named by exactly one finding, and mended where that is safe."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from jobs.protocol import PublishResult
from tests.factories import datasets as make
from tests.factories import repositories as make_git
from tests.factories.build_rows import a_jobspec, a_world, an_upload
from tests.factories.databases import migrate
from tests.factories.fsck import find, look, named, repair
from webapp.accounts.services.audit import seal_audit
from webapp.builds.models import Build, Job, PublishedInput, PublishedSpec
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import publication, sweeping
from webapp.catalog.models import Table, View
from webapp.catalog.services import checking
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.local_files import local_path
from webapp.catalog.storage.reader import TableReader
from webapp.catalog.storage.references import list_references
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules.states import ComparisonState
from webapp.core import clock
from webapp.core.fsck import Finding
from webapp.core.fsck import repair as mend
from webapp.datasets.models import Dataset, DatasetBranch, DeletedBranch, Transaction
from webapp.datasets.services import abort_transaction, delete_branch, sweep_leftovers
from webapp.git import locks, merges
from webapp.git.errors import GitError
from webapp.git.values import Person
from webapp.pulls.models import Merge, PullRequest
from webapp.pulls.rules.states import MergeState, PullState
from webapp.repositories import services as repositories
from webapp.repositories.models import Branch, BranchDeletion, Publication, Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.accounts.models import User

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("readers")]


@pytest.fixture
def user(home: Path) -> User:
    return make.a_user("ines")


@pytest.fixture
def dataset(user: User) -> Dataset:
    """Data on master, other data on the branch dev."""
    dataset = make.a_dataset("/shop/orders", by=user)
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = make.a_pyiceberg(user).load_table(dataset.table)
    with table.update_schema() as update:
        update.union_by_name(rows.schema)
    table.append(rows)
    make.a_pyiceberg(user, "dev").load_table(dataset.table).append(rows)
    return dataset


@pytest.fixture
def repository(home: Path) -> Repository:
    """A repository with one branch beside master; master's head is published."""
    repository = make_git.a_repository("shopcode")
    make_git.a_branch(repository, "feature")
    for branch in ("master", "feature"):
        publish(repository, branch)
    return repository


def publish(repository: Repository, branch: str) -> None:
    """Publish one JobSpec as the head of the branch declares it."""
    sha = repository.git.get_head(branch)
    publication.replace_specs(
        repository=repository, branch=branch, sha=sha, result=PublishResult(jobspecs=(a_jobspec("make_orders"),))
    )
    repositories.set_publication(
        repository=repository, branch=branch, sha=sha, status=PublicationState.PUBLISHED, jobspecs=1
    )


def file_of(dataset: Dataset, kind: str) -> Path:
    """The first file of the table's current state whose name says this."""
    row = Table.objects.get(name=dataset.table.rpartition(".")[2])
    metadata = metadata_files.read_anew(row).metadata
    with TableReader(row.location) as reader:
        named = list_references(metadata, reader, metadata_location=row.metadata_location, most_manifests=100)
        paths = [local_path(location) for location in named]
    return next(path for path in paths if kind in path.name or path.suffix == kind)


def test_a_clean_installation_is_clean(dataset: Dataset, repository: Repository) -> None:
    report = look()
    assert report["clean"], report
    counted = {name: count for check in report["checks"] for name, count in check["counted"].items()}
    assert counted["tables"] == counted["repositories"] == 1
    assert counted["JobSpecs"] == 2
    assert counted["transactions"] == 3


def test_it_says_in_words_what_it_looked_at(dataset: Dataset) -> None:
    out = StringIO()
    call_command("fsck", "tables", stdout=out)
    assert out.getvalue().startswith("tables: ok, 1 tables")
    with pytest.raises(CommandError, match="There is no check table"):
        call_command("fsck", "table")


def test_what_a_second_look_does_not_find_again_is_no_finding(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = file_of(dataset, ".parquet")
    kept = damaged.read_bytes()
    damaged.unlink()
    # Not `time.sleep` itself: other threads of this process sleep too, and would write the file while it is looked at.
    pause = SimpleNamespace(sleep=lambda _seconds: damaged.write_bytes(kept))
    monkeypatch.setattr("webapp.core.fsck.time", pause)
    assert find() == []


def test_files_that_nobody_names_are_counted(dataset: Dataset) -> None:
    (file_of(dataset, ".parquet").parent / "left.parquet").write_bytes(b"left by a writer that died")
    [tables] = look("tables")["checks"]
    assert (tables["findings"], tables["counted"]["files that nobody names"]) == ([], 1)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        pytest.param(".parquet", "file_missing", marks=pytest.mark.damage("file_missing")),
        pytest.param("snap-", "manifest_list_damaged", marks=pytest.mark.damage("manifest_list_damaged")),
        pytest.param("-m0.avro", "manifest_damaged", marks=pytest.mark.damage("manifest_damaged")),
    ],
)
def test_a_missing_file_is_named(dataset: Dataset, kind: str, code: str) -> None:
    lost = file_of(dataset, kind)
    lost.unlink()
    [(found, about)] = find()
    assert found == code
    assert lost.name in about
    assert about.startswith("shop.orders ")


@pytest.mark.damage("file_damaged")
def test_a_cut_data_file_is_named(dataset: Dataset) -> None:
    cut = file_of(dataset, ".parquet")
    cut.write_bytes(cut.read_bytes()[:-1])
    [(code, about)] = find()
    assert (code, cut.name in about) == ("file_damaged", True)


def test_data_file_of_zeros_is_named(dataset: Dataset) -> None:
    """After a power cut a file can have its size and none of its bytes."""
    zeros = file_of(dataset, ".parquet")
    zeros.write_bytes(bytes(zeros.stat().st_size))
    [(code, about)] = find("tables")
    assert (code, zeros.name in about) == ("file_damaged", True)


def test_way_out_names_the_file_without_the_damage(dataset: Dataset, user: User) -> None:
    row = Table.objects.get(name="orders")
    earlier = row.metadata_location
    before = set(local_path(row.location).rglob("*.parquet"))
    make.a_pyiceberg(user).load_table(dataset.table).append(pa.table({"id": pa.array([9], pa.int64())}))
    [added] = set(local_path(row.location).rglob("*.parquet")) - before
    added.unlink()
    [finding] = [item for check in look("tables")["checks"] for item in check["findings"]]
    assert f"register {earlier} with `overwrite`" in finding["way_out"]
    for lost in before:
        lost.unlink()
    findings = [item for check in look("tables")["checks"] for item in check["findings"]]
    assert not any("`overwrite`" in item["way_out"] for item in findings)


@pytest.mark.damage("count_differs")
def test_a_snapshot_that_states_other_rows_than_it_has_is_named(dataset: Dataset, user: User) -> None:
    client = make.a_client(user)
    shown = client.load(dataset.table).metadata
    head = next(item for item in shown["snapshots"] if item["snapshot-id"] == shown["current-snapshot-id"])
    claim = {
        **head,
        "snapshot-id": 77,
        "parent-snapshot-id": head["snapshot-id"],
        "sequence-number": shown["last-sequence-number"] + 1,
        "summary": {"operation": "append", "total-records": "999999"},
    }
    updates = [
        {"action": "add-snapshot", "snapshot": claim},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77},
    ]
    assert client.commit(dataset.table, *updates).status == 200
    [(code, about)] = find()
    assert (code, about) == ("count_differs", "shop.orders snapshot 77")


@pytest.mark.damage("metadata_damaged")
def test_damaged_metadata_is_named_with_the_way_back(dataset: Dataset) -> None:
    row = Table.objects.get(name="orders")
    earlier = metadata_files.read_anew(row).metadata["metadata-log"][-1]["metadata-file"]
    local_path(row.metadata_location).write_bytes(b"{")
    [finding] = [item for check in look("tables")["checks"] for item in check["findings"]]
    assert finding["code"] == "metadata_damaged"
    assert earlier in finding["way_out"]


@pytest.mark.damage("snapshot_missing", "ref_damaged")
def test_a_branch_that_lost_its_snapshot_is_named(dataset: Dataset) -> None:
    row = Table.objects.get(name="orders")
    path = local_path(row.metadata_location)
    metadata = json.loads(path.read_bytes())
    lost = metadata["refs"]["dev"]["snapshot-id"]
    metadata["snapshots"] = [item for item in metadata["snapshots"] if item["snapshot-id"] != lost]
    path.write_text(json.dumps(metadata))
    metadata_files.forget_all()
    assert find() == [("snapshot_missing", "/shop/orders@dev"), ("ref_damaged", "shop.orders branch dev")]


@pytest.mark.damage("branch_ref_missing")
def test_a_branch_whose_ref_is_gone_is_made_again(dataset: Dataset) -> None:
    row = Table.objects.get(name="orders")
    path = local_path(row.metadata_location)
    metadata = json.loads(path.read_bytes())
    head = metadata["refs"].pop("dev")["snapshot-id"]
    metadata["properties"] = {key: value for key, value in metadata["properties"].items() if ".dev." not in key}
    path.write_text(json.dumps(metadata))
    metadata_files.forget_all()
    assert find() == [("branch_ref_missing", "/shop/orders@dev")]
    assert repair()["repairs"] == ["mended: branch_ref_missing of /shop/orders@dev"]
    assert find() == []
    row.refresh_from_db()
    assert metadata_files.read_anew(row).metadata["refs"]["dev"]["snapshot-id"] == head


@pytest.mark.damage("branch_unknown")
def test_a_branch_that_only_the_table_has_is_named(dataset: Dataset) -> None:
    DatasetBranch.objects.filter(name="dev").delete()
    assert find() == [("branch_unknown", "/shop/orders@dev")]
    assert repair()["repairs"] == ["mended: branch_unknown of /shop/orders@dev"]
    assert find() == []


@pytest.mark.damage("branch_differs")
def test_a_branch_that_shows_something_else_is_named(dataset: Dataset) -> None:
    dev, master = (DatasetBranch.objects.get(dataset=dataset, name=name) for name in ("dev", "master"))
    DatasetBranch.objects.filter(pk=dev.pk).update(transaction=master.transaction)
    assert find() == [("branch_differs", "/shop/orders@dev")]


@pytest.mark.damage("branch_ids_differ")
def test_a_branch_that_shows_another_schema_is_recorded(dataset: Dataset) -> None:
    """As commits of schemas were before they were transactions of their own."""
    dev = DatasetBranch.objects.get(dataset=dataset, name="dev")
    Transaction.objects.filter(pk=dev.transaction_id).update(spec_id=7)
    assert find() == [("branch_ids_differ", "/shop/orders@dev")]
    assert repair()["repairs"] == ["mended: branch_ids_differ of /shop/orders@dev"]
    assert find() == []
    dev.refresh_from_db()
    assert dev.transaction is not None
    assert dev.transaction.summary["changes"] == ["partition spec"]


@pytest.mark.damage("staging_orphaned")
def test_staging_that_nobody_publishes_is_removed(dataset: Dataset, user: User) -> None:
    opened = make.a_transaction(dataset, user, branch="dev")
    make.a_pyiceberg(user, opened.staging_branch).load_table(dataset.table).append(
        pa.table({"id": pa.array([3], pa.int64())})
    )
    assert find() == []
    Transaction.objects.filter(pk=opened.pk).update(state="ABORTED", closed_at=clock.now())
    DatasetBranch.objects.filter(dataset=dataset, name="dev").update(transaction=opened.parent)
    assert find() == [("staging_orphaned", f"/shop/orders@{opened.staging_branch}")]
    assert repair()["clean"]


def test_staging_that_the_sweep_is_about_to_remove_is_no_damage(dataset: Dataset, user: User) -> None:
    opened = make.a_transaction(dataset, user, branch="dev")
    make.a_pyiceberg(user, opened.staging_branch).load_table(dataset.table).append(
        pa.table({"id": pa.array([3], pa.int64())})
    )
    path = local_path(Table.objects.get(name="orders").metadata_location)
    whole = path.read_bytes()
    path.write_bytes(b"{")
    metadata_files.forget_all()
    abort_transaction(transaction=opened, reason="The build was cancelled.")
    path.write_bytes(whole)
    metadata_files.forget_all()
    assert find() == []
    assert sweep_leftovers() == {"tables cleaned after aborted transactions": 1}
    assert find() == []


@pytest.mark.damage("kept_ref_orphaned")
def test_what_keeps_a_deleted_branch_that_nobody_knows_is_removed(dataset: Dataset, user: User) -> None:
    delete_branch(dataset=dataset, name="dev", by=make.who(user))
    assert find() == []
    deletion = DeletedBranch.objects.get()
    about = f"/shop/orders@{deletion.kept_as}"
    deletion.delete()
    assert find() == [("kept_ref_orphaned", about)]
    assert repair()["clean"]


@pytest.mark.damage("transaction_line")
def test_an_open_transaction_that_its_branch_does_not_know_is_named(dataset: Dataset, user: User) -> None:
    opened = make.a_transaction(dataset, user, branch="dev")
    DatasetBranch.objects.filter(dataset=dataset, name="dev").update(transaction=opened.parent)
    assert find() == [("transaction_line", f"/shop/orders transaction {opened.pk}")]


def test_a_transaction_on_an_aborted_one_is_named(dataset: Dataset, user: User) -> None:
    opened = make.a_transaction(dataset, user, branch="dev")
    Transaction.objects.filter(pk=opened.parent_id).update(state="ABORTED")
    assert ("transaction_line", f"/shop/orders transaction {opened.pk}") in find("datasets")


@pytest.mark.damage("dataset_missing", "table_missing")
def test_a_dataset_without_its_table_and_a_table_without_its_dataset_are_named(dataset: Dataset) -> None:
    Dataset.objects.filter(pk=dataset.pk).update(table="shop.other", path="/shop/other")
    assert find("datasets") == [("dataset_missing", "/shop/orders"), ("table_missing", "/shop/other")]
    assert repair("datasets")["repairs"] == ["mended: dataset_missing of /shop/orders"]
    assert ("dataset_missing", "/shop/orders") not in find("datasets")


@pytest.mark.damage("transaction_orphaned")
def test_a_transaction_of_a_build_that_is_over_is_aborted(dataset: Dataset, user: User) -> None:
    build = Build.objects.create(branch="dev", chain=[], targets=[], by=user, state="FAILED")
    opened = make.a_transaction(dataset, user, branch="dev", build_id=build.pk)
    assert find() == [("transaction_orphaned", f"/shop/orders transaction {opened.pk}")]
    assert repair()["clean"]


@pytest.mark.damage("repository_damaged")
def test_a_damaged_git_object_is_named(repository: Repository) -> None:
    head = repository.git.get_head("master")
    path = repository.path / "objects" / head[:2] / head[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    [(code, about)] = find("repositories")
    assert (code, about) == ("repository_damaged", "shopcode")


@pytest.mark.parametrize(("name", "code"), [("config", "repository_missing"), ("tributary", "copy_refused")])
def test_a_pipe_in_place_of_a_file_of_a_repository_keeps_nobody_waiting(
    repository: Repository, name: str, code: str
) -> None:
    file = repository.path / name
    file.unlink()
    os.mkfifo(file)
    assert find("repositories") == [(code, "shopcode")]


@pytest.mark.damage("settings_lost")
@pytest.mark.parametrize("damage", ["", "[core]\n\tbare = true\n\thooksPath = /tmp\n", None])
def test_settings_of_git_that_are_lost_are_set_again(repository: Repository, damage: str | None) -> None:
    config = repository.path / "config"
    settings_ = config.read_text()
    config.unlink() if damage is None else config.write_text(damage)
    assert find("repositories") == [("settings_lost", "shopcode")]
    assert repair("repositories")["clean"]
    assert set(settings_.split()) - set(config.read_text().split()) <= {"repositoryformatversion", "filemode", "0"}


@pytest.mark.damage("ref_locked")
def test_a_lock_of_a_dead_writer_is_removed(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "UNCHANGED_SECONDS", 0.0)
    (repository.path / "refs/heads/master.lock").touch()
    assert find("repositories") == [("ref_locked", "shopcode:refs/heads/master.lock")]
    assert repair("repositories")["clean"]


@pytest.mark.damage("repository_missing")
def test_a_missing_repository_is_named(repository: Repository) -> None:
    repository.path.rename(repository.path.with_name("away.git"))
    with pytest.raises(GitError):
        _ = repository.git
    assert find("repositories") == [("repository_missing", "shopcode")]


@pytest.mark.damage("branch_missing")
def test_a_branch_that_git_lost_is_named_and_nothing_is_touched(repository: Repository) -> None:
    repository.git.delete_branch("feature", expected=repository.git.get_head("feature"))
    assert find("repositories") == [("branch_missing", "shopcode:feature")]
    assert not look("repositories", "--repair")["repairs"]
    assert Branch.objects.filter(repository=repository, name="feature").exists()


@pytest.mark.damage("branch_unannounced")
def test_a_head_that_was_never_announced_is_announced(repository: Repository) -> None:
    sha = merges.prepare_merge(
        repository.git,
        source=repository.git.get_head("master"),
        target=repository.git.get_head("feature"),
        method="merge",
        message="A move that died before it was announced",
        author=Person(name="Ines", email="ines@example.org"),
    )
    repository.git.move_branch("feature", expected=repository.git.get_head("feature"), sha=sha)
    assert find("repositories") == [("branch_unannounced", "shopcode:feature")]
    assert repair("repositories")["clean"]
    assert Publication.objects.get(branch="feature", sha=sha).status == "pending"


@pytest.mark.damage("jobspecs_behind", "publication_missing")
def test_jobspecs_that_are_not_of_the_head_are_published_again(repository: Repository) -> None:
    head = repository.git.get_head("feature")
    make_git.a_commit(repository, {"a.txt": "a"}, branch="master")
    other = repository.git.get_head("master")
    publish(repository, "master")
    PublishedSpec.objects.filter(branch="feature").update(sha=other)
    about = f"shopcode:feature@{head[:7]}"
    assert find("publications") == [("jobspecs_behind", about)]
    assert repair("publications")["repairs"] == [f"mended: jobspecs_behind of {about}"]
    assert Publication.objects.get(branch="feature", sha=head).status == "pending"
    Publication.objects.filter(branch="feature").update(created_at=clock.now() - timedelta(minutes=5))
    assert find("publications") == [("publication_missing", about)]


@pytest.mark.damage("jobspec_without_commit")
def test_jobspecs_of_a_commit_that_is_gone_are_named(repository: Repository) -> None:
    PublishedSpec.objects.filter(branch="feature").update(sha="0" * 39 + "1")
    Publication.objects.filter(branch="feature").update(status="failed")
    assert find("publications") == [("jobspec_without_commit", "shopcode:feature pipelines.m:make_orders")]


@pytest.mark.damage("jobspec_inputs_differ")
def test_what_a_jobspec_reads_is_looked_up_as_it_declares_it(repository: Repository) -> None:
    spec = PublishedSpec.objects.get(branch="feature")
    PublishedInput.objects.create(spec=spec, branch="feature", path="/shopcode/raw")
    assert find("publications") == [("jobspec_inputs_differ", "shopcode:feature pipelines.m:make_orders")]
    assert repair("publications")["clean"]
    assert not spec.inputs.exists()


@pytest.fixture
def merge(repository: Repository) -> Merge:
    """A pull request whose merge has landed."""
    maker = make_git.maker_of(repository)
    make_git.a_commit(repository, {"a.txt": "a"}, branch="feature")
    git = repository.git
    source, target = git.get_head("feature"), git.get_head("master")
    sha = repositories.prepare_merge(
        repository=repository, source_sha=source, target_sha=target, method="merge", message="Merge", by=maker
    )
    repositories.land_merge(repository=repository, branch="master", expected_head=target, sha=sha, by=maker)
    publish(repository, "master")
    publish(repository, "feature")
    pull = PullRequest.objects.create(
        repository=repository,
        number=1,
        title="a",
        source="feature",
        target="master",
        state=PullState.MERGED,
        author_id=maker.user_id,
        head_sha=source,
        base_sha=target,
    )
    return Merge.objects.create(
        pull=pull,
        method="merge",
        rebuild="modified",
        state=MergeState.DONE,
        source_sha=source,
        target="master",
        target_sha=target,
        merge_commit=sha,
        merged_by_id=maker.user_id,
    )


@pytest.mark.damage("merge_differs")
def test_a_landed_merge_is_compared_with_an_independent_one(merge: Merge) -> None:
    assert find("merges") == []
    Merge.objects.update(merge_commit=merge.target_sha)
    assert find("merges") == [("merge_differs", "shopcode#1")]


def test_a_merge_that_the_target_lost_is_named(merge: Merge) -> None:
    git = merge.pull.repository.git
    git.move_branch("master", expected=merge.merge_commit, sha=merge.target_sha)
    assert find("merges") == [("merge_differs", "shopcode#1")]


@pytest.mark.damage("merge_stuck")
def test_a_merge_that_stopped_half_way_goes_on(merge: Merge) -> None:
    Merge.objects.update(state=MergeState.LANDED, created_at=clock.now() - timedelta(minutes=5))
    assert find("merges") == [("merge_stuck", "shopcode#1")]
    assert repair("merges")["clean"]
    merge.refresh_from_db()
    assert merge.state == MergeState.DONE


@pytest.mark.parametrize("name", ["summary.json", "schema.json", "rows.parquet"])
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("diff_missing", marks=pytest.mark.damage("diff_missing")),
        pytest.param("diff_damaged", marks=pytest.mark.damage("diff_damaged")),
    ],
)
def test_a_stored_diff_that_is_gone_or_cut_is_compared_again(dataset: Dataset, code: str, name: str) -> None:
    comparison = Comparison.objects.create(identity="f" * 64, dataset=dataset, state=ComparisonState.READY)
    folder = artifact_folder(comparison)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text('{"stored_rows": 0}')
    (folder / "schema.json").write_text('{"columns": []}')
    pq.write_table(pa.table({"n": [1]}), folder / "rows.parquet")
    assert find("diffs") == []
    file = folder / name
    if code == "diff_missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    assert find("diffs") == [(code, f"/shop/orders comparison {comparison.pk}")]
    assert repair("diffs")["clean"]
    comparison.refresh_from_db()
    assert comparison.state == ComparisonState.QUEUED


@pytest.mark.parametrize("name", ["rows.parquet", "statistics.json", "summary.json"])
@pytest.mark.damage("diff_damaged")
def test_diffs_reads_to_the_last_row(dataset: Dataset, name: str) -> None:
    """A file can begin and end as it should, and be nothing but damage in between."""
    comparison = Comparison.objects.create(identity="f" * 64, dataset=dataset, state=ComparisonState.READY)
    folder = artifact_folder(comparison)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text('{"stored_rows": 5000, "mode": "net"}')
    (folder / "statistics.json").write_text('{"scopes": {}}')
    (folder / "schema.json").write_text('{"columns": []}')
    pq.write_table(pa.table({"n": range(5000), "text": [f"row {n}" for n in range(5000)]}), folder / "rows.parquet")
    assert find("diffs") == []
    damaged = folder / name
    content = damaged.read_bytes()
    if name == "rows.parquet":
        damaged.write_bytes(content[:1000] + bytes(2000) + content[3000:])
    else:
        damaged.write_bytes(b"[" * 100_000)
    assert find("diffs") == [("diff_damaged", f"/shop/orders comparison {comparison.pk}")]


@pytest.mark.damage("constraint_missing")
@pytest.mark.skipif(connection.vendor != "sqlite", reason="the statement is SQLite's")
def test_a_dropped_constraint_is_named(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX transaction_one_open_per_branch")
    assert find("database") == [("constraint_missing", "datasets_transaction.transaction_one_open_per_branch")]


@pytest.mark.damage("check_failed")
def test_a_check_that_cannot_be_done_is_no_clean_one(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_location: str) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("webapp.catalog.storage.local_files.walk", fail)
    assert find("tables") == [("check_failed", "shop.orders")]


def test_damage_that_nobody_foresaw_keeps_nothing_else_from_being_looked_at(
    dataset: Dataset, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make.a_dataset("/shop/aside", by=user)
    walk = checking._TableWalk._check_files

    def fail(table: Any, metadata: Any) -> Any:
        if table.name == other.table:
            raise KeyError("snapshot-id")
        return walk(table, metadata)

    monkeypatch.setattr(checking._TableWalk, "_check_files", fail)
    file_of(dataset, ".parquet").unlink()
    assert {(code, about.split()[0]) for code, about in find("tables")} == {
        ("check_failed", "shop.aside"),
        ("file_missing", "shop.orders"),
    }


def test_a_repair_that_fails_is_said_and_keeps_none_of_the_others_from_it() -> None:
    def fail() -> None:
        raise GitError("The repository cannot be opened.")

    done: list[str] = []
    findings = [
        Finding(code="a", object="one", problem="", way_out="", repair=fail),
        Finding(code="b", object="two", problem="", way_out="", repair=lambda: done.append("two")),
    ]
    assert mend(findings) == ["not mended: a of one: The repository cannot be opened.", "mended: b of two"]
    assert done == ["two"]


@pytest.mark.damage("seal_damaged")
@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"files": {"/a": 1}}', None])
def test_a_record_of_what_a_job_has_left_that_cannot_be_read_is_named(home: Path, damage: bytes | None) -> None:
    record = paths.seals_folder() / "7.1.json"
    record.parent.mkdir(parents=True)
    record.mkdir() if damage is None else record.write_bytes(damage)
    assert find("sealed files") == [("seal_damaged", str(record))]
    assert sweeping.sweep_folders()["records of sealed files removed"] == 0, "the other folders are swept"


@pytest.mark.damage("kept_file_lost")
def test_a_kept_file_that_a_merge_cannot_load_is_named(user: User) -> None:
    job = an_upload("/shop/raw", branch="dev", by=user)
    assert find("kept files") == []
    kept = paths.kept_path(job.pk).read_bytes()
    paths.kept_path(job.pk).write_bytes(bytes(len(kept)))
    assert find("kept files") == [("kept_file_lost", str(paths.kept_path(job.pk)))]
    paths.kept_path(job.pk).write_bytes(b"i")
    assert find("kept files") == [("kept_file_lost", str(paths.kept_path(job.pk)))]
    paths.kept_path(job.pk).unlink()
    assert find("kept files") == [("kept_file_lost", str(paths.kept_path(job.pk)))]


@pytest.mark.damage("files_missing")
def test_of_many_missing_files_the_rest_is_counted(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.catalog.services.checking.MOST_FINDINGS", 0)
    file_of(dataset, ".parquet").unlink()
    assert find("tables") == [("files_missing", "shop.orders")]


def test_metadata_of_another_table_is_named(dataset: Dataset, user: User) -> None:
    make.a_dataset("/shop/other", by=user)
    row, other = (Table.objects.get(name=name) for name in ("orders", "other"))
    shutil.copy(local_path(other.metadata_location), local_path(row.metadata_location))
    metadata_files.forget_all()
    assert find("tables") == [("metadata_damaged", f"shop.orders {row.metadata_location}")]
    [datasets] = look("datasets")["checks"]
    assert list(datasets["counted"].values())[-1] == 1, "what was not looked at is said"


@pytest.mark.damage("view_damaged")
@pytest.mark.parametrize("damage", [b"", b"{", b'{"format-version": 1}', None])
def test_a_damaged_view_is_named(dataset: Dataset, user: User, damage: bytes | None) -> None:
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["shop"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }
    body = {"name": "few", "schema": {"type": "struct", "fields": []}, "view-version": version, "properties": {}}
    assert make.a_client(user).call("POST", "namespaces/shop/views", body).status == 200
    assert find("tables") == []
    location = View.objects.get().metadata_location
    if damage is None:
        local_path(location).unlink()
    else:
        local_path(location).write_bytes(damage)
    assert find("tables") == [("view_damaged", f"shop.few {location}")]


@pytest.mark.damage("deletion_unfinished")
def test_a_deletion_that_stopped_half_way_is_finished(repository: Repository) -> None:
    head = repository.git.get_head("feature")
    BranchDeletion.objects.create(
        repository=repository, branch="feature", head=head, created_at=clock.now() - timedelta(days=1)
    )
    assert find("repositories") == [("deletion_unfinished", "shopcode:feature")]
    assert repair("repositories")["clean"]
    assert repository.git.find_head("feature") is None
    assert not Branch.objects.filter(repository=repository, name="feature").exists()


@pytest.fixture
def build(home: Path) -> Build:
    """A build of one job, which waits for a worker."""
    world = a_world()
    world.publish(a_jobspec("one", inputs=["/shop/raw"], outputs=["/shop/one"]))
    return world.start("/shop/one")


@pytest.mark.damage("job_lost")
def test_a_job_whose_worker_is_gone_is_taken_over(build: Build) -> None:
    assert find("builds") == []
    late = clock.now() - timedelta(minutes=5)
    Job.objects.update(state=JobState.RUNNING, lease_until=late, worker="worker@gone", attempt=1)
    assert find("builds") == [("job_lost", f"build {build.pk} job {build.jobs.get().number}")]
    assert repair("builds")["clean"]
    assert build.jobs.get().state == JobState.RUN_PENDING


@pytest.mark.damage("build_stuck")
def test_a_build_whose_jobs_are_over_comes_to_its_end(build: Build) -> None:
    Job.objects.update(state=JobState.COMPLETED, finished_at=clock.now())
    assert find("builds") == [("build_stuck", f"build {build.pk}")]
    assert repair("builds")["clean"]
    build.refresh_from_db()
    assert build.state == BuildState.COMPLETED


def test_a_warehouse_older_than_the_database_is_named(dataset: Dataset, user: User, tmp_path: Path) -> None:
    """Backups of unequal moments, the first: commits that the restored warehouse does not have."""
    make.a_dataset("/shop/still", by=user)
    warehouse = local_path(settings.TRIBUTARY_WAREHOUSE)
    shutil.copytree(warehouse, tmp_path / "backup")
    make.a_pyiceberg(user, "dev").load_table(dataset.table).append(pa.table({"id": pa.array([9], pa.int64())}))
    shutil.rmtree(warehouse)
    (tmp_path / "backup").rename(warehouse)
    metadata_files.forget_all()
    [(code, about)] = find()
    assert (code, about.partition(" ")[0]) == ("metadata_damaged", "shop.orders")


def test_a_database_older_than_warehouse_git_and_audit_log_is_named(
    dataset: Dataset, repository: Repository, user: User
) -> None:
    """The second: nothing that was acknowledged since the backup of the database is lost in silence."""
    seal_audit()
    backup = transaction.savepoint()
    make.a_pyiceberg(user, "dev").load_table(dataset.table).append(pa.table({"id": pa.array([9], pa.int64())}))
    make_git.a_commit(repository, {"a.txt": "a"}, branch="feature")
    seal_audit()
    transaction.savepoint_rollback(backup)
    metadata_files.forget_all()
    codes = {code for code, _ in find()}
    assert "audit_cut" in codes
    assert codes & {"branch_unannounced", "copy_refused"}
    [tables] = look("tables")["checks"]
    assert tables["counted"]["files that nobody names"] > 0


@pytest.mark.damage("row_missing")
@pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases never let it happen")
def test_a_reference_to_a_row_that_is_gone_is_named(dataset: Dataset) -> None:
    DatasetBranch.objects.filter(name="dev").update(dataset_id=99)
    assert find("database") == [("row_missing", "database")]
    DatasetBranch.objects.filter(name="dev").update(dataset=dataset)


@pytest.mark.damage("migration_pending")
def test_a_database_older_than_the_program_is_all_that_is_said(dataset: Dataset) -> None:
    newest = MigrationRecorder(connection).migration_qs.filter(app="datasets").order_by("name").last()
    assert newest is not None
    MigrationRecorder(connection).record_unapplied("datasets", newest.name)
    file_of(dataset, ".parquet").unlink()
    assert find() == [("migration_pending", f"datasets.{newest.name}")]


@pytest.mark.damage("database_damaged")
@pytest.mark.skipif(connection.vendor != "sqlite", reason="what is damaged is a file of SQLite")
@pytest.mark.parametrize("offset", [0, 8 * 4096], ids=["no database", "damaged pages"])
def test_a_damaged_database_is_named_without_a_traceback(tmp_path: Path, offset: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment["TRIBUTARY_HOME"] = str(tmp_path)
    migrate(tmp_path, environment)
    with (tmp_path / "db.sqlite3").open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * ((tmp_path / "db.sqlite3").stat().st_size - offset))
    command = [sys.executable, "manage.py", "fsck", "--json", "--settle", "0"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    findings = [finding for check in json.loads(done.stdout)["checks"] for finding in check["findings"]]
    named.update(finding["code"] for finding in findings)
    assert {finding["way_out"] for finding in findings if finding["code"] == "database_damaged"} == {
        "Stop the installation and restore the database from a backup."
    }


def test_every_finding_has_a_test_that_does_the_damage() -> None:
    codes = {code for path in (ROOT / "webapp").rglob("*.py") for code in _codes_of(path)}
    assert len(codes) > 30
    tests = (path for path in (ROOT / "tests").rglob("test_*.py"))
    assert {code for path in tests for code in _damages_of(path)} == codes


def _codes_of(path: Path) -> Iterator[str]:
    """The codes of the findings that a module makes, by itself or through a helper of the name `_finding`."""
    text = path.read_text()
    if "Finding(" not in text:
        return
    for call in _calls_of(text):
        keywords = {keyword.arg: keyword.value for keyword in call.value.keywords}
        code = (
            keywords.get("code") if call.name == "Finding" else call.value.args[0] if call.name == "_finding" else None
        )
        if isinstance(code, ast.Constant):
            yield code.value


def _damages_of(path: Path) -> Iterator[str]:
    text = path.read_text()
    for call in _calls_of(text) if ".damage(" in text else ():
        if call.name == "damage":
            yield from (argument.value for argument in call.value.args if isinstance(argument, ast.Constant))


def _calls_of(text: str) -> Iterator[_Call]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield _Call(node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node)


class _Call(NamedTuple):
    name: str
    value: ast.Call
