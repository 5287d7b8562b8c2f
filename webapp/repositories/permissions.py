"""Who may move which branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts import permissions as accounts
from webapp.core.errors import PermissionDenied, find_refusal
from webapp.core.once import asked_once
from webapp.repositories.models import Protection

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


def check_read(principal: Principal, repository: Repository) -> None:
    """Refuse who may not see the repository, as if it were not there."""
    accounts.check_repository(principal, repository.name, "read")


def check_write(principal: Principal, repository: Repository) -> None:
    """Refuse who may not push branches."""
    accounts.check_repository(principal, repository.name, "write")


def check_maintain(principal: Principal, repository: Repository) -> None:
    """Refuse who may not change members and protections."""
    accounts.check_repository(principal, repository.name, "maintain")


def can_maintain(principal: Principal, repository: Repository) -> bool:
    """Say whether the settings of the repository are open to somebody."""
    return accounts.can_repository(principal, repository.name, "maintain")


def can_write(principal: Principal, repository: Repository) -> bool:
    """Say whether somebody may push branches that are not protected."""
    return accounts.can_repository(principal, repository.name, "write")


@asked_once
def list_protections(repository: Repository) -> tuple[Protection, ...]:
    """Return the protections of a repository, by branch."""
    return tuple(repository.protections.all())


def list_protected(repository: Repository) -> set[str]:
    """Return the names of the protected branches in small letters: names of branches compare without case."""
    return {protection.branch.lower() for protection in list_protections(repository)}


def find_protection(repository: Repository, branch: str) -> Protection | None:
    """Return the protection of a branch."""
    protections = list_protections(repository)
    return next((protection for protection in protections if protection.branch.lower() == branch.lower()), None)


def check_move_branch(principal: Principal, repository: Repository, branch: str) -> bool:
    """Refuse who may not commit to a branch directly; return whether that passes a protection."""
    check_write(principal, repository)
    protection = find_protection(repository, branch)
    if protection is None:
        return False
    message = f"Branch {branch} is protected: open a pull request."
    if not protection.allow_bypass or not can_maintain(principal, repository):
        raise PermissionDenied(message, code="branch_protected")
    return True


def can_move_branch(principal: Principal, repository: Repository, branch: str) -> bool:
    """Say whether somebody may commit to a branch directly."""
    return not find_refusal(check_move_branch, principal, repository, branch)
