"""Who is asking, and what they own.

Modules:
    audit: the audit log: looked through, written out, and checked against its chain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user as get_signed_in
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q, Value
from django.db.models.functions import Concat, Lower
from django.http import HttpRequest

from webapp.accounts.models import Folder, ProviderIdentity, RepositoryRole, Token, User, UserSession
from webapp.accounts.queries.audit import AuditFilter as AuditFilter
from webapp.accounts.queries.audit import export_csv as export_csv
from webapp.accounts.queries.audit import export_jsonl as export_jsonl
from webapp.accounts.queries.audit import list_audit as list_audit
from webapp.accounts.queries.audit import read_audit_page as read_audit_page
from webapp.core import clock
from webapp.core.errors import NotFound, PermissionDenied, Unauthenticated
from webapp.core.later import Later
from webapp.core.once import asked_once
from webapp.core.prepared import Prepared
from webapp.core.principals import JobScope, Principal
from webapp.core.sessions import end_of

if TYPE_CHECKING:
    from django.db.models import QuerySet


class _KnownToken(NamedTuple):
    """What every request asks of its token."""

    id: int
    name: str
    scopes: list[str]
    job_scope: dict[str, Any] | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    user_id: int
    username: str
    is_admin: bool
    is_active: bool


def _select_token(digest: str) -> QuerySet[Token, Any]:
    users = ("user_id", "user__username", "user__is_superuser", "user__is_active")
    return Token.objects.filter(digest=digest).order_by().values_list(*_KnownToken._fields[: -len(users)], *users)


_TOKENS = Prepared(_select_token, str)
_USERS = Prepared(lambda user_id: User.objects.filter(pk=user_id), int)
COMMIT_HOST = "localhost"
"""Users without an address sign commits as `<user name>@localhost`."""
USE_RECORDED_EVERY = timedelta(minutes=10)


def _write_uses(uses: Mapping[int, datetime]) -> None:
    with transaction.atomic():
        for token_id, at in uses.items():
            # Another web process may have written a later one.
            older = Q(last_used_at=None) | Q(last_used_at__lt=at)
            Token.objects.filter(older, pk=token_id).update(last_used_at=at)


token_uses = Later(_write_uses)
"""When tokens were used last. The web server starts its thread: no request waits for the database's write lock for it."""


def _write_requests(requests: Mapping[str, datetime]) -> None:
    # The requests were noted by the clock of this host.
    ahead = clock.now() - clock.shared_now()
    with transaction.atomic():
        for row in UserSession.objects.filter(session_key__in=list(requests)):
            at = requests[row.session_key] - ahead
            if row.seen_at < at:
                UserSession.objects.filter(pk=row.pk, seen_at__lt=at).update(seen_at=at)
                # A session that has ended meanwhile has no row, and gets none.
                ends_at = end_of(began_at=row.began_at, seen_at=at)
                Session.objects.filter(session_key=row.session_key).update(expire_date=ends_at)


session_uses = Later(_write_requests)
"""When sessions had their last request. The web server starts its thread, as for tokens."""


