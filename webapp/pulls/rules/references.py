"""What a text names that has a page: `#3`, `/nyc/delays/daily`, `build 12`, a commit, `/nyc/delays/daily[2013-07-10, UA]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

PATTERN = re.compile(
    r"(?<![\w/.#&=?-])(?:#(?P<pull>\d{1,9})|[Bb]uild (?P<build>\d{1,9})|(?P<path>(?:/[\w-][\w.-]*)+(?<=\w))(?:\[(?P<row>[^\[\]\n]{1,200})\])?"
    r"|(?P<sha>[0-9a-f]{7,40}))(?![\w/-])"
)
MOST = 100
"""So many of a kind are looked up for one page."""


@dataclass(slots=True)
class References:
    """What texts name, by kind."""

    pulls: set[int] = field(default_factory=set)
    builds: set[int] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    rows: set[tuple[str, str]] = field(default_factory=set)
    """Datasets with the key of a row, as it is written."""
    shas: set[str] = field(default_factory=set)
    """Or their beginnings."""


def collect_references(texts: Iterable[str]) -> References:
    """Return what texts seem to name; what is there of it, and may be seen, is another question."""
    references = References()
    for text in texts:
        for match in PATTERN.finditer(text):
            if match["pull"] and len(references.pulls) < MOST:
                references.pulls.add(int(match["pull"]))
            elif match["build"] and len(references.builds) < MOST:
                references.builds.add(int(match["build"]))
            elif match["path"] and len(references.paths) < MOST:
                references.paths.add(match["path"])
                if match["row"]:
                    references.rows.add((match["path"], match["row"]))
            elif match["sha"] and len(references.shas) < MOST:
                references.shas.add(match["sha"])
    return references
