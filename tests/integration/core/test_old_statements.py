"""What a process of the last release says to the database of this one: its statements, made from its own tables.

The models are those of the release's migrations, so that each row is selected, inserted, updated and removed with the
columns and neighbours that an old process knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.apps.registry import Apps
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models import ProtectedError, RestrictedError

from tests.factories import build_rows, repositories
from tests.factories.everything import make_world
from tests.factories.released import APPS, read_release
from webapp.accounts.models import ProvidedGroup, User
from webapp.builds.models import Job, JobOutput, KeptUpload, OutputColumns, PublishedInput, PublishedSpec
from webapp.builds.services.publication import write_missing_inputs
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.services import request_comparison
from webapp.datasets.models import Dataset
from webapp.pulls.models import (
    Assignee,
    DatasetVerdict,
    Label,
    Merge,
    NamedComparison,
    PullDataset,
    PullLabel,
    PullRequest,
    QueuedMerge,
    ReviewRequest,
)
from webapp.pulls.rules import states
from webapp.pulls.services import open_pull
from webapp.pulls.services.merging import resume_merge
from webapp.pulls.services.pulls import sweep_names
from webapp.repositories.models import PendingMove, Publication

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.usefixtures("silent_bell")]
GENERAL = 3
"""So many rows of each table are tried."""


@pytest.fixture
def old(home: Path) -> Apps:
    """The last release's models."""
    return MigrationLoader(None).project_state(read_release().leaves).apps


@pytest.fixture
def pull(home: Path) -> PullRequest:
    """A pull request with a JobSpec and a dataset that is compared."""
    shop = build_rows.a_world("shop")
    shop.branch("fix")
    repositories.a_commit(shop.repository, {"notes.md": "a\n"}, branch="fix")
    shop.publish(build_rows.a_jobspec("clean", inputs=["/shop/raw"], outputs=["/shop/clean"]), branch="fix")
    pull = open_pull(repository=shop.repository, title="Fix", source="fix", target="master", by=shop.maker)
    dataset = Dataset.objects.get(path="/shop/raw")
    after = dataset.transactions.get(state="COMMITTED")
    comparison = request_comparison(dataset=dataset, rules=ComparisonRules(), before=None, after=after, by=None)
    ends = {"before": None, "after": after, "comparison": comparison}
    row = PullDataset.objects.create(pull=pull, path="/shop/raw", dataset=dataset, change="modified", **ends)
    NamedComparison.objects.create(row=row, name=row.compared, **ends)
    return pull


def list_models(old: Apps) -> Iterator[Any]:
    for app in read_release().migrations:
        yield from old.get_app_config(app).get_models()


def list_rows(old: Apps) -> Iterator[Any]:
    for model in list_models(old):
        yield from model.objects.order_by("-pk")[:GENERAL]


def test_old_processes_read_write_and_remove_in_every_table(old: Apps) -> None:
    make_world()
    row = PullDataset.objects.get(path="/shop/raw")
    ends = {"before": row.before, "after": row.after, "comparison": row.comparison}
    NamedComparison.objects.create(row=row, name=states.THIS_BRANCH, **ends)
    PendingMove.objects.create(repository=row.pull.repository, ref="refs/heads/fix", by=row.pull.author)
    add_rows_of_reviews(row.pull)
    ProvidedGroup.objects.create(group=Group.objects.create(name="provided"))
    KeptUpload.objects.create(job=Job.objects.all()[0], sha256="0" * 64, bytes=1)
    OutputColumns.objects.create(output=JobOutput.objects.all()[0])
    old_tables = {model._meta.db_table for model in list_models(old)}
    new = [
        model
        for app in APPS
        for model in apps.get_app_config(app).get_models()
        if model._meta.db_table not in old_tables
    ]
    leading = [model for model in new if any(isinstance(field, models.ForeignKey) for field in model._meta.fields)]
    assert [model.__name__ for model in leading if not model.objects.exists()] == [], "without rows nothing is tried"

    for old_row in list_rows(old):
        write_again(old_row)
    broken, removed = remove_each(old)

    assert broken == {}
    assert {"builds_publishedspec", "pulls_pulldataset", "pulls_comparison", "repositories_repository"} <= removed


