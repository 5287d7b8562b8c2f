"""Small pieces of every page: icons, states, times, numbers and values. README: templates/components/README.md."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import template
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from webapp.core.characters import HIDDEN_IN_SCRIPTS, draw_code, draw_everything
from webapp.core.drawn_values import LONG_TEXT, MINUS, draw_beside, draw_change, draw_lines, draw_pieces, draw_value
from webapp.core.states import State
from webapp.core.templatetags import markdown

if TYPE_CHECKING:
    from django.http import HttpRequest, QueryDict

register = template.Library()

SPRITE = "build/icons.svg"
THIN = "\N{NARROW NO-BREAK SPACE}"
DASH = "\N{EN DASH}"

TONES: Mapping[str, tuple[str, str]] = {
    "ok": ("ok", "check-circle-fill"),
    "bad": ("bad", "x-circle-fill"),
    "run": ("run", "sync"),
    "wait": ("wait", "clock"),
    "fresh": ("fresh", "skip"),
    "void": ("void", "circle-slash"),
    "abort": ("abort", "stop"),
    "warn": ("warn", "alert"),
    "open": ("open", "circle"),
    "stale": ("warn", "history"),
    "merged": ("merged", "git-merge"),
    "closed": ("closed", "git-pull-request-closed"),
}
"""Tone of a state → the class and the icon that show it."""

HIDDEN_NOTE = "Its repository calls this column sensitive: its values are hidden from you."

NO_END = '<i class="ch ch--quiet" title="No newline at the end of the file" data-ch="⊘"></i>'

LINE_ENDS = {
    "lf": '<i class="ch" title="The line ends with LF" data-ch="␊"></i>',
    "crlf": '<i class="ch" title="The line ends with CR LF" data-ch="␍␊"></i>',
}

COLOUR_MODES = ("auto", "light", "dark")
LIGHT_THEMES = ("light", "light_high_contrast", "light_colorblind")
DARK_THEMES = ("dark", "dark_dimmed", "dark_high_contrast", "dark_colorblind")


# ---- icons, states, names ------------------------------------------------------------------------------------------


@register.simple_tag
@lru_cache(maxsize=512)
def icon(name: str, css: str = "") -> SafeString:
    """Draw an octicon of the sprite, in the colour of the text around it; a page draws hundreds of a few."""
    return format_html(
        '<svg class="icon{}" width="16" height="16" aria-hidden="true"><use href="{}#{}"/></svg>',
        f" {css}" if css else "",
        icon_sprite(),
        name,
    )


@register.simple_tag
def hidden_pattern() -> str:
    """Return the pattern of characters that nobody sees, for scripts that draw."""
    return HIDDEN_IN_SCRIPTS


@register.simple_tag
def icon_sprite() -> str:
    """Return the address of the sprite, for scripts that draw."""
    return static(SPRITE)


@register.filter
def tone_icon(tone: str) -> str:
    """Return the name of the icon that shows a tone."""
    return TONES[tone][1]


@register.simple_tag
def state(shown: str, text: object = None, css: str = "") -> SafeString:
    """Show a state by sign, colour and word: `{% state job.state %}`, or with a tone `{% state "ok" "Build 3 passed" %}`."""
    tone, label = (shown.tone, shown.label) if isinstance(shown, State) else (shown, shown.capitalize())
    kind, glyph = TONES.get(tone, TONES["open"])  # open: a state that a newer release has written
    return format_html(
        '<span class="st st-{}{}">{}{}</span>',
        kind,
        f" {css}" if css else "",
        icon(glyph),
        label if text is None else text,
    )


@register.simple_tag
def branch(name: str, url: str = "", css: str = "") -> SafeString:
    """Show a branch name, as a link when `url` is given."""
    extra = f" {css}" if css else ""
    if url:
        return format_html('<a class="branch{}" href="{}">{}</a>', extra, url, name)
    return format_html('<span class="branch{}">{}</span>', extra, name)


@register.simple_tag(name="hash")
def hash_(value: object, url: str = "", length: int = 7) -> SafeString:
    """Show the first characters of a commit or transaction, the whole in the title."""
    whole = str(value or "")
    if not whole:
        return format_html('<span class="muted">{}</span>', DASH)
    if url:
        return format_html('<a class="hash" href="{}" title="{}">{}</a>', url, whole, whole[:length])
    return format_html('<span class="hash" title="{}">{}</span>', whole, whole[:length])


@register.simple_tag
def dataset_icon(path: str, css: str = "") -> SafeString:
    """Draw a dataset's icon: gray, until webapp.datasets.middleware finds that a JobSpec on master makes the dataset."""
    return format_html(
        '<svg class="icon ds-gray{}" data-ds="{}" width="16" height="16" aria-hidden="true"><use href="{}#table"/></svg>',
        f" {css}" if css else "",
        path,
        static(SPRITE),
    )


