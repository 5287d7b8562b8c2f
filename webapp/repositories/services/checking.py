"""Whether every repository is there, whole by Git's own judgement, and where the database believes it to be."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from webapp.core import clock
from webapp.core.fsck import Finding, Note, look_apart
from webapp.git.errors import GitError
from webapp.git.http_backend import PUSH_SECONDS
from webapp.repositories.models import Repository
from webapp.repositories.services.announcements import announce, describe_absence, list_absent
from webapp.repositories.services.copies import find_copy_problem
from webapp.repositories.services.deletions import sweep_deletions
from webapp.repositories.services.recording import find_untrue, rebuild_commits, record_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webapp.git.repository import GitRepository

LATE = timedelta(seconds=2 * PUSH_SECONDS)
MOST_UNTRUE = 20
"""So many commits of a repository are named; one repair mends them all."""
RESTORE = "Bring the folder back from a backup."


def check_repositories() -> Iterator[Finding | Note]:
    """Find repositories that Git calls damaged, what Git and the database tell differently, and locks of the dead."""
    repositories = Repository.objects.order_by("name")
    yield from look_apart(repositories, _check_repository)
    yield Note(what="repositories", count=len(repositories))
    yield Note(what="folders that no repository knows", count=len(_list_unknown()))


def _check_repository(repository: Repository) -> Iterator[Finding]:
    try:
        git = repository.copy
    except GitError as error:
        yield Finding(code="repository_missing", object=repository.name, problem=str(error), way_out=RESTORE)
        return
    for lock in git.find_locks():
        yield Finding(
            code="ref_locked",
            object=f"{repository.name}:{lock}",
            problem="The lock lies there for longer than any writer takes.",
            way_out="The sweeper removes locks of dead writers within seconds: look whether it runs.",
            repair=git.remove_stale_locks,
        )
    if unset := git.list_unset():
        yield Finding(
            code="settings_lost",
            object=repository.name,
            problem=f"Git is not told what guards the repository: {', '.join(unset)}.",
            way_out="Set it again.",
            repair=git.restore_settings,
        )
    yield from _check_objects(repository, git)
    yield from _check_branches(repository, git)


def _list_unknown() -> list[Path]:
    folder = Path(settings.TRIBUTARY_HOME) / "repositories"
    paths = {repository.path for repository in Repository.objects.all()}
    return [path for path in folder.glob("*") if path.is_dir() and path not in paths]


def _check_objects(repository: Repository, git: GitRepository) -> Iterator[Finding]:
    problem = git.find_damage()
    if problem:
        yield Finding(code="repository_damaged", object=repository.name, problem=problem, way_out=RESTORE)


def _check_branches(repository: Repository, git: GitRepository) -> Iterator[Finding]:
    problem = find_copy_problem(repository, git)
    if problem:
        yield Finding(
            code="copy_refused",
            object=repository.name,
            problem=problem,
            way_out="Until then nothing is written to it, and one that is not this repository's is not read.",
        )
        return
    heads = git.list_heads()
    for name in list_absent(repository, heads):
        yield Finding(
            code="branch_missing",
            object=f"{repository.name}:{name}",
            problem="Git has no such branch, and nobody deleted it.",
            way_out=describe_absence(repository, [name]),
        )
    for deletion in repository.deletions.filter(created_at__lt=clock.now() - LATE):
        yield Finding(
            code="deletion_unfinished",
            object=f"{repository.name}:{deletion.branch}",
            problem=f"Its deletion began at {deletion.created_at:%Y-%m-%d %H:%M} and has not ended.",
            way_out="The sweeper takes it on: look whether it runs.",
            repair=sweep_deletions,
        )
    yield from _check_commits(repository, git)
    announced = dict(repository.branches.values_list("name", "announced_head"))
    for name, head in heads.items():
        if head != announced.get(name):
            before = announced.get(name, "")
            yield Finding(
                code="branch_unannounced",
                object=f"{repository.name}:{name}",
                problem=f"Git has it at {head[:7]}; announced is {before[:7] or 'nothing'}.",
                way_out="Announce the head.",
                repair=partial(_announce, repository, name, before, head),
            )


def _check_commits(repository: Repository, git: GitRepository) -> Iterator[Finding]:
    unrecorded = repository.branches.exclude(announced_head="").filter(head__pk__isnull=True)
    for name, head in unrecorded.values_list("name", "announced_head"):
        if git.has_commit(head):
            yield Finding(
                code="commit_unrecorded",
                object=f"{repository.name}:{head[:7]}",
                problem=f"It is the head of {name} and has no row; pages read its history from Git.",
                way_out="The sweeper records it: look whether it runs.",
                repair=partial(record_commits, repository=repository, head=head),
            )
    rebuild: Callable[[], int] | None = partial(rebuild_commits, repository=repository)
    for sha in islice(find_untrue(repository, git), MOST_UNTRUE):
        yield Finding(
            code="commit_untrue",
            object=f"{repository.name}:{sha[:7]}",
            problem="The row of the commit does not say what Git says.",
            way_out=f"Run `manage.py rebuild_commits {repository.name}`.",
            repair=rebuild,
        )
        rebuild = None  # once mends all of them


def _announce(repository: Repository, branch: str, before: str, after: str) -> None:
    announce(repository=repository, branch=branch, before=before, after=after, by=None)
