"""What the pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect

from webapp.core.errors import AppError, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

    from webapp.accounts.rules.principals import Principal


def signed_in(request: HttpRequest) -> Principal:
    """Return who is asking; nobody is sent to the sign-in page."""
    principal: Principal | None = getattr(request, "principal", None)
    if principal is None:
        message = "Sign in to see this."
        raise Unauthenticated(message)
    return principal


def act(request: HttpRequest, action: Callable[[], str], *, back: str) -> HttpResponse:
    """Do what a form asks for and return to the page, with what came of it in words.

    A refusal belongs beside the form that caused it, so it is shown there instead of on a page of its own.
    """
    try:
        done = action()
    except AppError as error:
        if error.status in (401, 404):
            raise
        messages.error(request, _write_refusal(error))
    else:
        if done:
            messages.success(request, done)
    return redirect(back)


def _write_refusal(error: AppError) -> str:
    reasons = error.extra.get("blocked_by") if isinstance(error.extra, dict) else None
    if reasons:
        return f"{error.detail} {' '.join(one['message'] for one in reasons)}"
    return error.detail
