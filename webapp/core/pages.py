"""A page, or the part of it that htmx asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.shortcuts import render as render_template
from django.utils.cache import patch_cache_control, patch_vary_headers

from webapp.core.errors import AppError

PRELOADED_SECONDS = 2
"""So long a browser may keep what it asked for before the click; what it sends with the question says which page it is for."""


def wants_fragment(request: HttpRequest) -> bool:
    """Return whether htmx asks for a part of a page, and the history does not need the whole page."""
    return bool(request.htmx and not request.htmx.history_restore_request)  # type: ignore[attr-defined]


def wants_part(request: HttpRequest, target: str) -> bool:
    """Return whether htmx asks for the part of a page that takes the place of the element with this id."""
    return wants_fragment(request) and request.htmx.target == target  # type: ignore[attr-defined]


def render(
    request: HttpRequest, template: str, context: object, *, fragment: str | None = None, status: int = 200
) -> HttpResponse:
    """Render a page from its frozen context.

    Args:
        request: the request.
        template: name of the page's template.
        context: a dataclass or a mapping.
        fragment: the named partial to answer with when htmx asks (and the history does not need the whole page).
        status: HTTP status.

    """
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        values: dict[str, Any] = {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
        values["page"] = context
    elif isinstance(context, Mapping):
        values = dict(context)
    else:
        msg = f"a page's context is a dataclass or a mapping, not {type(context).__name__}"
        raise TypeError(msg)
    name = f"{template}#{fragment}" if fragment and wants_fragment(request) else template
    response = render_template(request, name, values, status=status)
    patch_vary_headers(response, ["HX-Request", "HX-Target", "HX-History-Restore-Request", "X-Preload"])
    if "X-Preload" in request.headers and status == HTTPStatus.OK:
        patch_cache_control(response, private=True, max_age=PRELOADED_SECONDS)
    return response


def act(request: HttpRequest, action: Callable[[], str], *, back: str) -> HttpResponse:
    """Do what a form asks for and return to the page, with what came of it in words."""
    try:
        done = action()
    except AppError as error:
        return refuse(request, error, back=back)
    if done:
        messages.success(request, done)
    return redirect(back)


def refuse(request: HttpRequest, error: AppError, *, back: str) -> HttpResponse:
    """Return to the page of a form that was refused.

    A refusal belongs beside the form that caused it, so it is shown there instead of on a page of its own.
    """
    if error.status in (401, 404):
        raise error
    messages.error(request, write_refusal(error))
    return redirect(back)


def write_refusal(error: AppError) -> str:
    """Return why something was refused, with every reason that blocks it."""
    reasons = error.extra.get("blocked_by") if isinstance(error.extra, dict) else None
    if reasons:
        return f"{error.detail} {' '.join(reason['message'] for reason in reasons)}"
    return error.detail
