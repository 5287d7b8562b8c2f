"""What names a commit by its hash leads to the commit's row, and goes on without where there is none."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from django.apps import apps
from django.core import serializers
from django.core.management import call_command
from django.db import models

from tests.factories import build_rows
from tests.factories import repositories as make
from webapp.builds.models import Build, PublishedSpec
from webapp.core.keys import NaturalKey
from webapp.pulls.models import PullRequest
from webapp.pulls.services import open_pull
from webapp.repositories.models import Commit, HeadMove, Publication

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoAssertNumQueries

    from tests.factories.build_rows import World

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("silent_bell")]

NAMES = re.compile(r"(sha|commit|head|before|after|tree)$")
LENGTH = 40
NO_KEY = {
    "repositories.Commit.tree": "no commit",
    "repositories.BranchDeletion.head": "guards an act in Git, which may name what Git never had",
    "repositories.PendingMove.before": "guards an act in Git, which may name what Git never had",
    "repositories.PendingMove.after": "guards an act in Git, which may name what Git never had",
    "repositories.HeadMove.before": "is asked of Git, which may lack it after a forced push",
    "builds.Job.sha": "its code's repository is a name, as its manifest says, and may be another than its build's",
    "datasets.DeletedBranch.git_head": "datasets know no repositories; a mark that is compared with a deleted branch's",
    "pulls.PullRequest.followed_sha": "a mark that is compared with the head",
    "pulls.PullCheck.head_sha": "a mark that is compared with the head",
    "previews.CodePreview.head": "read in Git alone, and gone after a day",
}
"""Columns with the hash of a Git object that lead to no row of a commit, and why."""


def list_keys() -> Iterator[NaturalKey[Commit]]:
    for model in apps.get_models():
        yield from (field for field in model._meta.fields if isinstance(field, NaturalKey))


@pytest.fixture
def shop() -> World:
    """A repository with a JobSpec, and a branch that is ahead."""
    shop = build_rows.a_world("shop")
    shop.branch("fix")
    make.a_commit(shop.repository, {"notes.md": "a\n"}, branch="fix", message="Add notes")
    shop.publish(build_rows.a_jobspec("clean", inputs=["/shop/raw"], outputs=["/shop/clean"]), branch="fix")
    return shop


def list_rows(shop: World) -> dict[str, models.Model]:
    build = shop.start("/shop/clean", branch="fix")
    return {
        "branch": shop.repository.branches.get(name="fix"),
        "move": HeadMove.objects.filter(branch="fix").latest("pk"),
        "publication": Publication.objects.filter(branch="fix").latest("pk"),
        "spec": PublishedSpec.objects.get(),
        "build": build,
        "pull": open_pull(repository=shop.repository, title="Fix", source="fix", target="master", by=shop.maker),
    }


def test_every_hash_leads_to_its_commit_or_says_why_not() -> None:
    keyed = {f"{key.model._meta.label}.{key.from_fields[1]}" for key in list_keys()}
    hashes = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if isinstance(field, models.CharField) and field.max_length == LENGTH and NAMES.search(field.name)
    }

    assert hashes - keyed - {"repositories.Commit.sha"} == NO_KEY.keys()


def test_rows_lead_to_their_commits(shop: World) -> None:
    rows = list_rows(shop)
    commit = shop.repository.commits.get(message__startswith="Add notes")

    leads = {name: getattr(row, "head" if name in ("branch", "pull") else "commit") for name, row in rows.items()}

    assert leads == dict.fromkeys(rows, commit)
    assert rows["spec"].changed_in == commit
    assert rows["pull"].base == shop.repository.branches.get(name="master").head
    assert [branch.name for branch in commit.branches.all()] == ["fix"]
    assert list(commit.publications.all()) == [rows["publication"]]
    assert (list(commit.builds.all()), list(commit.pulls.all())) == ([rows["build"]], [rows["pull"]])


def test_a_list_reads_its_commits_with_its_rows(shop: World, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    rows = list_rows(shop)
    with django_assert_num_queries(1):
        (build,) = Build.objects.select_related("commit").filter(commit__message__icontains="NOTES")
        assert (build, build.commit.info.subject) == (rows["build"], "Add notes")
    assert not PullRequest.objects.filter(head__author_name__icontains="nobody").exists()


def test_a_build_of_no_commit_leads_to_none(shop: World) -> None:
    build = shop.start("/shop/clean", branch="fix")
    Build.objects.filter(pk=build.pk).update(repository=None)

    assert build.code_commit is None
    assert Build.objects.get(pk=build.pk).commit is None


def test_the_commit_is_the_one_that_the_hash_names_now(shop: World) -> None:
    pull = list_rows(shop)["pull"]
    assert pull.head.info.subject == "Add notes"
    later = make.a_commit(shop.repository, {"notes.md": "b\n"}, branch="fix", message="Add more")

    pull.head_sha = later.sha
    assert pull.head.info == later


def test_rows_stay_where_their_commits_go(shop: World) -> None:
    rows = list_rows(shop)
    commit = shop.repository.commits.get(sha=rows["build"].sha)
    Commit.objects.all().delete()

    for name, row in rows.items():
        again = type(row).objects.get(pk=row.pk)
        assert getattr(again, "head" if name in ("branch", "pull") else "commit") is None
    joined = Build.objects.select_related("commit").get()
    assert joined.commit is None

    call_command("rebuild_commits", shop.repository.name)
    assert Build.objects.get().commit.info == commit.info


def test_keys_are_not_written_beside_the_columns_that_they_are_made_of(shop: World) -> None:
    (written,) = json.loads(serializers.serialize("json", [list_rows(shop)["pull"]]))

    assert {"repository", "head_sha"} <= written["fields"].keys()
    assert {"head", "base"}.isdisjoint(written["fields"])
