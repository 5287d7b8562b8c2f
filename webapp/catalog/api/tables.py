"""Tables: parse → one service or query → answer."""

import hashlib
import threading
from collections import OrderedDict

from webapp.catalog import queries, services
from webapp.catalog.api.delegation import NONE, Delegation, delegate, without_shown
from webapp.catalog.api.http import JSON_TYPE, Call, CatalogResponse, answer, dump, empty
from webapp.catalog.api.pages import paged
from webapp.catalog.queries import TableView
from webapp.catalog.rules.commits import CommitRequest, CreateRequest
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.metadata import field, objects, with_legacy_fields
from webapp.catalog.rules.refs import TableRef, read_identifier
from webapp.catalog.storage import metadata_files

VARY = ("vary", "X-PLTR-Branch, Authorization")
CACHED_BODIES = 16 * 1024 * 1024


class _Bodies:
    """Rendered answers by ETag: an ETag names one content for ever."""

    def __init__(self, limit: int) -> None:
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._limit = limit
        self._lock = threading.Lock()

    def get(self, tag: str) -> bytes | None:
        with self._lock:
            found = self._bodies.get(tag)
            if found is not None:
                self._bodies.move_to_end(tag)
            return found

    def add(self, tag: str, body: bytes) -> None:
        with self._lock:
            if tag in self._bodies or len(body) > self._limit // 4:
                return
            self._bodies[tag] = body
            self._size += len(body)
            while self._size > self._limit:
                _, dropped = self._bodies.popitem(last=False)
                self._size -= len(dropped)


_bodies = _Bodies(CACHED_BODIES)


def list_tables(call: Call) -> CatalogResponse:
    """The tables of a namespace."""

    def fetch(after: str, limit: int | None) -> list[dict[str, object]]:
        names = queries.list_tables(call.namespace, by=call.by, after=after, limit=limit)
        return [{"namespace": call.namespace, "name": name} for name in names]

    return answer(paged(call, "identifiers", fetch, token_of=lambda item: str(item["name"])))


def create_table(call: Call) -> CatalogResponse:
    """Make a table, or stage one."""
    request = CreateRequest.parse(call.json())
    ref = TableRef(call.namespace, request.name, call.branch)
    return _render_for(call, ref, services.create_table(ref=ref, request=request, by=call.by, inside=call.inside))


def register_table(call: Call) -> CatalogResponse:
    """Take a table over from its metadata file."""
    body = call.json()
    ref = TableRef(call.namespace, field(body, "name", str), call.branch)
    location = field(body, "metadata-location", str)
    overwrite = field(body, "overwrite", bool) if body.get("overwrite") is not None else False
    view = services.register_table(
        ref=ref, metadata_location=location, overwrite=overwrite, by=call.by, inside=call.inside
    )
    return _render_for(call, ref, view)


def load_table(call: Call) -> CatalogResponse:
    """A table as the branch sees it; 304 where the client has this view already."""
    mode = call.query.get("snapshots", "all")
    if mode not in ("all", "refs"):
        message = f"Invalid snapshots parameter: {mode!r}"
        raise Malformed(message)
    view, delegated = delegate(call, call.table, queries.load_table(call.table, by=call.by))
    tag = etag(view, mode=mode, delegated=delegated)
    known = call.request.header("if-none-match")
    if known is not None and tag in [candidate.strip() for candidate in known.split(",")]:
        return CatalogResponse(304, b"", (("etag", tag), VARY))
    return render(view, mode=mode, delegated=delegated)


def table_exists(call: Call) -> CatalogResponse:
    """204 where there is one."""
    queries.locate(call.table, by=call.by)
    return empty()


def update_table(call: Call) -> CatalogResponse:
    """Commit updates."""
    request = without_shown(call, CommitRequest.parse(call.json(), branch=call.branch))
    view = services.commit_table(ref=call.table, request=request, by=call.by, inside=call.inside)
    return _render_for(call, call.table, view, with_config=False)


