"""Which repository a build belongs to, what its chain is by default, and whether its code is published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from webapp.accounts.permissions import find_folder_owner
from webapp.builds.models import Build, PublishedOutput
from webapp.builds.rules import fallback
from webapp.builds.rules.waiting import BranchHead, FailedHead
from webapp.core import names
from webapp.core.errors import NotFound
from webapp.core.once import asked_once
from webapp.core.prepared import Prepared
from webapp.repositories import queries as repositories
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from webapp.git.values import CommitInfo

_PUBLISHED = Prepared(
    lambda paths: PublishedOutput.objects.filter(branch=names.MASTER, path__in=paths).values_list("path"), list
)


def find_repository(*, paths: Iterable[str], branch: str) -> Repository | None:
    """Return the repository that makes the first of these datasets that any repository makes or owns."""
    return _find_repository(tuple(paths), branch)


@asked_once
def _find_repository(paths: tuple[str, ...], branch: str) -> Repository | None:
    for path in paths:
        published = PublishedOutput.objects.filter(path=path).select_related("spec__repository")
        output = published.filter(branch=branch).first() or published.first()
        if output is not None:
            return output.spec.repository
    for path in paths:
        owner = find_folder_owner(path)
        if owner and (repository := repositories.find_repository(owner)) is not None:
            return repository
    return None


def list_with_jobspec(*, paths: Iterable[str]) -> set[str]:
    """Return those of these datasets that a JobSpec published on master makes."""
    return {path for (path,) in _PUBLISHED.all(list(paths))}


def default_chain(*, repository: Repository | None, branch: str) -> tuple[str, ...]:
    """Return the chain from Git's ancestry; without a repository everything falls back to master."""
    if repository is None:
        return fallback.make_chain(branch, (names.MASTER,))
    ancestry = repositories.get_fallback_chain(repository, branch)
    return fallback.make_chain(branch, ancestry)


def find_git_chain(*, path: str, branch: str) -> tuple[str, ...] | None:
    """Return a branch and its fallbacks in the repository that makes or owns a dataset; None where there is none."""
    repository = find_repository(paths=[path], branch=branch)
    return None if repository is None else default_chain(repository=repository, branch=branch)


def find_head(*, repository: Repository | None, branch: str) -> CommitInfo | None:
    """Return the newest commit of a branch; None where the repository has no such branch."""
    if repository is None:
        return None
    try:
        return repositories.get_head_commit(repository, branch)
    except NotFound:
        return None


def find_head_sha(*, repository: Repository, branch: str) -> str:
    """Return the head of a branch; empty where there is none."""
    try:
        return repositories.get_head(repository, branch)
    except NotFound:
        return ""


def find_unpublished(*, build: Build) -> BranchHead | None:
    """Return the first head of the chain that is not published yet; None when all are."""
    for branch, sha, publication in _list_publications(build):
        if publication is None or publication.status == PublicationState.PENDING:
            return BranchHead(branch, sha)
    return None


def list_failed_heads(*, build: Build) -> list[FailedHead]:
    """Return the heads of the chain that could not be published, so that older JobSpecs are used."""
    failed = []
    for branch, sha, publication in _list_publications(build):
        if publication is not None and publication.status == PublicationState.FAILED:
            first = publication.errors[0] if publication.errors else {}
            place = f"{first['file']}:{first['line']}" if first else ""
            failed.append(FailedHead(branch, sha, place, first.get("message", "")))
    return failed


def _list_publications(build: Build) -> Iterable[tuple[str, str, Publication | None]]:
    if build.repository is None:
        return
    for branch in build.chain:
        sha = find_head_sha(repository=build.repository, branch=branch)
        if sha:
            yield branch, sha, repositories.get_publication(build.repository, branch, sha)
