"""The guide: Markdown files in `webapp/site/guide`, shown here as on a Git host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from webapp.core.errors import NotFound
from webapp.core.numbered import CutList
from webapp.core.templatetags.markdown import Heading, MarkdownFile, Section, list_headings, list_sections, render_file
from webapp.repositories.pages.text import colour_code

FOLDER = Path(settings.BASE_DIR, "webapp", "site", "guide")
CONTENTS = "README"
"""The file that lists the chapters, which a Git host shows with the folder."""
EXCERPT = 180
"""Signs of a found section that are shown."""
DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
"""A Git host draws these; here the table below each says the same."""


@dataclass(frozen=True)
class Chapter:
    """A line of the table of contents."""

    name: str
    title: str
    url: str


@dataclass(frozen=True)
class GuidePage:
    """One chapter, beside the list of all."""

    name: str
    title: str
    html: str
    chapters: tuple[Chapter, ...]
    sections: tuple[Heading, ...]
    nav: str = "guide"


@dataclass(frozen=True)
class FoundSection:
    """A section of the guide that has the words of a search."""

    chapter: str
    title: str
    url: str
    excerpt: str


@lru_cache(maxsize=32)
def read_chapter(name: str) -> GuidePage:
    """Return a chapter by the name of its file, without suffix."""
    chapters = list_chapters()
    if name not in {chapter.name for chapter in chapters}:
        msg = f"The guide has no chapter '{name}'."
        raise NotFound(msg)
    title, _, text = _read(name).partition("\n")
    text = DIAGRAM.sub("", text)
    return GuidePage(
        name=name,
        title=title.removeprefix("# "),
        html=render_file(text, MarkdownFile("", _find_url, colour_code, lowered=0)),
        chapters=chapters,
        sections=tuple(heading for heading in list_headings(text) if heading.level == 2),
    )


@lru_cache(maxsize=1)
def list_chapters() -> tuple[Chapter, ...]:
    """Return all chapters in the order in which the contents name them, the contents first."""
    names = [CONTENTS, *re.findall(r"\]\((\w+)\.md\)", _read(CONTENTS))]
    titles = {name: _read(name).partition("\n")[0].removeprefix("# ") for name in names}
    return tuple(Chapter(name, title, _find_url(f"{name}.md")) for name, title in titles.items())


def find_sections(words: str, *, most: int) -> CutList[FoundSection]:
    """Return the sections that have all of these words, those first that have them in their heading."""
    terms = words.lower().split()
    sections = [
        (chapter, section)
        for chapter, section in _list_all_sections()
        if _has(terms, f"{chapter.title} {section.heading.text} {section.text}")
    ]
    sections.sort(key=lambda pair: not _has(terms, f"{pair[0].title} {pair[1].heading.text}"))
    shown = [
        FoundSection(
            chapter.title,
            section.heading.text,
            f"{chapter.url}#{section.heading.anchor}",
            _cut_around(section.text, terms),
        )
        for chapter, section in sections[:most]
    ]
    return CutList(shown, len(sections))


@lru_cache(maxsize=1)
def _list_all_sections() -> tuple[tuple[Chapter, Section], ...]:
    return tuple(
        (chapter, section)
        for chapter in list_chapters()
        for section in list_sections(DIAGRAM.sub("", _read(chapter.name)))
    )


def _has(terms: list[str], text: str) -> bool:
    folded = text.lower()
    return all(word in folded for word in terms)


def _cut_around(text: str, terms: list[str]) -> str:
    """Return a line of the text around the first of the words that it has, from the beginning of a word."""
    folded = text.lower()
    first = min((place for word in terms if (place := folded.find(word)) >= 0), default=0)
    start = text.rfind(" ", 0, max(0, first - EXCERPT // 3)) + 1
    cut = text[start : start + EXCERPT]
    if start + EXCERPT < len(text):
        cut = f"{cut.rpartition(' ')[0]}…"
    return f"…{cut}" if start else cut


def _read(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def _find_url(path: str) -> str:
    name = path.removesuffix(".md")
    return reverse("guide") if name == CONTENTS else reverse("guide-chapter", args=[name])
