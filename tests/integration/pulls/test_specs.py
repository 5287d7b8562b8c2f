"""The code of both sides of a pull request, with the files that its jobs used."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import repositories as make
from tests.integration.pulls.test_merging import publish
from webapp.builds.models import PublishedSpec, UsedFile
from webapp.builds.queries import describe_dependencies, used_files
from webapp.pulls.models import PullRequest
from webapp.pulls.queries.pulls import read_specs
from webapp.pulls.services import pulls

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def pull(home: Any, silent_bell: None) -> PullRequest:
    """A pull request that changes the JobSpec of one dataset, and a file that jobs of two others use."""
    ines = make.a_person("ines", is_admin=True)
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": "old\n", "prices.csv": "1\n"}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    for name, master, feature in (("a", "1", "2"), ("b", "3", "3"), ("c", "4", "4"), ("d", "5", "5")):
        publish(repository, "master", master, name=name)
        publish(repository, "feature", feature, name=name)
    keys = {"1": ["file:notes.txt"], "3": ["file:notes.txt", "file:prices.csv"], "4": ["file:prices.csv"]}
    UsedFile.objects.bulk_create(UsedFile(digest=digest, key=key) for digest, used in keys.items() for key in used)
    return pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


def test_specs_name_changed_used_files(pull: PullRequest) -> None:
    specs = read_specs(pull=pull)
    assert specs.changed_files == {"/shop/b": ["notes.txt"]}
    assert specs.changed_paths == {"/shop/a", "/shop/b"}
    assert specs.head_code["/shop/c"] == specs.base_code["/shop/c"] != "4"
    assert specs.head_code["/shop/d"] == specs.base_code["/shop/d"] == "5"


def test_specs_ask_for_used_files_once(pull: PullRequest) -> None:
    with CaptureQueriesContext(connection) as queries:
        read_specs(pull=pull)
    asked = [query["sql"] for query in queries if UsedFile._meta.db_table in query["sql"]]
    assert len(asked) == 1


def test_values_of_keys_tell_kinds_of_files(home: Any, silent_bell: None) -> None:
    ines = make.a_person("ines", is_admin=True)
    repository = make.a_repository("shop", by=ines)
    first = make.a_commit(repository, {"queue/a": "x", "b.txt": "1\n"}, by=ines)
    second = make.a_commit(repository, {"queue/a": None, "queue/a/in": "x", ".library.yaml": ""}, by=ines)
    keys = ["list:queue", "data:queue", "file:queue/a", "stat:queue/a", "seek:.library.yaml", "file:b.txt", "seek:none"]
    values = [used_files.read_values((repository.name, commit.sha), keys) for commit in (first, second)]
    assert [key for key in keys if values[0][key] == values[1][key]] == ["file:b.txt", "seek:none"]


def test_dependencies_leave_out_what_libraries_look_for(pull: PullRequest) -> None:
    rows = list(PublishedSpec.objects.filter(digest="4"))
    UsedFile.objects.create(digest="4", key="seek:.library.yaml")
    assert set(describe_dependencies(rows)["4"]) == {"prices.csv"}
