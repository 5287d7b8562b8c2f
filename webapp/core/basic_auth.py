"""The user name and secret of an `Authorization: Basic …` header."""

from __future__ import annotations

import base64

SCHEME = "basic"


def is_basic(header: str) -> bool:
    """Return whether a header's value announces a user name and a secret."""
    return header.partition(" ")[0].lower() == SCHEME


def read_basic(header: str) -> tuple[str, str] | None:
    """Return user name and secret; None where the value is of another scheme or cannot be read."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != SCHEME:
        return None
    try:
        # Headers arrive as Latin-1: what is no ASCII is a ValueError here, like what is no base64 or no UTF-8.
        username, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return username, secret
