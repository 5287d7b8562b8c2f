"""Who may do what: the one place, used by pages, API, catalog, Git and jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Value
from django.db.models.functions import Lower

from jobs.protocol import fold_column
from webapp.accounts import ports
from webapp.accounts.models import Folder, RepositoryRole, SensitiveColumns, User
from webapp.accounts.rules.roles import Role, allows
from webapp.accounts.rules.scopes import covers, needed_scope
from webapp.core.errors import NotFound, PermissionDenied, Unauthenticated, hidden
from webapp.core.names import MASTER, folder_of
from webapp.core.once import asked_once, is_asking_once
from webapp.core.prepared import Prepared
from webapp.core.principals import Principal

if TYPE_CHECKING:
    from django.http import HttpRequest

_ROLES = Prepared(
    lambda user, repository: (
        RepositoryRole.objects.filter(user_id=user, repository=repository).order_by().values_list("role")
    ),
    int,
    str,
)
_FOLDERS = Prepared(
    lambda name: (
        Folder.objects.annotate(lower=Lower("name"))
        .filter(lower=Lower(Value(name)))
        .values_list("repository", "creator_id")
    ),
    str,
)
_FOLDERS_OF = Prepared(
    lambda creator, repositories: (
        Folder.objects.filter(repository="", creator_id=creator) | Folder.objects.filter(repository__in=repositories)
    ).values_list("name"),
    int,
    list,
)
_TAKEN = Prepared(
    lambda names: Folder.objects.annotate(lower=Lower("name")).filter(lower__in=names).values_list("lower"), list
)
_ROLES_OF = Prepared(
    lambda user_id: RepositoryRole.objects.filter(user_id=user_id).values_list("repository", "role"), int
)
_SENSITIVE = Prepared(
    lambda path: SensitiveColumns.objects.filter(path=path).values_list(
        "repository", "branch", "is_default", "columns", "groups", "repositories", "past"
    ),
    str,
)


def signed_in(request: HttpRequest) -> Principal:
    """Return who asks for a page; nobody is sent to the sign-in page."""
    principal: Principal | None = getattr(request, "principal", None)
    if principal is None:
        message = "Sign in to see this."
        raise Unauthenticated(message)
    return principal


def role_on_repository(principal: Principal, repository: str) -> Role | None:
    """Return the role of a person on a repository; admins are maintainers everywhere."""
    if principal.is_admin:
        return Role.MAINTAINER
    if is_asking_once():
        return _list_roles(principal.user_id).get(repository)
    row = _ROLES.first(principal.user_id, repository)
    return Role(row[0]) if row is not None else None


@asked_once
def _list_roles(user_id: int) -> Mapping[str, Role]:
    """Return the role of a person on every repository where they have one, by its name."""
    return {repository: Role(role) for repository, role in _ROLES_OF.all(user_id)}


def roles_on_repositories(principal: Principal, repositories: Collection[str]) -> dict[str, Role]:
    """Return the role of a person on each of these repositories, asked for at once; those without one are left out."""
    if principal.is_admin:
        return dict.fromkeys(repositories, Role.MAINTAINER)
    roles = _list_roles(principal.user_id)
    return {repository: roles[repository] for repository in repositories if repository in roles}


def role_on_folder(principal: Principal, folder: str) -> Role | None:
    """Return the role on the datasets of a top folder: its repository's, else its creator is maintainer."""
    if principal.is_admin:
        return Role.MAINTAINER
    row = _find_owner(folder)
    if row is None:
        return None
    repository, creator_id = row
    if repository:
        return role_on_repository(principal, repository)
    return Role.MAINTAINER if creator_id == principal.user_id else None


def find_folder_owner(path: str) -> str:
    """Find the name of the repository that owns a dataset's top folder; empty where none does."""
    row = _find_owner(folder_of(path))
    return row[0] if row is not None else ""


@asked_once
def _find_owner(folder: str) -> tuple[str, int | None] | None:
    """Find the repository and the creator of a top folder."""
    return _FOLDERS.first(folder)


def visible_repositories(principal: Principal) -> frozenset[str] | None:
    """Return the names of the repositories that a person may see; None means all of them."""
    return None if principal.is_admin else frozenset(_list_roles(principal.user_id))


def visible_folders(principal: Principal) -> frozenset[str] | None:
    """Return the names of the top folders whose datasets a person may see; None means all of them."""
    return None if principal.is_admin else _list_folders(principal.user_id)


