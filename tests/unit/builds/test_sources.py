"""What is kept of what a job tells of its columns."""

from __future__ import annotations

import pytest

from jobs.protocol import ColumnOrigin
from webapp.builds.rules import sources
from webapp.builds.rules.sources import choose_sources

TOLD = [
    ColumnOrigin("day", {"/a/b": ("day",)}),
    ColumnOrigin("share", {"/a/c": ("late",), "/a/b": ("n", "day")}),
    ColumnOrigin("n", {}),
]


def test_columns_of_the_inputs_are_kept_in_their_order() -> None:
    assert choose_sources(TOLD, inputs=["/a/b", "/a/c"]) == [
        {"column": "day", "sources": {"/a/b": ["day"]}},
        {"column": "share", "sources": {"/a/b": ["n", "day"], "/a/c": ["late"]}},
        {"column": "n", "sources": {}},
    ]


def test_what_is_made_of_anything_else_is_left_out() -> None:
    assert [entry["column"] for entry in choose_sources(TOLD, inputs=["/a/b"])] == ["day", "n"]


def test_of_too_many_or_too_long_names_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_sources([ColumnOrigin("x" * 401, {})], inputs=[]) == []
    monkeypatch.setattr(sources, "MOST_NAMED", 6)
    assert choose_sources(TOLD, inputs=["/a/b", "/a/c"]) == []
