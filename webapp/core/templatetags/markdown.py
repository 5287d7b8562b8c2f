"""Markdown to clean HTML. Not a tag library; it lives beside the filter that comments go through."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from webapp.core.budgets import spending
from webapp.core.helpers import OutOfTime, call_helper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping

_PARSER = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p", "pre", "s", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "title"},
    "span": {"class"},
    "input": {"aria-label", "checked", "disabled", "type"},
    "li": {"value"},
    "ol": {"start"},
    "table": {"class"},
    "td": {"class"},
    "th": {"class"},
    **{f"h{level}": {"id"} for level in range(2, 7)},
}
MOST_IN_PLACE = 2_000
"""Characters of a text that is parsed in this process; the time it takes grows with their square, to 50 ms."""
MOST_TOKENS = 30_000
"""Parts of a text that is shown as Markdown."""
_ALIGNMENTS = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}
_BOX = re.compile(r"\[([ xX])\](?=\s)")
_ADDRESS = re.compile(r"(?<![\w/])(?:https?://|www\.)[^\s<>]+", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w@/.+-])@([\w.+-]{1,150})")
_ANCHOR = "md-"
"""Before the names of headings, which are the author's: the page has ids of its own."""


_Replace = Callable[[str], "tuple[str, list[Token]] | None"]


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """What a text is that stands in a file: where it is, and how its links and its code are shown."""

    folder: str
    """Of the file, from which relative links start."""
    url: Callable[[str], str]
    """The address of a path."""
    colour: Callable[[str, str], str]
    """HTML of code in a language, or nothing where that is not known."""
    lowered: int = 2
    """By how many levels its headings stand lower, so that the page keeps its own above them."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a Markdown text."""

    level: int
    """As the author wrote it."""
    text: str
    anchor: str
    """Its id in the page."""


@dataclass(frozen=True, slots=True)
class Section:
    """What a Markdown text says between one heading and the next."""

    heading: Heading
    text: str
    """Its paragraphs, cells and code, without marks."""


def render(text: str, links: Mapping[str, str] | None = None) -> SafeString:
    """Render Markdown with headings two levels down, so that a page keeps one h1 and its own h2.

    Args:
        text: in Markdown.
        links: addresses of what the text names, by how it is written there; in code nothing is linked.

    """
    try:
        return _render(text, tuple(item for item in (links or {}).items() if item[0] in text))
    except OutOfTime:
        return _show_plain(text)


@lru_cache(maxsize=256)
def _render(text: str, links: tuple[tuple[str, str], ...]) -> SafeString:
    tokens = _parse(text)
    if links:
        _link_words(tokens, dict(links))
    _replace_all_texts(tokens, _MENTION, _draw_mention)
    return _finish(tokens)


def list_mentions(text: str) -> list[str]:
    """Return the names behind an @, as they are drawn on pages: not in code, links or addresses; in lower case."""
    try:
        tokens = _parse(text)
    except OutOfTime:
        return []  # it is shown as it is written
    names: list[str] = []

    def collect(written: str) -> None:
        if name := _trim_name(written):
            names.append(name.removeprefix("@").lower())

    _replace_all_texts(tokens, _MENTION, collect)
    return names


def render_file(text: str, file: MarkdownFile) -> SafeString:
    """Render a file's Markdown: its links lead to files and headings, its code has colours."""
    try:
        tokens = _parse(text, lowered=file.lowered)
    except OutOfTime:
        return _show_plain(text)
    _name_headings(tokens)
    for token in _walk(tokens):
        if token.type == "link_open":
            token.attrSet("href", _resolve(str(token.attrGet("href") or ""), file))
    return _finish(tokens, colour=file.colour)


def list_headings(text: str) -> list[Heading]:
    """Return the headings of a Markdown text in their order."""
    return [section.heading for section in list_sections(text)]


def list_sections(text: str) -> list[Section]:
    """Return the sections of a Markdown text in their order; what stands before the first heading belongs to none."""
    tokens = _PARSER.parse(text)
    _name_headings(tokens)
    starts = [number for number, token in enumerate(tokens) if token.type == "heading_open"]
    return [
        Section(
            Heading(int(tokens[start].tag[1]), _plain(tokens[start + 1]), str(tokens[start].attrGet("id"))),
            " ".join(_list_texts(tokens[start + 3 : end])),
        )
        for start, end in pairwise([*starts, len(tokens)])
    ]


