"""Characters that nobody sees, and what pages draw in their place."""

from __future__ import annotations

import html
import re

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from webapp.core.characters import (
    HIDDEN,
    draw_cell,
    draw_code,
    draw_everything,
    find_lookalikes,
    list_hidden,
    look_alike,
    spell_hidden,
)
from webapp.core.drawn_pages import DrawnPages, draw_page


def read_text(drawn: str) -> str:
    """Return the text that a browser copies."""
    return html.unescape(re.sub(r"<[^>]*>", "", drawn))


@pytest.mark.parametrize(
    "character",
    [
        *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
        *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u3164\uffa0\u2800\u115f\u2028\u2029\ufe0f\x00\x07\x1b\x7f\x85",
        "\U000e0041",
        "\U000e0100",
    ],
)
def test_hidden_characters_are_drawn_and_copied(character: str) -> None:
    text = f"a{character}b"
    for draw in (draw_cell, draw_code, draw_everything, draw_page):
        drawn = draw(text)
        assert "data-ch=" in drawn
        assert f"U+{ord(character):04X}" in drawn
        assert read_text(drawn) == text.replace("\0", "\ufffd")
    assert spell_hidden(text) == f"a[U+{ord(character):04X}]b"
    assert list_hidden(["x", text]) == {character: [2]}


@pytest.mark.parametrize(
    "text",
    [
        "plain, caf\u00e9, \u65e5\u672c, \u0420\u0443\u0441\u0441\u043a\u0438\u0439, \u05e9\u05dc\u05d5\u05dd",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u26a0\ufe0f 1\ufe0f\u20e3 \U0001f44d\U0001f3fd",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\u845b\U000e0100",
        "tab\tand\nlines",
    ],
)
def test_scripts_and_emoji_keep_their_joiners(text: str) -> None:
    assert HIDDEN.search(text) is None
    assert draw_page(text) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hello world", "hello  world"),
        ("hello world", "hello\tworld"),
        ("hello world", "hello\u00a0world"),
        ("hello world", "hello\u2009world"),
        ("hello", "hello\u200b"),
        ("hello", " hello"),
        ("a\r\nb", "a\nb"),
        ("caf\u00e9", "cafe\u0301"),
        ("paypal", "p\u0430yp\u0430l"),
        ("\u039f", "O"),
        ("A", "\uff21"),
        ("co-op", "co\u2011op"),
        ("it's", "it\u2019s"),
        ("", "\u200b"),
    ],
)
def test_texts_that_look_alike(before: str, after: str) -> None:
    assert look_alike(before, after)
    assert look_alike(after, before)
    drawn = [draw_everything(text) for text in (before, after)]
    assert [read_text(text) for text in drawn] == [before, after]
    assert "data-ch=" in drawn[0] + drawn[1]
    assert find_lookalikes([before, "other", after]) == {before: after, after: before}


@pytest.mark.parametrize(
    ("before", "after"), [("a", "b"), ("cafe", "caf\u00e9"), ("ab", "a b"), ("same", "same"), ("A", "a")]
)
def test_texts_that_differ_in_sight(before: str, after: str) -> None:
    assert not look_alike(before, after)


def test_runs_of_blanks_in_cells_are_one_element() -> None:
    assert draw_cell("a b") == "a b"
    assert draw_cell("a  b").count("<i ") == 1
    assert 'data-ch="\u2420×40"' in draw_cell(" " * 40)
    assert draw_cell("x\n") == 'x<i class="ch" title="U+000A line feed" data-ch="↵">\n</i>'


def test_page_draws_text_spells_labels_and_keeps_values() -> None:
    bad = "a\u202eb"
    page = (
        f'<title>{bad}</title><h1 title="{bad}" data-key="{bad}">{bad}</h1><input value="{bad}" placeholder="{bad}">'
        f"<textarea>{bad}</textarea><script>{bad}</script><select><option>{bad}</option></select>"
        f"<svg><text>{bad}</text></svg>{draw_code(bad)}"
    )
    good = draw_code(bad)
    spelled = "a[U+202E]b"
    assert draw_page(page) == (
        f'<title>{spelled}</title><h1 title="{spelled}" data-key="{bad}">{good}</h1>'
        f'<input value="{bad}" placeholder="{spelled}"><textarea>{bad}</textarea><script>{bad}</script>'
        f'<select><option value="{bad}">{spelled}</option></select><svg><text>{spelled}</text></svg>{good}'
    )


def test_middleware_draws_pages_and_nothing_else() -> None:
    bad = "<p>a\u2066b</p>"
    for media, drawn in (("text/html; charset=utf-8", True), ("application/json", False), ("text/plain", False)):
        response = DrawnPages(lambda _request, media=media: HttpResponse(bad, content_type=media))(
            RequestFactory().get("/")
        )
        assert ("data-ch" in response.content.decode()) == drawn
