"""Secrets that went through every form and every operation, looked for in all that is kept and all that is shown."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings as configured
from django.test import Client

from tests.factories.api_document import read_document
from tests.factories.crawl import ask_everything, crawl
from tests.factories.everything import BODIES, Upload, World, list_operations, make_world
from tests.factories.forms import list_forms, send
from tests.factories.rows import list_tables, read_rows

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PASSWORD = "canary-Password-of-nobody-4711"
HOOK = "canary-secret-of-a-webhook-4711"
UNBROKEN = re.compile(r"\S{8,}")
"""No spelling of a secret has a space in it."""
MEMBERS = ("password", "current_password", "current", "repeated", "secret", "webhook-secret")


@pytest.fixture
def world(readers: Path) -> World:
    return make_world()


def list_spellings(secret: str) -> Iterator[str]:
    """How a secret may stand somewhere: as it is, in an address, in a header, in JSON, as a hash without salt."""
    raw = secret.encode()
    yield from (secret, quote(secret, safe=""), base64.b64encode(raw).decode().rstrip("="), raw.hex(), secret[::-1])
    yield base64.b64encode(b":" + raw).decode().rstrip("=")[4:]
    yield hashlib.md5(raw).hexdigest()  # noqa: S324 - looked for, not used


def find_secrets(secrets: Iterable[str], texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Where which of them stands in any spelling; what many pages share is looked at once."""
    first: dict[str, str] = {}
    for where, text in texts:
        for run in UNBROKEN.findall(text):
            first.setdefault(run, where)
    spellings = {spelling: secret for secret in secrets for spelling in list_spellings(secret)}
    assert all(UNBROKEN.fullmatch(spelling) for spelling in spellings), "it would never be found"
    everything = "\n".join(first)
    standing = [spelling for spelling in spellings if spelling in everything]
    return [(first[run], spellings[it]) for it in standing for run in first if it in run]


def send_forms(world: World) -> None:
    """Each form, whatever is secret in it a canary."""
    for form in list_forms(world):
        if form.verb == "delete_repository":
            break
        fields = {name: PASSWORD if name in MEMBERS else value for name, value in form.fields.items()}
        fields |= {"webhook-secret": HOOK} if form.verb == "add_webhook" else {}
        for sent in (fields, {**fields, "username": "", "current": PASSWORD}):
            form.fields = sent
            assert send(form).status_code < 500, form


def send_bodies(world: World) -> list[str]:
    """Each operation with canaries for what is secret; returns the secrets that were told once."""
    tokens = []
    basic = {"Authorization": "Basic " + base64.b64encode(f"mira:{PASSWORD}".encode()).decode()}
    let_in = [world.bearer("admin", ""), basic]
    for method, path in list_operations():
        base = BODIES.get(f"{method} {path}", {})
        if method in ("GET", "DELETE") or isinstance(base, Upload):
            continue
        canaries = {"name": "canary", **base, "password": PASSWORD, "current_password": PASSWORD, "secret": HOOK}
        # A body with a canary that its operation does not know is refused; one of known members goes through.
        members = list_members(method, path)
        known = {name: value for name, value in canaries.items() if name in members}
        bodies = [json.dumps(body).encode() for body in (canaries, *([known] if members else []))]
        for body, headers in product(bodies, (*let_in, {"Authorization": f"Bearer {PASSWORD}"})):
            # Only what those are told who are let in is kept for a repetition.
            key = f"{len(body)} {method} {path} {headers}"[:60]
            keyed = [{**headers, "Idempotency-Key": key}] if headers in let_in else []
            for sent in (headers, *keyed):
                answer = Client(raise_request_exception=False).generic(
                    method, world.address(path), body, "application/json", headers=sent
                )
                assert answer.status_code < 500, (method, path)
                if path.endswith("/tokens") and answer.status_code == 201:
                    tokens.append(answer.json()["token"])
    return tokens


def list_members(method: str, path: str) -> list[str]:
    """List the members that an operation's body can have."""
    document = read_document()
    content = document.operations[method, path].get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return []
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return list(document.raw["components"]["schemas"][name]["properties"])


def list_kept(home: Path) -> Iterator[tuple[str, str]]:
    """Everything that is kept: the rows of the database, and the files of the home but the key itself."""
    for table in list_tables():
        yield from ((f"table {table}", row) for row in read_rows(table))
    for path in home.rglob("*"):
        if path.is_file() and path.name != "secret-key":
            yield str(path), path.read_bytes().decode("utf-8", "replace")


def test_no_secret_is_kept_or_shown(world: World, home: Path, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG, logger="webapp"), caplog.at_level(logging.INFO, logger="django"):
        send_forms(world)
        tokens = send_bodies(world)
        client = Client(raise_request_exception=False)
        client.force_login(world.users["admin"])
        shown = [(answer.address, answer.text) for answer in crawl(client, world)]
        shown += [(answer.address, answer.text) for answer in ask_everything(world, "admin")]
    assert tokens, "no token was made by name and password"
    session = client.cookies[configured.SESSION_COOKIE_NAME].value
    never = [PASSWORD, HOOK, *tokens, *world.secrets.values(), configured.SECRET_KEY]
    texts = [*shown, *list_kept(home), ("the log", caplog.text)]
    assert find_secrets(never, texts) == []
    assert [where for where, text in [*shown, ("the log", caplog.text)] if session in text] == []
    assert len(shown) > 150
