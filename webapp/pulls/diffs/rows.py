"""Pages, searches and exports of a stored row diff. Nothing is recomputed: the artifact is immutable.

The artifact's `rows.parquet` holds one line per changed row in key order, numbered by `n`, so a page in that order is
a range of `n`; other orders page by position. Cursors are opaque and name the request they belong to, so that a cursor
of one filter cannot silently page another.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from webapp.core.errors import BadRequest, Conflict, Gone
from webapp.datasets.rules.encoding import encode_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CHANGES = ("inserted", "deleted", "updated")
LIMITS = (25, 100, 250)
MAX_LIMIT = 250
DEFAULT_LIMIT = 100
_MAX_QUERY = 1_000
_EXPORT_BATCH = 2_000
_CHUNK = 1 << 20
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_TERM = re.compile(
    r"""\s*(?:(?P<name>"(?:[^"]|"")+"|[^\s=<>"']+)\s*=\s*)(?P<value>"(?:[^"]|"")*"|'(?:[^']|'')*'|\S+)"""
)
_NUMBERS = ("int", "long", "float", "double", "decimal")

Change = Literal["inserted", "deleted", "updated"]


@dataclass(frozen=True)
class Column:
    """One column of the diff, as a table head shows it."""

    index: int
    name: str
    before_name: str | None
    before_type: str | None
    after_name: str | None
    after_type: str | None
    is_key: bool
    is_ignored: bool
    is_compared: bool
    is_unreadable: bool
    """Its type cannot be read; its cells are empty and the page says why."""
    changed: int | None = None
    """In how many updated rows its value differs; None in net mode."""
    match_rate: float | None = None

    @property
    def state(self) -> Literal["added", "removed", "retyped", "renamed", "same"]:
        if self.before_name is None:
            return "added"
        if self.after_name is None:
            return "removed"
        if self.before_type != self.after_type:
            return "retyped"
        return "same" if self.before_name == self.after_name else "renamed"

    @property
    def type(self) -> str:
        return (self.after_type if self.after_type is not None else self.before_type) or ""

    @property
    def is_number(self) -> bool:
        return self.type.startswith(_NUMBERS)

    @property
    def is_text(self) -> bool:
        return "string" in (self.before_type, self.after_type)


@dataclass(frozen=True)
class Cell:
    """One value of one row at both ends. `state` says which of the two to show."""

    column: Column
    before: Any
    after: Any
    state: Literal["same", "changed", "inserted", "deleted", "none"]
    delta: str | None = None
    """For changed numbers the signed difference."""

    @property
    def value(self) -> Any:
        return self.before if self.state == "deleted" else self.after


@dataclass(frozen=True)
class Row:
    """One changed row. `copies` counts equal rows in net mode."""

    n: int
    change: Change
    copies: int
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changed: tuple[str, ...]
    cells: tuple[Cell, ...]

    def as_json(self) -> dict[str, Any]:
        """The shape of the REST API."""
        found = {
            "change": self.change,
            "key": self.key,
            "before": self.before,
            "after": self.after,
            "changed": list(self.changed),
        }
        return found if self.copies == 1 else {**found, "copies": self.copies}


@dataclass(frozen=True)
class RowPage:
    """One page of a row diff, with what is needed to walk on."""

    mode: Literal["identifier", "net"]
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: int
    """Lines that match the filter, over all pages."""
    first: int
    """The position of the first line, from 1; 0 when there is none."""
    next: str | None
    previous: str | None
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0

    @property
    def shown_columns(self) -> tuple[Column, ...]:
        """Key columns, and those in which a row of this page differs: what "only changed columns" leaves."""
        differing = {cell.column.index for row in self.rows for cell in row.cells if cell.state == "changed"}
        one_sided = {column.index for column in self.columns if column.state in {"added", "removed"}}
        return tuple(c for c in self.columns if c.is_key or c.index in differing or c.index in one_sided)

    def as_json(self) -> dict[str, Any]:
        """The shape of the REST API, without `state`."""
        return {
            "mode": self.mode,
            "key": list(self.key) or None,
            "summary": self.summary,
            "total": self.total,
            "rows": [row.as_json() for row in self.rows],
            "next": self.next,
            "previous": self.previous,
        }


# --- the artifact ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Artifact:
    """A finished diff on disk, opened."""

    folder: Path
    summary: dict[str, Any]
    schema: dict[str, Any]
    columns: tuple[Column, ...]
    types: dict[str, str]
    """Columns of rows.parquet with their DuckDB types."""

    @property
    def mode(self) -> Literal["identifier", "net"]:
        return "identifier" if self.summary["mode"] == "identifier" else "net"

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """In the order of the rules, as stored in `k0`, `k1`, …"""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.summary.get("key") or ())

    @property
    def source(self) -> str:
        return f"read_parquet({_literal(_escape(self.folder / 'rows.parquet'))})"


def open_artifact(folder: str | Path) -> Artifact:
    """Open the artifact of a finished diff; Gone when its files have been removed."""
    path = Path(folder)
    try:
        stamp = (path / "summary.json").stat().st_mtime_ns
    except FileNotFoundError:
        raise Gone("The stored rows of this comparison have been removed. Compute it again.", code="expired") from None
    return _open(str(path), stamp)


@lru_cache(maxsize=64)
def _open(folder: str, _stamp: int) -> Artifact:
    path = Path(folder)
    try:
        summary = json.loads((path / "summary.json").read_bytes())
        schema = json.loads((path / "schema.json").read_bytes())
        types = _describe(path / "rows.parquet")
        columns = tuple(_column(raw, summary) for raw in schema["columns"])
    except (OSError, ValueError, KeyError, TypeError, duckdb.Error) as error:
        raise Conflict(
            "The stored rows of this comparison are damaged. Compute it again.", code="damaged", reason=str(error)
        ) from error
    return Artifact(path, summary, schema, columns, types)


def _describe(path: Path) -> dict[str, str]:
    with _cursor() as cursor:
        rows = cursor.execute(f"DESCRIBE SELECT * FROM read_parquet({_literal(_escape(path))})").fetchall()
    return {row[0]: row[1] for row in rows}


def _column(raw: Mapping[str, Any], summary: Mapping[str, Any]) -> Column:
    before, after = raw["before"] or {}, raw["after"] or {}
    match: Mapping[str, Any] = next(
        (entry for entry in summary.get("columns", ()) if entry["index"] == raw["index"]), {}
    )
    return Column(
        index=raw["index"],
        name=raw["name"],
        before_name=before.get("name"),
        before_type=before.get("type"),
        after_name=after.get("name"),
        after_type=after.get("type"),
        is_key=raw["name"] in (summary.get("key") or ()),
        is_ignored=raw["ignored"],
        is_compared=raw["compared"],
        is_unreadable=raw["unreadable"],
        changed=match.get("changed"),
        match_rate=match.get("match_rate"),
    )


# --- pages ----------------------------------------------------------------------------------------


def read_page(
    folder: str | Path,
    *,
    change: Iterable[str] = (),
    column: str | None = None,
    q: str | None = None,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> RowPage:
    """Read one page.

    Args:
        folder: the artifact.
        change: kinds of change to keep; none keeps all.
        column: keep rows in which this column's value differs.
        q: `key = value`, several of them, or one bare value that any key column may have.
        sort: a column, with `-` for descending; none for key order.
        cursor: from an earlier page of the same request.
        limit: rows a page, at most 250.

    """
    artifact = open_artifact(folder)
    asked = _Asked.parse(artifact, change=change, column=column, q=q, sort=sort)
    limit = max(1, min(int(limit), MAX_LIMIT))
    position = _Position.read(cursor, asked.digest)
    total = _count(artifact, asked)
    lines = _fetch(artifact, asked, position, limit)
    return _page(artifact, asked, lines, total=total, position=position, limit=limit)


@dataclass(frozen=True)
class _Asked:
    """A parsed request: SQL conditions with their parameters, the order, and a name for cursors."""

    conditions: tuple[str, ...]
    parameters: tuple[Any, ...]
    order: str | None
    digest: str

    @property
    def where(self) -> str:
        return " AND ".join(self.conditions) or "true"

    @classmethod
    def parse(
        cls, artifact: Artifact, *, change: Iterable[str], column: str | None, q: str | None, sort: str | None
    ) -> _Asked:
        kinds = sorted({kind.strip() for kind in change if kind.strip()})
        unknown = [kind for kind in kinds if kind not in CHANGES]
        if unknown:
            raise BadRequest(f"change: {unknown[0]!r} is none of {', '.join(CHANGES)}.", errors={"change": unknown})
        conditions: list[str] = []
        parameters: list[Any] = []
        if kinds and len(kinds) < len(CHANGES):
            conditions.append(f"change IN ({', '.join('?' for _ in kinds)})")
            parameters += kinds
        if column:
            conditions.append("list_contains(changed, ?)")
            parameters.append(_named(artifact, column, "column").index)
        if q and q.strip():
            found = _search(artifact, q.strip())
            conditions += found[0]
            parameters += found[1]
        text = json.dumps([kinds, column or "", (q or "").strip(), sort or ""])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cls(tuple(conditions), tuple(parameters), _order(artifact, sort), digest)


def _named(artifact: Artifact, name: str, field_name: str) -> Column:
    for column in artifact.columns:
        if name in {column.name, column.after_name}:
            return column
    for column in artifact.columns:
        if name == column.before_name:
            return column
    raise BadRequest(f"{field_name}: there is no column {name!r}.", errors={field_name: [f"No column {name!r}."]})


def _order(artifact: Artifact, sort: str | None) -> str | None:
    if not sort or not sort.strip():
        return None
    name, descending = sort.strip().removeprefix("-"), sort.strip().startswith("-")
    direction = "DESC" if descending else "ASC"
    if name == "change":
        return f"change {direction}, n"
    column = _named(artifact, name, "sort")
    values = _sides(artifact, column)
    if not values:
        raise BadRequest(f"sort: the values of {name!r} are not stored.", errors={"sort": [name]})
    newest_first = values[::-1]
    if len({artifact.types[value] for value in values}) == 1:
        newest_first = [f"coalesce({', '.join(newest_first)})"]
    keys = [f"{value} {direction} NULLS LAST" for value in newest_first]
    return ", ".join([*keys, "n"])


def _sides(artifact: Artifact, column: Column) -> list[str]:
    """The stored value columns of one column, before first."""
    return [name for name in (f"b{column.index}", f"a{column.index}") if name in artifact.types]


# --- search ---------------------------------------------------------------------------------------


def _search(artifact: Artifact, q: str) -> tuple[list[str], list[Any]]:
    if len(q) > _MAX_QUERY:
        raise BadRequest(f"q: at most {_MAX_QUERY} characters.", errors={"q": ["Too long."]})
    terms = _terms(q)
    if terms is None:
        return _search_anywhere(artifact, _unquote(q))
    conditions: list[str] = []
    parameters: list[Any] = []
    for name, value in terms:
        column = _named(artifact, _unquote(name), "q")
        tests = []
        for side in _sides(artifact, column):
            test, given = _equals(side, artifact.types[side], value)
            tests.append(test)
            parameters += given
        conditions.append("(" + (" OR ".join(tests) or "false") + ")")
    return conditions, parameters


def _terms(q: str) -> list[tuple[str, str]] | None:
    """`a = 1 b="x y"` as pairs; None for a bare value."""
    found, position = [], 0
    while position < len(q):
        match = _TERM.match(q, position)
        if match is None:
            return None
        found.append((match["name"], match["value"]))
        position = match.end()
        while position < len(q) and q[position] in " ,":
            position += 1
    return found


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


def _equals(name: str, type_: str, value: str) -> tuple[str, list[Any]]:
    """SQL that is true where a stored value is the one that was typed."""
    plain = _unquote(value)
    is_null = value.lower() == "null"
    if type_ == "VARCHAR":
        test, given = f"{name} = ?", [plain]
    elif type_ == "BLOB":
        test, given = f"to_base64({name}) = ?", [plain]
    elif type_.startswith(("STRUCT", "MAP")) or type_.endswith("]"):
        test, given = f"CAST(to_json({name}) AS VARCHAR) = ?", [plain]
    else:
        test, given = f"{name} IS NOT DISTINCT FROM TRY_CAST(? AS {type_}) AND {name} IS NOT NULL", [plain]
    if is_null:
        # a side that does not exist is no NULL
        lacking = "inserted" if name.startswith("b") else "deleted"
        return f"({test} OR ({name} IS NULL AND change <> '{lacking}'))", given
    return f"({test})", given


def _search_anywhere(artifact: Artifact, value: str) -> tuple[list[str], list[Any]]:
    """A bare value: in any key column, or without a key in any column; inside a text also as a part."""
    keyed = artifact.mode == "identifier"
    chosen = artifact.key_columns if keyed else artifact.columns
    tests: list[str] = []
    parameters: list[Any] = []
    for column in chosen:
        for side in _sides(artifact, column):
            if artifact.types[side] == "VARCHAR":
                tests.append(f"contains(lower({side}), lower(?))")
                parameters.append(value)
                continue
            test, given = _equals(side, artifact.types[side], value)
            tests.append(test)
            parameters += given
    return ["(" + (" OR ".join(tests) or "false") + ")"], parameters


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Position:
    """Where a page begins: behind or before a line in key order, or at a position in another order."""

    after: int | None = None
    before: int | None = None
    start: int = 0
    """How many lines stand before the page."""

    @classmethod
    def read(cls, cursor: str | None, digest: str) -> _Position:
        if not cursor:
            return cls()
        problem = BadRequest("cursor: it belongs to another list; begin again without it.", code="bad_cursor")
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            name, *numbers = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
            after, before, start = numbers
        except (ValueError, TypeError) as error:
            raise problem from error
        if name != digest or not isinstance(start, int) or not all(n is None or isinstance(n, int) for n in numbers):
            raise problem
        return cls(after, before, max(0, start))

    def write(self, digest: str) -> str:
        text = json.dumps([digest, self.after, self.before, self.start], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@lru_cache(maxsize=512)
def _count_stored(folder: str, where: str, parameters: tuple[Any, ...], _stamp: int) -> int:
    source = f"read_parquet({_literal(_escape(Path(folder) / 'rows.parquet'))})"
    with _cursor() as cursor:
        row = cursor.execute(f"SELECT count(*) FROM {source} WHERE {where}", list(parameters)).fetchone()
    return int(row[0]) if row is not None else 0


def _count(artifact: Artifact, asked: _Asked) -> int:
    if not asked.conditions:
        return int(artifact.summary["stored_rows"])
    stamp = (artifact.folder / "summary.json").stat().st_mtime_ns
    return _count_stored(str(artifact.folder), asked.where, asked.parameters, stamp)


def _fetch(artifact: Artifact, asked: _Asked, position: _Position, limit: int) -> list[dict[str, Any]]:
    """The lines of one page in their order, and one more where there is one."""
    parameters = list(asked.parameters)
    where, order, tail = asked.where, "n", f"LIMIT {limit + 1}"
    if asked.order is not None:
        order, tail = asked.order, f"LIMIT {limit + 1} OFFSET {position.start}"
    elif position.after is not None:
        where += f" AND n > {position.after}"
        if not asked.conditions:
            # the numbers are dense, so that whole row groups behind the page are skipped
            where += f" AND n <= {position.after + limit + 1}"
    elif position.before is not None:
        where += f" AND n < {position.before}"
        order = "n DESC"
    elif not asked.conditions:
        where += f" AND n <= {limit + 1}"
    with _cursor() as cursor:
        sql = f"SELECT * FROM {artifact.source} WHERE {where} ORDER BY {order} {tail}"
        table = cursor.sql(sql, params=parameters).to_arrow_table()
    lines = to_rows(table)
    return lines[::-1] if position.before is not None and asked.order is None else lines


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Python values, with times that Python's own types cannot hold as text."""
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


def _page(
    artifact: Artifact, asked: _Asked, lines: list[dict[str, Any]], *, total: int, position: _Position, limit: int
) -> RowPage:
    backwards = position.before is not None and asked.order is None
    more = len(lines) > limit
    if more:
        lines = lines[1:] if backwards else lines[:limit]
    start = max(0, position.start)
    has_next = bool(lines) and (backwards or more)
    has_previous = bool(lines) and (more if backwards else start > 0)
    last_n, first_n = (lines[-1]["n"], lines[0]["n"]) if lines else (0, 0)
    following = _Position(after=None if asked.order else last_n, start=start + len(lines))
    preceding = _Position(before=None if asked.order else first_n, start=max(0, start - limit))
    return RowPage(
        mode=artifact.mode,
        key=tuple(column.name for column in artifact.key_columns),
        columns=artifact.columns,
        rows=tuple(_row(artifact, line) for line in lines),
        total=total,
        first=start + 1 if lines else 0,
        next=following.write(asked.digest) if has_next else None,
        previous=preceding.write(asked.digest) if has_previous else None,
        summary=artifact.summary,
    )


def _row(artifact: Artifact, line: Mapping[str, Any]) -> Row:
    change = cast("Change", line["change"])
    changed = frozenset(line["changed"] or ())
    before = None if change == "inserted" else _side(artifact.columns, line, "b")
    after = None if change == "deleted" else _side(artifact.columns, line, "a")
    keys = {}
    for column in artifact.key_columns:
        side = before if after is None else after
        name = column.before_name if after is None else column.after_name
        keys[column.name] = (side or {}).get(name or "")
    return Row(
        n=line["n"],
        change=change,
        copies=line["copies"],
        key=keys,
        before=before,
        after=after,
        changed=tuple(column.name for column in artifact.columns if column.index in changed),
        cells=tuple(
            _cell(column, change, before, after, is_changed=column.index in changed) for column in artifact.columns
        ),
    )


def _side(columns: Sequence[Column], line: Mapping[str, Any], side: Literal["a", "b"]) -> dict[str, Any]:
    found = {}
    for column in columns:
        name = column.before_name if side == "b" else column.after_name
        stored = f"{side}{column.index}"
        if name is not None and stored in line:
            found[name] = encode_value(line[stored])
    return found


def _cell(
    column: Column, change: Change, before: dict[str, Any] | None, after: dict[str, Any] | None, *, is_changed: bool
) -> Cell:
    old = (before or {}).get(column.before_name or "")
    new = (after or {}).get(column.after_name or "")
    if is_changed:
        return Cell(column, old, new, "changed", _delta(column, old, new))
    if change == "inserted" or (after is not None and column.before_name is None):
        return Cell(column, None, new, "inserted" if column.after_name is not None else "none")
    if change == "deleted" or (before is not None and column.after_name is None):
        return Cell(column, old, None, "deleted" if column.before_name is not None else "none")
    return Cell(column, old, new, "same")


def _delta(column: Column, before: Any, after: Any) -> str | None:
    """The signed difference of two numbers, without the noise of binary fractions."""
    both = (column.before_type or "", column.after_type or "")
    if not all(type_.startswith(_NUMBERS) for type_ in both) or before is None or after is None:
        return None
    try:
        gap = Decimal(str(after)) - Decimal(str(before))
    except InvalidOperation:
        return None
    if not gap.is_finite():
        return None
    if "double" in both or "float" in both:
        gap = Decimal(f"{gap:.12g}")
    text = f"{gap:+f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- exports --------------------------------------------------------------------------------------


def export_csv(folder: str | Path) -> Iterator[bytes]:
    """The whole diff as CSV, a chunk at a time. NULL is an empty field, an empty text is quoted.

    Spreadsheets run a text that begins like a formula, so such texts get an apostrophe; numbers keep their sign.
    """
    artifact = open_artifact(folder)
    return _csv_chunks(artifact)


def _csv_chunks(artifact: Artifact) -> Iterator[bytes]:
    fields = _csv_fields(artifact)
    head = ["change", "copies", *(name for name, _, _ in fields)]
    yield (",".join(_csv_text(name) for name in head) + "\r\n").encode()
    for batch in _batches(artifact.folder / "rows.parquet"):
        lines = []
        for line in to_rows(pa.Table.from_batches([batch])):
            values = [_csv_value(encode_value(line[stored]), is_text=is_text) for _, stored, is_text in fields]
            lines.append(",".join([line["change"], str(line["copies"]), *values]))
        yield ("\r\n".join(lines) + "\r\n").encode()


def _csv_fields(artifact: Artifact) -> list[tuple[str, str, bool]]:
    """Head, stored column, whether it holds text: per column before, then after."""
    found = []
    for column in artifact.columns:
        sides = (("before", "b", column.before_name), ("after", "a", column.after_name))
        for side, prefix, name in sides:
            stored = f"{prefix}{column.index}"
            if name is not None and stored in artifact.types:
                found.append((f"{side}.{name}", stored, _holds_text(artifact.types[stored])))
    return found


def _holds_text(type_: str) -> bool:
    return "VARCHAR" in type_ or type_.startswith(("STRUCT", "MAP")) or type_.endswith("]")


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as source:
        for batch in source.iter_batches(batch_size=_EXPORT_BATCH):
            if batch.num_rows:
                yield batch


def _csv_value(value: Any, *, is_text: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    text = str(value)
    return _csv_text(text) if is_text else _csv_quote(text)


def _csv_text(text: str) -> str:
    if text.startswith(_FORMULA):
        text = f"'{text}"
    return _csv_quote(text) if text else '""'


def _csv_quote(text: str) -> str:
    if any(mark in text for mark in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def export_parquet(folder: str | Path) -> Iterator[bytes]:
    """The whole diff as Parquet: `change`, `copies`, `changed` (names), and `before` and `after` as structs."""
    return _parquet_chunks(open_artifact(folder))


def _parquet_chunks(artifact: Artifact) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as target:
        writer: pq.ParquetWriter | None = None
        with pq.ParquetFile(artifact.folder / "rows.parquet") as source:
            empty = source.schema_arrow.empty_table().to_batches(max_chunksize=1)
            batches = [*empty] or [pa.RecordBatch.from_pylist([], schema=source.schema_arrow)]
            for batch in (*batches[:1], *source.iter_batches(batch_size=_EXPORT_BATCH * 10)):
                table = _friendly(artifact, batch)
                writer = writer or pq.ParquetWriter(target, table.schema, compression="zstd")
                if table.num_rows:
                    writer.write_table(table)
        if writer is not None:
            writer.close()
        target.seek(0)
        while chunk := target.read(_CHUNK):
            yield chunk


def _friendly(artifact: Artifact, batch: pa.RecordBatch) -> pa.Table:
    names = {column.index: column.name for column in artifact.columns}
    changed = pa.array(
        [[names[index] for index in found or ()] for found in batch.column("changed").to_pylist()],
        pa.list_(pa.string()),
    )
    change = batch.column("change")
    outputs: dict[str, Any] = {"change": change, "copies": batch.column("copies"), "changed": changed}
    for side, prefix, lacking in (("before", "b", "inserted"), ("after", "a", "deleted")):
        chosen = [
            (name, batch.column(f"{prefix}{column.index}"))
            for column in artifact.columns
            if (name := column.before_name if prefix == "b" else column.after_name) is not None
            and f"{prefix}{column.index}" in artifact.types
        ]
        if chosen:
            mask = pa.array([value == lacking for value in change.to_pylist()], pa.bool_())
            fields = [pa.field(name, array.type) for name, array in chosen]
            outputs[side] = pa.StructArray.from_arrays([array for _, array in chosen], fields=fields, mask=mask)
    return pa.table(outputs)


# --- DuckDB ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """One small reader for the whole process; each use gets its own cursor."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": "256MiB",
            "threads": "2",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = ''")
    return connection


def _cursor() -> duckdb.DuckDBPyConnection:
    return _database().cursor()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escape(path: Path) -> str:
    """A path that DuckDB does not take for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))