def show_named(call: Call) -> CatalogResponse:
    """The table that a request has made under the name in its body, as it is now."""
    ref = TableRef(call.namespace, field(call.json(), "name", str), call.branch)
    return _render_for(call, ref, queries.load_table(ref, by=call.by))


def show_committed(call: Call) -> CatalogResponse:
    """The table that a request has committed to, as it is now."""
    return _render_for(call, call.table, queries.load_table(call.table, by=call.by), with_config=False)


def commit_transaction_again(_call: Call) -> CatalogResponse:
    """A transaction has no answer but that it is done."""
    return empty()


def drop_table(call: Call) -> CatalogResponse:
    """Drop a table, with `purgeRequested=true` its files too."""
    purge = call.query.get("purgeRequested", "false").lower() == "true"
    services.drop_table_at(ref=call.table, purge=purge, by=call.by)
    return empty()


def unregister_table(call: Call) -> CatalogResponse:
    """Forget a table and say where its metadata is."""
    row = services.drop_table_at(ref=call.table, purge=False, by=call.by)
    metadata = metadata_files.read(row.metadata_location).metadata
    return answer({"metadata-location": row.metadata_location, "metadata": with_legacy_fields(metadata)})


def rename_table(call: Call) -> CatalogResponse:
    """Give a table another name."""
    body = call.json()
    source, target = read_identifier(body.get("source")), read_identifier(body.get("destination"))
    services.rename_table(source=source, target=target, by=call.by)
    return empty()


def report_metrics(call: Call) -> CatalogResponse:
    """Take a client's scan or commit report."""
    queries.locate(call.table, by=call.by)
    field(call.json(), "report-type", str)
    return empty()


def commit_transaction(call: Call) -> CatalogResponse:
    """Commit to several tables, all or none."""
    changes = [
        (read_identifier(change.get("identifier")), CommitRequest.parse(change))
        for change in objects(call.json(), "table-changes")
    ]
    services.commit_tables(changes=changes, by=call.by, inside=call.inside)
    return empty()


def etag(view: TableView, *, mode: str = "all", delegated: Delegation = NONE) -> str:
    """Names this content: a metadata file never changes, and the rest of the key says which view of it this is."""
    text = "\n".join((view.metadata_location or "", view.resolved_branch, view.key, mode, delegated.key))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def _render_for(call: Call, ref: TableRef, view: TableView, *, with_config: bool = True) -> CatalogResponse:
    view, delegated = delegate(call, ref, view)
    return render(view, with_config=with_config, delegated=delegated)


def render(
    view: TableView, *, mode: str = "all", with_config: bool = True, delegated: Delegation = NONE
) -> CatalogResponse:
    """A table in the specification's form."""
    headers = [JSON_TYPE, VARY]
    location = view.metadata_location
    if location is None:
        return answer({"metadata-location": None, "metadata": with_legacy_fields(view.metadata), **delegated.as_json()})
    tag = etag(view, mode=mode, delegated=delegated)
    headers.append(("etag", tag))
    end = b"," + dump(delegated.as_json())[1:] if with_config else b"}"
    start = b'{"metadata-location":' + dump(location) + b',"metadata":'
    if view.is_plain and mode == "all":
        return CatalogResponse(200, start + metadata_files.read(location).raw + end, headers)
    body = _bodies.get(tag)
    if body is None:
        body = dump(with_legacy_fields(_only_referenced(view) if mode == "refs" else view.metadata))
        _bodies.add(tag, body)
    return CatalogResponse(200, start + body + end, headers)


def _only_referenced(view: TableView) -> dict[str, object]:
    heads = {ref["snapshot-id"] for ref in view.metadata["refs"].values()}
    snapshots = [snapshot for snapshot in view.metadata["snapshots"] if snapshot["snapshot-id"] in heads]
    return {**view.metadata, "snapshots": snapshots}
