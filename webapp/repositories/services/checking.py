"""Whether every repository is there, whole by Git's own judgement, and where the database believes it to be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from webapp.core.fsck import Finding, Note
from webapp.git.errors import GitError
from webapp.repositories.models import BranchRecord, Repository
from webapp.repositories.services.announcements import announce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.git.repository import GitRepository

RESTORE = "Bring the folder back from a backup."


def check_repositories() -> Iterator[Finding | Note]:
    """Find repositories that Git calls damaged, branches of which Git and the database differ, and locks of the dead."""
    count = 0
    for repository in Repository.objects.order_by("name"):
        count += 1
        try:
            git = repository.git
        except GitError as error:
            yield Finding(code="repository_missing", object=repository.name, problem=str(error), way_out=RESTORE)
            continue
        for lock in git.find_locks():
            yield Finding(
                code="ref_locked",
                object=f"{repository.name}:{lock}",
                problem="The lock lies there for longer than any writer takes.",
                way_out="The sweeper removes locks of dead writers within seconds: look whether it runs.",
                repair=git.remove_stale_locks,
            )
        yield from _check_objects(repository, git)
        yield from _check_branches(repository, git)
    yield Note(what="repositories", count=count)


def _check_objects(repository: Repository, git: GitRepository) -> Iterator[Finding]:
    problem = git.find_damage()
    if problem:
        yield Finding(code="repository_damaged", object=repository.name, problem=problem, way_out=RESTORE)


def _check_branches(repository: Repository, git: GitRepository) -> Iterator[Finding]:
    heads = git.list_heads()
    for record in BranchRecord.objects.filter(repository=repository).order_by("name"):
        head = heads.pop(record.name, "")
        about = f"{repository.name}:{record.name}"
        if not head:
            yield Finding(
                code="branch_missing",
                object=about,
                problem=f"It was at {record.announced_head[:7]}, and Git has no such branch.",
                way_out=RESTORE,
            )
        elif head != record.announced_head:
            yield Finding(
                code="branch_unannounced",
                object=about,
                problem=f"Git has {head[:7]}, and {record.announced_head[:7]} was announced.",
                way_out="Announce the head.",
                repair=partial(_announce, repository, record.name, record.announced_head, head),
            )
    for name, head in heads.items():
        yield Finding(
            code="branch_unannounced",
            object=f"{repository.name}:{name}",
            problem=f"Git has it at {head[:7]}, and it was never announced.",
            way_out="Announce the head.",
            repair=partial(_announce, repository, name, "", head),
        )


def _announce(repository: Repository, branch: str, before: str, after: str) -> None:
    announce(repository=repository, branch=branch, before=before, after=after, by=None)
