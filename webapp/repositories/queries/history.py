"""Histories, read from rows of commits where a head has one, else from Git: both say the same."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from webapp.core.once import asked_once
from webapp.core.prepared import Prepared
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import Commit
from webapp.repositories.queries.searches import CommitFilter, find_matching, make_match
from webapp.repositories.rules.histories import Ancestor, UnknownHistory, count_apart, list_by_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from webapp.git.values import CommitInfo
    from webapp.repositories.models import Repository

EVERY = CommitFilter()
FIRST_ROWS, MOST_ROWS = 128, 8_192
"""So many rows are read at first, then twice as many each time, up to the most."""
FARTHEST = 20_000
"""Behind so many rows Git is asked how branches lie to each other: of what has no history in common it walks all."""
_COMMITS = Prepared(lambda repository, shas: Commit.objects.filter(repository_id=repository, sha__in=shas), int, list)
_LEVELS = Prepared(
    lambda repository, shas: Commit.objects.filter(repository_id=repository, sha__in=shas).values_list("sha", "level"),
    int,
    list,
)


def list_history(
    repository: Repository,
    head: str,
    *,
    exclude: str | None = None,
    offset: int = 0,
    limit: int | None = None,
    filters: CommitFilter = EVERY,
) -> list[CommitInfo]:
    """Return the commits from a head back in time, without those that lead to another, or those that are searched."""
    if head == exclude:
        return []
    end = None if limit is None else offset + limit
    try:
        steps = _read_steps(repository, {head, exclude or head})
        walk = list_by_time(steps, head, exclude=exclude)
        if filters.is_search:
            walk = filter(find_matching(repository, filters).__contains__, walk)
        shas = list(islice(walk, offset, end))
    except UnknownHistory:
        with git_refusals():
            commits_of_git = repository.git.iterate_commits(head, exclude=exclude)
            return list(islice(filter(make_match(filters), commits_of_git), offset, end))
    commits = find_commits(repository, shas)
    return [commits[sha] for sha in shas]


def find_commits(repository: Repository, shas: Collection[str]) -> dict[str, CommitInfo]:
    """Return commits by their hashes."""
    commits = {row.sha: row.info for row in _COMMITS.all(repository.pk, shas)}
    missing = [sha for sha in shas if sha not in commits]
    if missing:
        with git_refusals():
            git = repository.git
            commits |= {sha: git.get_commit(sha) for sha in missing}
    return commits


def read_times(repository: Repository, shas: Collection[str]) -> dict[str, float]:
    """Return when commits were made, in seconds since 1970."""
    rows = repository.commits.filter(sha__in=set(shas)).values_list("sha", "committed_at")
    times = {sha: time.timestamp() for sha, time in rows}
    missing = [sha for sha in shas if sha not in times]
    if missing:
        with git_refusals():
            git = repository.git
            times |= {sha: float(git.commit_time(sha)) for sha in missing}
    return times


def count_ahead_behind(repository: Repository, heads: Iterable[str], base: str) -> dict[str, tuple[int, int]]:
    """Count by head the commits that only it has, and those that only the base has."""
    shas = set(heads)
    levels = _read_levels(repository, frozenset(shas | {base}))
    counts: dict[str, tuple[int, int]] = {}
    if base in levels:
        steps = islice(_read_below(repository, max(levels.values())), FARTHEST)
        with suppress(UnknownHistory):
            counts = count_apart(steps, shas & levels.keys(), base)
    missing = shas - counts.keys()
    if missing:
        with git_refusals():
            git = repository.git
            counts |= {head: git.ahead_behind(head, base) for head in missing}
    return counts


def _read_steps(repository: Repository, heads: Collection[str]) -> Iterator[Ancestor]:
    """Read what has the level of some heads or a lower one, children first.

    Raises:
        UnknownHistory: a head has no row.

    """
    levels = _read_levels(repository, frozenset(heads))
    if len(levels) < len(heads):
        raise UnknownHistory
    return _read_below(repository, max(levels.values()))


@asked_once
def _read_levels(repository: Repository, shas: frozenset[str]) -> Mapping[str, int]:
    return dict(_LEVELS.all(repository.pk, shas))


def _read_below(repository: Repository, level: int) -> Iterator[Ancestor]:
    page, size = _read_newest(repository, level), FIRST_ROWS
    while True:
        for _, sha, parents, time in page:
            yield Ancestor(sha, parents, time)
        if len(page) < size:
            return
        level, sha = page[-1][:2]
        size = min(2 * size, MOST_ROWS)
        page = list(_select_page(repository.pk, Q(level__lt=level) | Q(level=level, sha__lt=sha), size))


@asked_once
def _read_newest(repository: Repository, level: int) -> Sequence[tuple[int, str, Any, datetime]]:
    return _NEWEST.all(repository.pk, level)


def _select_page(repository: int, where: Q, size: int = FIRST_ROWS) -> QuerySet[Commit, tuple[int, str, Any, datetime]]:
    rows = Commit.objects.filter(where, repository_id=repository).order_by("-level", "-sha")
    return rows.values_list("level", "sha", "parents", "committed_at")[:size]


_NEWEST = Prepared(lambda repository, level: _select_page(repository, Q(level__lte=level)), int, int)
