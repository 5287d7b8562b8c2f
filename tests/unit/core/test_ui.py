"""Formats and values of pages."""

from __future__ import annotations

import datetime as dt
import re
from types import SimpleNamespace

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from webapp.builds.rules.states import JobState
from webapp.core.templatetags import markdown, ui
from webapp.git.diff import Span


@pytest.mark.parametrize(
    ("value", "shown"),
    [(336776, "336,776"), (-12, "−12"), (0, "0"), (None, "–"), ("", "–"), (1.5, "1.5"), (float("inf"), "inf")],
)
def test_number_sets_thousands_apart(value: object, shown: str) -> None:
    assert ui.number(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(12, "+12"), (0, "0"), (-3, "−3"), (None, "–")])
def test_signed_shows_the_sign(value: int | None, shown: str) -> None:
    assert ui.signed(value) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(1, 2, "50"), (0, 9, "0"), (9, 9, "100"), (1, 1_000_000, "<0.01"), (999_999, 1_000_000, "~99.99"), (1, 0, None)],
)
def test_percent_never_rounds_to_none_or_all(part: int, whole: int, shown: str | None) -> None:
    assert ui.percent(part, whole).replace(ui.THIN, "").rstrip("%") == (shown if shown is not None else "–")


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (121_034, "121 kB"), (5_100_000, "5.1 MB")]
)
def test_filesize_takes_the_unit_that_fits(value: int, shown: str) -> None:
    assert ui.filesize(value).replace(ui.THIN, " ") == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "200 ms"), (2, "2 s"), (2.5, "2.5 s"), (48, "48 s"), (69, "1 min 09 s"), (3_900, "1 h 05 min"), (None, "–")],
)
def test_duration_has_two_units_at_most(seconds: float | None, shown: str) -> None:
    assert ui.duration(seconds) == shown


def test_took_counts_up_while_nothing_ended() -> None:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert ui.took(start, start + dt.timedelta(seconds=9)) == "9 s"
    assert "<elapsed-time" in ui.took(start)
    assert ui.took(None) == "–"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, '<span class="null">null</span>'),
        ("", '<span class="null">empty</span>'),
        (True, "true"),
        (-3, "−3"),
        (float("nan"), "NaN"),
        (float("-inf"), "−∞"),
        ("<b>", "&lt;b&gt;"),
        ([1, None], "[1, null]"),
        ({"a": "x"}, "{a: x}"),
    ],
)
def test_value_tells_null_from_empty_and_escapes(cell: object, shown: str) -> None:
    assert ui.value(cell) == shown


def test_value_makes_blanks_visible_and_cuts_long_text() -> None:
    assert re.findall(r'data-ch="([^"]*)"', ui.value("  padded ")) == ["␠␠", "␠"]
    assert re.sub(r"<[^>]*>", "", ui.value("  padded ")) == "  padded "
    cut = ui.value("x" * 100)
    assert cut.count("x") == 180
    assert "…" in cut


def test_state_says_it_by_word_too() -> None:
    shown = ui.state(JobState.ABORT_PENDING)
    assert "Cancelling" in shown
    assert "st-run" in shown
    assert "st-open" in ui.state("nobody knows")


def test_delta_has_words_for_screen_readers() -> None:
    shown = ui.delta(12, 0, None)
    assert "added </span>+12" in shown
    assert "zero" in shown
    assert "changed" not in shown


def test_count_of_nothing_known_is_left_out() -> None:
    assert ui.count(None) == ""
    assert "count--none" in ui.count(0)


def test_query_changes_one_parameter_and_keeps_the_rest() -> None:
    request = RequestFactory().get("/x?q=a&cursor=1&change=inserted")
    assert ui.query({"request": request}, cursor=None, sort="-day") == "?q=a&change=inserted&sort=-day"
    assert ui.query({}, q="") == "?"


def test_theme_takes_only_what_it_knows() -> None:
    request = RequestFactory().get("/")
    request.COOKIES["color_mode"] = '"><script>'
    request.COOKIES["dark_theme"] = "dark_dimmed"
    shown = ui.theme({"request": request})
    assert 'data-color-mode="auto"' in shown
    assert 'data-dark-theme="dark_dimmed"' in shown
    user = SimpleNamespace(color_mode="dark", light_theme="light", dark_theme="dark", hotkeys=False)
    request.user = user  # type: ignore[assignment]
    assert 'data-hotkeys="off"' in ui.theme({"request": request})


def test_a_line_of_code_is_its_text_and_nothing_else() -> None:
    spans = [Span("    x = "), Span("<b>", "s"), Span("\ty ", "k", marked=True)]
    shown = Template("{% load ui %}{% code_text spans %}").render(Context({"spans": spans}))
    assert shown == '    x = <span class="s">&lt;b&gt;</span><mark class="k">\ty </mark>'
    assert re.sub(r"<[^>]*>", "", ui.code_text([Span("z", marked=True)], word="added", has_no_end=True)) == "added z"


