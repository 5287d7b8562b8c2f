"""Lists in pages. A token is the last name of the page before, so a page costs the same wherever it is."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from webapp.catalog.api.http import Call
from webapp.catalog.rules.errors import Malformed
from webapp.core.numbers import read_count

Item = TypeVar("Item")
MAX_PAGE = 10_000


def paged(
    call: Call, key: str, fetch: Callable[[str, int | None], Sequence[Item]], *, token_of: Callable[[Item], str]
) -> dict[str, Any]:
    """Return the page that a call asks for; all at once without a page size, or without a token (empty to begin)."""
    size = _size(call)
    after = _decode(call.query.get("pageToken", ""))
    if size is None or "pageToken" not in call.query:
        return {key: list(fetch(after, None)), "next-page-token": None}
    items = list(fetch(after, size + 1))
    more = len(items) > size
    return {key: items[:size], "next-page-token": _encode(token_of(items[size - 1])) if more else None}


def _size(call: Call) -> int | None:
    text = call.query.get("pageSize")
    if text is None:
        return None
    size = read_count(text, most=2**63 - 1)
    if not size:
        message = f"Invalid pageSize: {text!r}"
        raise Malformed(message)
    return min(size, MAX_PAGE)


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decode(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        message = "Invalid pageToken"
        raise Malformed(message) from error
