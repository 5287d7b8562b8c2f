"""The columns of a wide table in pages, as row diffs and statistics show them."""

from __future__ import annotations


def choose_columns(count: int, *, page: int, size: int) -> range:
    """Return which of so many columns stand on a page, from 0; those of the last one where there is no such page."""
    start = min(page, max(count - 1, 0) // size) * size
    return range(start, min(start + size, count))
