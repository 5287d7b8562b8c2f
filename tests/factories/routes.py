"""The table of addresses with the types of its variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import PathConverter, StringConverter

_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True)
class Route:
    """An address with variables in braces."""

    address: str
    texts: tuple[str, ...]
    """Its variables that take any text."""


def list_routes(resolver: Any = None, prefix: str = "") -> Iterator[Route]:
    """Every address that Django answers, pages and endpoints alike."""
    for pattern in (resolver or get_resolver()).url_patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from list_routes(pattern, address)
        elif isinstance(pattern, URLPattern) and "^" not in address:
            converters = pattern.pattern.converters
            texts = [name for name, one in converters.items() if isinstance(one, (StringConverter, PathConverter))]
            yield Route("/" + _VARIABLE.sub(r"{\1}", address), tuple(texts))


def share_out(values: Sequence[str], *, number: int, of: int) -> Sequence[str]:
    """One of so many shares of the values: those who take turns by their number take all of them together."""
    return values[number % of :: of]