def add_rows_of_reviews(pull: PullRequest) -> None:
    """Make a row in each table that only a review or the merge queue fills."""
    person = {"pull": pull, "user": pull.author}
    DatasetVerdict.objects.create(pull=pull, reviewer=pull.author, path="/shop/raw", verdict=states.ACCEPTED)
    PullLabel.objects.create(pull=pull, label=Label.objects.get(name="data"))
    Assignee.objects.create(**person)
    ReviewRequest.objects.create(**person, asked_by=pull.author)
    QueuedMerge.objects.create(
        pull=pull, repository=pull.repository, target=pull.target, enqueued_by=pull.author, source_sha=pull.head_sha
    )


def write_again(row: Any) -> None:
    """Update, remove and insert a row; then it is there as before."""
    with transaction.atomic():
        row.save(force_update=True)
        type(row).objects.filter(pk=row.pk)._raw_delete("default")
        type(row).objects.bulk_create([row])
    assert type(row).objects.get(pk=row.pk).pk == row.pk


def remove_each(old: Apps) -> tuple[dict[str, str], set[str]]:
    """Remove each row with what an old process knows to hang on it, and take it back; which tables refused, and which not."""
    broken, removed = {}, set()
    for row in list(list_rows(old)):
        point = transaction.savepoint()
        try:
            row.delete()
            connection.check_constraints()
            removed.add(row._meta.db_table)
        except (ProtectedError, RestrictedError):
            pass
        except IntegrityError as error:
            broken[row._meta.db_table] = str(error)
        transaction.savepoint_rollback(point)
    return broken, removed


def test_what_an_old_process_publishes_is_looked_up_after_a_sweep(old: Apps, pull: PullRequest) -> None:
    spec = PublishedSpec.objects.get()
    row = old.get_model("builds", "PublishedSpec").objects.get()
    row.delete()
    row.pk = None
    row.save(force_insert=True)
    orphans = PublishedInput.objects.filter(spec_id=spec.pk).count()

    mended = write_missing_inputs()

    assert (orphans, mended, write_missing_inputs()) == (1, 1, 0)
    assert list(PublishedInput.objects.values_list("spec", "branch", "path")) == [(row.pk, "fix", "/shop/raw")]


def test_what_an_old_process_compares_has_its_name_after_a_sweep(old: Apps, pull: PullRequest) -> None:
    row = pull.datasets.get(path="/shop/raw")
    PullDataset.objects.filter(pk=row.pk).update(base_note="a note")
    assert sweep_names() == 0
    comparison = old.get_model("pulls", "Comparison").objects.get()
    comparison.pk, comparison.identity = None, "other"
    comparison.save(force_insert=True)
    old.get_model("pulls", "PullDataset").objects.filter(pk=row.pk).update(comparison=comparison)

    assert (sweep_names(), sweep_names()) == (1, 0)
    row.refresh_from_db()
    assert (row.compared, row.base_note) == (states.TARGET_NOW, "")


def test_a_dataset_that_an_old_process_found_is_named_at_once(old: Apps, pull: PullRequest) -> None:
    row = old.get_model("pulls", "PullDataset").objects.get(path="/shop/raw")
    row.pk, row.path = None, "/shop/other"
    row.save(force_insert=True)

    assert PullDataset.objects.get(path="/shop/other").compared == states.TARGET_NOW
    assert sweep_names() == 0


def test_a_publication_that_an_old_process_asks_for_has_a_time(old: Apps, pull: PullRequest) -> None:
    row = old.get_model("repositories", "Publication").objects.first()
    row.pk, row.sha = None, "0" * 40
    row.save(force_insert=True)

    publication = Publication.objects.get(pk=row.pk)
    assert abs((publication.rung_at - publication.created_at).total_seconds()) < 3600


def test_a_merge_that_an_old_process_left_is_taken_on(old: Apps, pull: PullRequest) -> None:
    head = pull.repository.git.find_head("master")
    old.get_model("pulls", "Merge").objects.create(
        pull_id=pull.pk,
        method="merge",
        rebuild="modified",
        state="prepared",
        source_sha=pull.head_sha,
        target_sha=head,
        merge_commit=head,
        merged_by_id=User.objects.first().pk,
    )

    resume_merge(merge_id=Merge.objects.get().pk)

    merge = Merge.objects.get()
    assert (merge.target, merge.landing_branch, merge.state) == ("", "master", "done")
