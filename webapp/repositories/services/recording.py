"""Writing commits of Git into rows, parents first, so that who finds the row of a head finds those of its whole history."""

from __future__ import annotations

import logging
import time
from graphlib import TopologicalSorter
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from webapp.git.errors import GitError
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import Branch, Commit, Repository
from webapp.repositories.queries.branches import order_names
from webapp.repositories.services.copies import check_copy, find_copy_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from webapp.git.repository import GitRepository
    from webapp.git.values import CommitInfo

logger = logging.getLogger(__name__)

BATCH = 1_000
"""So many commits are held in memory at a time."""
SWEEP_SECONDS = 5
FAILED_SECONDS = 600
"""So long the sweep lets a head be whose history Git cannot read."""
_failed: dict[tuple[Path, str], float] = {}
NEAR = 20
"""So many commits back it is cheaper to ask for the row of each than to walk."""


def record_commits(*, repository: Repository, head: str) -> bool:
    """Write what leads to a head and has no row, in the atomic block that announces it; return whether all is there."""
    return _try_to_record(repository, head, least=1)


def record_long_history(*, repository: Repository, head: str) -> None:
    """Write the older commits of an import, each batch by itself: nobody waits for the database until all are there.

    What is no whole batch is left to the atomic block that announces the head.
    """
    _try_to_record(repository, head, least=BATCH)


def rebuild_commits(*, repository: Repository) -> int:
    """Write the rows of all commits anew; return how many there are. Known ones that no branch leads to keep theirs."""
    check_copy(repository=repository)
    with transaction.atomic(), git_refusals():
        _lock(repository)
        git = repository.git
        shas = [sha for sha in repository.commits.values_list("sha", flat=True) if git.has_commit(sha)]
        heads = git.list_heads()
        # Git does not know who brought a commit, so it is kept.
        brought = dict(repository.commits.exclude(brought_by=None).values_list("sha", "brought_by_id"))
        repository.commits.all().delete()
        for name in order_names(repository, heads):
            _record(repository, git, heads[name], least=1, brought_by=brought.get)
        for sha in set(shas) - set(repository.commits.values_list("sha", flat=True)):
            _record(repository, git, sha, least=1, brought_by=brought.get)
        return repository.commits.count()


def sweep_commits() -> dict[str, int]:
    """Record heads that were announced without: by the release before, or while their commits could not be read.

    Other sweeps wait for this one: what is left after some seconds is for its next turn.
    """
    branches = Branch.objects.exclude(announced_head="").filter(head__pk__isnull=True).select_related("repository")
    count, end = 0, time.monotonic() + SWEEP_SECONDS
    for branch in branches.order_by("repository", "name_lower"):
        repository, head = branch.repository, branch.announced_head
        if _failed.get((repository.path, head), 0) > time.monotonic():
            continue
        record_long_history(repository=repository, head=head)
        if record_commits(repository=repository, head=head):
            count += 1
        else:
            _failed[repository.path, head] = time.monotonic() + FAILED_SECONDS
        if time.monotonic() > end:
            break
    return {"heads recorded": count} if count else {}


def sweep_orphaned_commits() -> dict[str, int]:
    """Remove the commits of repositories that the release before has deleted, which knows nothing of them."""
    orphans = Commit.objects.filter(~Exists(Repository.objects.filter(pk=OuterRef("repository"))))
    return {"commits of deleted repositories removed": orphans.delete()[0]}


def find_untrue(repository: Repository, git: GitRepository) -> Iterator[str]:
    """Return the commits whose rows are not what Git says. What Git lacks is not theirs to say."""
    rows = repository.commits.order_by("level", "id")
    for start in range(0, rows.count(), BATCH):
        batch = list(rows[start : start + BATCH])
        levels = _read_levels(repository, {sha for row in batch for sha in (row.sha, *row.parents)})
        for row in batch:
            if git.has_commit(row.sha) and not _is_true(row, git.get_commit(row.sha), levels):
                yield row.sha


def _is_true(row: Commit, commit: CommitInfo, levels: Mapping[str, int]) -> bool:
    said = all(getattr(row, field) == value for field, value in _describe(commit).items())
    return said and levels.keys() >= set(commit.parents) and row.level == _rise(commit, levels)


