"""Requests and answers of the catalog, independent of the server that carries them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from webapp.catalog.queries import find_namespace
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.refs import BRANCH_HEADER, TableRef, read_branch, read_namespaces
from webapp.core import json_bytes
from webapp.core.principals import Principal

MAX_BODY = 64 * 1024 * 1024
JSON_TYPE = ("content-type", "application/json")


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """One request. `raw_path` is relative to the catalog's base and as sent; header names are in lower case."""

    method: str
    raw_path: str
    raw_query: str = ""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    address: str = ""
    """Of the client."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    def header_values(self, name: str) -> list[str]:
        """Return every value of a header, in the order sent."""
        return [value for key, value in self.headers if key == name]


@dataclass(frozen=True, slots=True)
class Repeat:
    """What it takes to give an answer once more."""

    until: datetime
    """From then on it is made anew, whatever has changed."""
    note: Callable[[], None] | None = None
    """Counts it."""


@dataclass(frozen=True, slots=True)
class CatalogResponse:
    """One answer."""

    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    lasts: bool = False
    """Whether it follows from request, database and metadata files alone: neither from the time, nor from other files."""
    repeat: Repeat | None = None
    """Set where the same request may have it again while the database is the same."""
    pause_s: float = 0
    """So long it is held back."""


@dataclass(slots=True)
class Call:
    """A request that is authenticated and routed: what handlers get."""

    request: CatalogRequest
    by: Principal
    variables: Mapping[str, str]
    branch: str | None
    query: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: CatalogRequest, *, by: Principal, variables: Mapping[str, str]) -> "Call":
        """Decode branch and query, once."""
        if request.header_values(BRANCH_HEADER.replace("-", "_")):
            message = (
                "The header of a branch is X-PLTR-Branch, with hyphens: with underscores it would be taken for none"
            )
            raise Malformed(message)
        branch = read_branch(request.header_values(BRANCH_HEADER))
        query = dict(parse_qsl(request.raw_query, keep_blank_values=True))
        return cls(request=request, by=by, variables=variables, branch=branch, query=query)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace in the path."""
        return find_namespace(read_namespaces(self.variables["namespace"]))

    @property
    def table(self) -> TableRef:
        """The table in the path, on the header's branch."""
        return TableRef(self.namespace, self.variables["table"], self.branch)

    @property
    def view(self) -> TableRef:
        """The view in the path."""
        return TableRef(self.namespace, self.variables["view"], self.branch)

    def json(self) -> dict[str, Any]:
        """Read the body, a JSON object."""
        try:
            parsed = json_bytes.load(self.request.body)
        except ValueError as error:
            message = "Cannot parse the request's body: not JSON"
            raise Malformed(message) from error
        if not isinstance(parsed, dict):
            message = "Cannot parse the request's body: not a JSON object"
            raise Malformed(message)
        return parsed


def answer(
    body: Any, *, status: int = 200, headers: Sequence[tuple[str, str]] = (), lasts: bool = False
) -> CatalogResponse:
    """Answer in JSON."""
    return CatalogResponse(status, dump(body), (JSON_TYPE, *headers), lasts)


def empty(*, status: int = 204) -> CatalogResponse:
    """Answer without a body."""
    return CatalogResponse(status)


def dump(body: Any) -> bytes:
    """Write JSON without spaces."""
    return json_bytes.dump(body)
