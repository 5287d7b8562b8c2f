"""The text that a repository proposes for its pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.errors import AppError
from webapp.git.texts import decode
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.repositories.models import Repository

TEMPLATE_FILES = (".tributary/pull_request.md", "PULL_REQUEST.md")
"""Where it is looked for, at the head of the target; the first counts."""
MOST_TEMPLATE = 20_000
"""Characters of it; a longer one is cut."""


def read_template(repository: Repository, target: str) -> str:
    """Return the text with which the form of a pull request into a branch begins; empty where there is none."""
    head = repositories.get_head(repository, target)
    for path in TEMPLATE_FILES:
        try:
            if repositories.find_kind(repository, head, path) is not None:
                return decode(repositories.read_file(repository, head, path))[:MOST_TEMPLATE].strip()
        except AppError:
            continue  # a folder of that name, or a file that is too large to be shown
    return ""
