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


@pytest.mark.parametrize(
    "name",
    [
        *(
            "alice",
            "Inés Ruiz",
            "jean-luc",
            "Ольга",
            "Αθηνά",
            "田中さくら",
            "山田-taro",
            "김철수 team",
            "ci/build & test",
        ),
        *("a.b+c@d", "straße", "Łukasz", "محمد", "अनिल", "O’Neil", "check №1", "état ✓", "100 % × 2"),
    ],
)
def test_a_name_in_one_script_is_no_disguise(name: str) -> None:
    assert names.find_disguise(name) is None
    names.check_is_no_disguise(name, field="name")


@pytest.mark.parametrize(
    "name",
    [
        *("\u0430lice", "ali\u0441e", "\u0391lice", "\u041ctest", "\u0555wen", "paypa\u04cf"),
        *("ali\u200bce", "ali\u200dce", "\ufeffalice", "ali\u00adce", "\u202eecila", "a\u2060b", "a\u180eb"),
        *("alice\n", "\nalice", "a\rb", "a\tb", "a\u2028b", "a\u2029b", "a\x00b", "a\x7fb", "a\u0085b"),
        *("alice ", " alice", "a  b", "a\u00a0b", "a\u3000b", "\uff41lice", "\U0001d41alice", "\u2170v", "ine\u0301s"),
        *("\ue000", "\ud800", "a\u115fb", "a\u3164b", "\U000e0061"),
    ],
)
def test_a_disguise_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        names.check_is_no_disguise(name, field="name")
    assert refused.value.code == "disguised_name"
    assert refused.value.detail.isascii() or refused.value.detail.isprintable()
    assert names.find_branch_problem(name)
