"""Users, tokens, roles, folders and the audit log: everything that writes them.

Modules:
    sign_in: signing in; wrong passwords and tokens are counted and slowed down.
    provider: what the sign-in provider says of who comes back from it, asked within limits.
    single_sign_on: accounts of people for whom the provider vouches, with their groups.
    sessions: sessions of people, which end one by one or together.
    kept_forms: what was typed when a session ended, for its author.
    people: passwords of people, and whether an account is active.
    passwords: new passwords, compared with a list of common ones.
    audit: acts as rows of the audit log, chained by one sealer.
    readings: reads of rows and refusals, counted and not written one by one.
    retention: entries of the audit log removed for their age.
    checking: what `manage.py fsck` asks of the audit log.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models.functions import Lower

from webapp.accounts.models import (
    Folder,
    ProvidedGroup,
    ProvidedMembership,
    RepositoryRole,
    SensitiveColumns,
    Token,
    User,
)
from webapp.accounts.permissions import find_folder_owner
from webapp.accounts.queries import digest_secret, get_user, principal_for_user
from webapp.accounts.rules.roles import Role
from webapp.accounts.rules.scopes import SCOPES
from webapp.accounts.rules.sight import SensitiveRule
from webapp.accounts.services.audit import record_audit as record_audit
from webapp.accounts.services.kept_forms import find_kept_form as find_kept_form
from webapp.accounts.services.kept_forms import forget_kept_form as forget_kept_form
from webapp.accounts.services.kept_forms import keep_form as keep_form
from webapp.accounts.services.people import (
    ADMIN_PASSWORD_FILE,
    CHANGED,
    DEMO_PASSWORDS_FILE,
    check_password,
    digest_kept,
    keep_password,
    read_kept,
)
from webapp.accounts.services.people import revoke_token_of as revoke_token_of
from webapp.accounts.services.people import set_active as set_active
from webapp.accounts.services.people import set_password as set_password
from webapp.accounts.services.readings import note_reading as note_reading
from webapp.accounts.services.readings import note_refusal as note_refusal
from webapp.accounts.services.readings import note_turned_away as note_turned_away
from webapp.accounts.services.readings import start_flushing as start_flushing
from webapp.accounts.services.sessions import begin_session as begin_session
from webapp.accounts.services.sessions import continue_session as continue_session
from webapp.accounts.services.sessions import end_other_sessions as end_other_sessions
from webapp.accounts.services.sessions import end_session as end_session
from webapp.accounts.services.sessions import forget_session as forget_session
from webapp.accounts.services.sign_in import DEVICE_SECONDS as DEVICE_SECONDS
from webapp.accounts.services.sign_in import begin_provider_attempt as begin_provider_attempt
from webapp.accounts.services.sign_in import check_sign_in as check_sign_in
from webapp.accounts.services.sign_in import finish_provider_attempt as finish_provider_attempt
from webapp.accounts.services.sign_in import refuse_token as refuse_token
from webapp.accounts.services.sign_in import remember_device as remember_device
from webapp.accounts.services.single_sign_on import enter_by_provider as enter_by_provider
from webapp.accounts.services.single_sign_on import link_identity as link_identity
from webapp.accounts.services.single_sign_on import unlink_identity as unlink_identity
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput
from webapp.core.names import check_is_no_disguise, folder_of, is_dataset_path
from webapp.core.principals import JobScope, Principal

TOKEN_PREFIX = "trb_"  # noqa: S105 - a prefix that secret scanners can look for, not a secret


def create_user(*, username: str, password: str, by: Principal | None, is_admin: bool = False, **fields: Any) -> User:
    """Make a user who can sign in.

    Raises:
        InvalidInput: the name or password is not acceptable.
        Conflict: the name is taken.

    """
    user = User(username=username, is_superuser=is_admin, is_staff=is_admin, **fields)
    try:
        User.username_validator(username)
    except ValidationError as error:
        raise InvalidInput(" ".join(error.messages), errors={"username": error.messages}) from None
    check_is_no_disguise(username, field="username")
    check_password(user=user, password=password)
    if User.objects.filter(username__iexact=username).exists():
        raise Conflict(f"The user name {username} is taken.", code="username_taken", errors={"username": ["Taken."]})
    user.set_password(password)
    with transaction.atomic():
        user.save()
        record_audit(by=by, verb="create_user", object=username)
    return user


def create_token(
    *,
    user: User,
    name: str,
    scopes: Iterable[str] = (),
    expires_at: datetime | None = None,
    job_scope: JobScope | None = None,
) -> tuple[Token, str]:
    """Make a token; the secret is returned here and can never be read again."""
    scopes = list(scopes)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        raise InvalidInput(
            f"Unknown scope {unknown[0]!r}.", errors={"scopes": [f"Any of {', '.join(SCOPES)}; none means all."]}
        )
    if not name.strip():
        raise InvalidInput("A token needs a name.", errors={"name": ["Say what it is for."]})
    if expires_at and expires_at <= clock.shared_now():
        raise InvalidInput("The expiry lies in the past.", errors={"expires_at": ["Choose a later time."]})
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        token = Token.objects.create(
            user=user,
            name=name.strip()[:100],
            digest=digest_secret(secret),
            scopes=scopes,
            job_scope=job_scope.as_json() if job_scope else None,
            job_id=job_scope.job_id if job_scope else "",
            expires_at=expires_at,
        )
        if job_scope is None:  # a job's token begins and ends with the job, of which there are entries
            detail = {"id": token.pk, "scopes": scopes, "expires_at": expires_at and expires_at.isoformat()}
            record_audit(by=principal_for_user(user), verb="create_token", object=token.name, detail=detail)
    return token, secret


def revoke_job_tokens(*, job_id: str, attempt: int) -> None:
    """End the tokens of an attempt of a job, and of those before it; a later attempt keeps its own."""
    tokens = Token.objects.filter(job_id=job_id, revoked_at=None)
    over = [token.pk for token in tokens if (token.job_scope or {}).get("attempt", 1) <= attempt]
    Token.objects.filter(pk__in=over).update(revoked_at=clock.now())


def set_group(*, name: str, usernames: Iterable[str], by: Principal, provided: bool | None = None) -> Group:
    """Make a group, or give an existing one exactly these members.

    Args:
        name: the group.
        usernames: its members.
        by: the administrator.
        provided: whether the sign-in provider's group of the same name counts as this one; None leaves that as it is.

    """
    if not name.strip():
        raise InvalidInput("A group needs a name.", errors={"name": ["Required."]})
    same = Group.objects.filter(name__iexact=name).first()
    if same is None:
        check_is_no_disguise(name, field="name")
    elif same.name != name:
        message = f"There is a group {same.name}, and names of groups are unique without case."
        raise Conflict(message, code="group_taken", errors={"name": [message]})
    users = [get_user(username) for username in usernames]
    with transaction.atomic():
        group, _created = Group.objects.get_or_create(name=name)
        group.user_set.set(users)
        # Whoever is listed is in it by hand from now on.
        ProvidedMembership.objects.filter(group=group).delete()
        if provided:
            ProvidedGroup.objects.get_or_create(group=group)
        elif provided is not None:
            ProvidedGroup.objects.filter(group=group).delete()
        detail: dict[str, Any] = {"users": [user.username for user in users]}
        record_audit(
            by=by,
            verb="set_group",
            object=group.name,
            detail=detail if provided is None else {**detail, "provided": provided},
        )
    return group


def set_preferences(*, user: User, **preferences: Any) -> None:
    """Keep how pages look for the user."""
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(**preferences)
        record_audit(by=principal_for_user(user), verb="set_preferences", object=user.username)


def grant_role(*, repository: str, user: User, role: str | None, by: Principal | None) -> None:
    """Give a role on a repository, or with None take it away."""
    if role is not None and role not in set(Role):
        raise InvalidInput(f"Unknown role {role!r}.", errors={"role": ["reader, writer or maintainer."]})
    with transaction.atomic():
        if role is None:
            RepositoryRole.objects.filter(repository=repository, user=user).delete()
        else:
            RepositoryRole.objects.update_or_create(repository=repository, user=user, defaults={"role": role})
        record_audit(by=by, verb="grant_role", object=repository, detail={"user": user.username, "role": role})


def claim_folder(*, folder: str, repository: str = "", creator: Principal | None = None) -> Folder:
    """Say whose rights hold in a top folder. A repository of that name wins; the first claim stays otherwise."""
    row = Folder.objects.filter(name__iexact=folder).first()
    if row is None:
        try:
            with transaction.atomic():
                return Folder.objects.create(
                    name=folder, repository=repository, creator_id=creator.user_id if creator else None
                )
        except IntegrityError:
            row = Folder.objects.get(name__iexact=folder)
    may_take = not row.repository or (repository == folder and row.repository != repository)
    if repository and may_take:
        row.repository = repository
        row.save(update_fields=["repository"])
    return row


def forget_repository(*, repository: str) -> None:
    """Drop roles and folder claims of a deleted repository; its folders fall back to their creators."""
    RepositoryRole.objects.filter(repository=repository).delete()
    # Who happened to write first into a folder with hidden columns does not become their only maintainer.
    hidden = SensitiveColumns.objects.filter(repository=repository).values_list("path", flat=True)
    folders = Folder.objects.filter(repository=repository).annotate(lower=Lower("name"))
    folders.filter(lower__in={folder_of(path) for path in hidden if is_dataset_path(path)}).update(creator=None)
    Folder.objects.filter(repository=repository).update(repository="")
    SensitiveColumns.objects.filter(repository=repository).delete()
    # A later repository of the same name is another one.
    for row in SensitiveColumns.objects.exclude(repositories=[]):
        others = [name for name in row.repositories if name.lower() != repository.lower()]
        SensitiveColumns.objects.filter(pk=row.pk).update(repositories=others)


def set_sensitive(*, repository: str, branch: str, is_default: bool, rules: Mapping[str, SensitiveRule]) -> None:
    """Record what a branch of a repository calls sensitive, by the paths of datasets.

    Only a rule changes what an earlier one said: the columns of a dataset without a rule stay hidden. Columns that a
    rule leaves out are kept as past ones.
    """
    rows = {row.path: row for row in SensitiveColumns.objects.filter(repository=repository, branch=branch)}
    changed: list[SensitiveColumns] = []
    for path, rule in _join_spellings(rules).items():
        row = rows.setdefault(path, SensitiveColumns(repository=repository, branch=branch, path=path))
        stated = {
            "columns": list(rule.columns),
            "groups": list(rule.groups),
            "repositories": list(rule.repositories),
            "past": [name for name in dict.fromkeys([*row.past, *row.columns]) if name not in rule.columns],
        }
        if any(getattr(row, name) != value for name, value in stated.items()):
            for name, value in stated.items():
                setattr(row, name, value)
            changed.append(row)
    with transaction.atomic():
        for row in rows.values():
            if row in changed or (row.pk is not None and row.is_default != is_default):
                row.is_default = is_default
                row.save()


def _join_spellings(rules: Mapping[str, SensitiveRule]) -> dict[str, SensitiveRule]:
    """Return the rules by paths in lower case. Of two spellings of one path, the stricter rule holds for each part."""
    joined: dict[str, SensitiveRule] = {}
    for path, rule in rules.items():
        other = joined.get(path.lower())
        if other is not None:
            rule = SensitiveRule(  # noqa: PLW2901 - the rule that counts
                tuple(dict.fromkeys([*other.columns, *rule.columns])),
                tuple(name for name in other.groups if name in rule.groups),
                tuple(name for name in other.repositories if name in rule.repositories),
            )
        joined[path.lower()] = rule
    return joined


def copy_sensitive(*, path: str, to: str) -> None:
    """Let what the owner of a dataset calls sensitive hold for its new path as well, whoever owns that."""
    owner, new_owner = find_folder_owner(path), find_folder_owner(to)
    for row in SensitiveColumns.objects.filter(repository=owner, path=path.lower()) if new_owner else ():
        hidden = [*row.columns, *row.past]
        copy, is_new = SensitiveColumns.objects.get_or_create(
            repository=new_owner,
            branch=row.branch,
            path=to.lower(),
            defaults={"is_default": row.is_default, "columns": hidden},
        )
        if not is_new:
            SensitiveColumns.objects.filter(pk=copy.pk).update(columns=list(dict.fromkeys([*copy.columns, *hidden])))


def forget_sensitive(*, repository: str, branch: str) -> None:
    """Drop what a branch called sensitive, with the data of the branch."""
    SensitiveColumns.objects.filter(repository=repository, branch=branch).delete()


def prepare_admin() -> None:
    """Make sure that the user admin exists, with TRIBUTARY_ADMIN_PASSWORD or a generated password.

    It is kept in the home, readable by the owner only, until it is changed on the page.
    """
    setting = settings.TRIBUTARY_ADMIN_PASSWORD
    user = User.objects.filter(username="admin").first()
    if user is None:
        password = setting or secrets.token_urlsafe(12)
        keep_password(ADMIN_PASSWORD_FILE, lines=[password])
        User.objects.create_superuser("admin", password=password)
        return
    line = next(iter(read_kept(ADMIN_PASSWORD_FILE)), "")
    # Comparing with the file first: hashing a password takes half a second of every start.
    is_known = setting in ("", line) or line == CHANGED + digest_kept(setting)
    if not is_known and not user.check_password(setting):
        user.set_password(setting)
        user.save(update_fields=["password"])
        keep_password(ADMIN_PASSWORD_FILE, lines=[setting])


def prepare_demo_person(*, name: str) -> None:
    """Make one of the demo's people with a generated password, kept in the home, readable by the owner only."""
    if User.objects.filter(username=name).exists():
        return
    password = secrets.token_urlsafe(12)
    lines = [line for line in read_kept(DEMO_PASSWORDS_FILE) if not line.startswith(f"{name}: ")]
    keep_password(DEMO_PASSWORDS_FILE, lines=[*lines, f"{name}: {password}"])
    User.objects.create_user(name, password=password, first_name=name.capitalize())
