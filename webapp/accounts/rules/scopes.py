"""Scopes of tokens: what a token may do of what its user may."""

from __future__ import annotations

from collections.abc import Collection

SCOPES = ("read", "write", "maintain")
"""Each includes the ones before it. A token without any may do everything that its user may."""
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def covers(scopes: Collection[str], action: str) -> bool:
    """Return whether scopes are enough for read, write or maintain."""
    if not scopes:
        return True
    needed = SCOPES.index(action)
    return any(scope in SCOPES and SCOPES.index(scope) >= needed for scope in scopes)


def needed_scope(method: str) -> str:
    """Return the scope that a request of this method needs at least."""
    return "read" if method.upper() in READING_METHODS else "write"
