"""What begins with a session, and where somebody goes then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib import auth
from django.core import signing
from django.utils.crypto import salted_hmac
from django.utils.http import url_has_allowed_host_and_scheme

from webapp.accounts import queries, services
from webapp.core.errors import PermissionDenied

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from webapp.accounts.models import User

ID_TOKEN = "id_token"  # noqa: S105 - a name in sessions, no secret
"""In a session: what the provider gave for it, to sign out there."""
LINK = "link"
LINK_SECONDS = 3600
LEAVING = "leaving"
"""The same in the session of somebody who has signed out here."""


def sign_link(request: HttpRequest) -> str:
    """Return what lets the session in hand, and no other, link its account to the provider: a link that nobody can forge."""
    return signing.dumps([request.user.pk, _digest(request)], salt=LINK)


def read_link(request: HttpRequest) -> int | None:
    """Return whose account is to be linked; None where that was not asked for.

    Raises:
        PermissionDenied: it was not asked for on the profile page of this session.

    """
    if LINK not in request.GET:
        return None
    try:
        linked = signing.loads(request.GET[LINK], salt=LINK, max_age=LINK_SECONDS)
    except signing.BadSignature:
        linked = None
    if not request.user.is_authenticated or linked != [request.user.pk, _digest(request)]:
        raise PermissionDenied("Begin on your profile page: this link is old or of another session.", code="link_lost")
    return int(request.user.pk)


def _digest(request: HttpRequest) -> str:
    return salted_hmac(LINK, request.session.session_key or "").hexdigest()


def find_target(request: HttpRequest) -> str:
    """Return the page of this installation that somebody wanted who was asked to sign in."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    return target if url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}) else "/"


def enter(
    request: HttpRequest, user: User, response: HttpResponse, *, id_token: str = "", way: str = ""
) -> HttpResponse:
    """Begin a session, and remember the device as one of the user's.

    Args:
        request: theirs.
        user: who is in.
        response: what they get.
        id_token: of the provider, where it lets people sign out.
        way: the issuer who vouches for them; empty: their password.

    """
    auth.login(request, user)
    request.session.pop(LEAVING, None)
    request.session.pop(ID_TOKEN, None)
    if id_token:
        request.session[ID_TOKEN] = id_token
    services.begin_session(request, user=user)
    detail = {"provider": way} if way else {}
    services.record_audit(by=queries.principal_for_user(user), verb="sign_in", object=user.username, detail=detail)
    response.set_cookie(
        settings.DEVICE_COOKIE_NAME,
        services.remember_device(request, user=user),
        max_age=services.DEVICE_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response