@register.simple_tag
def dataset(path: str, url: str = "") -> SafeString:
    """Show a dataset path with its icon: blue has a JobSpec on master, gray has none."""
    inner = format_html("{}<span>{}</span>", dataset_icon(path), path)
    if url:
        return format_html('<a class="ds" href="{}">{}</a>', url, inner)
    return format_html('<span class="ds">{}</span>', inner)


@register.simple_tag
def label(text: object, kind: str = "") -> SafeString:
    """Show a short mark in a pill; kind: ok, bad, warn, acc or nothing."""
    return format_html('<span class="label{}">{}</span>', f" {kind}" if kind else "", text)


@register.simple_block_tag
def empty_state(content: SafeString, icon_name: str, title: str, url: str = "", link: str = "") -> SafeString:
    """Show that nothing is here, and why, which the block says; a link leads to the next step."""
    context = {
        "icon_name": icon_name,
        "title": title,
        "text": SafeString(" ".join(content.split())),
        "url": url,
        "link": link,
    }
    return SafeString(render_to_string("components/empty_state.html", context))


@register.simple_block_tag
def page_head(content: SafeString, title: str, note: object = "", meta: str = "") -> SafeString:
    """Begin a page: its name, a note in grey, a line about it; the block holds what can be done here."""
    context = {"title": title, "note": note, "meta": meta, "actions": SafeString(content.strip())}
    return SafeString(render_to_string("components/page_head.html", context))


@register.simple_block_tag
def table(content: SafeString, label: str, css: str = "") -> SafeString:
    """Show a table that scrolls in a region of its own; the block holds its caption, its head and its rows."""
    return SafeString(render_to_string("components/table.html", {"label": label, "css": css, "rows": content}))


@register.simple_block_tag
def dialog(content: SafeString, id: str, title: str) -> SafeString:
    """Prepare a dialog that a button with `data-dialog` opens; the block holds its body or its form."""
    return SafeString(render_to_string("components/dialog.html", {"id": id, "title": title, "body": content}))


@register.simple_tag(takes_context=True)
def post_button(
    context: template.Context,
    url: str,
    text: str,
    icon: str = "",
    kind: str = "",
    css: str = "",
    label: str = "",
    confirm: str = "",
    fields: Iterable[tuple[str, object]] = (),
    **more: object,
) -> SafeString:
    """Show a button that posts `fields` and what else is named, but for names that stand for nothing.

    With `confirm`, a dialog says so first, and asks.
    """
    sent = [*fields, *((name, value) for name, value in more.items() if value not in (None, ""))]
    shown: dict[str, object] = {
        "url": url,
        "text": text,
        "icon_name": icon,
        "kind": kind,
        "css": css,
        "label": label,
        "confirm": confirm,
    }
    shown |= {"fields": sent, "csrf_token": context.get("csrf_token")}
    return SafeString(render_to_string("components/post_button.html", shown))


@register.simple_tag
@lru_cache(maxsize=512)
def avatar(name: str, size: str = "") -> SafeString:
    """Show the initial of a user or group in a colour that stays the same; size: sm, lg or nothing."""
    tone = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 6
    css = f"avatar av-{tone}{f' {size}' if size else ''}"
    return format_html('<span class="{}" aria-hidden="true">{}</span>', css, name[:1].upper() or "?")


@register.simple_tag
def count(value: int | str | None) -> SafeString:
    """Show a count beside a heading or tab; zero is greyed, None and what is not there are left out."""
    if value is None or value == "":
        return SafeString("")
    return format_html('<span class="count{}">{}</span>', "" if value else " count--none", number(value))