def test_diff_row_escapes_every_part() -> None:
    bad = "<img>"
    cell = SimpleNamespace(state="changed", before=bad, after=bad, delta=bad, css="num", pin=False, num=True, title=bad)
    row = SimpleNamespace(n=1, css="up", sign="~", word="changed", copies=2, cells=[cell])
    shown = ui.diff_row(row, first=True)
    assert bad not in shown
    assert shown.count("&lt;img&gt;") == 4
    assert 'tabindex="0"' in shown


def test_markdown_is_cleaned_and_its_headings_fit_the_page() -> None:
    shown = markdown.render(
        "# Big\n\n<script>x</script> [a](javascript:x) [b](https://example.org)\n\n| a |\n|---|\n| 1 |"
    )
    assert "<h3>Big</h3>" in shown
    assert "<script" not in shown
    assert "javascript" not in shown.replace("[a](javascript:x)", "")
    assert 'class="mdtable"' in shown


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("3. a\n5. b", ['<ol start="3">', '<li value="5">b']),
        ("1. a\n1. b", ["<ol>\n<li>a</li>\n<li>b</li>"]),
        ("1. a\n\n   7. in\n   9. in\n2. b", ['<ol start="7">', '<li value="9">in', "<li>\n<p>b</p>"]),
        ("|a|b|c|d|\n|:-|:-:|-:|-|\n|1|2|3|4|", ['class="left">1', 'class="center">2', 'class="right">3', "<td>4"]),
        ("![a *b*](https://example.org/x.png)", ['href="https://example.org/x.png" rel="noopener noreferrer">a b</a>']),
        ("![](javascript:x) [![in](a.png)](b)", ["![](javascript:x)", '<a href="b" rel="noopener noreferrer">in</a>']),
        ("(https://a.b/c_(d)?e=1&f=2).", ['(<a href="https://a.b/c_(d)?e=1&amp;f=2" ', "</a>)."]),
        (
            "www.a.b, `https://a.b` http:// xhttps://a.b",
            ['href="http://www.a.b"', "<code>https://a.b</code> http:// xhttps"],
        ),
        (
            "- [ ] a\n- [X] b\n- [x](c)\n\n[ ] d",
            ['aria-label="not done"> a', 'aria-label="done" checked=""> b', "[ ] d"],
        ),
        ("@ines. `@ines`", ['<span class="mention">@ines</span>. <code>@ines</code>']),
    ],
)
def test_markdown_keeps_what_its_author_wrote(text: str, parts: list[str]) -> None:
    shown = markdown.render(text)
    assert [part for part in parts if part not in shown] == [], shown


def test_an_empty_state_says_why_in_the_words_of_its_block() -> None:
    template = Template('{% load ui %}{% empty_state "table" "No rows" %}\n  Where\n  {{ why }}.\n{% endempty_state %}')
    assert "<p>Where a &lt; b.</p>" in template.render(Context({"why": "a < b"}))


def test_a_button_that_posts_sends_what_is_named_and_escapes_it() -> None:
    text = '{% load ui %}{% post_button url "Remove" kind="danger" label=label fields=fields user=user owner=owner %}'
    named = {"url": "/x", "label": "Remove <b>", "fields": [("page", "")], "user": '"mira"', "csrf_token": "t0ken"}
    shown = re.sub(r"\s+", " ", Template(text).render(Context(named))).replace("> <", "><")

    assert '<form method="post" action="/x" >' in shown
    assert 'value="t0ken"' in shown
    assert (
        '<input type="hidden" name="page" value=""><input type="hidden" name="user" value="&quot;mira&quot;">' in shown
    )
    assert 'name="owner"' not in shown, "what is not there is not sent"
    assert 'aria-label="Remove &lt;b&gt;"' in shown


def test_the_head_of_a_page_has_buttons_only_where_there_are_some() -> None:
    head = Template("{% load ui %}{% page_head name note=0 %}{% if may %}<a>New</a>{% endif %}{% endpage_head %}")
    alone, full = (head.render(Context({"name": "A & B", "may": may})) for may in (False, True))

    assert "<h1>A &amp; B <span" in alone
    assert "actions" not in alone
    assert '<div class="actions"><a>New</a></div>' in full


def test_a_dialog_and_a_table_name_what_they_hold() -> None:
    text = '{% load ui %}{% dialog "keys" title %}{% table "Keys" %}<tr><td>{{ title }}</td></tr>{% endtable %}{% enddialog %}'
    shown = Template(text).render(Context({"title": "J & K"}))

    assert 'aria-labelledby="keys-title"' in shown
    assert '<h2 id="keys-title">J &amp; K</h2>' in shown
    assert 'aria-label="Keys, scrollable"' in shown
    assert "<td>J &amp; K</td>" in shown
