"""Rows of a dataset, read in the web process and therefore bounded: in rows, in columns and in what is searched.

Pages in the order of the files read only the files they need. Sorting and searching look at the first rows up to a
stated number, and say so when there are more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan
from pyiceberg.table.metadata import TableMetadataUtil

from jobs import nulls
from webapp.catalog import queries as catalog_queries
from webapp.catalog.rules import lens
from webapp.core import object_store
from webapp.core.errors import BadRequest, InvalidInput, Unavailable
from webapp.datasets import queries
from webapp.datasets.rules.encoding import Json, encode_value
from webapp.datasets.rules.schemas import type_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import FileScanTask

    from webapp.datasets.models import Dataset, Transaction

nulls.install()
MOST_ROWS = 10_000
"""How deep the pages go; beyond, a client reads the table itself."""
MOST_COLUMNS = 100
SCANNED_CELLS = 4_000_000
SCANNED_ROWS = 200_000
"""How many rows sorting and searching look at."""
EQUALS = re.compile(r"\s*([^=]+?)\s*=\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class PreviewColumn:
    """A column of the preview."""

    id: int
    name: str
    type: str
    required: bool


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


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to see."""

    start: int = 0
    limit: int = 50
    sort: str = ""
    """A column; with a minus in front in descending order."""
    q: str = ""
    """A text in any column, or column=value."""
    columns: Sequence[str] = ()


def read_preview(
    dataset: Dataset, *, branch: str | None = None, transaction: str | None = None, wanted: Wanted
) -> Preview:
    """Return a page of rows of a branch or a committed transaction.

    Raises:
        BadRequest: the page lies beyond what is shown.
        InvalidInput: a column is not there.
        Unavailable: the table's files cannot be read.

    """
    if wanted.start + wanted.limit > MOST_ROWS:
        message = f"The preview shows the first {MOST_ROWS:,} rows; read the rest with an Iceberg client."
        raise BadRequest(message, code="beyond_preview")
    resolved, found = queries.parse_view(dataset, branch=branch, transaction=transaction)
    metadata = read_metadata(dataset, branch=resolved, transaction=found)
    columns = list_preview_columns(metadata)
    shown = _choose_columns(columns, wanted)
    try:
        rows, total, scanned = _read(metadata, shown, wanted)
    except (OSError, pa.ArrowException, duckdb.Error, ValueError, NoSuchTableError, ValidationError) as error:
        message = (
            f"The files of {dataset.path} cannot be read ({type(error).__name__}). Other datasets are not touched."
        )
        raise Unavailable(message, code="unreadable_data") from error
    if total is None and found is not None:
        total = found.summary.get("rows")
    return Preview(
        branch=resolved,
        transaction=found,
        columns=shown,
        rows=rows[: wanted.limit],
        start=wanted.start,
        total=total,
        has_more=len(rows) > wanted.limit and wanted.start + wanted.limit < MOST_ROWS,
        scanned=scanned,
        left_out=len(columns) - len(shown),
    )


def read_metadata(dataset: Dataset, *, branch: str, transaction: Transaction | None) -> dict[str, Any]:
    """Return the table's metadata as it looks at a transaction, or on a branch without any."""
    if transaction is not None:
        metadata = catalog_queries.get_metadata(table=dataset.table)
        queries.check_not_expired(dataset, transaction, metadata)
        return lens.show(metadata, queries.pointer_of(transaction).state)
    chain = queries.get_fallback_chain(path=dataset.path, branch=branch)
    return catalog_queries.load_view(table=dataset.table, branch=branch, chain=chain).metadata


