"""Who somebody is here, and where they are signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts import queries, services
from webapp.accounts.pages import read_profile
from webapp.accounts.views.entering import sign_link
from webapp.core import pages
from webapp.core.errors import NotFound
from webapp.core.numbers import read_count

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_GET
def profile(request: HttpRequest) -> HttpResponse:
    """Show one's own account: names, groups, roles, and the sessions that last."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]
    page = read_profile(user, session_key=request.session.session_key or "", link=sign_link(request))
    return pages.render(request, "accounts/profile.html", page)


@require_POST
def unlink(request: HttpRequest) -> HttpResponse:
    """Sign in with the password alone from now on."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]

    def act() -> str:
        services.unlink_identity(by=queries.principal_for_user(user))
        return "Your account is no longer linked."

    return pages.act(request, act, back=reverse("profile"))


@require_POST
def end_sessions(request: HttpRequest) -> HttpResponse:
    """End one of one's own sessions, or all but this one."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]
    by = queries.principal_for_user(user)
    if request.POST.get("others"):
        user = services.end_other_sessions(session_key=request.session.session_key or "", by=by)
        services.continue_session(request, user=user)
        messages.success(request, "Your other sessions have ended.")
        return redirect("profile")
    number = read_count(request.POST.get("session", ""))
    if number is None:
        raise NotFound("You have no such session.")
    services.end_session(session_id=number, by=by)
    messages.success(request, "The session has ended.")
    return redirect("profile")
