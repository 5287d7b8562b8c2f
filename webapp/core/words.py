"""Small pieces of English that messages and pages share."""

from __future__ import annotations


def counted(number: int, noun: str, *, most: int | None = None) -> str:
    """Return "1 file", "2 files", "1,200 files"; "200+ files" of 200 where nobody counts any further."""
    return f"{so_far(number, most)} {noun}{'' if number == 1 else 's'}"


def so_far(number: int, most: int | None) -> str:
    """Return "1,200"; "200+" of 200 where nobody counts any further."""
    return f"{number:,}{'+' if most is not None and number >= most else ''}"