def _try_to_record(repository: Repository, head: str, *, least: int) -> bool:
    try:
        git = repository.git
        if find_copy_problem(repository, git):
            return False
        mover = repository.moves.filter(after=head).order_by("id").values_list("by_id", flat=True).first()
        _record(repository, git, head, least=least, brought_by=lambda _: mover)
    except GitError as error:
        # Pages ask Git where there are no rows, and it says the same of what they need.
        logger.warning("The commits of %s are not recorded: %s", repository.name, error)
        return False
    return True


def _record(
    repository: Repository, git: GitRepository, head: str, *, least: int, brought_by: Callable[[str], int | None]
) -> None:
    near = _find_near(repository, git, head)
    commits = git.iterate_upwards(head, exclude=_choose_ends(repository, git)) if near is None else near
    for batch in _cut(commits, least=least):
        _write(repository, batch, brought_by)


def _find_near(repository: Repository, git: GitRepository, head: str) -> list[CommitInfo] | None:
    """Return what leads to a head and has no row, parents first; None where that goes further back than most pushes do."""
    new: dict[str, CommitInfo] = {}
    unseen = {head}
    for _ in range(NEAR):
        unseen -= new.keys() | set(repository.commits.filter(sha__in=unseen).values_list("sha", flat=True))
        if not unseen:
            order = TopologicalSorter({sha: commit.parents for sha, commit in new.items()}).static_order()
            return [new[sha] for sha in order if sha in new]
        new |= {sha: git.get_commit(sha) for sha in unseen}
        unseen = {parent for sha in unseen for parent in new[sha].parents}
    return None


def _choose_ends(repository: Repository, git: GitRepository) -> list[str]:
    """Return recorded commits that end a walk early; what else has a row is left out in the end."""
    default = repository.commits.filter(branches__name=repository.default_branch).values_list("sha", flat=True).first()
    highest = repository.commits.order_by("-level").values_list("sha", flat=True).first()
    return [sha for sha in {default, highest} if sha and git.has_commit(sha)]


def _cut(commits: Iterable[CommitInfo], *, least: int) -> Iterator[list[CommitInfo]]:
    rest = iter(commits)
    while len(batch := list(islice(rest, BATCH))) >= least:
        yield batch


def _write(repository: Repository, commits: Sequence[CommitInfo], brought_by: Callable[[str], int | None]) -> None:
    with transaction.atomic():
        _lock(repository)
        levels = _read_levels(repository, {sha for commit in commits for sha in (commit.sha, *commit.parents)})
        rows = []
        for commit in commits:
            if commit.sha not in levels:
                levels[commit.sha] = _rise(commit, levels)
                said = {"level": levels[commit.sha], "brought_by_id": brought_by(commit.sha)}
                rows.append(Commit(repository=repository, **said, **_describe(commit)))
        Commit.objects.bulk_create(rows)


def _lock(repository: Repository) -> None:
    """Let one write the commits of a repository at a time; whoever adds rows that point to it need not wait."""
    Repository.objects.select_for_update(no_key=True).get(pk=repository.pk)


def _read_levels(repository: Repository, shas: Iterable[str]) -> dict[str, int]:
    return dict(repository.commits.filter(sha__in=shas).values_list("sha", "level"))


def _rise(commit: CommitInfo, levels: Mapping[str, int]) -> int:
    """Return the level of a commit.

    Raises:
        GitError: a parent has no row; then the commit has none.

    """
    missing = [parent for parent in commit.parents if parent not in levels]
    if missing:
        message = f"{commit.short} follows {missing[0][:7]}, which is not there."
        raise GitError(message)
    return 1 + max((levels[parent] for parent in commit.parents), default=0)


def _describe(commit: CommitInfo) -> dict[str, Any]:
    """Return what a row says of a commit that Git says as well."""
    return {
        "sha": commit.sha,
        "tree": commit.tree,
        "parents": list(commit.parents),
        "message": commit.message,
        "author_name": commit.author.name,
        "author_email": commit.author.email,
        "authored_at": commit.authored_at,
        "authored_zone": _read_zone(commit.authored_at),
        "committer_name": commit.committer.name,
        "committer_email": commit.committer.email,
        "committed_at": commit.committed_at,
        "committed_zone": _read_zone(commit.committed_at),
    }


def _read_zone(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else int(offset.total_seconds()) // 60
