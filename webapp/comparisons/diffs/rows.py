"""Pages of a stored row diff. Nothing is recomputed: the artifact is immutable.

Its file holds one line per changed row in key order, numbered by `n`, so a page in that order is a range of `n`. Of a
filter or another order the numbers are found once and kept (see `numbers`), so that every page costs the same, however
deep. Cursors are opaque and name the request they belong to, so that a cursor of one filter cannot silently page another.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal, cast

from jobs.parsing import load_json
from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.artifact import NUMBERS, Artifact, DiffColumn, open_artifact
from webapp.comparisons.diffs.keyed import COLUMNS, find_number, find_numbers, list_alike, read_row_key
from webapp.comparisons.diffs.numbers import numbers_of, place_of
from webapp.comparisons.diffs.search import RowQuery
from webapp.core.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.datasets.rules.row_values import Condition

MAX_LIMIT = 250
DEFAULT_LIMIT = 100
KEYS_AT_ONCE = 100
"""That one question asks for."""
_ALL_DIGITS = Context(prec=76)
"""Digits of the difference of any two decimals; Python's own context rounds to 28."""
_FURTHEST = 400
"""Powers of ten beyond which no column has numbers."""

Change = Literal["inserted", "deleted", "updated"]


@dataclass(frozen=True)
class ValueDiff:
    """One value of one row at both ends. `state` says which of the two to show."""

    column: DiffColumn
    before: Any
    after: Any
    state: Literal["same", "changed", "inserted", "deleted", "none"]
    delta: str | None = None
    """For changed numbers the signed difference."""

    @property
    def is_hidden(self) -> bool:
        """Whether there is a value that the reader may not see."""
        return self.column.is_hidden and self.state != "none"

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
    cells: tuple[ValueDiff, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the shape of the REST API."""
        members = {
            "change": self.change,
            "key": self.key,
            "before": self.before,
            "after": self.after,
            "changed": list(self.changed),
        }
        return members if self.copies == 1 else {**members, "copies": self.copies}


@dataclass(frozen=True)
class RowPage:
    """One page of a row diff, with what is needed to walk on."""

    mode: Literal["identifier", "net"]
    key: tuple[str, ...]
    columns: tuple[DiffColumn, ...]
    rows: tuple[Row, ...]
    total: int
    """Lines that match the filter, over all pages."""
    first: int
    """The position of the first line, from 1; 0 when there is none."""
    next: str | None
    previous: str | None
    summary: dict[str, Any] = field(default_factory=dict)
    sought: int | None = None
    """The number of the row that was asked for by its key."""
    masked: tuple[str, ...] = ()
    """Columns whose values are hidden from the reader: they are null in every row."""

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0

    def as_json(self) -> dict[str, Any]:
        """Return the shape of the REST API, without `state`."""
        return {
            "mode": self.mode,
            "key": list(self.key) or None,
            "summary": self.summary,
            "total": self.total,
            "masked": list(self.masked),
            "rows": [row.as_json() for row in self.rows],
            "next": self.next,
            "previous": self.previous,
        }


def read_page(
    folder: str | Path,
    sight: RowSight,
    *,
    change: Iterable[str] = (),
    column: str | None = None,
    q: str | None = None,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
    row: str | None = None,
    like: str | None = None,
    alike: str | None = None,
) -> RowPage:
    """Read one page.

    Args:
        folder: the artifact.
        sight: what the reader may see.
        change: kinds of change to keep; none keeps all.
        column: keep rows in which this column's value differs.
        q: conditions that all hold, see `webapp.datasets.rules.row_search`.
        sort: a column, with `-` for descending; none for key order.
        cursor: from an earlier page of the same request.
        limit: rows a page, at most 250.
        row: the key of the row that the page is to have, in the place of a cursor.
        like: the key of a row that all others are like.
        alike: in what they are, see `keyed`.

    Raises:
        BadRequest: something of it is not understood.
        NotFound: no row with that key changed, or none that the filters keep.

    """
    artifact = open_artifact(folder, sight)
    query = RowQuery.parse(
        artifact, change=change, column=column, q=q, sort=sort, alike=_read_likeness(artifact, like, alike)
    )
    limit = max(1, min(int(limit), MAX_LIMIT))
    sought = _find_sought(artifact, query, row) if row else None
    position = (
        _Position((sought.place // limit) * limit) if sought is not None else _Position.read(cursor, query.digest)
    )
    most = limit if position.most is None else min(limit, position.most)
    total, numbers = numbers_of(artifact, query, start=position.start, limit=most)
    lines = reader.select(artifact.rows, columns=artifact.stored_names, numbers=numbers)
    page = _page(artifact, query, lines, total=total, start=position.start, limit=limit)
    return replace(page, sought=sought.number) if sought is not None else page


def read_rows_with(folder: str | Path, sight: RowSight, keys: Iterable[Mapping[str, str | None]]) -> list[Row]:
    """Read the changed rows with these keys, by the names of their columns, in the order of the rows.

    Where none changed, or rows have another key, there is no row.
    """
    artifact = open_artifact(folder, sight)
    names = [column.name for column in artifact.key_columns]
    fitting = [[key[name] for name in names] for key in keys if names and set(names) == set(key)]
    rows: list[Row] = []
    for start in range(0, len(fitting), KEYS_AT_ONCE):
        numbers = find_numbers(artifact, fitting[start : start + KEYS_AT_ONCE])
        rows += read_rows_of(artifact, numbers) if numbers else []
    return rows


def read_rows_of(artifact: Artifact, numbers: Sequence[int]) -> list[Row]:
    """Read the rows with these numbers, in their order."""
    lines = reader.select(artifact.rows, columns=artifact.stored_names, numbers=numbers)
    return [_row(artifact, line) for line in lines]


def read_no_rows(folder: str | Path, sight: RowSight) -> RowPage:
    """Read what a page says beside its rows."""
    artifact = open_artifact(folder, sight)
    query = RowQuery.parse(artifact, change=(), column=None, q=None, sort=None)
    return _page(artifact, query, [], total=0, start=0, limit=DEFAULT_LIMIT)


@dataclass(frozen=True)
class _SoughtRow:
    """A row that a page is to have: its number, and how many lines stand before it in what is asked."""

    number: int
    place: int


def _find_sought(artifact: Artifact, query: RowQuery, text: str) -> _SoughtRow:
    number = find_number(artifact, read_row_key(artifact, text, parameter="row"))
    place = place_of(artifact, query, number) if number is not None else None
    if number is None or place is None:
        is_narrow = number is not None
        message = f"The row {text} changed, but not as these filters ask." if is_narrow else f"No row {text} changed."
        raise NotFound(message, code="no_such_row")
    return _SoughtRow(number, place)


def _read_likeness(artifact: Artifact, like: str | None, alike: str | None) -> tuple[str, Sequence[Condition]]:
    """Return the name and the conditions of rows that are like a certain one; no name where none is asked for."""
    if not like:
        return "", ()
    likeness = alike or COLUMNS
    key = read_row_key(artifact, like, parameter="like")
    return f"{likeness} {like}", list_alike(artifact, key, likeness)


@dataclass(frozen=True)
class _Position:
    """Where a page begins, and where it must end if it is shorter than others."""

    start: int = 0
    """How many lines stand before the page."""
    most: int | None = None

    @classmethod
    def read(cls, cursor: str | None, digest: str) -> _Position:
        if not cursor:
            return cls()
        problem = BadRequest("cursor: it belongs to another list; begin again without it.", code="bad_cursor")
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            name, start, most = load_json(base64.urlsafe_b64decode(padded.encode("ascii")))
        except (ValueError, TypeError) as error:
            raise problem from error
        if name != digest or type(start) is not int or not (most is None or type(most) is int):
            raise problem
        return cls(max(0, start), most if most is None else max(1, most))

    def write(self, digest: str) -> str:
        text = json.dumps([digest, self.start, self.most], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _page(
    artifact: Artifact, query: RowQuery, lines: list[dict[str, Any]], *, total: int, start: int, limit: int
) -> RowPage:
    following = _Position(start + len(lines))
    preceding = _Position(max(0, start - limit), min(limit, start))
    return RowPage(
        mode=artifact.mode,
        key=tuple(column.name for column in artifact.key_columns),
        columns=artifact.shown,
        rows=tuple(_row(artifact, line) for line in lines),
        total=total,
        first=start + 1 if lines else 0,
        next=following.write(query.digest) if lines and following.start < total else None,
        previous=preceding.write(query.digest) if lines and start > 0 else None,
        summary=artifact.summary,
        masked=tuple(artifact.masked),
    )


def _row(artifact: Artifact, line: Mapping[str, Any]) -> Row:
    change = cast("Change", line["change"])
    changed = frozenset(line["changed"] or ())
    before = None if change == "inserted" else _side(artifact.columns, line, "b")
    after = None if change == "deleted" else _side(artifact.columns, line, "a")
    keys = {}
    for column in artifact.key_columns:
        keys[column.name] = _dig(before, column.before_path) if after is None else _dig(after, column.after_path)
    return Row(
        n=line["n"],
        change=change,
        copies=line["copies"],
        key=keys,
        before=before,
        after=after,
        changed=tuple(column.name for column in artifact.columns if column.index in changed),
        cells=tuple(
            _cell(column, change, before, after, is_changed=column.index in changed and not column.is_key)
            for column in artifact.shown
        ),
    )


def _side(columns: Sequence[DiffColumn], line: Mapping[str, Any], side: Literal["a", "b"]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in columns:
        name = column.before_name if side == "b" else column.after_name
        stored = f"{side}{column.index}"
        if name is not None and column.is_hidden:
            values[name] = None
        elif name is not None and stored in line:
            values[name] = line[stored]
    return values


def _dig(values: dict[str, Any] | None, path: Sequence[str]) -> Any:
    """Follow the names that lead to a value; a struct that is NULL has fields that are."""
    value: Any = values if path else None
    for name in path:
        value = (value or {}).get(name)
    return value


def _cell(
    column: DiffColumn, change: Change, before: dict[str, Any] | None, after: dict[str, Any] | None, *, is_changed: bool
) -> ValueDiff:
    old, new = _dig(before, column.before_path), _dig(after, column.after_path)
    if is_changed:
        return ValueDiff(column, old, new, "changed", None if column.is_hidden else _delta(column, old, new))
    if change == "inserted" or (after is not None and column.before_name is None):
        return ValueDiff(column, None, new, "inserted" if column.after_name is not None else "none")
    if change == "deleted" or (before is not None and column.after_name is None):
        return ValueDiff(column, old, None, "deleted" if column.before_name is not None else "none")
    return ValueDiff(column, old, new, "same")


def _delta(column: DiffColumn, before: Any, after: Any) -> str | None:
    """Return the signed difference of two numbers, without the noise of binary fractions."""
    both = (column.before_type or "", column.after_type or "")
    if not all(type_.startswith(NUMBERS) for type_ in both) or before is None or after is None:
        return None
    try:
        gap = _ALL_DIGITS.subtract(Decimal(str(after)), Decimal(str(before)))
    except InvalidOperation:
        return None
    if not gap.is_finite() or abs(gap.adjusted()) > _FURTHEST:
        return None
    if "double" in both or "float" in both:
        gap = Decimal(f"{gap:.12g}")
    text = f"{gap:+f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
