"""Repositories and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts import permissions as accounts
from webapp.accounts.models import RepositoryRole
from webapp.core.errors import NotFound, PermissionDenied
from webapp.core.once import asked_once
from webapp.core.prepared import Prepared
from webapp.repositories import permissions
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal


_BY_NAME = Prepared(lambda name: Repository.objects.filter(name=name), str)


@asked_once
def find_repository(name: str) -> Repository | None:
    """Return a repository by its name in any case, without asking who wants it; for other services."""
    return Repository.objects.filter(name__iexact=name).first()


def repository_by_name(name: str) -> Repository:
    """Return a repository by its exact name, without asking who wants it; for other services."""
    repository = _BY_NAME.first(name)
    if repository is None:
        message = f"There is no repository {name}."
        raise NotFound(message, code="unknown_repository")
    return repository


def get_repository(principal: Principal, name: str) -> Repository:
    """Return a repository that somebody may see."""
    if principal.job is not None:
        # A job has its code already; its token is for the tables that it declared.
        message = "A job's token opens the catalog only."
        raise PermissionDenied(message, code="job_token")
    accounts.check_repository(principal, name, "read")
    return repository_by_name(name)


def list_repositories(principal: Principal) -> QuerySet[Repository]:
    """Return the repositories that somebody may see, by name."""
    visible = frozenset[str]() if principal.job is not None else accounts.visible_repositories(principal)
    if visible is None:
        return Repository.objects.all()
    return Repository.objects.filter(name__in=visible)


def list_members(principal: Principal, repository: Repository) -> QuerySet[RepositoryRole]:
    """Return who has which role on a repository."""
    permissions.check_read(principal, repository)
    return RepositoryRole.objects.filter(repository=repository.name).select_related("user")


def get_role(principal: Principal, repository: Repository) -> str:
    """Return somebody's role on a repository."""
    return str(accounts.role_on_repository(principal, repository.name) or "")
