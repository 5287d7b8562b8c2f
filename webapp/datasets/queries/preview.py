"""A page of a dataset's rows, bounded in rows and columns; a process of its own reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jobs.protocol import RowsRequest
from webapp.catalog import queries as catalog_queries
from webapp.catalog.rules import lens
from webapp.catalog.rules.metadata import current_snapshot_id, schema_of, with_legacy_fields
from webapp.catalog.storage.reader import TableReader
from webapp.core.errors import BadRequest, InvalidInput, Unavailable
from webapp.datasets import queries
from webapp.datasets.permissions import see_rows
from webapp.datasets.rules.row_columns import list_searched
from webapp.datasets.rules.row_conditions import find_conditions
from webapp.datasets.rules.schemas import type_text
from webapp.runtime.readers import Beyond, Damaged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jobs.encoding import Json
    from webapp.accounts.rules.sight import RowSight
    from webapp.catalog.rules.iceberg import Metadata, Schema
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

MOST_ROWS = 10_000
"""How deep the pages go; beyond, a client reads the table itself."""
MOST_COLUMNS = 100
MOST_BYTES = 16 * 1024 * 1024
SCANNED_ROWS = 200_000
"""How many rows sorting and searching look at."""


@dataclass(frozen=True)
class PreviewColumn:
    """A column of the preview."""

    id: int
    name: str
    type: str
    required: bool
    is_hidden: bool = False
    """Whether its values are hidden from the reader."""


@dataclass(frozen=True)
class Preview:
    """One page of rows."""

    branch: str
    """The branch that was read: the one asked for, or the one it falls back to."""
    transaction: Transaction | None
    columns: Sequence[PreviewColumn]
    rows: Sequence[Sequence[Json]]
    start: int
    total: int | None
    """Rows that match, as far as is known."""
    has_more: bool
    scanned: int | None
    """Rows that were searched or sorted, where not all were."""
    left_out: int
    """Columns that are not shown."""

    @property
    def masked(self) -> list[str]:
        """The columns whose values are hidden from the reader: they are None in every row."""
        return [column.name for column in self.columns if column.is_hidden]


@dataclass(frozen=True)
class PreviewRequest:
    """What somebody wants to see."""

    start: int = 0
    limit: int = 50
    sort: str = ""
    """A column; with a minus in front in descending order."""
    q: str = ""
    """A search, as `webapp.datasets.rules.row_search` reads it."""
    columns: Sequence[str] = ()


def read_preview(
    principal: Principal,
    dataset: Dataset,
    *,
    branch: str | None = None,
    transaction: str | None = None,
    request: PreviewRequest,
) -> Preview:
    """Return a page of rows of a branch or a committed transaction, without what is hidden from the reader.

    Raises:
        BadRequest: the page lies beyond what is shown, or the search is not understood.
        InvalidInput: a column is not there, or one is sorted by that is hidden.
        Unavailable: the table's files cannot be read.

    """
    if request.start + request.limit > MOST_ROWS:
        message = f"The preview shows the first {MOST_ROWS:,} rows; read the rest with an Iceberg client."
        raise BadRequest(message, code="beyond_preview")
    resolved, pinned = queries.parse_view(dataset, branch=branch, transaction=transaction)
    metadata = read_metadata(dataset, branch=resolved, transaction=pinned)
    sight = see_rows(principal, dataset, branch or resolved, resolved, pinned)
    columns = list_preview_columns(metadata, sight)
    shown = _choose_columns(columns, request)
    search = _read_search(metadata, sight, request.q, shown=[column.name for column in shown])
    # What is hidden is not even read: neither a search nor an order can tell what it is.
    answer = _read(dataset, metadata, [column.name for column in shown if not column.is_hidden], request, search)
    rows, total = answer["rows"], answer["total"]
    if total is None and pinned is not None:
        total = pinned.summary.get("rows")
    return Preview(
        branch=resolved,
        transaction=pinned,
        columns=shown,
        rows=[_fill(row, shown) for row in rows[: request.limit]],
        start=request.start,
        total=total,
        has_more=len(rows) > request.limit and request.start + request.limit < MOST_ROWS,
        scanned=answer["scanned"],
        left_out=len(columns) - len(shown),
    )


def _fill(row: Sequence[Json], columns: Sequence[PreviewColumn]) -> list[Json]:
    """Return a row with None in the places of hidden columns."""
    values = iter(row)
    return [None if column.is_hidden else next(values) for column in columns]


class _RowSearch(NamedTuple):
    where: str = ""
    parameters: tuple[object, ...] = ()
    searched: Mapping[str, str] = {}
    """Alias in the SQL → column."""


def _read_search(metadata: Metadata, sight: RowSight, q: str, *, shown: Collection[str]) -> _RowSearch:
    if not q.strip():
        return _RowSearch()
    columns, aliases = list_searched(current_schema(metadata)["fields"], hides=sight.hides)
    bare = [column for column in columns if not column.is_hidden and column.name in shown]
    conditions = list(find_conditions(q, columns=columns, bare=bare))
    where = " AND ".join(sql for sql, _values in conditions)
    return _RowSearch(
        where=where,
        # JSON has no infinity, and DuckDB reads each float from its text
        parameters=tuple(
            repr(value) if isinstance(value, float) else value for _sql, values in conditions for value in values
        ),
        searched={alias: name for alias, name in aliases.items() if alias in where},
    )


def _read(
    dataset: Dataset, metadata: Metadata, columns: Sequence[str], request: PreviewRequest, search: _RowSearch
) -> dict[str, Any]:
    question = RowsRequest(
        metadata=_without_history(metadata),
        columns=tuple(columns),
        start=request.start,
        limit=request.limit,
        sort=request.sort,
        **search._asdict(),
        scanned_rows=SCANNED_ROWS,
    )
    if current_snapshot_id(metadata) is None:
        return {"rows": [], "total": 0, "scanned": None}
    try:
        with TableReader(metadata["location"], reads="rows", most_answer_bytes=MOST_BYTES) as reader:
            return reader.ask(ask="rows", **vars(question))
    except Beyond as error:
        message = f"This page of {dataset.path} is not shown ({error}): choose fewer columns or rows, or read the table with a client."
        raise Unavailable(message, code="beyond_preview") from error
    except Damaged as error:
        message = f"The files of {dataset.path} cannot be read ({error}). Other datasets are not touched."
        raise Unavailable(message, code="unreadable_data") from error


def _without_history(metadata: Metadata) -> Metadata:
    """Return the metadata with the snapshot that is read alone."""
    head = metadata.get("current-snapshot-id")
    return {
        **with_legacy_fields(metadata),
        "snapshots": [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] == head],
        "refs": {name: ref for name, ref in metadata["refs"].items() if ref["snapshot-id"] == head},
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }


def read_metadata(dataset: Dataset, *, branch: str, transaction: Transaction | None) -> Metadata:
    """Return the table's metadata as it looks at a transaction, or on a branch without any."""
    if transaction is not None:
        metadata = catalog_queries.get_metadata(table=dataset.table)
        queries.check_not_expired(dataset, transaction, metadata)
        return lens.show(metadata, queries.pointer_of(transaction).state)
    chain = queries.get_fallback_chain(path=dataset.path, branch=branch)
    return catalog_queries.load_view(table=dataset.table, branch=branch, chain=chain).metadata


