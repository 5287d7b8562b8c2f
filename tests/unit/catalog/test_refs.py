"""What a request is about: raw path and branch header, decoded once."""

from __future__ import annotations

import pytest

from webapp.catalog.rules import refs
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.refs import TableRef


@pytest.mark.parametrize("values", [[], ["master"], ["main"]])
def test_no_header_and_master_are_the_same(values: list[str]) -> None:
    assert refs.read_branch(values) is None


@pytest.mark.parametrize("name", ["a", "feature/x", "release-1.0+b=c@d", "x" * 200, "_job/0123456789ab"])
def test_a_legal_branch_is_taken_as_it_is(name: str) -> None:
    assert refs.read_branch([name]) == name


@pytest.mark.parametrize(
    "values",
    [
        [""],
        [" "],
        ["a", "a"],
        ["a", "b"],
        ["a,b"],
        ["x" * 201],
        ["MAIN"],
        ["MASTER"],
        ["-a"],
        ["a b"],
        ["a..b"],
        ["a%2Fb"],
        ["a//b"],
        ["a/"],
        ["a.lock"],
        ["a@{b"],
        ["Ã¤"],
        ["a\n"],
        ["_"],
        ["_job/a b"],
        ["a/.b"],
    ],
)
def test_any_other_header_is_refused(values: list[str]) -> None:
    with pytest.raises(Malformed):
        refs.read_branch(values)


def test_path_segments_are_split_before_they_are_decoded() -> None:
    assert refs.split_path("/v1/namespaces/a%1Fb/tables/c%2Fd%25+e") == (
        "v1",
        "namespaces",
        "a\x1fb",
        "tables",
        "c/d% e",
    )
    with pytest.raises(Malformed):
        refs.split_path("/v1/%ff")


def test_namespace_levels() -> None:
    assert refs.read_namespaces("a\x1fb") == (("a", "b"),)
    assert refs.read_parents("a%1Fb%20c") == (("a", "b c"), ("a%1Fb%20c",))
    assert refs.read_parents("a\x1fb%20c") == (("a", "b%20c"), ("a", "b c"))
    assert refs.read_parents("a") == (("a",),)
    assert refs.read_namespaces("a.b") == refs.read_parents("a.b") == (("a.b",), ("a", "b"))
    assert refs.read_namespaces("a..b") == (("a..b",),)
    for bad in ("", "a\x1f", "\x00", "x" * 256):
        with pytest.raises(Malformed):
            refs.read_namespaces(bad)
    with pytest.raises(Malformed):
        refs.check_levels([])


def test_identifiers_in_bodies() -> None:
    assert refs.read_identifier({"namespace": ["a"], "name": "t"}) == TableRef(("a",), "t")
    for bad in (None, {}, {"namespace": "a", "name": "t"}, {"namespace": ["a"]}, {"namespace": [1], "name": "t"}):
        with pytest.raises(Malformed):
            refs.read_identifier(bad)


def test_table_ref_names() -> None:
    ref = refs.table_ref("nyc.delays.daily", "b")
    assert ref == TableRef(("nyc", "delays"), "daily", "b")
    assert (ref.table, ref.path, ref.is_dataset) == ("nyc.delays.daily", "/nyc/delays/daily", True)
    odd = TableRef(("a.b",), "c/d")
    assert (odd.path, odd.is_dataset) == ("/a.b/c%2Fd", False)


@pytest.mark.parametrize(
    ("name", "branch", "expected"),
    [
        ("branch_x", "b", "x"),
        ("branch_feature/x", "b", "feature/x"),
        ("branch_main", "b", "b"),
        ("branch_master", "b", "master"),
        ("branch_b", "b", "b"),
        ("branch_x", None, None),
        ("history", "b", None),
        ("branch_", "b", None),
        ("branch__job/1", "b", None),
    ],
)
def test_branch_in_the_table_name(name: str, branch: str | None, expected: str | None) -> None:
    found = TableRef(("db", "t"), name, branch).qualified()
    assert found == (None if expected is None else TableRef(("db",), "t", expected))
    assert TableRef(("db",), name, branch).qualified() is None


def test_internal_branches_start_with_an_underscore() -> None:
    assert refs.is_internal("_job/1")
    assert not refs.is_internal("job")
