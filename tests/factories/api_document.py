"""The API's own description, and a check of every answer of the REST API against it."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator

PREFIX = "/api/v1"
PROBLEM = "application/problem+json"
METHODS = ("get", "post", "put", "patch", "delete")
OWN_DOCUMENTS = (f"{PREFIX}/openapi.json", f"{PREFIX}/docs")


@dataclass(frozen=True)
class Answer:
    """What came back, however it was asked."""

    method: str
    path: str
    status: int
    media: str
    content: bytes | None
    """None where it is a stream that the test itself reads."""


@dataclass(eq=False)
class ApiDocument:
    """openapi.json, made strict: an answer with a member that is not described is wrong."""

    raw: dict[str, Any]
    answered: set[tuple[str, str, str]] = field(default_factory=set)
    """Method, path and status of what was seen and found right."""

    def __post_init__(self) -> None:
        self.definitions = _strict(self.raw["components"]["schemas"])
        self.routes = [(_pattern(path), path) for path in sorted(self.raw["paths"], key=_generality)]

    @functools.cached_property
    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Method and path → operation."""
        return {
            (method.upper(), path): operation
            for path, item in self.raw["paths"].items()
            for method, operation in item.items()
            if method in METHODS
        }

    def find_path(self, path: str) -> str | None:
        """Return the described path that an address belongs to."""
        return next((found for pattern, found in self.routes if pattern.fullmatch(path)), None)

    def check(self, answer: Answer) -> None:
        """Fail where an answer is not what the document says of it."""
        path = self.find_path(answer.path)
        operation = self.operations.get((answer.method, path or ""))
        if answer.status == 304 or answer.path in OWN_DOCUMENTS or answer.method in {"HEAD", "OPTIONS"}:
            return
        if path is None or operation is None or answer.status == 500:
            assert answer.status in {401, 403, 404, 405, 415, 500}, f"{answer} belongs to no described operation"
            self._validate(answer, {"$ref": "#/$defs/Problem"})
            return
        described = operation["responses"].get(str(answer.status))
        assert described is not None, f"{answer}: {operation['operationId']} has only {list(operation['responses'])}"
        content = described.get("content", {})
        assert (answer.media in content) if content else not answer.content, f"{answer} is not one of {list(content)}"
        if answer.media.endswith("json"):
            self._validate(answer, content[answer.media]["schema"])
        self.answered.add((answer.method, path, str(answer.status)))

    def _validate(self, answer: Answer, schema: dict[str, Any]) -> None:
        assert answer.content, f"{answer} is empty"
        if schema.get("$ref", "").endswith("/Problem"):
            assert answer.media == PROBLEM, f"{answer} is no problem document"
        found = json.loads(answer.content)
        validator = _make_validator(self, json.dumps(schema).replace("#/components/schemas/", "#/$defs/"))
        errors = [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(found)]
        assert not errors, f"{answer.method} {answer.path} {answer.status} is not as described: {errors[:5]}"


@functools.cache
def _make_validator(document: ApiDocument, schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "$defs": document.definitions})


def _strict(schemas: dict[str, Any]) -> dict[str, Any]:
    moved: dict[str, Any] = json.loads(json.dumps(schemas).replace("#/components/schemas/", "#/$defs/"))
    for name, schema in moved.items():
        if "properties" in schema and name != "Problem":
            schema["additionalProperties"] = False
    return moved


def _generality(path: str) -> tuple[int, str]:
    return path.count("{"), path


def _pattern(path: str) -> re.Pattern[str]:
    whole = ("branch", "path")
    parts = re.split(r"\{(\w+)\}", path)
    return re.compile(
        "".join(
            re.escape(part) if index % 2 == 0 else ".+" if part in whole else r"\d+" if _is_number(part) else "[^/]+"
            for index, part in enumerate(parts)
        )
    )


def _is_number(parameter: str) -> bool:
    return parameter.endswith("_id") and parameter != "job_id" or parameter == "number"


@functools.cache
def read_document() -> ApiDocument:
    """Make the document as the API serves it."""
    from drf_spectacular.generators import SchemaGenerator

    return ApiDocument(SchemaGenerator().get_schema(request=None, public=True))


OF_OTHER_RELEASES: set[str] = set()
"""Hosts and ports whose answers another document describes."""


@contextlib.contextmanager
def checking_answers() -> Iterator[None]:
    """Check every answer of the REST API that a test sees, through Django's client or over HTTP."""
    import requests
    from django.test import Client

    ask_django, ask_server = Client.request, requests.Session.send

    def request(client: Client, **environ: Any) -> Any:
        response = ask_django(client, **environ)
        _check(
            environ.get("REQUEST_METHOD", "GET"),
            environ["PATH_INFO"],
            response.status_code,
            response.get("Content-Type", ""),
            None if response.streaming else response.content,
        )
        return response

    def send(session: requests.Session, prepared: requests.PreparedRequest, **more: Any) -> requests.Response:
        response = ask_server(session, prepared, **more)
        url = urlsplit(str(prepared.url))
        content = None if more.get("stream") else response.content
        media = response.headers.get("Content-Type", "")
        if url.netloc not in OF_OTHER_RELEASES:
            _check(str(prepared.method), url.path, response.status_code, media, content)
        return response

    with mock.patch.object(Client, "request", request), mock.patch.object(requests.Session, "send", send):
        yield


def _check(method: str, path: str, status: int, media: str, content: bytes | None) -> None:
    if path.startswith(f"{PREFIX}/"):
        media = media.partition(";")[0].strip()
        read_document().check(Answer(method, path, status, media, content))
