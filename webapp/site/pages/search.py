"""Search over everything that has a name, and over the guide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from webapp.builds import queries as builds
from webapp.core.numbered import CutList
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
BUILDS_SHOWN = 5
SECTIONS_SHOWN = 8
NOTHING: CutList[Any] = CutList([], 0)
BUILD = re.compile(r"^(?:build\s*)?(\d+)$", re.IGNORECASE)


@dataclass(frozen=True)
class SearchPage:
    """Context of the search page."""

    nav: str
    q: str
    datasets: CutList[Dataset] = NOTHING
    repositories: CutList[Repository] = NOTHING
    pulls: CutList[lines.PullLine] = NOTHING
    builds: CutList[Build] = NOTHING
    sections: CutList[guide.FoundSection] = NOTHING
    jump: str = ""

    @property
    def total(self) -> int:
        """How much was found."""
        groups = (self.datasets, self.repositories, self.pulls, self.builds, self.sections)
        return sum(group.total for group in groups)


def search(principal: Principal, q: str) -> SearchPage:
    """Find what has these words in its name, and what the guide says of them."""
    words = q.strip()
    if not words:
        return SearchPage("", "")
    found_datasets = CutList.of(datasets.list_datasets(principal, datasets.DatasetFilter(q=words)), SHOWN)
    named = repositories.list_repositories(principal).filter(name__icontains=words)
    found_repositories = CutList.of(named, SHOWN)
    return SearchPage(
        nav="",
        q=words,
        datasets=found_datasets,
        repositories=found_repositories,
        pulls=_find_pulls(principal, words),
        builds=_find_builds(principal, words),
        sections=guide.find_sections(words, most=SECTIONS_SHOWN),
        jump=_find_exact(words, found_datasets.rows, found_repositories.rows),
    )


def _find_pulls(principal: Principal, words: str) -> CutList[lines.PullLine]:
    visible = CutList.of(pulls.list_pulls(principal, pulls.PullFilter(q=words)), SHOWN)
    return CutList(lines.describe_pulls(visible.rows), visible.total)


def _find_builds(principal: Principal, words: str) -> CutList[Build]:
    number = BUILD.match(words)
    if number:
        return CutList.of(builds.list_builds(principal).filter(pk=int(number[1])), 1)
    return CutList.of(builds.list_builds(principal, builds.BuildFilter(q=words)), BUILDS_SHOWN)


def _find_exact(words: str, candidates: list[Dataset], repos: list[Repository]) -> str:
    for dataset in candidates:
        if dataset.path == words:
            return f"/d{dataset.path}"
    for repository in repos:
        if repository.name.lower() == words.lower() and len(candidates) == 0:
            return reverse("repository", args=[repository.name])
    return ""
