"""The way to the sign-in provider and back."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from webapp.accounts import services
from webapp.accounts.permissions import signed_in
from webapp.accounts.rules.claims import Profile
from webapp.accounts.services import provider
from webapp.accounts.views.entering import LEAVING, LINK, enter, find_target, read_link
from webapp.core import pages
from webapp.core.errors import AppError, NotFound, PermissionDenied
from webapp.core.http import NOTHING_HERE

AT_OUR_ADDRESS = "here"


@require_GET
def sign_in(request: HttpRequest) -> HttpResponse:
    """Lead to the provider. It sends people back to TRIBUTARY_URL, so they leave from there, with its cookie."""
    _check_provider()
    is_elsewhere = request.get_host() != urlsplit(settings.TRIBUTARY_URL).netloc and AT_OUR_ADDRESS not in request.GET
    if is_elsewhere and LINK in request.GET:
        return redirect(_find_own("profile"))
    if is_elsewhere:
        query = urlencode({"next": find_target(request), AT_OUR_ADDRESS: "1"})
        return redirect(f"{settings.TRIBUTARY_URL}{request.path}?{query}")
    target = find_target(request)
    try:
        errand = provider.Errand(next=target, user_id=read_link(request))
        services.begin_provider_attempt(request)
        return redirect(provider.find_address(request, callback=_find_own("provider-return"), errand=errand))
    except AppError as error:
        return _explain(request, error, target)


@require_GET
def come_back(request: HttpRequest) -> HttpResponse:
    """Let in whom the provider vouches for."""
    _check_provider()
    target = "/"
    try:
        errand = provider.find_errand(request)
        target = errand.next
        arrival = provider.read_arrival(request)
        if errand.user_id is not None:
            return _link(request, errand, arrival.profile)
        user = services.enter_by_provider(arrival.profile)
    except AppError as error:
        return _explain(request, error, target)
    services.finish_provider_attempt(request, user=user)
    return enter(request, user, redirect(target), id_token=arrival.id_token, way=arrival.profile.issuer)


@require_GET
def sign_out(request: HttpRequest) -> HttpResponse:
    """Lead to where somebody who has signed out here signs out of the provider, too."""
    _check_provider()
    id_token = request.session.pop(LEAVING, "")
    if not id_token:
        return redirect("login")
    try:
        return redirect(provider.find_way_out(id_token=id_token, back=_find_own("login")))
    except AppError as error:
        return _explain(request, error, "/")


def _link(request: HttpRequest, errand: provider.Errand, profile: Profile) -> HttpResponse:
    """Link the account of who went, if they are still signed in."""
    by = signed_in(request)
    if by.user_id != errand.user_id:
        raise PermissionDenied("Somebody else is signed in here by now.", code="link_lost")
    services.link_identity(profile, by=by)
    messages.success(request, f"You can sign in with {settings.TRIBUTARY_OIDC_NAME} from now on.")
    return redirect("profile")


def _check_provider() -> None:
    if not settings.TRIBUTARY_OIDC_ISSUER:
        raise NotFound(NOTHING_HERE)


def _find_own(name: str) -> str:
    return f"{settings.TRIBUTARY_URL}{reverse(name)}"


def _explain(request: HttpRequest, error: AppError, target: str) -> HttpResponse:
    """Show why nobody is signed in, with the way to try again; the audit log counts it."""
    detail = {"code": error.code, "address": request.META.get("REMOTE_ADDR", "")}
    services.note_refusal(by=None, verb="sign_in", object=settings.TRIBUTARY_OIDC_NAME, detail=detail)
    context = {"error": error, "next": target, "provider": settings.TRIBUTARY_OIDC_NAME}
    response = pages.render(request, "accounts/provider_failed.html", context, status=error.status)
    if error.retry_after:
        response["Retry-After"] = str(error.retry_after)
    return response
