"""What differs between two stored results of one query: columns by their place, rows in any order.

Rows are matched by the first columns, as many as are asked for, where these name each row of both sides, else a row is only
there or not, so many times.
Fractions are compared to twelve signs (six in single precision): threads add them up in another order each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jobs.engine.read.connections import first_row
from jobs.engine.read.fields import literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

    from jobs.engine.query.result import StoredResult

EQUAL, DIFFERENT, NOT_COMPARED = "equal", "different", "not_compared"
_SIGNS = {"DOUBLE": 12, "FLOAT": 6}


@dataclass(frozen=True)
class ResultDifference:
    """How the result of a query differs from the result of the same query over other tables."""

    state: str
    reason: str = ""
    """Why rows are not compared, where they are not."""
    key: str = ""
    """The columns that match rows; empty where whole rows are matched."""
    columns: tuple[dict[str, Any], ...] = ()
    """Those whose name or type differs: `place` from 0, and `before` and `after`, each [name, type]."""
    inserted: int = 0
    deleted: int = 0
    updated: int = 0
    lines: int = 0
    """Stored ones, at most as many as a result has rows."""

    def as_json(self) -> dict[str, Any]:
        """Return it for a summary."""
        return {
            "state": self.state,
            "reason": self.reason,
            "key": self.key,
            "columns": list(self.columns),
            "inserted": self.inserted,
            "deleted": self.deleted,
            "updated": self.updated,
            "lines": self.lines,
        }


class Stored(NamedTuple):
    """A result and the file that its rows are in."""

    result: StoredResult
    path: Path


def compare_results(
    connection: duckdb.DuckDBPyConnection, *, before: Stored, after: Stored, path: Path, row_limit: int, keys: int = 1
) -> ResultDifference:
    """Compare two stored results, and store the rows that differ: `change`, `copies`, and b0 …, a0 … of both sides.

    Args:
        connection: where it is computed.
        before: one of the results.
        after: the other.
        path: where the rows are stored.
        row_limit: how many of them.
        keys: by so many of the first columns rows are matched, where they can be.

    """
    old, new = before.result.columns, after.result.columns
    columns = tuple(_list_differing(old, new))
    if before.result.is_cut or after.result.is_cut:
        reason = "A result has more rows than are kept: add a LIMIT, or count and group them."
        return ResultDifference(NOT_COMPARED, reason, columns=columns)
    if len(old) != len(new):
        reason = f"The results have {len(old)} and {len(new)} columns."
        return ResultDifference(DIFFERENT, reason, columns=columns)
    width = len(new)
    _load(connection, before.path, after.path, width)
    key = _find_key(connection, new, keys)
    connection.execute(f"CREATE TEMP TABLE changes AS {_match_keys(width, keys) if key else _match_rows(width)}")
    counts = {
        change: int(count)
        for change, count in connection.execute("SELECT change, sum(copies) FROM changes GROUP BY change").fetchall()
    }
    values = ", ".join(f"{side}{place}" for side in "ba" for place in range(width))
    order = ", ".join(f"k{place}" for place in range(width))
    connection.execute(
        f"COPY (SELECT change, copies, {values} FROM changes ORDER BY {order}, change DESC LIMIT {row_limit})"
        f" TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 8192)"
    )
    lines = int(first_row(connection, "SELECT count(*) FROM changes")[0])
    state = DIFFERENT if lines or columns else EQUAL
    return ResultDifference(state, "", key, columns, **counts, lines=min(lines, row_limit))


def _list_differing(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    sides = [
        (before[place] if place < len(before) else None, after[place] if place < len(after) else None)
        for place in range(max(len(before), len(after)))
    ]
    return [
        {"place": place, "before": old and list(old), "after": new and list(new)}
        for place, (old, new) in enumerate(sides)
        if old != new
    ]


def _load(connection: duckdb.DuckDBPyConnection, before: Path, after: Path, width: int) -> None:
    """Leave `differing`: rows of which the sides do not have equally many, `n` more after than before, `k` as compared."""
    before_types, after_types = (_list_types(connection, path) for path in (before, after))
    shown, compared = [], []
    for place, (old, new) in enumerate(zip(before_types, after_types, strict=True)):
        column = f"c{place}" if old == new else f"c{place}::VARCHAR"
        shown.append(f"{column} AS c{place}")
        compared.append(
            (f"{_compare(f'c{place}', old, new)} AS k{place}", f"{_compare(f'c{place}', new, old)} AS k{place}")
        )
    sides = " UNION ALL ".join(
        f"SELECT {', '.join([*shown, *(pair[number] for pair in compared)])}, {sign} AS side"
        f" FROM read_parquet({literal(str(path))})"
        for number, (sign, path) in enumerate(((-1, before), (1, after)))
    )
    keys = ", ".join(f"k{place}" for place in range(width))
    firsts = ", ".join(f"first(c{place}) AS c{place}" for place in range(width))
    connection.execute(f"CREATE TEMP TABLE sides AS {sides}")
    connection.execute(
        f"CREATE TEMP TABLE differing AS SELECT {keys}, {firsts}, sum(side)::BIGINT AS n"
        f" FROM sides GROUP BY {keys} HAVING sum(side) <> 0"
    )


def _list_types(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    described = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({literal(str(path))})").fetchall()
    return [str(row[1]) for row in described]


def _compare(column: str, own: str, other: str) -> str:
    """Return the expression by which a column is compared with one of another type, or of its own."""
    if own in _SIGNS:
        # plus nothing: minus zero is zero
        return f"format('{{:.{min(_SIGNS[own], _SIGNS.get(other, 12))}g}}', {column} + 0.0)"
    return column if own == other and not own.startswith("MAP(") else f"{column}::VARCHAR"


def _find_key(connection: duckdb.DuckDBPyConnection, columns: Sequence[tuple[str, str]], keys: int) -> str:
    if len(columns) <= keys or any(type_ in _SIGNS for _, type_ in columns[:keys]):
        return ""
    names = [f"k{place}" for place in range(keys)]
    gaps = "".join(f" OR count(*) <> count({name})" for name in names)
    repeated = first_row(
        connection,
        f"SELECT 1 FROM sides GROUP BY side HAVING count(*) <> count(DISTINCT ({', '.join(names)})){gaps} LIMIT 1",
    )
    return "" if repeated else ", ".join(name for name, _ in columns[:keys])


def _match_keys(width: int, keys: int) -> str:
    values = ", ".join(f"{side}.c{place} AS {side}{place}" for side in "ba" for place in range(width))
    names = ", ".join(f"coalesce(b.k{place}, a.k{place}) AS k{place}" for place in range(width))
    same = " AND ".join(f"a.k{place} = b.k{place}" for place in range(keys))
    return (
        "SELECT CASE WHEN b.n IS NULL THEN 'inserted' WHEN a.n IS NULL THEN 'deleted' ELSE 'updated' END AS change,"
        f" 1::BIGINT AS copies, {values}, {names} FROM (FROM differing WHERE n < 0) b"
        f" FULL JOIN (FROM differing WHERE n > 0) a ON {same}"
    )


def _match_rows(width: int) -> str:
    values = ", ".join(
        f"CASE WHEN n {sign} 0 THEN c{place} END AS {side}{place}"
        for side, sign in (("b", "<"), ("a", ">"))
        for place in range(width)
    )
    keys = ", ".join(f"k{place}" for place in range(width))
    return (
        f"SELECT CASE WHEN n > 0 THEN 'inserted' ELSE 'deleted' END AS change, abs(n) AS copies, {values}, {keys}"
        " FROM differing"
    )
