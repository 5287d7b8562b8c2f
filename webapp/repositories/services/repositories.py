"""Making, describing and deleting repositories, and their members."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from django.db import transaction

from webapp.accounts import permissions as account_permissions
from webapp.accounts import services as accounts
from webapp.accounts.models import Folder, RepositoryRole
from webapp.accounts.queries import get_user
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.core.names import MASTER
from webapp.git.repository import GitRepository
from webapp.repositories import permissions, signals
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import Protection, Repository
from webapp.repositories.rules.names import check_repository_name
from webapp.repositories.rules.starters import EMPTY, STARTERS, fill_starter
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.commits import person_of

if TYPE_CHECKING:
    from webapp.core.principals import Principal

logger = logging.getLogger(__name__)
STARTER_FILES = Path(__file__).resolve().parents[1] / "starters"


def create_repository(*, name: str, description: str = "", template: str = EMPTY, by: Principal) -> Repository:
    """Make a repository with a first commit on a protected master; the maker becomes its maintainer."""
    check_repository_name(name)
    if by.job is not None or (by.scopes and not by.scopes & {"write", "maintain"}):
        message = "This token may not make repositories."
        raise PermissionDenied(message, code="scope_missing")
    files = _starter_files(template, name=name, description=description)
    _check_name_is_free(name)
    _check_folder_is_free(name, by=by)
    with git_refusals(), transaction.atomic():
        repository = Repository.objects.create(name=name, description=description, created_by_id=by.user_id)
        Protection.objects.create(repository=repository, branch=MASTER, approvals=1)
        accounts.claim_folder(folder=name, repository=name)
        accounts.grant_role(repository=name, user=get_user(by.username), role="maintainer", by=None)
        accounts.record_audit(by=by, verb="create_repository", object=name, detail={"template": template})
        signals.repository_created.send(sender=Repository, repository=repository, by=by)
        _make_on_disk(repository, files, by=by)
    return repository


def update_repository(*, repository: Repository, description: str, by: Principal) -> Repository:
    """Change the description."""
    permissions.check_maintain(by, repository)
    repository.description = description
    with transaction.atomic():
        repository.save(update_fields=["description"])
        accounts.record_audit(by=by, verb="update_repository", object=repository.name)
    return repository


def delete_repository(*, repository: Repository, by: Principal) -> None:
    """Delete a repository with all its commits; datasets and their transactions stay."""
    permissions.check_maintain(by, repository)
    git = repository.git
    with transaction.atomic():
        accounts.record_audit(by=by, verb="delete_repository", object=repository.name)
        signals.repository_deleted.send(sender=Repository, repository=repository, by=by)
        accounts.forget_repository(repository=repository.name)
        repository.delete()
        transaction.on_commit(git.remove)


def set_member(
    *, repository: Repository, username: str, role: Literal["reader", "writer", "maintainer"], by: Principal
) -> None:
    """Give a user a role on the repository."""
    permissions.check_maintain(by, repository)
    if role != "maintainer":
        _check_other_maintainer(repository, username)
    accounts.grant_role(repository=repository.name, user=get_user(username), role=role, by=by)


def remove_member(*, repository: Repository, username: str, by: Principal) -> None:
    """Take a user's role on the repository away."""
    permissions.check_maintain(by, repository)
    _check_other_maintainer(repository, username)
    accounts.grant_role(repository=repository.name, user=get_user(username), role=None, by=by)


def _check_other_maintainer(repository: Repository, username: str) -> None:
    maintainers = RepositoryRole.objects.filter(repository=repository.name, role="maintainer")
    if set(maintainers.values_list("user__username", flat=True)) == {username}:
        message = f"{username} is the only maintainer; make somebody else a maintainer first."
        raise Conflict(message, code="last_maintainer")


def _check_name_is_free(name: str) -> None:
    taken = Repository.objects.filter(name__iexact=name).first()
    if taken is not None:
        message = f"A repository '{taken.name}' exists already; names are unique without case."
        raise Conflict(message, code="repository_exists", errors={"name": [message]})


def _check_folder_is_free(name: str, *, by: Principal) -> None:
    """Refuse a name whose folder is another's: a repository gets the rights on the folder of its name."""
    if (
        Folder.objects.filter(name__iexact=name).exists()
        and account_permissions.role_on_folder(by, name) != "maintainer"
    ):
        message = f"The dataset folder /{name} belongs to somebody else; choose another name."
        raise Conflict(message, code="folder_taken", errors={"name": [message]})


def _starter_files(template: str, *, name: str, description: str) -> dict[str, bytes]:
    if template not in STARTERS:
        message = f"There is no template '{template}'; choose one of {', '.join(STARTERS)}."
        raise InvalidInput(message, code="unknown_template", errors={"template": [message]})
    folder = STARTER_FILES / template
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    files = fill_starter(files, name=name)
    readme = files["README.md"]
    if not readme.startswith(b"# "):
        title = f"# {name}\n\n{description}".strip() + "\n"
        files["README.md"] = title.encode() + b"\n" + readme
    return files


def _make_on_disk(repository: Repository, files: dict[str, bytes], *, by: Principal) -> None:
    if repository.path.exists():
        # Left by a creation that died before its row was stored; or the database is older and knows no better.
        aside = repository.path.with_name(f"{repository.name}.found-{uuid4().hex[:8]}")
        repository.path.rename(aside)
        logger.warning("%s was there already and is kept as %s", repository.path, aside)
    git = GitRepository.init(repository.path, branch=MASTER)
    try:
        commit = git.create_root_commit(
            branch=MASTER, message="Start the repository", files=files, author=person_of(by)
        )
        announce(repository=repository, branch=MASTER, before="", after=commit.sha, by=by)
    except BaseException:
        git.remove()
        raise
