"""Migrations since the last release are such that its processes go on beside the new ones: they expand, they do not contract.

An old process inserts without the new columns, selects all of its own, and removes rows whose new neighbours it does not
know. What it needs may go in the release after the one that stopped needing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.db import models
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from tests.factories.released import APPS, describe_messages, read_release

HARMLESS = (
    operations.AddIndex,
    operations.AlterModelManagers,
    operations.AlterModelOptions,
    operations.RemoveIndex,
    operations.RenameIndex,
)
"""What neither a statement of an old process nor its answer depends on."""
ACCEPTED = {
    "accounts.0008_provided_groups RunPython link_groups": "fills a new table; a group that an old process makes for the "
    "provider counts as a local one until an administrator links it",
    "builds.0006_published_inputs RunPython copy_inputs": "fills a new table; a sweep adds what old processes publish",
    "builds.0009_newest_outputs AlterField joboutput": "drops an index that the one before it replaces",
    "datasets.0009_deleted_line RunPython tell_lines_apart": "fills a new column; branches of one name that old processes "
    "delete are told apart as little as before",
    "pulls.0004_merge_target RunPython copy_targets": "fills a new column, which is read with the pull request's beside it",
    "pulls.0010_is_rebuilt AlterField pulldataset": "names the column that there is",
    "pulls.0010_is_rebuilt RenameField pulldataset": "renames the attribute, and the column keeps its name",
    "pulls.0018_commits_of_reviews_and_merges RunPython name_commits": "fills new columns; what an old process writes says "
    "its commits as before and leads to none",
    "pulls.0028_chosen_rows RunPython copy_chosen_rows": "fills a new column; what an old process chooses without it has "
    "to be chosen again",
    "pulls.0006_named_comparisons RunPython name_stored": "fills a new column; a sweep names what old processes compare",
}
"""Operations that look as if they broke old processes, or that say nothing of themselves, and why they do not."""


@dataclass(frozen=True)
class Step:
    """An operation with the tables as they are before it."""

    migration: Migration
    operation: Operation
    before: ProjectState

    @property
    def name(self) -> str:
        """How `ACCEPTED` names it."""
        of = getattr(self.operation, "code", None)
        more = of.__name__ if of else getattr(self.operation, "model_name", getattr(self.operation, "name", ""))
        return f"{self.migration.app_label}.{self.migration.name} {type(self.operation).__name__} {more}".strip()


def list_steps() -> Iterator[Step]:
    """Every operation since the last release."""
    loader = MigrationLoader(None)
    released = {key for leaf in read_release().leaves for key in loader.graph.forwards_plan(leaf)}
    done = set(released)
    state = loader.project_state(read_release().leaves)
    for leaf in loader.graph.leaf_nodes():
        for key in loader.graph.forwards_plan(leaf):
            if key in done:
                continue
            done.add(key)
            migration = loader.disk_migrations[key]
            for operation in migration.operations:
                yield Step(migration, operation, state.clone())
                operation.state_forwards(migration.app_label, state)


def explain_break(step: Step, released: ProjectState) -> str:
    """Return what of a process of the last release the operation breaks; empty if nothing."""
    operation, app = step.operation, step.migration.app_label
    if isinstance(operation, operations.SeparateDatabaseAndState) and not operation.database_operations:
        return ""
    if isinstance(operation, HARMLESS):
        return ""
    if isinstance(operation, operations.CreateModel):
        return "; ".join(filter(None, (explain_key(name, field, app, released) for name, field in operation.fields)))
    model = getattr(operation, "model_name", getattr(operation, "name", ""))
    if model and (app, model.lower()) not in released.models:
        return ""
    if isinstance(operation, operations.AddField):
        return explain_column(operation.field) or explain_key(operation.name, operation.field, app, released)
    if isinstance(operation, operations.AlterField):
        before = step.before.models[app, operation.model_name.lower()].fields[operation.name]
        return "" if is_wider(before, operation.field) else "it does not know the column's new form"
    return "it needs what was there, or nobody said what becomes of it"


def explain_column(field: models.Field) -> str:
    """Return why an old process cannot insert a row without this column; empty if it can."""
    if isinstance(field, models.ManyToManyField):
        return "it knows no table between the two when it removes a row"
    if field.null or isinstance(field, models.GeneratedField):
        return ""
    if not field.has_db_default():
        return "it inserts without the column, which has neither null nor a db_default"
    return "its second row has the same default, and the column is unique" if field.unique else ""


def explain_key(column: str, field: models.Field, app: str, released: ProjectState) -> str:
    """Return why an old process cannot remove a row to which this field of a new table or column leads; empty if it can."""
    if not isinstance(field, models.ForeignKey):
        return ""
    to = field.remote_field.model
    label, _, name = (to if isinstance(to, str) else to._meta.label).rpartition(".")
    if (label or app, name.lower()) not in released.models or not field.db_constraint:
        return ""
    return f"it removes a {name} without the rows whose {column} leads there: db_constraint=False"


def is_wider(before: models.Field, after: models.Field) -> bool:
    """Whether a column takes and gives all that it did: only words, defaults or the room for a text may differ."""
    _, path, arguments, old = before.deconstruct()
    _, new_path, new_arguments, new = after.deconstruct()
    for name in ("choices", "default", "db_default", "help_text", "verbose_name", "blank", "validators"):
        old.pop(name, None)
        new.pop(name, None)
    if before.has_db_default() and not after.has_db_default():
        return False
    room = (old.pop("max_length", 0), new.pop("max_length", 0))
    return (path, arguments, old) == (new_path, new_arguments, new) and room[0] <= room[1]


def test_migrations_since_the_last_release_break_none_of_its_processes() -> None:
    released = MigrationLoader(None).project_state(read_release().leaves)

    broken = {
        f"{step.name}: {why}"
        for step in list_steps()
        if step.name not in ACCEPTED and (why := explain_break(step, released))
    }

    assert broken == set()


def test_accepted_operations_are_there() -> None:
    assert ACCEPTED.keys() <= {step.name for step in list_steps()}


def test_migrations_of_the_last_release_are_there() -> None:
    loader = MigrationLoader(None)

    assert set(read_release().migrations) <= set(APPS)
    assert set(read_release().leaves) <= loader.disk_migrations.keys(), "a migration that was released was removed"


KEY = models.ForeignKey("pulls.PullRequest", on_delete=models.CASCADE)
FREE_KEY = models.ForeignKey("pulls.PullRequest", on_delete=models.CASCADE, db_constraint=False)
SHORT = models.CharField(max_length=100)


@pytest.mark.parametrize(
    ("operation", "breaks"),
    [
        (operations.RemoveField("pullrequest", "title"), True),
        (operations.RenameField("pullrequest", "title", "name"), True),
        (operations.DeleteModel("PullRequest"), True),
        (operations.RenameModel("PullRequest", "Proposal"), True),
        (operations.AlterModelTable("PullRequest", "proposals"), True),
        (operations.AlterField("pullrequest", "title", SHORT), True),
        (operations.AlterField("pullrequest", "title", models.CharField(max_length=200, unique=True)), True),
        (operations.AlterField("pullrequest", "title", models.TextField()), True),
        (operations.AlterField("pullrequest", "title", models.CharField(max_length=1000, blank=True)), False),
        (operations.AddField("pullrequest", "more", models.TextField(default="")), True),
        (operations.AddField("pullrequest", "more", models.TextField(db_default="")), False),
        (operations.AddField("pullrequest", "more", models.TextField(null=True)), False),
        (operations.AddField("pullrequest", "more", models.CharField(max_length=9, db_default="", unique=True)), True),
        (operations.AddField("review", "more", models.ManyToManyField("pulls.PullRequest")), True),
        (
            operations.AddField("review", "more", models.ForeignKey("pulls.PullRequest", models.CASCADE, null=True)),
            True,
        ),
        (operations.AddConstraint("pullrequest", models.UniqueConstraint(fields=["title"], name="once")), True),
        (operations.RemoveConstraint("pullrequest", "pull_number_once"), True),
        (operations.AlterUniqueTogether("pullrequest", {("title", "source")}), True),
        (operations.AddIndex("pullrequest", models.Index(fields=["title"], name="by_title")), False),
        (operations.CreateModel("New", [("pull", KEY)]), True),
        (operations.CreateModel("New", [("pull", FREE_KEY)]), False),
        (operations.RunSQL("UPDATE pulls_pullrequest SET title = ''"), True),
    ],
    ids=lambda value: value.describe() if isinstance(value, Operation) else "",
)
def test_an_operation_that_breaks_old_processes_is_named(operation: Operation, breaks: bool) -> None:
    released = MigrationLoader(None).project_state(read_release().leaves)
    step = Step(Migration("0099_next", "pulls"), operation, released)

    assert bool(explain_break(step, released)) is breaks


def test_what_a_migration_does_to_its_own_new_tables_is_free() -> None:
    released = MigrationLoader(None).project_state(read_release().leaves)
    step = Step(Migration("0099_next", "pulls"), operations.RemoveField("namedcomparison", "name"), released)

    assert not explain_break(step, released)


def test_messages_are_understood_by_workers_of_both_releases() -> None:
    """A task that is new may be rung by new processes only, and the workers are those that are replaced first."""
    now, before = describe_messages(), read_release().messages

    assert {name: now.get(name) for name in before} == before
