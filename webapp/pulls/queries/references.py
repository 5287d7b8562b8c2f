"""Which of the things that texts name are there, for who reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.builds import queries as builds
from webapp.datasets import queries as datasets
from webapp.pulls.models import PullRequest

if TYPE_CHECKING:
    from collections.abc import Collection

    from webapp.core.principals import Principal
    from webapp.pulls.rules.references import References
    from webapp.repositories.models import Repository


@dataclass(frozen=True, slots=True)
class Known:
    """What is there of what texts name."""

    pulls: frozenset[int] = frozenset()
    builds: frozenset[int] = frozenset()
    paths: frozenset[str] = frozenset()
    shas: dict[str, str] = field(default_factory=dict)
    """The whole hash for each as it is written, of those that mean one commit."""


def find_known(principal: Principal, repository: Repository, named: References) -> Known:
    """Return what a reader of the repository may see of what texts name; each kind that is named costs one query."""
    pulls = PullRequest.objects.filter(repository=repository, number__in=named.pulls) if named.pulls else None
    visible_builds = builds.list_builds(principal).filter(pk__in=named.builds) if named.builds else None
    visible = datasets.list_datasets(principal).filter(path__in=named.paths) if named.paths else None
    return Known(
        frozenset(pulls.values_list("number", flat=True)) if pulls is not None else frozenset(),
        frozenset(visible_builds.values_list("pk", flat=True)) if visible_builds is not None else frozenset(),
        frozenset(visible.values_list("path", flat=True)) if visible is not None else frozenset(),
        _find_commits(repository, named.shas) if named.shas else {},
    )


def _find_commits(repository: Repository, written: Collection[str]) -> dict[str, str]:
    starts = reduce(or_, (Q(sha__startswith=start) for start in written))
    shas = list(repository.commits.filter(starts).values_list("sha", flat=True))
    meant = {start: [sha for sha in shas if sha.startswith(start)] for start in written}
    return {start: matches[0] for start, matches in meant.items() if len(matches) == 1}
