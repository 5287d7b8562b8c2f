"""Reads the Parquet files of stored comparisons: their lines as JSON holds them, and the numbers of those that fit."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.encoding import encode_row
from jobs.engine.read.fields import KEEP_NAN, literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MEMORY = "256MiB"
SPILL = "900MiB"
"""What does not fit into the memory; in a sandbox that is memory, too, and bounded."""
_NUMBERS_AT_ONCE = 100_000
_CHECKED_AT_ONCE = 8_192
_KINDS = ("inserted", "deleted", "updated")


class StoredRows:
    """The files of one comparison, read by a small database."""

    def __init__(self, *, memory: str = MEMORY) -> None:
        """Have so much memory, and as much as `SPILL` beside it."""
        self._database = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": memory,
                "threads": "2",
                "temp_directory": f"{tempfile.gettempdir()}/spill-{os.getpid()}",
                "max_temp_directory_size": SPILL,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.execute("SET preserve_insertion_order = false")

    def describe(self, path: Path, values: Sequence[str]) -> dict[str, str]:
        """Return the columns of a file, and SQL of values inside them, with their DuckDB types."""
        rows = self._database.execute(f"DESCRIBE SELECT {', '.join(['*', *values])} FROM {_source(path)}").fetchall()
        names = [*(row[0] for row in rows[: len(rows) - len(values)]), *values]
        return {name: row[1] for name, row in zip(names, rows, strict=True)}

    def select(self, path: Path, *, columns: Sequence[str], where: str) -> list[dict[str, Any]]:
        """Return some columns of the few lines of a file that a condition on their numbers keeps, in no order."""
        names = ", ".join(map(quote, columns))
        lines = self._database.sql(f"SELECT {names} FROM {_source(path)} WHERE {where}")
        return [encode_row(row) for row in to_rows(lines.to_arrow_table())]

    def list_numbers(
        self, path: Path, *, where: str, parameters: Sequence[Any], order: str, first: int | None
    ) -> Iterator[bytes]:
        """Walk the numbers of the lines that a condition keeps, in an order, four bytes each: the first ones, or all."""
        limit = "" if first is None else f" LIMIT {first:d}"
        sql = f"SELECT CAST(n AS UINTEGER) AS n FROM {_source(path)} WHERE {where} ORDER BY {order}{limit}"
        for batch in self._database.sql(sql, params=list(parameters)).to_arrow_reader(_NUMBERS_AT_ONCE):
            yield batch.column("n").to_numpy().astype("u4", copy=False).tobytes()

    def count(self, path: Path, *, where: str, parameters: Sequence[Any]) -> int:
        """Return how many lines a condition keeps."""
        self._database.execute(f"SELECT count(*) FROM {_source(path)} WHERE {where}", list(parameters))
        return int(self._database.fetchall()[0][0])

    def count_by(self, path: Path, *, value: str, most: int) -> list[dict[str, Any]]:
        """Count the lines of a row diff by a value, the most frequent ones first, each kind of change by itself."""
        kinds = ", ".join(f"coalesce(sum(copies) FILTER (change = '{kind}'), 0) AS {kind}" for kind in _KINDS)
        lines = self._database.sql(
            f"SELECT {value} AS value, CAST(sum(copies) AS BIGINT) AS total, {kinds} FROM {_source(path)} "
            f"GROUP BY 1 ORDER BY total DESC, value LIMIT {most:d}"
        )
        casts = ", ".join(f"CAST({kind} AS BIGINT) AS {kind}" for kind in _KINDS)
        return [encode_row(row) for row in to_rows(lines.project(f"value, total, {casts}").to_arrow_table())]

    def try_keys(self, path: Path, keys: Sequence[Sequence[Sequence[str]]]) -> list[dict[str, int]]:
        """Say of each key what it would make of removed and added rows.

        A key is a list of pairs: SQL of a value before and after. `removed` and `added` count rows with equal keys beyond
        the first, or with a NULL; `pairs` the keys that both kinds of rows have.
        """
        return [self._try_key(_source(path), key) for key in keys]

    def _try_key(self, source: str, key: Sequence[Sequence[str]]) -> dict[str, int]:
        before, after = (f"({', '.join(pair[side] for pair in key)})" for side in (0, 1))
        lacks = [" OR ".join(f"{pair[side]} IS NULL" for pair in key) for side in (0, 1)]
        self._database.execute(
            f"WITH removed AS (SELECT {before} AS key, sum(copies) AS rows, bool_or({lacks[0]}) AS lacks FROM {source} "
            "WHERE change = 'deleted' GROUP BY 1), "
            f"added AS (SELECT {after} AS key, sum(copies) AS rows, bool_or({lacks[1]}) AS lacks FROM {source} "
            "WHERE change = 'inserted' GROUP BY 1) "
            "SELECT (SELECT count(*) FROM removed WHERE rows > 1 OR lacks), (SELECT count(*) FROM added WHERE rows > 1 OR "
            "lacks), (SELECT count(*) FROM removed SEMI JOIN added USING (key))"
        )
        removed, added, pairs = self._database.fetchall()[0]
        return {"removed": int(removed), "added": int(added), "pairs": int(pairs)}

    def count_common(self, path: Path, others: Sequence[Path], *, keys: int) -> int | None:
        """Return how many lines of a file have a key that all others have, too; None where that takes too much memory."""
        rows = self._join_common("count(*)", _source(path), others, keys)
        return None if rows is None else int(rows[0][0])

    def find_common(self, path: Path, others: Sequence[Path], *, keys: int, numbers: Sequence[int]) -> list[int]:
        """Return which of these lines of a file, by their numbers, have a key that all others have, too."""
        chosen = f"(SELECT * FROM {_source(path)} WHERE n IN ({', '.join(map(str, numbers))}))"
        return [row[0] for row in self._join_common("n", chosen, others, keys) or ()]

    def pair_common(self, path: Path, other: Path, *, keys: int, after: int, most: int) -> list[list[int]] | None:
        """Return the numbers of lines that two files have by the same key, the first ones of the first file after one."""
        match = _match_keys(keys)
        sql = (
            f"SELECT lines.n, other.n FROM {_source(path)} lines JOIN {_source(other)} other ON ({match}) "
            f"WHERE lines.n > {after:d} ORDER BY lines.n LIMIT {most:d}"
        )
        try:
            self._database.execute(sql)
            return [list(pair) for pair in self._database.fetchall()]
        except duckdb.OutOfMemoryException:
            return None

    def _join_common(self, what: str, lines: str, others: Sequence[Path], keys: int) -> list[Any] | None:
        match = _match_keys(keys)
        joins = " ".join(f"SEMI JOIN {_source(path)} other ON ({match})" for path in others)
        try:
            self._database.execute(f"SELECT {what} FROM {lines} lines {joins}")
            return list(self._database.fetchall())
        except duckdb.OutOfMemoryException:
            return None


def _match_keys(keys: int) -> str:
    return " AND ".join(f"lines.k{place} IS NOT DISTINCT FROM other.k{place}" for place in range(keys))


def read_slice(path: Path, start: int, limit: int) -> list[dict[str, Any]]:
    """Return a range of lines, from the row groups that hold it."""
    with pq.ParquetFile(path) as source:
        first = 0
        groups: list[int] = []
        offset = start
        for group in range(source.num_row_groups):
            lines = source.metadata.row_group(group).num_rows
            if first + lines > start and first < start + limit:
                offset = start - first if not groups else offset
                groups.append(group)
            first += lines
        table = source.read_row_groups(groups) if groups else source.schema_arrow.empty_table()
    return [encode_row(row) for row in to_rows(table.slice(offset if groups else 0, limit))]


def read_batches(path: Path, size: int) -> Iterator[pa.RecordBatch]:
    """Walk a file in batches of at most so many lines, leaving out empty ones."""
    with pq.ParquetFile(path) as source:
        for batch in source.iter_batches(batch_size=size):
            if batch.num_rows:
                yield batch


def read_through(path: Path) -> Iterator[bytes]:
    """Decode every row of a file; yield a byte for each batch."""
    for _batch in read_batches(path, _CHECKED_AT_ONCE):
        yield b"."


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return Python values, with times that Python's own types cannot hold as text."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            columns.append([_nanoseconds(value, column.type.tz) for value in column.cast(pa.int64()).to_pylist()])
        else:
            columns.append(_to_values(column))
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _to_values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return cast("list[Any]", column.to_pylist())
    except (OverflowError, ValueError):
        # a date outside of the years 1 to 9999
        return cast("list[Any]", column.cast(pa.string()).to_pylist())


def _nanoseconds(value: int | None, zone: str | None) -> str | None:
    if value is None:
        return None
    seconds, rest = divmod(value, 1_000_000_000)
    text = pa.scalar(seconds, pa.timestamp("s")).as_py().isoformat()
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{text}{fraction}{'+00:00' if zone else ''}"


def _source(path: Path) -> str:
    """Write a path as SQL, not taken for a pattern."""
    plain = re.sub(r"([*?\[])", r"[\1]", str(path))
    return f"read_parquet({literal(plain)}, {KEEP_NAN})"
