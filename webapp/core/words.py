"""Small pieces of English that messages and pages share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return "1 file", "2 files", "1,200 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