@register.simple_tag
def delta(added: int | None, removed: int | None, changed: int | None = None) -> SafeString:
    """Show rows or lines added, removed and changed, by sign, colour and a word for screen readers."""
    parts = [("add", "added", "+", added), ("del", "removed", MINUS, removed), ("mod", "changed", "~", changed)]
    return format_html(
        '<span class="delta">{}</span>',
        format_html_join(
            " ",
            '<span class="{}"><span class="sr">{} </span>{}{}</span>',
            (
                (css if value else f"{css} zero", word, sign, number(value))
                for css, word, sign, value in parts
                if value is not None
            ),
        ),
    )


# ---- numbers and times ---------------------------------------------------------------------------------------------


@register.filter
def number(value: object) -> str:
    """Write a number with thousands apart: 336,776."""
    if value is None or value == "":
        return DASH
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    if isinstance(value, float):
        return f"{value:,.6g}".replace("-", MINUS) if math.isfinite(value) else str(value)
    return str(value)


@register.filter
def signed(value: int | None) -> str:
    """Write a difference with its sign: +12."""
    if value is None:
        return DASH
    return f"+{value:,}" if value > 0 else number(value)


@register.filter
def percent(part: float | None, whole: float | None) -> str:
    """Write a share without ever rounding to 0 or 100 what is not."""
    if not whole or part is None:
        return DASH
    share = 100 * part / whole
    if 0 < share < 0.01:
        return f"<0.01{THIN}%"
    if 99.99 < share < 100:
        return f"~99.99{THIN}%"
    return f"{share:.2f}".rstrip("0").rstrip(".") + f"{THIN}%"


@register.filter
def filesize(value: float | None) -> str:
    """Write a size in bytes with the unit that fits: 121 kB."""
    if value is None:
        return DASH
    size = float(value)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 1000 or unit == "TB":
            return f"{size:.0f}{THIN}{unit}" if size >= 10 or unit == "B" else f"{size:.1f}{THIN}{unit}"
        size /= 1000
    return DASH


@register.filter
def duration(value: float | dt.timedelta | None) -> str:
    """Write a duration in two units at most: 1 min 09 s."""
    if value is None:
        return DASH
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else float(value)
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


@register.simple_tag
def took(start: dt.datetime | None, end: dt.datetime | None = None) -> SafeString | str:
    """Show how long something took; while it runs the time counts up in place."""
    if start is None:
        return DASH
    if end is not None:
        return duration(end - start)
    since = duration(timezone.now() - start)
    return format_html('<elapsed-time start="{}">{}</elapsed-time>', start.isoformat(), since)


@register.simple_tag
def reltime(value: dt.datetime | None, css: str = "muted") -> SafeString:
    """Show a time as "3 minutes ago", exact in the title; the text without scripts is the date."""
    if value is None:
        return format_html('<span class="muted">{}</span>', DASH)
    utc = value.astimezone(dt.UTC)
    return format_html(
        '<relative-time class="{}" datetime="{}" prefix="on" threshold="P30D">{}</relative-time>',
        css,
        utc.isoformat(),
        utc.strftime("%d %b %Y %H:%M UTC"),
    )


# ---- values of data ------------------------------------------------------------------------------------------------


@register.simple_tag
def value(cell: object, limit: int = LONG_TEXT) -> SafeString:
    """Show a value of a table: null in italics and unlike "", blanks visible, long text shortened with the whole behind."""
    return mark_safe(draw_value(cell, limit))  # noqa: S308 - every path escapes


@register.simple_tag
def value_beside(cell: object, other: object) -> SafeString:
    """Show a value near another one: of a long text where they differ, and what tells apart values that look alike."""
    return mark_safe(draw_beside(cell, other))  # noqa: S308 - every path escapes


@register.simple_tag
def value_pieces(pieces: Sequence[Any], mark: str = "") -> SafeString:
    """Show a text in pieces {text, is_changed, is_alike}, the changed ones in the element `mark`."""
    return mark_safe(draw_pieces(pieces, mark))  # noqa: S308 - every path escapes


@register.simple_tag
def document_lines(lines: Sequence[Any]) -> SafeString:
    """Show the lines of two documents that differ, as items of a list."""
    return mark_safe(draw_lines(lines))  # noqa: S308 - every path escapes


