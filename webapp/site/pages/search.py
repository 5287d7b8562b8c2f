"""Search over everything that has a name, and over the guide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.urls import reverse

from webapp.builds import queries as builds
from webapp.datasets import queries as datasets
from webapp.pulls.pages import lines
from webapp.pulls.queries import lists as pulls
from webapp.repositories import queries as repositories
from webapp.site.pages import guide

if TYPE_CHECKING:
    from webapp.builds.models import Build
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset
    from webapp.repositories.models import Repository

SHOWN = 20
SECTIONS_SHOWN = 8
BUILD = re.compile(r"^(?:build\s*)?(\d+)$", re.IGNORECASE)


@dataclass(frozen=True)
class SearchPage:
    """Context of the search page."""

    nav: str
    q: str
    datasets: list[Dataset]
    repositories: list[Repository]
    pulls: list[lines.PullLine]
    builds: list[Build]
    sections: list[guide.FoundSection]
    jump: str = ""

    @property
    def total(self) -> int:
        """How much was found."""
        named = len(self.datasets) + len(self.repositories) + len(self.pulls) + len(self.builds)
        return named + len(self.sections)


def search(principal: Principal, q: str) -> SearchPage:
    """Find what has these words in its name, and what the guide says of them."""
    words = q.strip()
    if not words:
        return SearchPage("", "", [], [], [], [], [])
    found_datasets = list(datasets.list_datasets(principal, datasets.DatasetFilter(q=words))[:SHOWN])
    found_repositories = list(repositories.list_repositories(principal).filter(name__icontains=words)[:SHOWN])
    return SearchPage(
        nav="",
        q=words,
        datasets=found_datasets,
        repositories=found_repositories,
        pulls=_find_pulls(principal, words),
        builds=_find_builds(principal, words),
        sections=guide.find_sections(words, most=SECTIONS_SHOWN),
        jump=_find_exact(words, found_datasets, found_repositories),
    )


def _find_pulls(principal: Principal, words: str) -> list[lines.PullLine]:
    return lines.describe_pulls(list(pulls.list_pulls(principal, pulls.PullFilter(q=words))[:SHOWN]))


def _find_builds(principal: Principal, words: str) -> list[Build]:
    number = BUILD.match(words)
    if number:
        return list(builds.list_builds(principal).filter(pk=int(number[1])))
    return list(builds.list_builds(principal, builds.BuildFilter(q=words))[:5])


def _find_exact(words: str, candidates: list[Dataset], repos: list[Repository]) -> str:
    for dataset in candidates:
        if dataset.path == words:
            return f"/d{dataset.path}"
    for repository in repos:
        if repository.name.lower() == words.lower() and len(candidates) == 0:
            return reverse("repository", args=[repository.name])
    return ""