@asked_once
def _list_folders(user_id: int) -> frozenset[str]:
    return frozenset(name for (name,) in _FOLDERS_OF.all(user_id, list(_list_roles(user_id))))


def list_hidden(principal: Principal, paths: Collection[str]) -> list[str]:
    """List those of these dataset paths that a person may not see: in a top folder that is somebody else's."""
    seen = visible_folders(principal)
    if seen is None or not paths:
        return []
    folders = {folder_of(path).lower() for path in paths}
    hidden = {name for (name,) in _TAKEN.all(folders)} - {name.lower() for name in seen}
    return [path for path in paths if folder_of(path).lower() in hidden]


def can_repository(principal: Principal, repository: str, action: str) -> bool:
    """Return whether `check_repository` would pass."""
    return covers(principal.scopes, action) and allows(role_on_repository(principal, repository), action)


def check_repository(principal: Principal, repository: str, action: str) -> None:
    """Refuse unless the person may read, write or maintain the repository.

    Raises:
        NotFound: it is not theirs to see, or not there.
        PermissionDenied: their role or token is not enough.

    """
    role = role_on_repository(principal, repository)
    if role is None:
        raise hidden(NotFound(f"There is no repository {repository}, or you may not see it."))
    _check_role(principal, role, action, f"the repository {repository}")


def check_dataset(
    principal: Principal, path: str, action: str, branch: str | None = None, *, identifier: str | int = ""
) -> None:
    """Refuse unless the person may read or write the dataset on the branch; master wants a maintainer.

    Args:
        principal: who asks.
        path: the dataset's path.
        action: what for: read, write or maintain.
        branch: where.
        identifier: what they called it, where that is not its path: who may not see it learns no more.

    Raises:
        NotFound: it is not theirs to see, or not there.
        PermissionDenied: their role or token is not enough.

    """
    role = role_on_folder(principal, folder_of(path))
    if role is None:
        raise hidden(NotFound(f"There is no dataset {identifier or path}, or you may not see it."))
    if action == "write" and branch == MASTER:
        if not allows(role, "maintain"):
            raise PermissionDenied(
                f"Writing {path} on {MASTER} needs the role maintainer, yours is {role}. Write on a branch instead.",
                code="role_too_low",
            )
        action = "maintain" if not principal.scopes else "write"
    _check_role(principal, role, action, f"the dataset {path}")


def can_dataset(principal: Principal, path: str, action: str) -> bool:
    """Return whether `check_dataset` would pass on a branch."""
    return covers(principal.scopes, action) and allows(role_on_folder(principal, folder_of(path)), action)


def _check_role(principal: Principal, role: Role, action: str, what: str) -> None:
    if not allows(role, action):
        raise PermissionDenied(f"To {action} {what} your role, {role}, is not enough.", code="role_too_low")
    check_scope(principal, action)


def check_scope(principal: Principal, action: str) -> None:
    """Refuse where the token is not made for reading, writing or maintaining, whatever the person's role.

    Raises:
        PermissionDenied: the token's scopes are not enough.

    """
    if not covers(principal.scopes, action):
        raise PermissionDenied(
            f"This token may not {action}: its scopes are {', '.join(sorted(principal.scopes))}."
            f" Make a token with the scope {action} under Settings, Access tokens.",
            code="scope_missing",
        )


def check_method(principal: Principal, method: str) -> None:
    """Refuse a writing method to a token that only reads: asked once at each door, before any view.

    Raises:
        PermissionDenied: the token's scopes are not enough.

    """
    check_scope(principal, needed_scope(method))


def list_sensitive(
    principal: Principal | None, path: str, *, branches: Collection[str] | None = None
) -> frozenset[str]:
    """Return the columns of a dataset that a reader may not see: none for its maintainers.

    What the default branch of the repository that owns the dataset calls sensitive is so wherever its data is; what another
    branch does, in the data of that branch. So no branch takes away what the default branch says, nor lets anybody in.
    The rights of a job are those of its code, whoever started it.

    Args:
        principal: who reads; None is anybody, such as whoever a webhook tells.
        path: the dataset's path.
        branches: whose data is read; None for all.

    """
    if principal is not None and principal.job is not None:
        return list_sensitive_to_code(principal.job.repository, path)
    if principal is not None and principal.is_admin:
        return frozenset()
    rules = _list_own_rules(path)
    if not rules or (principal is not None and role_on_folder(principal, folder_of(path)) == Role.MAINTAINER):
        return frozenset()
    groups = {group for rule in rules if rule.is_default for group in rule.groups}
    if principal is not None and groups and _is_in_groups(principal.user_id, frozenset(groups)):
        return frozenset()
    return _list_columns(path, rules, branches)


