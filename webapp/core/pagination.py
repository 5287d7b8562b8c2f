"""Cursor pagination of the REST API: {"results", "next", "previous"}."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.core.errors import BadRequest

DEFAULT_LIMIT = 50
MAX_LIMIT = 250


def read_limit(request: HttpRequest, *, default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """The page size asked for, within bounds."""
    text = request.GET.get("limit", "")
    if not text:
        return default
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise BadRequest(f"limit is a number from 1 to {most}, not {text!r}.")
    return int(text)


def paginate(
    request: HttpRequest, items: QuerySet[Any] | Sequence[Any], shape: Callable[[Any], Any], *, limit: int | None = None
) -> dict[str, Any]:
    """One page of an ordered queryset or list, each item given its JSON shape.

    The cursor is opaque: it holds the offset, which our lists (newest first, or by name) keep stable enough.
    """
    limit = limit or read_limit(request)
    start = _read_cursor(request.GET.get("cursor", ""))
    page = list(items[start : start + limit + 1])
    following = start + limit if len(page) > limit else None
    before = max(0, start - limit) if start else None
    return {
        "results": [shape(item) for item in page[:limit]],
        "next": _url(request, following),
        "previous": _url(request, before),
    }


def _url(request: HttpRequest, start: int | None) -> str | None:
    if start is None:
        return None
    query = request.GET.copy()
    query["cursor"] = base64.urlsafe_b64encode(f"o{start}".encode()).decode().rstrip("=")
    return request.build_absolute_uri(f"{request.path}?{urlencode(list(query.items()))}")


def _read_cursor(text: str) -> int:
    if not text:
        return 0
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        decoded = ""
    if not decoded.startswith("o") or not decoded[1:].isdigit():
        raise BadRequest("The cursor is not one of ours. Start from the first page.", code="bad_cursor")
    return int(decoded[1:])
