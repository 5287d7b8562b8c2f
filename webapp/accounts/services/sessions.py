"""Sessions of people: what began them is kept beside Django's row, and they end one by one or together."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F

from webapp.accounts.models import User, UserSession
from webapp.accounts.services.audit import record_audit
from webapp.core import clock
from webapp.core.errors import NotFound
from webapp.core.sessions import BEGAN_AT
from webapp.dispatch.stamps import Stamp

if TYPE_CHECKING:
    from django.http import HttpRequest

    from webapp.core.principals import Principal


STAMPS = (
    Stamp(UserSession.objects.all, "began_at"),
    Stamp(UserSession.objects.all, "seen_at"),
    Stamp(Session.objects.all, "expire_date", timedelta(hours=settings.TRIBUTARY_SESSION_IDLE_HOURS)),
)
"""What a clock that was ahead wrote of sessions: otherwise they would last longer once the clock is right."""


def begin_session(request: HttpRequest, *, user: User) -> None:
    """Keep from where and on what somebody signed in; their session counts its age from now."""
    now = clock.shared_now()
    request.session[BEGAN_AT] = now.timestamp()
    request.session.save()
    UserSession.objects.update_or_create(
        session_key=request.session.session_key or "",
        defaults={
            "user": user,
            "address": request.META.get("REMOTE_ADDR", "")[:64],
            "agent": request.headers.get("User-Agent", "")[:400],
            "began_at": now,
            "seen_at": now,
        },
    )


def continue_session(request: HttpRequest, *, user: User) -> None:
    """Let a session go on whose user has another password, or has ended all others: under another key."""
    before = request.session.session_key
    request.session.cycle_key()
    request.session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    UserSession.objects.filter(session_key=before).update(session_key=request.session.session_key)


def forget_session(request: HttpRequest) -> None:
    """Take a session off the list that ends now."""
    UserSession.objects.filter(session_key=request.session.session_key).delete()


def end_session(*, session_id: int, by: Principal) -> None:
    """End one of one's own sessions at once, and what streams to it.

    Raises:
        NotFound: it is not theirs, or over.

    """
    with transaction.atomic():
        row = UserSession.objects.filter(pk=session_id, user_id=by.user_id).first()
        if row is None:
            raise NotFound(f"You have no session {session_id}.")
        remove_sessions(user_id=by.user_id, only=row.session_key)
        record_audit(by=by, verb="end_session", object=by.username, detail={"id": row.pk, "address": row.address})


def end_other_sessions(*, session_key: str, by: Principal) -> User:
    """End all of one's own sessions but one, also those that are on no list; return the user, as that one now knows them.

    Args:
        session_key: of the one that goes on, which its request still has to `continue_session`.
        by: whose.

    """
    with transaction.atomic():
        User.objects.filter(pk=by.user_id).update(session_generation=F("session_generation") + 1)
        remove_sessions(user_id=by.user_id, but=session_key)
        record_audit(by=by, verb="end_sessions", object=by.username)
    return User.objects.get(pk=by.user_id)


def remove_sessions(*, user_id: int, only: str = "", but: str = "") -> None:
    """Remove sessions of a user: all, one, or all but one."""
    rows = UserSession.objects.filter(user_id=user_id)
    rows = rows.filter(session_key=only) if only else rows.exclude(session_key=but) if but else rows
    Session.objects.filter(session_key__in=list(rows.values_list("session_key", flat=True))).delete()
    rows.delete()


def remove_ended_sessions() -> dict[str, int]:
    """Remove what is left of sessions that have ended."""
    now = min(clock.cautious_now(), clock.shared_now())
    count, _ = Session.objects.filter(expire_date__lt=now).delete()
    UserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
    return {"ended sessions removed": count} if count else {}
