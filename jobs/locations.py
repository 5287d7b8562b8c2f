"""Whether a file is inside a table's folder. Containment is decided by path components: `/t2` is not inside `/t`."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_UNREADABLE = re.compile(r"[\x00-\x1f\x7f?#\\]")


def split_location(location: str) -> tuple[str, tuple[str, ...]]:
    """Split a location into scheme and host, and path components; the many spellings of a local path become one."""
    parts = urlsplit(location)
    scheme = parts.scheme.lower() or "file"
    return f"{scheme}://{parts.netloc}", tuple(part for part in parts.path.split("/") if part)


def is_inside(location: str, root: str) -> bool:
    """Return whether a location is the root or below it, without any way out of it."""
    host, parts = split_location(location)
    root_host, root_parts = split_location(root)
    if any(unquote(part) in (".", "..") for part in parts) or _UNREADABLE.search(location):
        return False
    if not root_host.startswith("file:"):
        # A key is a text, not a path: `a//b` is no other spelling of `a/b`, and rights in the store go by the text.
        return location == root or (location.startswith(f"{root.rstrip('/')}/") and "//" not in location[len(root) :])
    return host == root_host and parts[: len(root_parts)] == root_parts
