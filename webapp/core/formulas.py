"""Texts in CSV files that spreadsheets would run."""

from __future__ import annotations

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n")


def escape_formula(text: str) -> str:
    """Return a text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_BEGINNINGS) else text
