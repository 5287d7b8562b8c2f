"""Cursor pagination of the REST API: {"results", "next", "previous"}."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from rest_framework.pagination import BasePagination
from rest_framework.serializers import BaseSerializer

from webapp.core.errors import BadRequest
from webapp.core.lazy_lists import PinnedList
from webapp.core.numbers import read_count
from webapp.core.turning import turn_page

DEFAULT_LIMIT = 50
MAX_LIMIT = 250


class Pages(BasePagination):
    """What `paginate` answers, as the API describes itself; views call `paginate` themselves."""

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:  # noqa: ARG002 - DRF's signature
        """Describe the query parameters of every list."""
        return [
            {
                "name": "limit",
                "in": "query",
                "description": "how many a page holds",
                "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            },
            {
                "name": "cursor",
                "in": "query",
                "description": "where a page begins, as `next` and `previous` have it",
                "schema": {"type": "string"},
            },
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Describe the envelope of every list."""
        url = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": url, "previous": url},
        }


def read_limit(request: HttpRequest, *, default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """Read the page size asked for, within bounds."""
    text = request.GET.get("limit", "")
    if not text:
        return default
    number = read_count(text, most=most)
    if not number:
        raise BadRequest(f"limit is a number from 1 to {most}, not {text!r}.", errors={"limit": [f"1 to {most}."]})
    return number


def paginate(
    request: HttpRequest,
    items: QuerySet[Any] | Sequence[Any] | PinnedList[Any],
    serializer: type[BaseSerializer[Any]],
    *,
    look_up: Callable[[list[Any]], dict[str, Any]] | None = None,
    key: Callable[[Any], tuple[Any, ...]] | None = None,
) -> dict[str, Any]:
    """Return one page of an ordered queryset or list, as JSON.

    Args:
        request: names the page.
        items: what is listed.
        serializer: writes one of them.
        look_up: asks once for what the serializer must know of all items of the page: its context.
        key: what tells an item of a plain sequence from the others.

    """
    cursor = request.GET.get("cursor", "")
    page = turn_page(items, cursor=cursor, size=read_limit(request), scope=request.path, key=key)
    return {
        "results": serializer(page.rows, many=True, context=look_up(page.rows) if look_up else {}).data,
        "next": _url(request, page.next),
        "previous": _url(request, page.previous),
    }


def _url(request: HttpRequest, cursor: str | None) -> str | None:
    if cursor is None:
        return None
    query = request.GET.copy()
    query["cursor"] = cursor
    return request.build_absolute_uri(f"{request.path}?{urlencode(list(query.items()))}")
