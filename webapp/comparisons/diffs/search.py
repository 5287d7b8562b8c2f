"""What somebody asks of a stored row diff, as SQL over its file: kinds of change, a column, a search, an order."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from webapp.comparisons.rules.states import ROW_CHANGES
from webapp.core.errors import BadRequest
from webapp.datasets.rules.row_conditions import SearchedColumn, StoredValue, any_of, find_conditions, list_fitting
from webapp.datasets.rules.row_values import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn
    from webapp.comparisons.rules.row_keys import KeyTexts
    from webapp.datasets.rules.row_values import Condition


@dataclass(frozen=True)
class RowQuery:
    """A parsed request: SQL conditions with their parameters, the order, and a name for cursors."""

    conditions: tuple[str, ...]
    parameters: tuple[Any, ...]
    order: str | None
    digest: str

    @property
    def where(self) -> str:
        """One SQL condition."""
        return " AND ".join(self.conditions) or "true"

    @classmethod
    def parse(
        cls,
        artifact: Artifact,
        *,
        change: Iterable[str],
        column: str | None,
        q: str | None,
        sort: str | None,
        alike: tuple[str, Sequence[Condition]] = ("", ()),
    ) -> RowQuery:
        """Read what was asked; `alike` are the name and the conditions of rows that are like a certain one.

        Raises:
            BadRequest: a kind, column or order that is not there, or a search that is not understood.

        """
        kinds = sorted({kind.strip() for kind in change if kind.strip()})
        unknown = [kind for kind in kinds if kind not in ROW_CHANGES]
        if unknown:
            raise BadRequest(f"change: {unknown[0]!r} is none of {', '.join(ROW_CHANGES)}.", errors={"change": unknown})
        conditions: list[str] = []
        parameters: list[Any] = []
        if kinds and len(kinds) < len(ROW_CHANGES):
            conditions.append(f"change IN ({', '.join('?' for _ in kinds)})")
            parameters += kinds
        if column:
            conditions.append("list_contains(changed, ?)")
            parameters.append(_named(artifact, column, "column").index)
        if q and q.strip():
            for condition, values in _search(artifact, q):
                conditions.append(condition)
                parameters += values
        name, tests = alike
        for condition, values in tests:
            conditions.append(condition)
            parameters += values
        text = json.dumps([kinds, column or "", (q or "").strip(), sort or "", *([name] if name else [])])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cls(tuple(conditions), tuple(parameters), _order(artifact, sort), digest)


def match_key(artifact: Artifact, key: KeyTexts) -> list[Condition]:
    """Return the conditions of the row with this key, whose values are in the order of the diff's.

    Raises:
        BadRequest: a part of the key is hidden from the reader: what is found would say what it is.

    """
    for column in artifact.key_columns:
        if column.is_hidden:
            raise BadRequest(f"key: {_explain_hidden(column.name)}", code="hidden_column")
    conditions = []
    for column, text in zip(artifact.key_columns, key, strict=True):
        places = _places(artifact, column)
        tests = [place.is_null for place in places] if text is None else list_fitting(places, "=", text)[0]
        conditions.append(any_of([test for test in tests if test != NEVER]))
    return conditions


def _explain_hidden(name: str) -> str:
    return f"the values of {name!r} are hidden from you: its repository calls them sensitive."


def _named(artifact: Artifact, name: str, field_name: str) -> DiffColumn:
    columns = (*artifact.columns, *artifact.inside)
    for column in columns:
        if name in {column.name, column.after_name}:
            return column
    for column in columns:
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
    if column.is_hidden:
        raise BadRequest(f"sort: {_explain_hidden(name)}", code="hidden_column", errors={"sort": [name]})
    values = [value for _, value in _sides(artifact, column)]
    if not values:
        raise BadRequest(f"sort: the values of {name!r} are not stored.", errors={"sort": [name]})
    newest_first = values[::-1]
    if len({artifact.types[value] for value in values}) == 1:
        newest_first = [f"coalesce({', '.join(newest_first)})"]
    keys = [f"{value} {direction} NULLS LAST" for value in newest_first]
    return ", ".join([*keys, "n"])


def _sides(artifact: Artifact, column: DiffColumn) -> list[tuple[Literal["a", "b"], str]]:
    """Return SQL of the stored values of one column, before first."""
    sides: tuple[Literal["a", "b"], ...] = ("b", "a")
    return [(side, value) for side in sides if (value := column.stored(side)) in artifact.types]


def _places(artifact: Artifact, column: DiffColumn) -> list[StoredValue]:
    """List where to look for a column's values: a part of the key has one for both ends, which files are ordered by."""
    sides = _sides(artifact, column)
    if column in artifact.key_columns:
        matched = f"k{artifact.key_columns.index(column)}"
        if {artifact.types[value] for _, value in sides} == {artifact.types.get(matched)}:
            return [StoredValue(matched, artifact.types[matched])]
    lacking = {"b": "inserted", "a": "deleted"}
    return [StoredValue(value, artifact.types[value], f"change <> '{lacking[side]}'") for side, value in sides]


def _search(artifact: Artifact, q: str) -> Iterator[Condition]:
    """Return the conditions of a search, of which all hold."""
    columns = {column: _searched(artifact, column) for column in (*artifact.columns, *artifact.inside)}
    # what is hidden is not searched, or what is found would say what it is
    seen = [column for column in artifact.key_columns or artifact.columns if not column.is_hidden]
    bare = seen or [column for column in artifact.columns if not column.is_hidden]
    what = "part of the key" if artifact.key_columns else "column"
    return find_conditions(q, columns=list(columns.values()), bare=[columns[column] for column in bare], what=what)


def _searched(artifact: Artifact, column: DiffColumn) -> SearchedColumn:
    return SearchedColumn(
        names=tuple(dict.fromkeys(name for name in (column.name, column.after_name) if name)),
        type=column.type,
        places=tuple(_places(artifact, column)),
        is_hidden=column.is_hidden,
        former_name=column.before_name or "",
    )
