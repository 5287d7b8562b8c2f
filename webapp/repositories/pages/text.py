"""How the text of files is drawn: Markdown, and code with colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.html import format_html_join

from webapp.core.templatetags.markdown import MarkdownFile, render_file
from webapp.git.diff import colour_lines
from webapp.repositories.pages.frame import ref_url

if TYPE_CHECKING:
    from webapp.git.diff import Span
    from webapp.repositories.models import Publication, Repository

MAX_COLOURED_BYTES = 400_000
MARKDOWN = (".md", ".markdown")
SUFFIXES = {"python": "py", "bash": "sh", "shell": "sh", "console": "sh", "yaml": "yml", "javascript": "js"}
"""Languages of code in Markdown → how files of them end."""
LANGUAGES = {"csv": "csv", "py": "python", "sql": "sql", "yml": "yaml", "yaml": "yaml", "json": "json"} | dict.fromkeys(
    ("jsonl", "parquet"), "json"
)


def problems_of(publication: Publication | None, path: str) -> list[dict[str, Any]]:
    """Return the errors of a publication that lie in one file."""
    if publication is None:
        return []
    return [item for item in publication.errors if item.get("file") == path]


def render_markdown(repository: Repository, ref: str, path: str, text: str) -> str:
    """Return the HTML of a Markdown file, nothing of other files."""
    if not path.lower().endswith(MARKDOWN) or len(text) > MAX_COLOURED_BYTES:
        return ""

    def find_url(target: str) -> str:
        return ref_url(repository, "blob" if target else "tree", ref, target)

    return render_file(text, MarkdownFile(path.rpartition("/")[0], find_url, colour_code))


def colour_code(content: str, language: str) -> str:
    """Return code as HTML with the classes of syntax colours."""
    lines = colour_lines(f"code.{SUFFIXES.get(language, language)}", content)
    coloured = (
        (format_html_join("", '<span class="{}">{}</span>', ((span.token, span.text) for span in line)),)
        for line in lines
    )
    return format_html_join("\n", "{}", coloured)


def list_lines(path: str, text: str, *, limit: int | None) -> tuple[list[tuple[Span, ...]], int]:
    """Return the first lines of a file with their colours, and the number of all; a long text has no colours."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    shown = "".join(f"{line}\n" for line in lines[:limit])
    return colour_lines(path if len(shown) <= MAX_COLOURED_BYTES else "plain.txt", shown), len(lines)


def find_language(path: str) -> str:
    """Return the language in which a file is edited; empty where the editor knows none."""
    return LANGUAGES.get(path.rpartition(".")[2].lower(), "")
