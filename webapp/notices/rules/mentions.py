"""Whom a text names."""

from __future__ import annotations

from webapp.core.templatetags.markdown import list_mentions

MOST = 50
"""Maximum number of names that are looked up for one text."""


def find_mentions(text: str) -> frozenset[str]:
    """Return the users' names in a text, in lower case."""
    return frozenset(list(dict.fromkeys(list_mentions(text)))[:MOST])