@register.simple_tag
@lru_cache(maxsize=1)
def hidden_value() -> SafeString:
    """Show that there is a value which the reader may not see."""
    return format_html('<span class="hid" title="{}">{}hidden</span>', HIDDEN_NOTE, icon("lock", "xs"))


@register.simple_tag
def hidden_mark(is_hidden: bool) -> SafeString:
    """Draw the lock of a column whose values are hidden from the reader; nothing beside another one."""
    if not is_hidden:
        return SafeString()
    return format_html(
        '<span class="hid" title="{}">{}<span class="sr">hidden</span></span>', HIDDEN_NOTE, icon("lock", "xs")
    )


@register.simple_tag
def code_text(spans: Iterable[Any], word: str = "", has_no_end: bool = False, end: str = "") -> SafeString:
    """Draw the text of a line of code: {text, token (class of its colour), marked (whether the change is here), is_alike}.

    Written here and not as a template: every blank of a line is shown, copied and suggested, those of a template as well.

    Args:
        spans: the pieces of the line.
        word: what has become of it, for screen readers.
        has_no_end: whether it is the last line of a file, without a newline.
        end: the line end to draw, "lf" or "crlf"; empty draws none.

    """
    head = format_html('<span class="sr">{} </span>', word) if word else ""
    tail = NO_END if has_no_end else LINE_ENDS.get(end, "")
    return mark_safe(f"{head}{''.join(map(_span_html, spans))}{tail}")  # noqa: S308 - every piece is escaped


@register.simple_tag
def code_line(file: Any, line: Any, word: str = "") -> SafeString:
    """Draw a line of a diff; on changed lines also how they end, where the file's line ends differ."""
    is_drawn = line.kind != "context" and file.has_odd_ends
    return code_text(line.pieces, word=word, has_no_end=line.no_newline, end=line.end if is_drawn else "")


def _span_html(span: Any) -> str:
    css = f' class="{escape(span.token)}"' if span.token else ""
    text = draw_everything(span.text) if getattr(span, "is_alike", False) else draw_code(span.text)
    if getattr(span, "marked", False):
        return f"<mark{css}>{text}</mark>"
    return f"<span{css}>{text}</span>" if css else text


@register.simple_tag
def diff_row(row: Any, first: bool = False) -> SafeString:
    """Draw one row of a row diff: {n, css, sign, word, copies, url (who changed it), key, mark (what else is to be said of it), link, is_sought, cells = list of {state, before, after, delta, css, pin, num, title, is_hidden}}.

    Written here and not as a template: a page of 250 rows and 20 columns takes a tenth of the time.
    """
    copies = f'<span class="muted" title="{row.copies} equal rows">×{row.copies}</span>' if row.copies > 1 else ""
    if url := getattr(row, "url", ""):
        # out of the tab order, which walks rows: Enter on a row follows it
        named = f'aria-label="{row.word}" title="Who changed this row"'
        mark = f'<a href="{escape(url)}" data-open tabindex="-1" {named}>{row.sign}</a>'
    else:
        mark = f'<span aria-hidden="true">{row.sign}</span><span class="sr">{row.word}</span>'
    if text := escape(getattr(row, "mark", "")):
        copies += (
            f'<span class="also" title="{text}"><span aria-hidden="true">⇄</span><span class="sr">{text}</span></span>'
        )
    key = f' data-key="{escape(json.dumps(row.key, default=str))}"' if getattr(row, "key", None) else ""
    is_sought = getattr(row, "is_sought", False)
    css = f"rd {row.css} sought" if is_sought else f"rd {row.css}"
    number = f' id="row-{row.n}"' if row.n else ""
    head = (
        f'<tr class="{css}" tabindex="{0 if first or is_sought else -1}"{number}{key}{" autofocus" * is_sought}>'
        f'<td class="mk">{mark}{copies}</td>'
    )
    first_cell = _cell_html(row.cells[0], getattr(row, "link", "")) if row.cells else ""
    return mark_safe(head + first_cell + "".join(map(_cell_html, row.cells[1:])) + "</tr>")  # noqa: S308 - every value is escaped


