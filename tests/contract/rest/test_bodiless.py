"""What an address says by itself is told by no body: one with a content is refused, and a long one before it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from tests.factories.api_document import read_document
from tests.factories.everything import World, list_operations, make_world
from webapp.core.api import BLANK_BYTES
from webapp.core.errors import BadRequest
from webapp.runtime.web.limits import find_body_limit

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
BODILESS = [
    (method, path)
    for method, path in list_operations()
    if method in ("POST", "PUT") and "requestBody" not in read_document().operations[method, path]
]
BLANK = [
    (b"", "application/json"),
    (b"{}", "application/json"),
    (b"", "application/x-www-form-urlencoded"),
    (b"--boundary--\r\n", "multipart/form-data; boundary=boundary"),
]
FULL = [
    (b'{"a": 1}', "application/json"),
    (b"[]", "application/json"),
    (b"a=1", "application/x-www-form-urlencoded"),
    (b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n', "multipart/form-data; boundary=b"),
    (b"\xff", "text/plain"),
    (json.dumps({"a": "b" * BLANK_BYTES}).encode(), "application/json"),
]


@pytest.fixture
def world(home: Path) -> World:
    return make_world()


def test_what_is_sent_where_nothing_is_taken_is_refused(world: World) -> None:
    assert len(BODILESS) >= 16
    headers = world.bearer("admin", "")
    for method, path in BODILESS:
        address = world.address(path)
        for content, kind in FULL:
            answer = Client().generic(method, address, content, kind, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "body_not_taken"), (method, path, content)
        with pytest.raises(BadRequest, match="takes no body"):
            find_body_limit(address)
        assert Client().generic(method, address, b"x", "text/plain").status_code == 401, (method, path)


def test_an_empty_object_or_form_is_no_content(world: World) -> None:
    path, headers = world.address("/api/v1/repositories/{repo}/watch"), world.bearer("reader", "")
    for content, kind in BLANK:
        answer = Client().generic("PUT", path, content, kind, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {"watching": True}), (content, kind)


def test_every_other_operation_takes_one(world: World) -> None:
    others = [
        world.address(path)
        for method, path in list_operations()
        if method in ("POST", "PUT", "PATCH") and (method, path) not in BODILESS
    ]
    assert len(others) > 40
    assert [address for address in others if not find_body_limit(address)] == []
