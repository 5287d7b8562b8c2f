"""What somebody asks of a stored row diff, as SQL over its file: kinds of change, a column, a search, an order."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from webapp.comparisons.rules.row_search import parse_search, refuse
from webapp.comparisons.rules.row_values import NEVER, ROW_CHANGES, UnfitError, compare, is_nested
from webapp.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn
    from webapp.comparisons.rules.row_keys import KeyTexts
    from webapp.comparisons.rules.row_search import Term, Word
    from webapp.comparisons.rules.row_values import Condition

_FEW = 6
"""Columns that a message names."""


@dataclass(frozen=True)
class _StoredValue:
    """Where values of a column are stored: by the key, or at one end."""

    sql: str
    lacking: Literal["inserted", "deleted", ""] = ""
    """The change whose rows that end does not have."""

    @property
    def is_null(self) -> Condition:
        """The condition that it is NULL; an end that does not exist is none."""
        is_there = f" AND change <> '{self.lacking}'" if self.lacking else ""
        return f"({self.sql} IS NULL{is_there})", ()


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
        tests = [place.is_null for place in places] if text is None else _fitting(places, artifact, "=", text)[0]
        conditions.append(_any_of([test for test in tests if test != NEVER]))
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


def _places(artifact: Artifact, column: DiffColumn) -> list[_StoredValue]:
    """List where to look for a column's values: a part of the key has one for both ends, which files are ordered by."""
    sides = _sides(artifact, column)
    if column in artifact.key_columns:
        matched = f"k{artifact.key_columns.index(column)}"
        if {artifact.types[value] for _, value in sides} == {artifact.types.get(matched)}:
            return [_StoredValue(matched)]
    return [_StoredValue(value, "inserted" if side == "b" else "deleted") for side, value in sides]


def _search(artifact: Artifact, q: str) -> Iterator[Condition]:
    """Yield the conditions of a search, of which all hold."""
    columns = (*artifact.columns, *artifact.inside)
    names = {name for column in columns for name in (column.name, column.after_name, column.before_name) if name}
    for term in parse_search(q, columns=names):
        tests = [_compare(artifact, term, value) for value in term.values]
        yield _any_of([test for test in tests if test != NEVER])


def _compare(artifact: Artifact, term: Term, value: Word) -> Condition:
    if term.column is None:
        return _search_anywhere(artifact, value)
    column = _named(artifact, term.column.text, "q")
    if column.is_hidden:
        refuse(term.column.place, f"the values of {column.name} are hidden from you")
    places = _places(artifact, column)
    if not places:
        refuse(term.column.place, f"the values of {column.name} are not stored")
    if value.is_null:
        return _compare_null(term, value, places)
    tests, problems = _fitting(places, artifact, "=" if term.operator == "in" else term.operator, value.text)
    if not tests:
        refuse(value.place, f"{column.name} is of type {column.type}, {problems[0]}")
    return _any_of(tests)


def _compare_null(term: Term, value: Word, places: Sequence[_StoredValue]) -> Condition:
    if term.operator == "!=":
        return _any_of([(f"{place.sql} IS NOT NULL", ()) for place in places])
    if term.operator not in ("=", "in"):
        refuse(value.place, f"NULL is neither less nor greater nor part of anything; write is null or '{value.text}'")
    return _any_of([place.is_null for place in places])


def _search_anywhere(artifact: Artifact, value: Word) -> Condition:
    """Look for a value that stands alone: in any part of the key, else in any column; of a text also for a part."""
    # what is hidden is not searched, or what is found would say what it is
    seen = [column for column in artifact.key_columns or artifact.columns if not column.is_hidden]
    chosen = seen or [column for column in artifact.columns if not column.is_hidden]
    tests: list[Condition] = []
    for column in chosen:
        places = _places(artifact, column)
        if value.is_null:
            tests += [place.is_null for place in places]
        for place in places:
            type_ = artifact.types[place.sql]
            is_text = type_ == "VARCHAR" or is_nested(type_)
            tests += _fitting([place], artifact, "~" if is_text else "=", value.text)[0]
    if not tests:
        what = "part of the key" if artifact.key_columns else "column"
        types = ", ".join(f"{column.name} {column.type}" for column in chosen[:_FEW])
        refuse(
            value.place, f"no {what} has values like {value.text!r} ({types}); for another column write column = value"
        )
    return _any_of(tests)


def _fitting(
    places: Iterable[_StoredValue], artifact: Artifact, operator: str, text: str
) -> tuple[list[Condition], list[str]]:
    """Return the conditions of those stored values that can be compared so, and what is wrong with the others."""
    tests, problems = [], []
    for place in places:
        try:
            tests.append(compare(place.sql, artifact.types[place.sql], operator, text))
        except UnfitError as error:
            problems.append(str(error))
    return tests, problems


def _any_of(tests: Sequence[Condition]) -> Condition:
    if not tests:
        return NEVER
    return f"({' OR '.join(sql for sql, _ in tests)})", tuple(value for _, values in tests for value in values)