def _list_texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            yield _plain(token)
        elif token.type == "fence":
            yield token.content


def parse(text: str) -> list[MutableMapping[str, Any]]:
    """Parse Markdown in a helper process."""
    tokens = _PARSER.parse(text)
    if sum(1 + len(token.children or ()) for token in tokens) > MOST_TOKENS:
        return []
    return [token.as_dict() for token in tokens]


def _show_plain(text: str) -> SafeString:
    return format_html("<pre>{}</pre>", text)


def _parse(text: str, *, lowered: int = 2) -> list[Token]:
    """Parse Markdown.

    Raises:
        OutOfTime: it takes longer than the page can wait, or has too many parts.

    """
    with spending() as budget:
        if len(text) <= MOST_IN_PLACE and budget.left:
            tokens = _PARSER.parse(text)
        else:
            parsed = call_helper(__name__, "parse", text, seconds=budget.left)
            if not parsed and text.strip():
                raise OutOfTime
            tokens = [Token.from_dict(token) for token in parsed]
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + lowered)}"
        elif token.type == "table_open":
            token.attrSet("class", "mdtable")
        elif token.type in {"th_open", "td_open"} and (style := token.attrs.pop("style", None)):
            token.attrSet("class", _ALIGNMENTS[str(style)])
        elif token.type == "inline":
            token.children = list(_replace_texts(_replace_images(token.children or ()), _ADDRESS, _link_address))
    _number_items(tokens)
    _draw_boxes(tokens)
    return tokens


def _finish(tokens: list[Token], *, colour: Callable[[str, str], str] | None = None) -> SafeString:
    def highlight(code: str, language: str, _attributes: str) -> str:
        return colour(code, language.lower()) if colour and language else ""

    options = OptionsDict({**_PARSER.options, "highlight": highlight})  # type: ignore[typeddict-item]
    html = _PARSER.renderer.render(tokens, options, {})
    clean = nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"http", "https", "mailto"})
    return mark_safe(clean)  # noqa: S308 cleaned above