def list_ruled(paths: Collection[str]) -> set[str]:
    """Return those of some datasets in which any repository calls columns sensitive."""
    lower = {path.lower(): path for path in paths}
    rows = SensitiveColumns.objects.filter(path__in=lower).values_list("path", flat=True)
    return {lower[path] for path in rows}


def list_sensitive_to_code(repository: str, path: str) -> frozenset[str]:
    """Return the columns of a dataset that the code of a repository may not read.

    The repository that owns the dataset reads all of them, as do those that its default branch names. Jobs read files,
    and files hide nothing: so the columns of all branches count.

    Args:
        repository: the repository whose code reads; empty is none, from which everything sensitive is hidden.
        path: the dataset's path.

    """
    rules = _list_own_rules(path)
    readers = {name.lower() for rule in rules if rule.is_default for name in rule.repositories}
    if not rules or (repository and (repository == rules[0].repository or repository.lower() in readers)):
        return frozenset()
    return _list_columns(path, rules, None)


class _OwnRule(NamedTuple):
    """What a branch of the repository that owns a dataset calls sensitive in it."""

    repository: str
    branch: str
    is_default: bool
    columns: Sequence[str]
    groups: Sequence[str]
    repositories: Sequence[str]
    past: Sequence[str]


def _list_own_rules(path: str) -> list[_OwnRule]:
    rules = _list_rules(path.lower())
    owner = find_folder_owner(path) if rules else ""
    return [rule for rule in map(_OwnRule._make, rules) if rule.repository == owner]


def _list_columns(path: str, rules: Sequence[_OwnRule], branches: Collection[str] | None) -> frozenset[str]:
    """Return the columns that some rules hide in the data of some branches."""
    held = [rule for rule in rules if rule.is_default or branches is None or rule.branch in branches]
    past = {name for rule in held for name in rule.past}
    if past:
        dropped = {fold_column(name) for name in ports.list_dropped_columns(path=path)}
        past = {name for name in past if fold_column(name).partition(".")[0] in dropped}
    return frozenset(past.union(*(rule.columns for rule in held)))


@asked_once
def _list_rules(
    path: str,
) -> Sequence[tuple[str, str, bool, Sequence[str], Sequence[str], Sequence[str], Sequence[str]]]:
    """Return what any branch of any repository calls sensitive in a dataset, in the order of `_OwnRule`."""
    return _SENSITIVE.all(path)


@asked_once
def _is_in_groups(user_id: int, groups: frozenset[str]) -> bool:
    return User.objects.filter(pk=user_id, groups__name__in=groups).exists()


def digest_rights(by: Principal) -> str:
    """Return a digest of everything that decides what somebody may see: it changes when they lose or gain a right."""
    rights: list[object] = [by.is_admin, sorted(by.scopes)]
    if not by.is_admin:
        roles = sorted(_ROLES_OF.all(by.user_id))
        repositories = [repository for repository, _ in roles]
        folders = Folder.objects.filter(creator_id=by.user_id) | Folder.objects.filter(repository__in=repositories)
        sensitive = SensitiveColumns.objects.filter(repository__in=repositories).order_by("pk")
        rights += [
            roles,
            sorted(Group.objects.filter(user=by.user_id).values_list("pk", flat=True)),
            sorted(folders.values_list("name", "repository")),
            list(sensitive.values_list("path", "branch", "columns", "groups", "past", "is_default")),
        ]
    return hashlib.sha256(json.dumps(rights).encode()).hexdigest()


def may_use_password(user: User) -> bool:
    """Return whether a user may sign in with a password: with TRIBUTARY_OIDC_ONLY admins alone."""
    return user.has_usable_password() and (user.is_superuser or not settings.TRIBUTARY_OIDC_ONLY)


def check_admin(principal: Principal) -> None:
    """Refuse everybody but admins.

    Raises:
        PermissionDenied: no admin, or a token that is not enough.

    """
    if not principal.is_admin:
        raise PermissionDenied("Only admins may do this.", code="admin_only")
    check_scope(principal, "maintain")
