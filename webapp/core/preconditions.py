"""ETag, If-Match and If-None-Match of REST answers (RFC 9110, section 13)."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.response import Response

from webapp.core.errors import PreconditionFailed

if TYPE_CHECKING:
    from rest_framework.request import Request

IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="the ETag that was read: 412 if it is another one now"
)
IF_NONE_MATCH = OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)
TAG_LENGTH = 16


def quote_tag(tag: str) -> str:
    """Return a tag as headers write it."""
    return f'"{tag}"'


def make_tag(*parts: object) -> str:
    """Return a tag that changes with any of the parts."""
    return sha256(repr(parts).encode()).hexdigest()[:TAG_LENGTH]


def check_unchanged(request: Request, tag: str) -> None:
    """Refuse a change that was meant for another version.

    Raises:
        PreconditionFailed: If-Match names other versions.

    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return
    if quote_tag(tag) not in _split(header):
        message = "It has changed since the version that If-Match names; read it again."
        raise PreconditionFailed(message, etag=quote_tag(tag))


def answer_tagged(request: Request, tag: str, data: Any) -> Response:
    """Answer with an ETag, or with 304 if the caller has this version."""
    response = (
        Response(status=304) if quote_tag(tag) in _split(request.headers.get("If-None-Match", "")) else Response(data)
    )
    response["ETag"] = quote_tag(tag)
    return response


def _split(header: str) -> list[str]:
    return [item.strip().removeprefix("W/") for item in header.split(",")]
