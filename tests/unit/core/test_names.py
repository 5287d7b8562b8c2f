"""Names of branches and datasets."""

from __future__ import annotations

import pytest

from webapp.core import names
from webapp.core.errors import BadRequest, InvalidInput


@pytest.mark.parametrize("name", ["master", "feature/x", "a", "1.2_3+4@5=6-7", "Main2", "a" * 200, "fix-a.b"])
def test_branch_name_is_accepted(name: str) -> None:
    assert names.check_branch_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "main", "MAIN", "Main", "a" * 201, "_job/1", "-x", ".x", "/x", "a b", "a,b", "ä", "a\n", "a~b", "a:b"),
        *("a..b", "a//b", "a@{b", "a/.b", "a.lock", "a.lock/b", "a/", "a."),
    ],
)
def test_branch_name_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        names.check_branch_name(name)

    assert refused.value.code == "branch_name"
    assert refused.value.detail


@pytest.mark.parametrize(
    "name", ["heads/master", "refs/heads/master", "Refs/x", "tags/v1", "remotes/origin/master", "heads"]
)
def test_path_of_a_ref_is_refused_for_what_is_new(name: str) -> None:
    with pytest.raises(BadRequest, match="means something else to Git") as refused:
        names.check_is_no_ref(name)

    assert refused.value.code == "branch_name"
    assert names.check_branch_name(name) == name, "a branch that is there is still found by it"


@pytest.mark.parametrize("name", ["origin/master", "fix/heads/x", "headstart", "references/x"])
def test_other_paths_are_names(name: str) -> None:
    names.check_is_no_ref(name)


def test_dataset_path_and_table_name_are_two_forms_of_one() -> None:
    assert names.split_dataset_path("/nyc/delays/daily") == ("nyc", "delays", "daily")
    assert names.table_name("/nyc/delays/daily") == "nyc.delays.daily"
    assert names.dataset_path(("nyc", "delays"), "daily") == "/nyc/delays/daily"
    assert names.folder_of("/nyc/delays/daily") == "nyc"


@pytest.mark.parametrize(
    "path", ["", "/", "nyc/daily", "/nyc", "/nyc/", "//nyc/x", "/nyc/a.b", "/nyc/../x", "/nyc/ä", "/a/b\n"]
)
def test_what_is_no_dataset_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        names.split_dataset_path(path)
