"""What the text of a plan tells of columns, and when it tells nothing."""

from __future__ import annotations

import pytest

from jobs.engine.spark import plans
from jobs.engine.spark.plans import TableColumn, group_sources, read_sources

RELATION = "RelationV2[a#1L, b#2] tributary.shop.raw tributary.shop.raw"


def a_plan(*lines: str) -> str:
    """Return what Spark explains of a plan, each operator below the one before it."""
    tree = [f"{'   ' * (place - 1)}+- {line}" if place else line for place, line in enumerate(lines)]
    return "\n".join(
        ["== Parsed Logical Plan ==", "'Project", "", "== Analyzed Logical Plan ==", "a: bigint", *tree, ""]
        + ["== Optimized Logical Plan ==", "LocalRelation <empty>, [a#1L]", ""]
    )


def test_each_column_is_made_of_what_its_expression_names() -> None:
    text = a_plan(
        "Project [b#2 AS B#5, (a#1L * cast(10 as bigint)) AS tens#4L]", "SubqueryAlias tributary.raw", RELATION
    )
    sources = read_sources(text, ["B", "tens"])
    assert sources == {"B": {TableColumn("tributary.shop.raw", "b")}, "tens": {TableColumn("tributary.shop.raw", "a")}}
    assert group_sources(sources["B"], {"tributary.shop.raw": "/shop/raw"}) == {"/shop/raw": ("b",)}


@pytest.mark.parametrize(
    "lines",
    [
        ("Project [a#1L AS x#5L, 7 AS y#6]", RELATION),
        ("Project [a#9L AS x#5L]", RELATION),
        ("Project [c#1L AS x#5L]", RELATION),
        ("Project [concat(b#2, C#) AS x#5]", RELATION),
        ("Project [concat(b#2, ]) AS x#5]", RELATION),
        ("Project [concat(b#2, () AS x#5]", RELATION),
        ("Project [b#2 AS x y#5]", RELATION),
        ("Project [b#2 + 1]", RELATION),
        ("Project b#2 AS x#5", RELATION),
        ("Generate explode(b#2), false, [x#5]", RELATION),
        ("Project [b#2 AS x#5]", "RelationV2[a#1L, the b#2] tributary.shop.raw tributary.shop.raw"),
        ("Project [b#2 AS x#5]", "LocalRelation <empty>, [b#2]"),
        ("Join Inner, (a#1L = b#2)", RELATION),
        ("Project [b#2 AS x#5]\nof two lines", RELATION),
        ("Project [b#2 AS x#5]", "View (`raw`, [b#2, a#1L])", RELATION),
    ],
)
def test_a_plan_with_anything_that_is_not_known_tells_nothing(lines: tuple[str, ...]) -> None:
    assert read_sources(a_plan(*lines), ["x"]) == {}


def test_a_text_that_is_no_plan_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = a_plan("Project [b#2 AS x#5]", RELATION)
    assert read_sources(text, ["x"]) != {}
    for other in ("", text.replace("Analyzed", "Parsed"), text.replace("+- Relation", "Relation")):
        assert read_sources(other, ["x"]) == {}
    assert read_sources(text, ["x", "x"]) == {}
    monkeypatch.setattr(plans, "MOST_SOURCES", 0)
    assert read_sources(text, ["x"]) == {}