def current_schema(metadata: Metadata) -> Schema:
    """Return the schema that is current in a view."""
    return schema_of(metadata, metadata["current-schema-id"])


def list_preview_columns(metadata: Metadata, sight: RowSight) -> list[PreviewColumn]:
    """Return the columns of the current schema."""
    return [
        PreviewColumn(
            id=field["id"],
            name=field["name"],
            type=type_text(field["type"]),
            required=bool(field["required"]),
            is_hidden=sight.hides(field["name"]),
        )
        for field in current_schema(metadata)["fields"]
    ]


def _choose_columns(columns: Sequence[PreviewColumn], request: PreviewRequest) -> list[PreviewColumn]:
    by_name = {column.name: column for column in columns}
    for name in (*request.columns, *filter(None, [request.sort.removeprefix("-")])):
        if name not in by_name:
            message = f"There is no column {name}."
            raise InvalidInput(message, code="no_such_column", errors={"columns": [message]})
    sort = request.sort.removeprefix("-")
    if sort and by_name[sort].is_hidden:
        message = f"The values of {sort} are hidden from you: its repository calls them sensitive."
        raise InvalidInput(message, code="hidden_column", errors={"sort": [message]})
    chosen = [by_name[name] for name in dict.fromkeys(request.columns)] or list(columns)
    return chosen[:MOST_COLUMNS]
