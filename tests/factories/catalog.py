"""Tables for tests: metadata made by the real rules, commits as a client would send them, and the catalog without a server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from webapp.catalog.rules import commits, lens
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.commits import CommitRequest, CreateRequest
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import current_snapshot_id, schema_of

LOCATION = "file:///warehouse/shop/orders-00000000"
NOW = 1_790_000_000_000
_numbers = itertools.count(1_000_000)


def field(number: int, name: str, kind: Any = "long", *, required: bool = False) -> dict[str, Any]:
    """One column."""
    return {"id": number, "name": name, "required": required, "type": kind}


def schema(*fields: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """A schema; by default one with the columns id and name."""
    columns = list(fields) or [field(1, "id"), field(2, "name", "string")]
    return {"type": "struct", "fields": columns, **extra}


def snapshot(view: Metadata, *, operation: str = "append", **extra: Any) -> dict[str, Any]:
    """A snapshot as a writer that has seen the view would make it."""
    number = next(_numbers)
    folder = view["properties"].get("write.metadata.path", f"{view['location']}/metadata")
    made = {
        "snapshot-id": number,
        "parent-snapshot-id": current_snapshot_id(view),
        "sequence-number": view["last-sequence-number"] + 1,
        "timestamp-ms": NOW,
        "manifest-list": f"{folder}/snap-{number}.avro",
        "summary": {"operation": operation},
        "schema-id": view["current-schema-id"],
        **extra,
    }
    if view["format-version"] >= 3:
        made |= {"first-row-id": view["next-row-id"], "added-rows": 1} | extra
    return {key: value for key, value in made.items() if value is not None}


def make_table(*fields: dict[str, Any], branch: str | None = None, version: int = 2, **properties: str) -> Metadata:
    """Metadata of a new table, on main or on a branch."""
    request = CreateRequest.parse(
        {"name": "orders", "schema": schema(*fields), "properties": {"format-version": str(version), **properties}}
    )
    updates = commits.creation_updates(request, None)
    return commits.create(
        CommitRequest((), updates, branch), uuid="uuid-1", location=LOCATION, version=version, now_ms=NOW
    )


def change(
    metadata: Metadata,
    *updates: dict[str, Any],
    branch: str | None = None,
    requirements: Iterable[dict[str, Any]] = (),
    chain: tuple[str, ...] = (MASTER,),
) -> Metadata:
    """The metadata after a commit."""
    return commits.commit(metadata, CommitRequest(list(requirements), updates, branch, chain), now_ms=NOW)


def append(metadata: Metadata, branch: str | None = None, *, ref: str = "main", **extra: Any) -> Metadata:
    """The metadata after an append on a branch, as clients send it: requirement, snapshot, ref."""
    view = lens.get(metadata, branch or MASTER)
    seen = view["refs"].get(ref, {}).get("snapshot-id")
    made = snapshot(view, **{"parent-snapshot-id": seen, **extra})
    return change(
        metadata,
        {"action": "add-snapshot", "snapshot": made},
        set_ref(ref, made["snapshot-id"]),
        branch=branch,
        requirements=[{"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": seen}],
    )


def set_ref(name: str, number: int, kind: str = "branch", **extra: Any) -> dict[str, Any]:
    """An update that sets a ref."""
    return {"action": "set-snapshot-ref", "ref-name": name, "snapshot-id": number, "type": kind, **extra}


def add_column(view: Metadata, name: str, kind: str = "long") -> list[dict[str, Any]]:
    """The updates by which a client adds a column to what it sees."""
    current = schema_of(view, view["current-schema-id"])
    columns = [*current["fields"], field(view["last-column-id"] + 1, name, kind)]
    return set_schema(schema(*columns))


def set_schema(new: dict[str, Any]) -> list[dict[str, Any]]:
    """The updates that make a schema current."""
    return [{"action": "add-schema", "schema": new}, {"action": "set-current-schema", "schema-id": -1}]


def columns(metadata: Metadata, branch: str = MASTER, chain: tuple[str, ...] = (MASTER,)) -> list[str]:
    """The column names that a branch sees."""
    view = lens.get(metadata, branch, chain)
    return [item["name"] for item in schema_of(view, view["current-schema-id"])["fields"]]


def head(metadata: Metadata, branch: str = MASTER) -> int | None:
    """The head that a branch sees."""
    return current_snapshot_id(lens.get(metadata, branch))


@dataclass
class Answer:
    """What the catalog answered."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def metadata(self) -> Metadata:
        """The table in the answer."""
        found: Metadata = self.body["metadata"]
        return found

    @property
    def error(self) -> tuple[str, str]:
        """Type and message of the error in the answer."""
        return self.body["error"]["type"], self.body["error"]["message"]


class Catalog:
    """The catalog's handlers without a server, with one token and one branch header."""

    def __init__(self, token: str, branch: str | None = None) -> None:
        self.token = token
        self.branch = branch

    def on(self, branch: str | None) -> Catalog:
        """The same caller on another branch."""
        return Catalog(self.token, branch)

    def call(
        self, method: str, path: str, body: Any = None, *, query: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request; `path` is below `/v1/` and sent as it is."""
        from webapp.catalog.api.handlers import handle
        from webapp.catalog.api.http import CatalogRequest

        sent = [("authorization", f"Bearer {self.token}"), *(headers or {}).items()]
        if self.branch is not None:
            sent.append(("x-pltr-branch", self.branch))
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        got = handle(CatalogRequest(method, f"/v1/{path}", query, sent, raw))
        return Answer(got.status, dict(got.headers), json.loads(got.body) if got.body else None)

    def create_namespace(self, *levels: str) -> Answer:
        """Make a namespace."""
        return self.call("POST", "namespaces", {"namespace": list(levels)})

    def create_table(self, table: str, *fields: dict[str, Any], **body: Any) -> Answer:
        """Make a table."""
        path, name = _split(table)
        return self.call("POST", f"{path}/tables", {"name": name, "schema": schema(*fields), **body})

    def load(self, table: str, query: str = "", **headers: str) -> Answer:
        """Load a table."""
        return self.call("GET", table_path(table), query=query, headers=headers)

    def commit(self, table: str, *updates: dict[str, Any], requirements: Iterable[dict[str, Any]] = ()) -> Answer:
        """Commit to a table."""
        return self.call("POST", table_path(table), {"requirements": list(requirements), "updates": list(updates)})

    def append(self, table: str, **extra: Any) -> Answer:
        """Append to a table as a client would: load, then commit on what was seen."""
        view = self.load(table).metadata
        seen = view["refs"].get("main", {}).get("snapshot-id")
        made = snapshot(view, **{"timestamp-ms": view["last-updated-ms"], **extra})
        return self.commit(
            table,
            {"action": "add-snapshot", "snapshot": made},
            set_ref("main", made["snapshot-id"]),
            requirements=[{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": seen}],
        )


def table_path(table: str) -> str:
    """`namespaces/a%1Fb/tables/c` of `a.b.c`."""
    path, name = _split(table)
    return f"{path}/tables/{quote(name, safe='')}"


def _split(table: str) -> tuple[str, str]:
    *levels, name = table.split(".")
    return "namespaces/" + "%1F".join(quote(level, safe="") for level in levels), name
