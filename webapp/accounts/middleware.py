"""Decides who is asking once, before any view: `request.principal`, None for nobody."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from webapp.accounts import permissions, queries, services
from webapp.core import clock
from webapp.core.errors import AppError, Unauthenticated
from webapp.core.http import HEALTH_PATHS
from webapp.core.problems import problem_response

STREAMS = "/events/"
"""What goes on by itself while a page is open: no sign that anybody is there."""
TOKEN_PREFIXES = ("/api/", STREAMS)
"""Where programs go: the REST API, and the streams of what happens."""


def _follow_form(request: HttpRequest, response: HttpResponse, refusal: AppError | None) -> None:
    """Keep a form whose author must sign in again, and forget it once it was sent."""
    if refusal is not None and refusal.status == Unauthenticated.status and "Location" in response:
        response["Location"] = f"{reverse('login')}?{urlencode({'next': services.keep_form(request)})}"
    elif request.principal_by_session and response.status_code < HTTPStatus.BAD_REQUEST:  # type: ignore[attr-defined]
        services.forget_kept_form(request)


class PrincipalMiddleware:
    """Reads a bearer token where programs go, and the session everywhere."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._answer(request)
        refusal: AppError | None = getattr(response, "refusal", None)
        if refusal is not None and refusal.is_for_want_of_rights:
            services.note_refusal(
                by=request.principal,  # type: ignore[attr-defined]
                verb=f"request_{(request.method or '').lower()}",
                object=request.path,
                detail={"status": refusal.status, "code": refusal.code, "address": request.META.get("REMOTE_ADDR", "")},
            )
        if request.method == "POST":
            _follow_form(request, response, refusal)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        request.principal = None  # type: ignore[attr-defined]
        request.principal_by_session = False  # type: ignore[attr-defined]
        if request.path in HEALTH_PATHS:
            return self.get_response(request)
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if request.path.startswith(TOKEN_PREFIXES) and scheme.lower() == "bearer":
            try:
                principal = queries.authenticate_person(secret.strip())
                request.principal = principal  # type: ignore[attr-defined]
                permissions.check_method(principal, request.method or "")
            except AppError as error:
                return problem_response(error)
        elif request.user.is_authenticated:
            request.principal = queries.principal_for_user(request.user)  # type: ignore[attr-defined]
            request.principal_by_session = True  # type: ignore[attr-defined]
            if request.session.session_key and not request.path.startswith(STREAMS):
                queries.session_uses.note(request.session.session_key, clock.now())
        return self.get_response(request)
