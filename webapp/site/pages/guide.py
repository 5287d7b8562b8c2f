"""The guide: Markdown files in `webapp/site/guide`, shown here as on a Git host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from webapp.core.errors import NotFound
from webapp.core.templatetags.markdown import Heading, MarkdownFile, list_headings, render_file
from webapp.repositories.pages import colour_code

FOLDER = Path(settings.BASE_DIR, "webapp", "site", "guide")
CONTENTS = "README"
"""The file that lists the chapters, which a Git host shows with the folder."""
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


def _read(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def _find_url(path: str) -> str:
    name = path.removesuffix(".md")
    return reverse("guide") if name == CONTENTS else reverse("guide-chapter", args=[name])
