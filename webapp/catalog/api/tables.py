"""Tables: parse → one service or query → answer."""

import hashlib
from collections.abc import Iterable

from django.db import transaction

from webapp.catalog import queries, services
from webapp.catalog.api.delegation import NONE, Delegation, delegate, without_shown
from webapp.catalog.api.http import JSON_TYPE, Call, CatalogResponse, answer, empty
from webapp.catalog.api.pages import paged
from webapp.catalog.permissions import check_files
from webapp.catalog.queries import TableView
from webapp.catalog.rules.commits import CommitRequest, CreateRequest
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.metadata import field, objects, with_legacy_fields
from webapp.catalog.rules.readable import MINUTE_MS
from webapp.catalog.rules.refs import TableRef, read_identifier
from webapp.catalog.services.swaps import now_ms
from webapp.catalog.storage import metadata_files, rendered

LONGEST_STAMP = 15
"""Digits of a time in milliseconds: thirty thousand years."""
VARY = ("vary", "X-PLTR-Branch, Authorization")


def list_tables(call: Call) -> CatalogResponse:
    """List the tables of a namespace."""
    namespace = call.namespace

    def fetch(after: str, limit: int | None) -> list[dict[str, object]]:
        names = queries.list_tables(namespace, by=call.by, after=after, limit=limit)
        return [{"namespace": namespace, "name": name} for name in names]

    return answer(paged(call, "identifiers", fetch, token_of=lambda item: str(item["name"])), lasts=True)


def create_table(call: Call) -> CatalogResponse:
    """Make a table, or stage one."""
    request = CreateRequest.parse(call.json())
    ref = TableRef(call.namespace, request.name, call.branch)
    return _render_for(call, ref, services.create_table(ref=ref, request=request, by=call.by))


def register_table(call: Call) -> CatalogResponse:
    """Take a table over from its metadata file."""
    body = call.json()
    ref = TableRef(call.namespace, field(body, "name", str), call.branch)
    location = field(body, "metadata-location", str)
    overwrite = field(body, "overwrite", bool) if body.get("overwrite") is not None else False
    view = services.register_table(ref=ref, metadata_location=location, overwrite=overwrite, by=call.by)
    return _render_for(call, ref, view)


def load_table(call: Call) -> CatalogResponse:
    """Return a table as the branch sees it; 304 where the client has this view already."""
    mode = call.query.get("snapshots", "all")
    if mode not in ("all", "refs"):
        message = f"Invalid snapshots parameter: {mode!r}"
        raise Malformed(message)
    ref, row = queries.locate(call.table, by=call.by)
    delegated = delegate(call, call.table, row.location)
    header = call.request.header("if-none-match")
    tags = frozenset(tag.strip() for tag in header.split(",")) if header is not None else frozenset()
    own = _name(row.metadata_location, queries.own_key(ref, by=call.by), mode, delegated)
    if (tag := _find_tag(tags, own)) is not None:
        return _unchanged(tag, delegated)
    view = queries.view_table(ref, row, by=call.by)
    tag = _find_tag(tags, _name(row.metadata_location, view.key, mode, delegated))
    return render(view, mode=mode, delegated=delegated) if tag is None else _unchanged(tag, delegated)


def table_exists(call: Call) -> CatalogResponse:
    """Answer 204 where there is one."""
    ref, row = queries.locate(call.table, by=call.by)
    if ref.branch is not None:
        # Whoever may not read the branch by this name hears so here as well.
        queries.view_table(ref, row, by=call.by)
    return empty()


def update_table(call: Call) -> CatalogResponse:
    """Commit updates."""
    request = without_shown(call, CommitRequest.parse(call.json(), branch=call.branch))
    view = services.commit_table(ref=call.table, request=request, by=call.by)
    return _render_for(call, call.table, view, with_config=False)


def show_named(call: Call) -> CatalogResponse:
    """Return the table that a request has made under the name in its body, as it is now."""
    ref = TableRef(call.namespace, field(call.json(), "name", str), call.branch)
    check_files(call.by, ref)
    return _render_for(call, ref, queries.load_table(ref, by=call.by))


def show_committed(call: Call) -> CatalogResponse:
    """Return the table that a request has committed to, as it is now."""
    return _render_for(call, call.table, queries.load_table(call.table, by=call.by), with_config=False)


def commit_transaction_again(_call: Call) -> CatalogResponse:
    """Answer that it is done: a transaction has no other answer."""
    return empty()


def drop_table(call: Call) -> CatalogResponse:
    """Drop a table, with `purgeRequested=true` its files too."""
    purge = call.query.get("purgeRequested", "false").lower() == "true"
    services.drop_table_at(ref=call.table, purge=purge, by=call.by)
    return empty()


def unregister_table(call: Call) -> CatalogResponse:
    """Forget a table and say where its metadata is."""
    with transaction.atomic():  # a table that cannot be shown is not forgotten
        row = services.drop_table_at(ref=call.table, purge=False, by=call.by)
        metadata = metadata_files.read(row).metadata
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
    services.commit_tables(changes=changes, by=call.by)
    return empty()


def render(
    view: TableView, *, mode: str = "all", with_config: bool = True, delegated: Delegation = NONE
) -> CatalogResponse:
    """Render a table in the specification's form."""
    file = view.file
    if file is None:
        metadata = with_legacy_fields(rendered.with_properties(view.metadata, delegated.properties))
        return answer({"metadata-location": None, "metadata": metadata, **delegated.as_json()})
    body, dated = queries.render_table(
        view,
        file,
        now=now_ms(),
        members=delegated.as_json() if with_config else {},
        only_referenced=mode == "refs",
        properties=delegated.properties,
    )
    tag = f'"{_name(file.location, view.key, mode, delegated)}-{dated}"'
    return CatalogResponse(200, body, (JSON_TYPE, VARY, ("etag", tag)), delegated.lasts)


def _render_for(call: Call, ref: TableRef, view: TableView, *, with_config: bool = True) -> CatalogResponse:
    return render(view, with_config=with_config, delegated=delegate(call, ref, view.location))


def _unchanged(tag: str, delegated: Delegation) -> CatalogResponse:
    return CatalogResponse(304, b"", (("etag", tag), VARY), delegated.lasts)


def _find_tag(tags: Iterable[str], name: str) -> str | None:
    """Find the tag that a client has of the content of this name, if it may go on with that.

    A tag says when its content is dated: what a clock that was ahead has dated in the future is sent anew, as not_after it.
    """
    newest = now_ms() + MINUTE_MS
    for tag in tags:
        named, _, dated = tag.strip('"').partition("-")
        if named == name and dated.isdecimal() and len(dated) <= LONGEST_STAMP and int(dated) <= newest:
            return tag
    return None


def _name(location: str, view: str, mode: str, delegated: Delegation) -> str:
    """Name this content: a metadata file never changes, and the rest says which view of it this is, for whom."""
    digest = hashlib.sha256(f"{location}\n{view}\n{mode}\n{delegated.key}".encode())
    return digest.hexdigest()[:32]
