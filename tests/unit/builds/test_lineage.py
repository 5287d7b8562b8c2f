"""The graph around a dataset: both directions, the chain's JobSpecs, a limit."""

from __future__ import annotations

import pytest

from tests.property.strategies_builds import make_spec
from webapp.builds.rules import lineage, profiles


def test_walk_goes_both_ways_and_leaves_side_branches_out() -> None:
    specs = [
        make_spec(1, inputs=("/n/raw",), outputs=("/n/a",)),
        make_spec(2, inputs=("/n/a",), outputs=("/n/b",)),
        make_spec(3, inputs=("/n/b",), outputs=("/n/c", "/n/d")),
        make_spec(4, inputs=("/n/a",), outputs=("/n/side",)),
    ]
    graph = lineage.walk(specs=specs, chain=("master",), path="/n/b")
    assert graph.depths == {"/n/b": 0, "/n/a": -1, "/n/raw": -2, "/n/c": 1, "/n/d": 1}
    assert graph.edges == (("/n/a", "/n/b"), ("/n/b", "/n/c"), ("/n/b", "/n/d"), ("/n/raw", "/n/a"))
    assert set(graph.makers) == {"/n/a", "/n/b", "/n/c", "/n/d"}


def test_makers_come_from_the_first_branch_of_the_chain() -> None:
    specs = [
        make_spec(1, inputs=("/n/x",), outputs=("/n/a",)),
        make_spec(2, inputs=("/n/y",), outputs=("/n/a",), branch="feature"),
        make_spec(3, inputs=("/n/z",), outputs=("/n/a",), branch="elsewhere"),
    ]
    assert lineage.find_makers(specs=specs, chain=("feature", "master"))["/n/a"].id == 2
    assert lineage.find_makers(specs=specs, chain=("master",))["/n/a"].id == 1


def test_cycle_ends() -> None:
    specs = [make_spec(1, inputs=("/n/b",), outputs=("/n/a",)), make_spec(2, inputs=("/n/a",), outputs=("/n/b",))]
    assert set(lineage.walk(specs=specs, chain=("master",), path="/n/a").depths) == {"/n/a", "/n/b"}


def test_large_graph_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "MAX_NODES", 5)
    specs = [make_spec(number, inputs=("/n/raw",), outputs=(f"/n/{number}",)) for number in range(1, 20)]
    graph = lineage.walk(specs=specs, chain=("master",), path="/n/raw")
    assert (len(graph.depths), graph.is_cut) == (5, True)


def test_larger_sizes_allow_more_and_time_can_be_overridden() -> None:
    small, large = profiles.allow(size="small"), profiles.allow(size="large")
    assert small.memory_bytes < large.memory_bytes
    assert small.wall_s < large.wall_s
    assert profiles.allow(size="large", wall_s=8).wall_s == 8
    assert profiles.allow(size="unknown") == small
    assert set(small.as_limits()) == {"memory_bytes", "total_memory_bytes", "cpu_s", "nproc", "fsize", "disk_bytes"}