def digest_secret(secret: str) -> str:
    """Return the stored form of a token's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def principal_for_user(user: User) -> Principal:
    """Return the person behind a session."""
    return Principal(user_id=user.pk, username=user.username, is_admin=user.is_superuser)


def authenticate_token(secret: str) -> Principal:
    """Return the person or job behind a secret.

    Raises:
        Unauthenticated: unknown, revoked or expired, or its user is no longer active.

    """
    row = _TOKENS.first(digest_secret(secret))
    if row is None:
        raise Unauthenticated("The token is unknown. Make one under Settings, Tokens.", code="token_unknown")
    token = _KnownToken(*row)
    now = clock.now()
    if token.revoked_at:
        raise Unauthenticated(f"The token {token.name!r} was revoked.", code="token_revoked")
    if token.expires_at and token.expires_at <= clock.shared_now():
        raise Unauthenticated(
            f"The token {token.name!r} expired at {token.expires_at:%Y-%m-%d %H:%M} UTC.", code="token_expired"
        )
    if not token.is_active:
        raise Unauthenticated(f"The user {token.username} is not active.", code="user_inactive")
    if token.last_used_at is None or now - token.last_used_at > USE_RECORDED_EVERY:
        token_uses.note(token.id, now)
    return Principal(
        user_id=token.user_id,
        username=token.username,
        is_admin=token.is_admin,
        scopes=frozenset(token.scopes),
        job=JobScope.from_json(token.job_scope) if token.job_scope else None,
        expires_at=token.expires_at,
    )


def authenticate_person(secret: str) -> Principal:
    """Return the person behind a token. A job's token opens the catalog and nothing else.

    Raises:
        Unauthenticated: unknown, revoked or expired.
        PermissionDenied: the token of a job.

    """
    principal = authenticate_token(secret)
    if principal.job:
        raise PermissionDenied("The token of a job opens the catalog only.", code="job_token")
    return principal


def find_sender(*, authorization: str, session_key: str) -> str:
    """Return the user name behind the token or session that a request shows, before its body is read.

    Raises:
        Unauthenticated: neither, or one that holds no longer.
        PermissionDenied: the token of a job.

    """
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return authenticate_person(secret.strip()).username
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key or None)
    user = get_signed_in(request)
    if not isinstance(user, User):
        raise Unauthenticated("Sign in, or send a token as 'Authorization: Bearer …', before sending so much.")
    return user.username


def authenticate_again(request: HttpRequest) -> Principal:
    """Return the person behind a request that began a while ago: their session or token may have ended since.

    Raises:
        Unauthenticated: it has.

    """
    if not request.principal_by_session:  # type: ignore[attr-defined]
        return authenticate_person(request.headers.get("Authorization", "").partition(" ")[2].strip())
    anew = HttpRequest()
    anew.session = type(request.session)(request.session.session_key)
    user = get_signed_in(anew)
    if not isinstance(user, User):
        raise Unauthenticated("The session has ended.")
    return principal_for_user(user)


def get_user(username: str) -> User:
    """Return one user by name.

    Raises:
        NotFound: no such user.

    """
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username}.")
    return user


def _select_people(emails: Collection[str], usernames: Collection[str], names: Collection[str]) -> QuerySet[User]:
    people = User.objects.annotate(
        email_lower=Lower("email"),
        username_lower=Lower("username"),
        full_name_lower=Lower(Concat("first_name", Value(" "), "last_name")),
    )
    return people.filter(Q(email_lower__in=emails) | Q(username_lower__in=usernames) | Q(full_name_lower__in=names))


_PEOPLE = Prepared(_select_people, list, list, list)


def find_people(*, emails: Collection[str], names: Collection[str]) -> list[User]:
    """Find users that commits may name: by their address, user name or full name, without case."""
    local = f"@{COMMIT_HOST}"
    usernames = {*names, *(email.removesuffix(local) for email in emails if email.endswith(local))}
    return _PEOPLE.all(set(emails) - {""}, usernames, set(names))


def find_usernames(emails: Collection[str]) -> dict[str, str]:
    """Return the user names behind the addresses that commits are signed with, by address in lower case."""
    people = find_people(emails={email.strip().lower() for email in emails}, names=())
    usernames = {user.email.lower(): user.username for user in people if user.email}
    # Nobody takes the commits of another by giving that one's local address as the own.
    return usernames | {f"{user.username.lower()}@{COMMIT_HOST}": user.username for user in people}


def find_addresses(name: str) -> frozenset[str]:
    """Return the addresses, in lower case, with which people sign commits whose user names have this in them."""
    people = User.objects.filter(username__icontains=name).values_list("username", "email")
    return frozenset(
        address
        for username, email in people
        for address in (email.lower(), f"{username.lower()}@{COMMIT_HOST}")
        if address
    )


def list_tokens(*, user_id: int) -> QuerySet[Token]:
    """List a user's own tokens that were not revoked; jobs' tokens are not shown."""
    return Token.objects.filter(user_id=user_id, revoked_at=None, job_id="")


def list_sessions(*, user_id: int) -> QuerySet[UserSession]:
    """List the sessions of a user that have not ended, the last one used first."""
    lasting = Session.objects.filter(expire_date__gt=clock.statement_now())
    return UserSession.objects.filter(user_id=user_id, session_key__in=lasting.values("session_key"))


def list_group_names(*, user_id: int) -> list[str]:
    """List the names of the groups that a user is in."""
    return list(Group.objects.filter(user=user_id).order_by("name").values_list("name", flat=True))


def list_roles(*, user_id: int) -> QuerySet[RepositoryRole]:
    """List the roles of a user, by repository."""
    return RepositoryRole.objects.filter(user_id=user_id).order_by("repository")


def find_identity(*, user_id: int) -> ProviderIdentity | None:
    """Find who a user is at a sign-in provider."""
    return ProviderIdentity.objects.filter(user_id=user_id).first()


def get_signed_in_user(principal: Principal | None) -> User:
    """Return the user behind a page request.

    Raises:
        Unauthenticated: nobody is signed in.

    """
    user = _USERS.first(principal.user_id) if principal is not None else None
    if user is None:
        raise Unauthenticated("Sign in to see this page.")
    return user


def list_users(*, with_inactive: bool = False) -> QuerySet[User]:
    """List every active user by name, or every user."""
    users = User.objects.all() if with_inactive else User.objects.filter(is_active=True)
    return users.order_by("username")


def list_groups() -> QuerySet[Group]:
    """List every group, by name."""
    return Group.objects.select_related("provided").prefetch_related("user_set").order_by("name")


@asked_once
def list_folders(*, repository: str) -> tuple[str, ...]:
    """List the top folders of datasets that a repository owns, by name."""
    return tuple(Folder.objects.filter(repository=repository).order_by("name").values_list("name", flat=True))
