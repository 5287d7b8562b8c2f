"""Many tests and many parts of rows as one, in a tree that is no deeper than it has to be."""

from __future__ import annotations

from operator import add

import pytest

from jobs.engine.spark.reader import combine


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000, 1025])
def test_parts_keep_their_order(count: int) -> None:
    assert combine(add, [[place] for place in range(count)]) == [*range(count)]


@pytest.mark.parametrize(("count", "depth"), [(1, 0), (2, 1), (3, 2), (1000, 10), (1025, 11)])
def test_a_thousand_parts_are_ten_deep(count: int, depth: int) -> None:
    assert combine(lambda one, other: max(one, other) + 1, [0] * count) == depth
