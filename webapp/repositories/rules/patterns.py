"""Patterns that path rules and owners name files and datasets with."""

from __future__ import annotations

from fnmatch import fnmatchcase


def can_match(pattern: str) -> bool:
    """Return whether any path of a file, or of a dataset with its leading slash, can match a pattern."""
    parts = pattern.removeprefix("/").removesuffix("/").split("/")
    return pattern == pattern.strip() and not {"", ".", ".."}.intersection(parts)


def matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern. A pattern that ends with a slash matches all that is in its folder."""
    return fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern)
