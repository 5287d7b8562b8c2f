"""Draws hidden characters in every page, whatever template wrote them and whoever wrote the text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webapp.core.characters import draw_hidden, has_hidden, spell_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.http import HttpRequest, HttpResponse

_TAG = re.compile(
    r"""<!--.*?-->|<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*)(?P<rest>(?:[^"'>]++|"[^"]*"|'[^']*')*+)>|<[!?][^>]*>""",
    re.DOTALL,
)
_WORDS = re.compile(r"""(?<=\s)(?:title|aria-label|alt|placeholder)=(?:"[^"]*"|'[^']*')""")
_KEPT = frozenset({"script", "style", "textarea"})
"""Elements whose text is read by programs or edited."""
_SPELLED = frozenset({"title", "option", "svg"})
"""Elements in which no other element can draw a character."""
_DRAWN = ' class="ch'
"""How the attributes begin of an element that draws a character already."""


class DrawnPages:
    """Draws the hidden characters of each page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = not response.streaming and response.get("Content-Type", "").startswith("text/html")
        if is_page and has_hidden(response.content):
            response.content = draw_page(response.content.decode())
        return response


def draw_page(html: str) -> str:
    """Return a page with its hidden characters drawn in text, and spelled in titles and labels; values stay as they are."""
    return "".join(_draw_pieces(html))


def _draw_pieces(html: str) -> Iterator[str]:
    place = 0
    inside = ""
    is_drawn = False
    for tag in _TAG.finditer(html):
        if tag.start() < place:
            continue
        yield _draw_text(html[place : tag.start()], inside, is_drawn=is_drawn)
        place = tag.end()
        name, rest = (tag["name"] or "").lower(), tag["rest"] or ""
        words = _WORDS.sub(lambda words: spell_hidden(words[0]), tag[0])
        is_drawn = not tag["end"] and rest.startswith(_DRAWN)
        if name and tag["end"]:
            inside = "" if name == inside else inside
        elif name in _KEPT:
            end = re.compile(f"</{name}", re.IGNORECASE).search(html, place)
            words, place = html[tag.start() : end.start() if end else len(html)], end.start() if end else len(html)
        elif name in _SPELLED and not inside:
            inside = name
            if name == "option" and " value=" not in rest:
                # Without a value of its own, an option sends its text.
                words = f'<option value="{html[place : html.find("<", place)].strip()}"{rest}>'
        yield words
    yield _draw_text(html[place:], inside, is_drawn=False)


def _draw_text(text: str, inside: str, *, is_drawn: bool) -> str:
    if is_drawn or not text:
        return text
    return spell_hidden(text) if inside else draw_hidden(text)
