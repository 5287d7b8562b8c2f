"""Repositories with a history, for tests."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from webapp.accounts import services as accounts
from webapp.accounts.models import User
from webapp.accounts.queries import principal_for_user
from webapp.git.values import Change
from webapp.repositories import services
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.git.values import CommitInfo

_numbers = count(1)


def a_person(name: str = "", *, is_admin: bool = False) -> Principal:
    """Make a user and return who it is."""
    username = name or f"person{next(_numbers)}"
    user = User.objects.create_user(username=username, email=f"{username}@example.org")
    user.is_superuser = is_admin
    user.save()
    return principal_for_user(user)


def a_member(repository: Repository, role: str, name: str = "") -> Principal:
    """Make a user with a role on a repository."""
    person = a_person(name)
    add_member(repository, role, person)
    return person


def add_member(repository: Repository, role: str, person: Principal) -> None:
    """Give a user a role on a repository."""
    accounts.grant_role(repository=repository.name, user=User.objects.get(pk=person.user_id), role=role, by=None)


def a_token(person: Principal) -> str:
    """Make a token and return its secret."""
    return accounts.create_token(user=User.objects.get(pk=person.user_id), name="test")[1]


def a_repository(name: str = "", *, by: Principal | None = None, template: str = "empty") -> Repository:
    """Make a repository whose maker is its maintainer."""
    return services.create_repository(name=name or f"repo{next(_numbers)}", template=template, by=by or a_person())


def maker_of(repository: Repository) -> Principal:
    """Return who made a repository."""
    user = repository.created_by
    if user is None:
        msg = "the maker is gone"
        raise AssertionError(msg)
    return principal_for_user(user)


def a_commit(
    repository: Repository,
    files: dict[str, str | None],
    *,
    branch: str = "master",
    message: str = "Change something",
    by: Principal | None = None,
    expected_head: str | None = None,
) -> CommitInfo:
    """Commit files; None deletes one."""
    changes = [
        Change(path=path, delete=True) if text is None else Change(path=path, content=text.encode())
        for path, text in files.items()
    ]
    return services.commit_files(
        repository=repository,
        branch=branch,
        message=message,
        changes=changes,
        expected_head=expected_head,
        by=by or maker_of(repository),
    )


def a_branch(repository: Repository, name: str, *, start: str = "", by: Principal | None = None) -> str:
    """Make a branch and return its head."""
    return services.create_branch(repository=repository, name=name, start_point=start, by=by or maker_of(repository))
