"""Markdown to clean HTML. Not a tag library; it lives beside its only caller."""

from functools import lru_cache

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

_PARSER = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


@lru_cache(maxsize=256)
def render(text: str) -> SafeString:
    """Render Markdown with headings two levels down, so that a page keeps one h1 and its own h2."""
    tokens = _PARSER.parse(text)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        if token.type == "table_open":
            token.attrSet("class", "mdtable")
        if token.type == "fence":
            token.info = ""
    html = _PARSER.renderer.render(tokens, _PARSER.options, {})
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "table": {"class"}},
        url_schemes={"http", "https", "mailto"},
    )
    return mark_safe(clean)  # noqa: S308 cleaned above
