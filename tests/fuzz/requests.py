"""Requests at random to each part of the web: REST by its own document, pages, the catalog, and the bare protocol."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from urllib.parse import quote, urlencode
from uuid import UUID

from django.db import transaction
from django.test import Client

from tests.factories import datasets
from tests.factories.api_document import read_document
from tests.factories.everything import ROLES, World, list_pages
from tests.fuzz.values import HOSTILE_TEXTS, any_value, mutate_bytes, mutate_json, value_of, write_json
from webapp.accounts.rules.scopes import SCOPES
from webapp.catalog.api.handlers import handle
from webapp.catalog.api.http import CatalogRequest
from webapp.core import json_bytes

MOST_SHOWN = 400
FORM_FIELDS = (
    "name", "path", "branch", "message", "content", "title", "body", "source", "target", "verdict", "method", "rebuild",
    "expected_head", "draft", "user", "role", "form", "url", "events", "secret", "approvals", "groups", "pattern", "group",
    "targets", "fallback", "force", "mode", "transaction", "dataset", "key", "column", "place", "viewed", "anchor", "line",
    "side", "sides", "scope", "from", "to", "cursor", "limit", "page", "q", "sort", "change", "state", "data", "webhook",
    "username", "password", "current", "repeated", "act", "owner", "days", "color_mode", "light_theme", "parent", "next",
    "start_point", "description", "template", "csrfmiddlewaretoken", "ref", "base", "head", "after", "preview", "template",
    "actor", "verb", "outcome", "object", "since", "until", "tab", "view", "show", "start", "end", "keys", "bypass",
)  # fmt: skip
HEADERS = (
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "Accept",
    "HX-Request",
    "HX-Target",
    "X-Preload",
    "X-PLTR-Branch",
    "Cookie",
)
CONTENT_TYPES = (
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "",
    "é/x",
)


@dataclass
class Fuzz:
    """What is sent, and what went wrong."""

    world: World
    dice: random.Random
    pyiceberg: list[CatalogRequest]
    spark: list[CatalogRequest]
    wrong: list[str] = field(default_factory=list)
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    """How often each kind of request got which status."""

    @property
    def known(self) -> list[Any]:
        """Names and numbers that there are."""
        return [*self.world.values.values(), "fix", "/shop/raw", "/shop/clean", "a-writer", "shop.raw"]

    def run(self, count: int) -> None:
        """Send so many requests, each of a kind at random; what they do to the database is taken back."""
        kinds = {
            "REST": self.ask_api,
            "pages": self.ask_page,
            "PyIceberg": lambda: self.ask_catalog(self.pyiceberg),
            "Spark": lambda: self.ask_catalog(self.spark),
        }
        names = ["REST", *kinds]
        for _ in range(count):
            # The next request hangs on nothing but the seed and its number.
            self.dice = random.Random(self.dice.getrandbits(64))
            name = self.dice.choice(names)
            with transaction.atomic():
                shown, status = kinds[name]()
                transaction.set_rollback(True)
            self.statuses.setdefault(name, Counter())[status] += 1
            if status >= 500 and not _is_meant(shown, status):
                self.wrong.append(f"{status} {shown[:MOST_SHOWN]}")

    def ask_api(self) -> tuple[str, int]:
        """Call an operation of openapi.json with values of its schemas."""
        document = read_document()
        method, path = self.dice.choice(sorted(document.operations))
        operation = document.operations[method, path]
        schemas = document.raw["components"]["schemas"]
        address = self._fill(path)
        query = {
            parameter["name"]: value_of(parameter.get("schema", {}), schemas, self.dice, self.known)
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query" and self.dice.random() < 0.5
        }
        contents = operation.get("requestBody", {}).get("content", {})
        body = b""
        if contents:
            schema = next(iter(contents.values())).get("schema", {})
            body = write_json(value_of(schema, schemas, self.dice, self.known))
        if self.dice.random() < 0.1:
            body = mutate_bytes(body, self.dice)
        kind = "application/json" if self.dice.random() < 0.95 else self.dice.choice(CONTENT_TYPES)
        # Some operations, those of tokens among them, take nobody's token.
        role = self.dice.choice(ROLES[2:]) if self.dice.random() < 0.2 else ""
        headers = {} if role else self._authorize()
        return self._send(method, address + _write_query(query), body, kind, role=role, headers=headers)

    def ask_page(self) -> tuple[str, int]:
        """Open a page, or send a form to it."""
        address = self._fill(self.dice.choice([path for path in list_pages() if path != "/readyz"]))
        fields = {name: self._text() for name in self.dice.sample(FORM_FIELDS, self.dice.randrange(6))}
        role = self.dice.choice(ROLES)
        if self.dice.random() < 0.4:
            return self._send("GET", address + _write_query(fields), b"", "", role=role, headers={})
        body = _write_query(fields)[1:].encode()
        return self._send("POST", address, body, "application/x-www-form-urlencoded", role=role, headers={})

    def ask_catalog(self, traffic: list[CatalogRequest]) -> tuple[str, int]:
        """Send what a client sent, with something in it changed."""
        sent = self.dice.choice(traffic)
        path, query, body = sent.raw_path, sent.raw_query, sent.body
        headers = [(name, value) for name, value in sent.headers if name not in ("authorization", "idempotency-key")]
        if len(headers) < len(sent.headers) - 1 or self.dice.random() < 0.2:
            headers.append(("idempotency-key", str(UUID(int=self.dice.getrandbits(128), version=4))))
        headers.append(("authorization", f"Bearer {self.world.secrets[self.dice.choice(ROLES[1:]), '']}"))
        act = self.dice.randrange(9)
        if act == 0:
            path = mutate_bytes(path.encode(), self.dice).decode("latin-1")
        elif act == 1:
            query = _write_query({self.dice.choice(("pageToken", "pageSize", "parent", "snapshots")): self._text()})[1:]
        elif act == 2:
            body = mutate_bytes(body, self.dice)
        elif act == 3:
            name = self.dice.choice(
                ("x-pltr-branch", "idempotency-key", "if-none-match", "content-length", "authorization")
            )
            headers = [*headers, (name, self._text())]
        elif body and act < 8:
            try:
                body = write_json(mutate_json(json_bytes.load(body), self.dice))
            except ValueError:
                body = mutate_bytes(body, self.dice)
        headers = [
            (name, str(len(body)) if name == "content-length" and act != 3 else value) for name, value in headers
        ]
        request = CatalogRequest(sent.method, path, query, headers, body)
        shown = f"catalog {request.method} {path}?{query} {headers[-1]} {body!r}"
        try:
            return shown, handle(request).status
        except Exception as error:  # noqa: BLE001 - whatever leaves the handlers is what is looked for
            return f"{shown[:200]} {error!r}", 500

    def _send(
        self, method: str, address: str, body: bytes, kind: str, *, headers: dict[str, str], role: str = ""
    ) -> tuple[str, int]:
        client = Client(raise_request_exception=False)
        if role:
            client.force_login(self.world.users[role])
        if self.dice.random() < 0.15:
            headers = {**headers, self.dice.choice(HEADERS): self._header()}
        shown = f"{method} {address} as {role or 'a token'} {headers} {body!r}"
        try:
            answer = client.generic(method, address, body, kind, headers=headers)
            if answer.streaming:
                b"".join(answer)
        except Exception as error:  # noqa: BLE001 - whatever leaves the handlers is what is looked for
            return f"{shown[:300]} {error!r}", 500
        if answer.status_code == 503 and answer.get("Content-Type", "").endswith("json"):
            shown = f"{answer.json().get('code')}: {shown}"
        return shown, answer.status_code

    def _authorize(self) -> dict[str, str]:
        if self.dice.random() < 0.05:
            return {"Authorization": f"{self.dice.choice(('Basic', 'Bearer', ''))} {self._header()}"}
        return self.world.bearer(self.dice.choice(ROLES[2:]), self.dice.choice(("", "", *SCOPES)))

    def _fill(self, path: str) -> str:
        if self.dice.random() < 0.7:
            return quote(self.world.address(path), safe="/")
        return re.sub(r"\{\w+\}", lambda _: quote(self._text().encode("utf-8", "surrogatepass"), safe="/"), path)

    def _text(self) -> str:
        return str(
            self.dice.choice((self.dice.choice(HOSTILE_TEXTS), self.dice.choice(self.known), any_value(self.dice)))
        )

    def _header(self) -> str:
        return re.sub(r"[\r\n]", "", self._text()).encode("utf-8", "surrogatepass").decode("latin-1")


def _write_query(fields: dict[str, Any]) -> str:
    pairs = [(name, str(value).encode("utf-8", "surrogatepass")) for name, value in fields.items()]
    return f"?{urlencode(pairs)}" if pairs else ""


def _is_meant(shown: str, status: int) -> bool:
    """Whether it is as it should be: an operation that the catalog does not list."""
    return status == 501 and shown.startswith("catalog")


@contextmanager
def recording() -> Iterator[list[CatalogRequest]]:
    """Keep every request that PyIceberg sends in this process."""
    sent: list[CatalogRequest] = []

    def keep(request: CatalogRequest) -> Any:
        sent.append(request)
        return handle(request)

    with mock.patch("webapp.catalog.api.handlers.handle", keep):
        yield sent


def record_pyiceberg(world: World) -> list[CatalogRequest]:
    """What PyIceberg sends while it makes, writes, evolves, reads, renames and drops a table, on master and a branch."""
    import pyarrow as pa

    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    with recording() as sent:
        for branch in ("", "fix"):
            catalog = datasets.a_pyiceberg(world.users["admin"], branch)
            catalog.create_namespace_if_not_exists("shop")
            table = catalog.create_table(f"shop.fuzz{len(branch)}", schema=rows.schema)
            table.append(rows)
            table.overwrite(rows)
            with table.update_schema() as update:
                update.add_column("more", table.schema().find_type("id"))
            with table.update_spec() as update_spec:
                update_spec.add_identity("name")
            with table.transaction() as changing:
                changing.set_properties(owner="ines")
            with table.manage_snapshots() as snapshots:
                snapshots.create_tag(table.metadata.current_snapshot_id, f"kept{len(branch)}")
            table.scan(row_filter="id > 1").to_arrow()
            catalog.list_tables("shop")
            catalog.list_namespaces()
            catalog.load_namespace_properties("shop")
            if not branch:
                catalog.update_namespace_properties("shop", updates={"a": "b"})
                catalog.rename_table("shop.fuzz0", "shop.fuzz")
                catalog.drop_table("shop.fuzz")
    return sent
