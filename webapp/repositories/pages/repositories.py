"""The list of repositories, and the settings of one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from webapp.accounts import permissions as accounts
from webapp.core.numbered import KeptPage
from webapp.git.errors import GitError
from webapp.repositories.pages.frame import Frame, frame
from webapp.repositories.ports import DataUse, find_data_use
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.repositories import list_members, list_repositories
from webapp.repositories.queries.webhooks import WebhookRow, list_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.git.values import CommitInfo
    from webapp.repositories.models import Protection, Publication, Repository

REPOSITORIES_A_PAGE = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage:
    """Members, protections and webhooks."""

    frame: Frame
    members: tuple[Any, ...]
    protections: tuple[Protection, ...]
    webhooks: tuple[WebhookRow, ...]
    """For maintainers only."""
    data: DataUse


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryRow:
    """A repository in the list."""

    repository: Repository
    role: str
    commit: CommitInfo | None
    publication: Publication | None
    branch_count: int | None
    """None where its Git copy cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoriesPage:
    """A page of the repositories that the reader may see."""

    nav: str
    rows: tuple[RepositoryRow, ...]
    q: str
    total: int
    text: str
    previous_url: str
    next_url: str


def settings_page(principal: Principal, repository: Repository) -> SettingsPage:
    """Collect members, protections and webhooks."""
    common = frame(principal, repository, tab="settings")
    return SettingsPage(
        frame=common,
        members=tuple(list_members(principal, repository)),
        protections=tuple(branch_queries.list_protections(repository)),
        webhooks=tuple(list_rows(principal, repository)) if common.can_maintain else (),
        data=find_data_use(repository=repository),
    )


def repositories_page(principal: Principal, *, q: str, parameters: Mapping[str, str]) -> RepositoriesPage:
    """Collect a page of the repositories that have a text in their name or description."""
    named = list_repositories(principal)
    for word in q.split():
        named = named.filter(Q(name__icontains=word) | Q(description__icontains=word))
    total = named.count()
    part = KeptPage.turn(named, parameters, size=REPOSITORIES_A_PAGE, scope="repositories", total=total)
    return RepositoriesPage(
        nav="repositories",
        rows=_repository_rows(principal, part.rows),
        q=q,
        total=total,
        text=part.text,
        previous_url=part.link(part.previous, q=q),
        next_url=part.link(part.next, q=q),
    )


def _repository_rows(principal: Principal, repositories: Sequence[Repository]) -> tuple[RepositoryRow, ...]:
    roles = accounts.roles_on_repositories(principal, [repository.name for repository in repositories])
    heads: dict[Repository, dict[str, str]] = {}
    for repository in repositories:
        # One that is damaged must not hide the others.
        with suppress(GitError):
            heads[repository] = repository.git.list_heads()
    masters = {
        repository: branches[repository.default_branch]
        for repository, branches in heads.items()
        if repository.default_branch in branches
    }
    published = branch_queries.publications_of_masters(masters)
    return tuple(
        RepositoryRow(
            repository=repository,
            role=str(roles.get(repository.name, "")),
            commit=_find_newest(repository, masters.get(repository), published.get(repository.pk)),
            publication=published.get(repository.pk),
            branch_count=len(heads[repository]) if repository in heads else None,
        )
        for repository in repositories
    )


def _find_newest(repository: Repository, head: str | None, publication: Publication | None) -> CommitInfo | None:
    """Return the head of a repository's default branch, from Git where its publication does not tell it."""
    if publication is not None and publication.commit is not None:
        return publication.commit.info
    return code.get_commit(repository, head) if head else None