def _cell_html(cell: Any, link: str = "") -> str:
    css = f"{'key ' if cell.pin else ''}{cell.css}".strip()
    attributes = f' class="{css}"' if css else ""
    if cell.title:
        attributes += f' title="{escape(cell.title)}"'
    if getattr(cell, "is_hidden", False):
        content = str(hidden_value())
    elif cell.state == "changed":
        delta = f' <span class="muted dl">({escape(cell.delta)})</span>' if cell.delta else ""
        content = draw_change(cell.before, cell.after, delta)
    elif cell.state == "none":
        content = '<span class="muted" title="this side has no such column">·</span>'
    else:
        shown, other = (cell.before, cell.after) if cell.state == "deleted" else (cell.after, cell.before)
        content = draw_beside(shown, other if other is not None else getattr(cell, "lookalike", None))
    if link and cell.pin:
        # out of the tab order, too
        content = f'<a href="{escape(link)}" tabindex="-1">{content}</a>'
    return f'<th scope="row"{attributes}>{content}</th>' if cell.pin else f"<td{attributes}>{content}</td>"


@register.filter
def at_line(by_line: Mapping[tuple[str, int], Sequence[Any]], line: Any) -> list[Any]:
    """Return what belongs to a line of a code diff, by its number on either side."""
    return at_pair(by_line, (line, line))


@register.filter
def at_pair(by_line: Mapping[tuple[str, int], Sequence[Any]], pair: tuple[Any, Any]) -> list[Any]:
    """Return what belongs to two lines beside each other, of which one may be missing."""
    left, right = pair
    before = by_line.get(("base", left.old), ()) if left is not None else ()
    return [*before, *(by_line.get(("head", right.new), ()) if right is not None else ())]


@register.filter
def of(groups: Mapping[Any, Sequence[Any]], key: Any) -> Sequence[Any]:
    """Return what there is for a key; an empty list where there is nothing."""
    return groups.get(key, ())


@register.filter
def at(items: Sequence[Any], place: int) -> Any:
    """Return the item of a list at a place."""
    return items[place]


@register.filter
def as_id(number: int, name: str) -> str:
    """Name one of several alike elements of a page: delete-3."""
    return f"{name}-{number}"


@register.filter
def is_number(kind: object) -> bool:
    """Return whether a column of this Iceberg type is set flush right."""
    return str(kind).split("(")[0] in {"int", "long", "float", "double", "decimal"}


# ---- addresses and themes ------------------------------------------------------------------------------------------


@register.simple_tag(takes_context=True)
def query(context: Mapping[str, Any], **changes: object) -> str:
    """Return "?…" of this page with some parameters changed; None or "" removes one."""
    request: HttpRequest | None = context.get("request")
    current: QueryDict | None = request.GET if request is not None else None
    parameters = {key: current.getlist(key) for key in current} if current is not None else {}
    if "page" in changes and "cursor" not in changes:
        parameters.pop("cursor", None)  # it is of the page that is left
    for key, item in changes.items():
        if item is None or item == "":
            parameters.pop(key, None)
        else:
            parameters[key] = [str(item)]
    return "?" + urlencode(parameters, doseq=True) if parameters else "?"


@register.simple_tag(takes_context=True)
def theme(context: Mapping[str, Any]) -> SafeString:
    """Write the attributes of <html> that choose the colours and the hotkeys, from the user or the cookie."""
    request: HttpRequest | None = context.get("request")
    user = getattr(request, "user", None)
    cookies = request.COOKIES if request is not None else {}

    def choose(name: str, allowed: tuple[str, ...]) -> str:
        choice = getattr(user, name, "") or cookies.get(name, "")
        return choice if choice in allowed else allowed[0]

    hotkeys = "on" if getattr(user, "hotkeys", True) else "off"
    return format_html(
        'data-color-mode="{}" data-light-theme="{}" data-dark-theme="{}" data-hotkeys="{}"',
        choose("color_mode", COLOUR_MODES),
        choose("light_theme", LIGHT_THEMES),
        choose("dark_theme", DARK_THEMES),
        hotkeys,
    )


@register.simple_tag(takes_context=True)
def written(context: template.Context, text: str) -> SafeString:
    """Render what somebody wrote, in Markdown; what the page has addresses of in `references` is linked."""
    return markdown.render(text, context.get("references"))


@register.filter(name="markdown")
def markdown_filter(text: str | None) -> SafeString:
    """Render Markdown, cleaned."""
    return markdown.render(text or "")
