"""The tour of the demo."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.permissions import signed_in
from webapp.site.pages import tour

A_YEAR_S = 365 * 24 * 3600


@require_POST
def end_tour(request: HttpRequest) -> HttpResponse:
    """Offer the tour no more in this browser."""
    signed_in(request)
    response = redirect("home")
    response.set_cookie(
        tour.ENDED,
        "1",
        max_age=A_YEAR_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response