def _walk(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _walk(token.children or ())


def _link_words(tokens: Iterable[Token], links: Mapping[str, str]) -> None:
    """Make links of words, but for those in a link."""
    longest_first = "|".join(re.escape(word) for word in sorted(links, key=len, reverse=True))
    words = re.compile(rf"(?<![\w/.#&=?-])({longest_first})(?![\w/-])")
    _replace_all_texts(tokens, words, lambda word: (word, _make_link(links[word], word)))


def _replace_all_texts(tokens: Iterable[Token], pattern: re.Pattern[str], replace: _Replace) -> None:
    for token in tokens:
        if token.type == "inline":
            token.children = list(_replace_texts(token.children or (), pattern, replace))


def _replace_texts(children: Iterable[Token], pattern: re.Pattern[str], replace: _Replace) -> Iterator[Token]:
    """Replace what a pattern finds in texts outside of links and code.

    Args:
        children: of an inline token.
        pattern: finds candidates.
        replace: returns how much of a candidate is replaced, and by what; or None.

    """
    depth = 0
    for child in children:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        if child.type != "text" or depth:
            yield child
            continue
        passed = 0
        for match in pattern.finditer(child.content):
            if (change := replace(match[0])) is not None:
                written, replacement = change
                yield Token("text", "", 0, content=child.content[passed : match.start()])
                yield from replacement
                passed = match.start() + len(written)
        yield Token("text", "", 0, content=child.content[passed:]) if passed else child


def _make_link(href: str, text: str) -> list[Token]:
    return [
        Token("link_open", "a", 1, attrs={"href": href}),
        Token("text", "", 0, content=text),
        Token("link_close", "a", -1),
    ]


def _link_address(written: str) -> tuple[str, list[Token]] | None:
    """Make a link of a bare address, without the punctuation that ends the sentence: GitHub's extended autolinks."""
    address = written
    while address:
        if address[-1] in "?!.,:*_~'\"" or (address[-1] == ")" and address.count(")") > address.count("(")):
            address = address[:-1]
        elif entity := re.search(r"&\w+;\Z", address):
            address = address[: entity.start()]
        else:
            break
    host = re.sub(r"(?i)\Ahttps?://", "", address)
    if not re.match(r"\w", host) or host.lower() == "www":
        return None
    return address, _make_link(address if host != address else f"http://{address}", address)


def _trim_name(written: str) -> str:
    """Return a mention without the punctuation that ends the sentence; empty if nothing is left."""
    name = written.rstrip(".+-")
    return "" if name == "@" else name


def _draw_mention(written: str) -> tuple[str, list[Token]] | None:
    name = _trim_name(written)
    marks = [Token("mention_open", "span", 1, attrs={"class": "mention"}), Token("mention_close", "span", -1)]
    return (name, [marks[0], Token("text", "", 0, content=name), marks[1]]) if name else None


def _replace_images(children: Iterable[Token]) -> Iterator[Token]:
    """Make links of images, which pages do not load: the text is the one that stands for the image."""
    depth = 0
    for child in children:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        if child.type != "image":
            yield child
            continue
        source = str(child.attrs.get("src", ""))
        text = _plain(child) or source
        yield from [Token("text", "", 0, content=text)] if depth else _make_link(source, text)


def _number_items(tokens: Iterable[Token]) -> None:
    """Keep the numbers of a list that skips some; `1. 1. 1.` counts by itself."""
    lists: list[list[Token]] = []
    for token in tokens:
        if token.type == "ordered_list_open":
            lists.append([])
        elif token.type == "list_item_open" and token.markup in {".", ")"}:
            lists[-1].append(token)
        elif token.type == "ordered_list_close":
            items = lists.pop()
            numbers = [int(item.info) for item in items]
            for item, (before, number) in zip(items[1:], pairwise(numbers), strict=True):
                if all(earlier < later for earlier, later in pairwise(numbers)) and number != before + 1:
                    item.attrSet("value", str(number))


def _draw_boxes(tokens: Iterable[Token]) -> None:
    """Draw `[ ]` and `[x]` at the beginning of a list item as boxes."""
    before: list[str] = []
    for token in tokens:
        first = token.children[0] if token.children else None
        starts_item = before[-2:] == ["list_item_open", "paragraph_open"]
        if starts_item and first is not None and first.type == "text" and (box := _BOX.match(first.content)):
            label, checked = ("done", " checked") if box[1] != " " else ("not done", "")
            html = f'<input type="checkbox" disabled aria-label="{label}"{checked}>'
            first.content = first.content[box.end() :]
            token.children = [Token("html_inline", "", 0, content=html), *(token.children or ())]
        before.append(token.type)


def _name_headings(tokens: list[Token]) -> None:
    """Give headings the names that links of other products use: words in lower case with hyphens, numbered when equal."""
    taken: dict[str, int] = {}
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            name = re.sub(r"[^\w\- ]", "", _plain(content).lower()).strip().replace(" ", "-")
            number = taken.get(name, 0)
            taken[name] = number + 1
            opening.attrSet("id", f"{_ANCHOR}{name}-{number}" if number else f"{_ANCHOR}{name}")


def _plain(content: Token) -> str:
    """Return the words without marks; where a line of the author ends, there is a space."""
    types = {"text", "code_inline", "softbreak", "hardbreak"}
    return "".join(child.content or " " for child in content.children or () if child.type in types)


def _resolve(href: str, file: MarkdownFile) -> str:
    try:
        parts = urlsplit(href)
    except ValueError:
        return href
    if parts.scheme or parts.netloc:
        return href
    anchor = f"#{_ANCHOR}{parts.fragment}" if parts.fragment else ""
    if not parts.path:
        return anchor or href
    path = posixpath.normpath(posixpath.join("/", file.folder, unquote(parts.path))).strip("/")
    # Lines of files have names of their own.
    return file.url(path) + (f"#{parts.fragment}" if re.fullmatch(r"L\d+", parts.fragment) else anchor)