def current_schema(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema that is current in a view."""
    number = metadata["current-schema-id"]
    found: dict[str, Any] = next(schema for schema in metadata["schemas"] if schema["schema-id"] == number)
    return found


def list_preview_columns(metadata: Mapping[str, Any]) -> list[PreviewColumn]:
    """Return the columns of the current schema."""
    return [
        PreviewColumn(
            id=field["id"], name=field["name"], type=type_text(field["type"]), required=bool(field["required"])
        )
        for field in current_schema(metadata)["fields"]
    ]


def _choose_columns(columns: Sequence[PreviewColumn], wanted: Wanted) -> list[PreviewColumn]:
    known = {column.name: column for column in columns}
    for name in (*wanted.columns, *filter(None, [wanted.sort.removeprefix("-")])):
        if name not in known:
            message = f"There is no column {name}."
            raise InvalidInput(message, code="no_such_column", errors={"columns": [message]})
    chosen = [known[name] for name in dict.fromkeys(wanted.columns)] or list(columns)
    return chosen[:MOST_COLUMNS]


def _read(
    metadata: Mapping[str, Any], columns: Sequence[PreviewColumn], wanted: Wanted
) -> tuple[list[list[Json]], int | None, int | None]:
    """Return the page's rows and one more, how many match, and how many were looked at where not all were."""
    if not columns or metadata.get("current-snapshot-id") in (None, -1):
        return [], 0, None
    if not wanted.sort and not wanted.q:
        table, _ = _scan(metadata, [column.name for column in columns], wanted.start + wanted.limit + 1)
        return _encode(table.slice(wanted.start)), None, None
    sort = wanted.sort.removeprefix("-")
    names = list(dict.fromkeys([*(column.name for column in columns), *([sort] if sort else [])]))
    most = max(wanted.start + wanted.limit, min(SCANNED_ROWS, SCANNED_CELLS // len(names)))
    table, is_cut = _scan(metadata, names, most)
    places, total = _search(table, wanted)
    shown = table.select([column.name for column in columns]).take(places)
    return _encode(shown), total, table.num_rows if is_cut else None


def _scan(metadata: Mapping[str, Any], names: Sequence[str], rows: int) -> tuple[pa.Table, bool]:
    """Return the first rows, and whether there are more; reads only as many files as hold them."""
    parsed = TableMetadataUtil.parse_obj(dict(metadata))
    io = load_file_io(_file_properties(parsed.location), parsed.location)
    scan = DataScan(table_metadata=parsed, io=io, selected_fields=tuple(names))
    tasks = _take_tasks(scan.plan_files(), rows + 1)
    reader = ArrowScan(parsed, io, scan.projection(), AlwaysTrue(), limit=rows + 1)
    table = reader.to_table(tasks).select(list(names))
    return table.slice(0, rows), table.num_rows > rows


def _file_properties(location: str) -> dict[str, str]:
    if not object_store.is_object_location(location):
        return {}
    return {**object_store.own_properties(), "s3.connect-timeout": "3", "s3.request-timeout": "20"}


def _take_tasks(tasks: Any, rows: int) -> list[FileScanTask]:
    """Return the first files that certainly hold that many rows; of a file with deletes nobody knows."""
    taken: list[FileScanTask] = []
    held = 0
    for task in tasks:
        if held >= rows:
            break
        taken.append(task)
        held += 0 if task.delete_files else task.file.record_count
    return taken


def _search(table: pa.Table, wanted: Wanted) -> tuple[pa.Array, int]:
    """Return the places of the page's rows, in order and one more, and how many rows match."""
    numbered = table.append_column("\x1frow", pa.array(range(table.num_rows), pa.int64()))
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "512MB"}) as engine:
        engine.execute("SET enable_external_access = false")
        engine.register("shown", numbered)
        condition, parameters = _condition(table.column_names, wanted.q)
        order = _order(wanted.sort)
        found = engine.execute(
            f'SELECT "\x1frow" AS place, count(*) OVER () AS matching FROM shown WHERE {condition} '
            f"ORDER BY {order} LIMIT {wanted.limit + 1} OFFSET {wanted.start}",
            parameters,
        ).fetchall()
    places = pa.array([place for place, _ in found], pa.int64())
    return places, found[0][1] if found else 0


def _condition(names: Sequence[str], q: str) -> tuple[str, list[str]]:
    q = q.strip()
    if not q:
        return "true", []
    exact = EQUALS.fullmatch(q)
    if exact and exact[1] in names:
        return f"CAST({_quote(exact[1])} AS VARCHAR) = ?", [exact[2]]
    texts = " OR ".join(f"contains(lower(CAST({_quote(name)} AS VARCHAR)), ?)" for name in names)
    return f"({texts})", [q.lower()] * len(names)


def _order(sort: str) -> str:
    place = '"\x1frow"'
    if not sort:
        return place
    direction = "DESC NULLS LAST" if sort.startswith("-") else "ASC NULLS LAST"
    return f"{_quote(sort.removeprefix('-'))} {direction}, {place}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _encode(table: pa.Table) -> list[list[Json]]:
    columns = [[encode_value(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]
