"""The first rows of a table, read from its files: in their order, or sorted and searched.

In the order of the files only the files of the page are read. Sorting and searching look at the first rows up to a
stated number, and say so when there are more.
"""

from __future__ import annotations

import re
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
from webapp.core import object_store
from webapp.datasets.rules.encoding import Json, encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import FileScanTask

    from webapp.datasets.queries.preview import Wanted

nulls.install()
ERRORS = (OSError, pa.ArrowException, duckdb.Error, ValueError, NoSuchTableError, ValidationError)
SCANNED_CELLS = 4_000_000
SCANNED_ROWS = 200_000
"""How many rows sorting and searching look at."""
EQUALS = re.compile(r"\s*([^=]+?)\s*=\s*(.*?)\s*", re.DOTALL)


def read(
    metadata: Mapping[str, Any], columns: Sequence[str], wanted: Wanted
) -> tuple[list[list[Json]], int | None, int | None]:
    """Return the page's rows and one more, how many match, and how many were looked at where not all were.

    Raises:
        One of `ERRORS`: the files cannot be read.

    """
    if not columns or metadata.get("current-snapshot-id") in (None, -1):
        return [], 0, None
    if not wanted.sort and not wanted.q:
        table, _ = _scan(metadata, columns, wanted.start + wanted.limit + 1)
        return _encode(table.slice(wanted.start)), None, None
    sort = wanted.sort.removeprefix("-")
    names = list(dict.fromkeys([*columns, *([sort] if sort else [])]))
    most = max(wanted.start + wanted.limit, min(SCANNED_ROWS, SCANNED_CELLS // len(names)))
    table, is_cut = _scan(metadata, names, most)
    places, total = _search(table, wanted)
    shown = table.select(columns).take(places)
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
