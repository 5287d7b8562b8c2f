"""What a picker lists of many names: the first that have a text, and how many others there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_CHOICES = 50
"""More than this nobody reads: they type a part of the name."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Names to choose from."""

    names: tuple[str, ...]
    others: int
    """How many more have the text and are not listed."""
    q: str = ""
    """The text; empty for all."""


@dataclass(frozen=True, slots=True)
class Picker:
    """What a picker draws of its choices."""

    branches: Sequence[Mapping[str, Any]]
    """Each with its name, address and note."""
    others: int
    q: str
    find_url: str
    """Where a text finds others."""


def choose(names: Sequence[str], *, q: str = "", current: str = "") -> Choices:
    """Return the first of these names that have a text; what is chosen now is listed with the first of all.

    Args:
        names: in their order.
        q: a part of the name, in any spelling.
        current: what is chosen now; empty, or no name of these, where nothing is.

    """
    fitting = [name for name in names if q.lower() in name.lower()]
    listed = dict.fromkeys(fitting[:MOST_CHOICES])
    if not q and current in names:
        listed.setdefault(current)
    return Choices(tuple(listed), len(fitting) - len(listed), q)
