"""Questions asked once: only while a request that reads is handled, and by no other request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from webapp.core.once import AskOnceMiddleware, asked_once, is_asking_once

asked: list[tuple[str, int]] = []


@asked_once
def find_role(name: str, *, place: int = 0) -> str:
    asked.append((name, place))
    return f"role of {name}"


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()


def answer(request: HttpRequest) -> HttpResponse:
    names = [find_role("ada"), find_role("ada"), find_role("bob"), find_role("ada", place=1)]
    return HttpResponse(", ".join(names))


@pytest.mark.parametrize(("method", "times"), [("GET", 1), ("HEAD", 1), ("POST", 2), ("DELETE", 2)])
def test_reading_asks_once_and_writing_anew(method: str, times: int) -> None:
    response = AskOnceMiddleware(answer)(RequestFactory().generic(method, "/"))
    assert response.content.decode().startswith("role of ada, role of ada, role of bob")
    assert asked.count(("ada", 0)) == times
    assert asked.count(("bob", 0)) == asked.count(("ada", 1)) == 1


def test_next_request_asks_anew() -> None:
    serve = AskOnceMiddleware(answer)
    for _ in range(2):
        serve(RequestFactory().get("/"))
    assert asked.count(("ada", 0)) == 2
    assert not is_asking_once()


def test_stream_asks_anew_though_its_request_only_reads() -> None:
    def stream() -> Iterator[str]:
        for _ in range(2):
            yield find_role("ada")

    def serve(_request: HttpRequest) -> StreamingHttpResponse:
        find_role("ada")
        return StreamingHttpResponse(stream())

    response = AskOnceMiddleware(serve)(RequestFactory().get("/"))
    assert b"".join(response.streaming_content)
    assert len(asked) == 3


def test_refusal_ends_it_too() -> None:
    def refuse(_request: HttpRequest) -> HttpResponse:
        raise PermissionError

    with pytest.raises(PermissionError):
        AskOnceMiddleware(refuse)(RequestFactory().get("/"))
    assert not is_asking_once()
