"""Values beside each other: what tells them apart is drawn."""

from __future__ import annotations

import html
import json
import re

import pytest

from webapp.core.drawn_values import draw_beside, draw_change, draw_value

LONG = "one two three four five six seven eight nine ten " * 6


def read_text(drawn: str) -> str:
    """Return the text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", drawn))


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("hello world", "hello  world", ["␠", "␠␠"]),
        ("hello world", "hello\tworld", ["␠", "⇥"]),
        ("hello world", "hello\u00a0world", ["␠", "U+00A0"]),
        ("hello\r\n", "hello\n", ["␍", "↵", "↵"]),
        ("\u00e9", "e\u0301", ["U+00E9", "U+0301"]),
        ("paypal 1", "p\u0430ypal 2", ["U+0430"]),
        ("x\u200b", "x", ["U+200B"]),
        ("a b", "c d", []),
        (1, 2, []),
        (None, "", []),
    ],
)
def test_changed_cells_draw_what_looks_alike(before: object, after: object, shown: list[str]) -> None:
    assert re.findall(r'data-ch="([^"]*)"', draw_change(before, after)) == shown
    sides = draw_beside(before, after) + draw_beside(after, before)
    assert re.findall(r'data-ch="([^"]*)"', sides) == shown


def test_long_texts_show_their_differing_words_and_fold_the_rest() -> None:
    changed = LONG.replace("seven", "VII", 1).rstrip() + "\u00a0"
    drawn = draw_change(LONG, changed)
    head, _, body = drawn.partition("</summary>")
    assert drawn.startswith("<details")
    assert "<del>seven</del><ins>VII</ins>" in head
    assert "+1 more" in read_text(head)
    assert 'data-ch="U+00A0"' in body
    assert "…" in read_text(head)
    assert len(read_text(head)) < 120
    assert draw_value(LONG).count("…") == 1


def test_long_values_are_shown_where_they_differ() -> None:
    other = LONG + "end"
    assert "end" in draw_beside(other, LONG)
    assert "end" not in draw_beside(LONG, other)


def test_documents_show_the_lines_that_differ() -> None:
    before = {f"member {number}": "x" * 20 for number in range(30)}
    after = {**before, "member 20": "a\u202eb"}
    for old, new in ((before, after), (json.dumps(before), json.dumps(after, ensure_ascii=False))):
        drawn = draw_change(old, new)
        assert '<li class="within--removed">' in drawn
        assert 'data-ch="U+202E"' in drawn
        assert "member 3" not in drawn.partition("</summary>")[2]


def test_documents_that_differ_in_their_text_alone_show_it() -> None:
    before = json.dumps({"a": "x" * 90})
    drawn = draw_change(before, before.replace(": ", ":"))
    assert "<del>" in drawn
    assert 'data-ch="␠"' in drawn


def test_hostile_texts_take_little_time_and_space() -> None:
    drawn = draw_change("\u202e" * 50_000, "\u202d" * 50_000)
    assert len(drawn) < 1_000_000
