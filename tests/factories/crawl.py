"""A reader who opens every page and follows every link, and a program that asks for everything that there is to read."""

from __future__ import annotations

import io
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pyarrow.parquet as pq
from django.test import Client
from django.urls import Resolver404, resolve

from tests.factories.api_document import read_document
from tests.factories.everything import World, list_operations, list_pages

LINKS = ("href", "hx-get", "data-url", "src", "data-href")
UNREAD = ("/static/", "/events/", "/logout")
MOST_OF_A_KIND = 1
"""So many addresses of one route with the same parameters are opened at most, beside those of the table."""
MOST_OF_A_ROUTE = 20
"""And so many with any: each link of a table of rows adds a parameter to those that are there, and a way to the next."""


@dataclass
class Markup(HTMLParser):
    """What stands in a page: each element with its attributes."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def read(cls, text: str) -> Markup:
        markup = cls()
        markup.feed(text)
        markup.close()
        return markup

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def list_links(self) -> Iterator[str]:
        for _tag, attributes in self.elements:
            yield from (attributes[name] for name in LINKS if name in attributes)


@dataclass(frozen=True)
class Answer:
    """What came back from an address."""

    address: str
    status: int
    headers: Any
    content: bytes

    @property
    def is_page(self) -> bool:
        """Whether it is HTML."""
        return str(self.headers.get("Content-Type", "")).startswith("text/html")

    @cached_property
    def markup(self) -> Markup:
        """What stands in it, where it is a page."""
        return Markup.read(self.content.decode("utf-8", "replace"))

    @cached_property
    def text(self) -> str:
        """Everything that can be read in it, headers too; the rows of a Parquet file as text."""
        head = "\n".join(f"{name}: {value}" for name, value in self.headers.items())
        if self.content.startswith(b"PAR1"):
            return f"{head}\n{pq.read_table(io.BytesIO(self.content)).to_pylist()}"
        return f"{head}\n{self.content.decode('utf-8', 'replace')}"


def ask(client: Client, address: str, **headers: str) -> Answer:
    """Ask for an address and read the answer to its end."""
    answer = client.get(address, headers=headers)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
    return Answer(address, answer.status_code, answer.headers, content)


def crawl(client: Client, world: World, *, more: Iterable[str] = ()) -> Iterator[Answer]:
    """Open every page that there is and whatever it links to, as far as that is ours."""
    waiting = deque([*(world.address(path) for path in list_pages()), *more])
    seen, kinds = set(waiting), Counter[str]()
    while waiting:
        answer = ask(client, waiting.popleft())
        yield answer
        if not answer.is_page:
            continue
        for link in answer.markup.list_links():
            address = _own(urljoin(answer.address, link))
            if not address or address in seen:
                continue
            route, kind = _find_kind(address)
            if kinds[kind] < MOST_OF_A_KIND and kinds[route] < MOST_OF_A_ROUTE:
                seen.add(address)
                kinds.update((route, kind))
                waiting.append(address)


def _own(address: str) -> str:
    """The address without what the server never sees; empty where it is not ours to read."""
    parts = urlsplit(address)
    is_ours = not parts.scheme and not parts.netloc and not parts.path.startswith(UNREAD)
    return parts._replace(fragment="").geturl() if is_ours and parts.path.startswith("/") else ""


def _find_kind(address: str) -> tuple[str, str]:
    """Which route an address has, and with which parameters."""
    parts = urlsplit(address)
    try:
        name = str(resolve(parts.path).url_name)
    except Resolver404:
        return f"{parts.path} ", parts.path
    return name, f"{name}?{'&'.join(sorted(part.partition('=')[0] for part in parts.query.split('&')))}"


def ask_everything(world: World, role: str, *, queries: Iterable[str] = ("",), **values: Any) -> Iterator[Answer]:
    """Ask for everything that the REST API answers to a reading request, by a token of somebody with a role.

    With each of the queries that has a parameter of the operation, without the others, which it would refuse.
    """
    before = dict(world.values)
    world.values |= values
    client = Client(raise_request_exception=False)
    try:
        for method, path in list_operations():
            for query in queries if method == "GET" else ():
                parameters = _select_documented(path, query)
                if not query or parameters:
                    yield ask(client, f"{world.address(path)}?{parameters}", **world.bearer(role, ""))
    finally:
        world.values.clear()
        world.values.update(before)


def _select_documented(path: str, query: str) -> str:
    """Return the part of a query that an operation which reads takes."""
    parameters = read_document().operations["GET", path].get("parameters", ())
    names = {parameter["name"].removesuffix("<column>") for parameter in parameters if parameter["in"] == "query"}
    # Of `key.id` the name is `key.`.
    return urlencode([pair for pair in parse_qsl(query[1:]) if {pair[0], pair[0].partition(".")[0] + "."} & names])
