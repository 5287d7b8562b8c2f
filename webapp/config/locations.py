"""From TRIBUTARY_LOCATIONS to the prefixes beside the warehouse where tables may lie."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from jobs.locations import split_location
from webapp.catalog.rules.locations import is_plain, overlap, spell


def read_locations(text: str, *, warehouse: str, home: Path) -> tuple[str, ...]:
    """Return the prefixes, in their usual spelling; they are separated by commas or white space.

    Raises:
        SystemExit: one cannot be used; says which and why.

    """
    taken = {"the warehouse": _without_links(warehouse), "the home": home.resolve().as_uri()}
    for entry in text.replace(",", " ").split():
        prefix, problem = entry.rstrip("/"), ""
        if not is_plain(prefix):
            problem = "is neither file:///folder nor s3://bucket/folder with plain letters"
        elif not _is_reached_alike(prefix, warehouse):
            problem = f"is not kept like the warehouse {warehouse}: both are of this machine, or both in one bucket"
        elif _without_links(prefix) != spell(prefix)[0]:
            problem = f"leads through a link: name {_without_links(prefix)}"
        elif near := next((name for name, location in taken.items() if overlap(prefix, location)), None):
            problem = f"is, contains or lies inside {near}"
        if problem:
            message = f"TRIBUTARY_LOCATIONS names {entry}, which {problem}."
            raise SystemExit(message)
        taken[f"{spell(prefix)[0]}, another of them"] = spell(prefix)[0]
    return tuple(taken.values())[2:]


def _is_reached_alike(prefix: str, warehouse: str) -> bool:
    """Return whether what reaches the warehouse reaches a prefix: this machine's files, or one bucket and its keys."""
    return split_location(prefix)[0] == split_location(warehouse)[0]


def _without_links(location: str) -> str:
    parts = urlsplit(location)
    return Path(os.path.realpath(unquote(parts.path))).as_uri() if parts.scheme == "file" else spell(location)[0]
