"""How large a body an address takes: what its view says, or what all take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.urls import Resolver404, resolve

from webapp.core.errors import BadRequest, NotFound
from webapp.core.http import NOTHING_HERE

View = TypeVar("View", bound=Callable[..., Any])


def takes_body(size: int) -> Callable[[View], View]:
    """Let a page's view take bodies of so many bytes."""

    def mark(view: View) -> View:
        view.max_body_bytes = size  # type: ignore[attr-defined]
        return view

    return mark


def find_body_limit(path: str) -> int:
    """Return how many bytes a request to a path may carry.

    Raises:
        NotFound: no view has this path.
        BadRequest: it takes no body at all.

    """
    default: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    try:
        view: Any = resolve(path).func
    except Resolver404:
        raise NotFound(NOTHING_HERE) from None
    view = getattr(view, "view_class", view)
    if not getattr(view, "takes_body", True):
        raise BadRequest("This address takes no body.", code="body_not_taken")
    limit: int = getattr(view, "max_body_bytes", default)
    return limit
