"""Whole numbers in addresses and properties: of plain digits only, and no longer than a database takes."""

from __future__ import annotations

LARGEST = 2**31 - 1


def read_count(text: str, *, most: int = LARGEST) -> int | None:
    """Return the number that a text is, from 0 to `most`; None for everything else.

    `str.isdigit` alone would let "²" through, which `int` refuses, and any length.
    """
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None
