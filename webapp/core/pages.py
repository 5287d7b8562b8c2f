"""A page, or the part of it that htmx asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render as render_template
from django.utils.cache import patch_vary_headers


def wants_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of a page, and the history does not need the whole page."""
    return bool(request.htmx and not request.htmx.history_restore_request)  # type: ignore[attr-defined]


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
    patch_vary_headers(response, ["HX-Request"])
    return response
