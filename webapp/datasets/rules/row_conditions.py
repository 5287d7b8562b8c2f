"""A search for rows as SQL conditions: the same language for a row diff and for the rows of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.datasets.rules.row_search import parse_search, refuse
from webapp.datasets.rules.row_values import NEVER, UnfitError, compare, is_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from webapp.datasets.rules.row_search import Term, Word
    from webapp.datasets.rules.row_values import Condition

_FEW = 6
"""Columns that a message names."""


@dataclass(frozen=True)
class StoredValue:
    """One place where values of a column are stored."""

    sql: str
    type: str
    """DuckDB's."""
    exists: str = ""
    """SQL of whether a row has this place; empty if each row has it."""

    @property
    def is_null(self) -> Condition:
        """The condition that it is NULL; a place that does not exist is none."""
        return f"({self.sql} IS NULL{f' AND {self.exists}' if self.exists else ''})", ()


@dataclass(frozen=True)
class SearchedColumn:
    """A column that people can search in."""

    names: tuple[str, ...]
    type: str
    """As pages write it."""
    places: tuple[StoredValue, ...]
    is_hidden: bool = False
    former_name: str = ""
    """Found under this name too, unless another column has it now."""

    @property
    def name(self) -> str:
        """The name that messages use."""
        return self.names[0]


def find_conditions(
    q: str, *, columns: Sequence[SearchedColumn], bare: Sequence[SearchedColumn], what: str = ""
) -> Iterator[Condition]:
    """Yield the conditions of a search, of which all hold.

    Args:
        q: what was typed.
        columns: those that can be named.
        bare: those in which a value without a column is looked for.
        what: one of these, in the refusal of a value that none of them can have; without it such a value finds nothing.

    Raises:
        BadRequest: it is not understood, or asks for what a column does not have.

    """
    names = {name for column in columns for name in (*column.names, column.former_name) if name}
    for term in parse_search(q, columns=names):
        tests = [_compare(term, value, columns, bare, what) for value in term.values]
        yield any_of([test for test in tests if test != NEVER])


def find_column(columns: Iterable[SearchedColumn], name: str) -> SearchedColumn | None:
    """Return the column of a name, or the one that had it before."""
    columns = list(columns)
    current = next((column for column in columns if name in column.names), None)
    return current or next((column for column in columns if name == column.former_name), None)


def _compare(
    term: Term, value: Word, columns: Sequence[SearchedColumn], bare: Sequence[SearchedColumn], what: str
) -> Condition:
    if term.column is None:
        return _search_anywhere(value, bare, what)
    column = find_column(columns, term.column.text)
    if column is None:
        refuse(term.column.place, f"there is no column {term.column.text!r}")
    if column.is_hidden:
        refuse(term.column.place, f"the values of {column.name} are hidden from you")
    if not column.places:
        refuse(term.column.place, f"the values of {column.name} are not stored")
    if value.is_null:
        return _compare_null(term, value, column.places)
    tests, problems = list_fitting(column.places, "=" if term.operator == "in" else term.operator, value.text)
    if not tests:
        refuse(value.place, f"{column.name} is of type {column.type}, {problems[0]}")
    return any_of(tests)


def _compare_null(term: Term, value: Word, places: Sequence[StoredValue]) -> Condition:
    if term.operator == "!=":
        return any_of([(f"{place.sql} IS NOT NULL", ()) for place in places])
    if term.operator not in ("=", "in"):
        refuse(value.place, f"NULL is neither less nor greater nor part of anything; write is null or '{value.text}'")
    return any_of([place.is_null for place in places])


def _search_anywhere(value: Word, bare: Sequence[SearchedColumn], what: str) -> Condition:
    """Look for a value that stands alone; of a text also for a part."""
    tests: list[Condition] = []
    for column in bare:
        if value.is_null:
            tests += [place.is_null for place in column.places]
        for place in column.places:
            is_text = place.type == "VARCHAR" or is_nested(place.type)
            tests += list_fitting([place], "~" if is_text else "=", value.text)[0]
    if not tests and what:
        types = ", ".join(f"{column.name} {column.type}" for column in bare[:_FEW])
        refuse(
            value.place, f"no {what} has values like {value.text!r} ({types}); for another column write column = value"
        )
    return any_of(tests)


def list_fitting(places: Iterable[StoredValue], operator: str, text: str) -> tuple[list[Condition], list[str]]:
    """Return the conditions of those stored values that can be compared so, and what is wrong with the others."""
    tests, problems = [], []
    for place in places:
        try:
            tests.append(compare(place.sql, place.type, operator, text))
        except UnfitError as error:
            problems.append(str(error))
    return tests, problems


def any_of(tests: Sequence[Condition]) -> Condition:
    """Return the condition that one of these holds."""
    if not tests:
        return NEVER
    return f"({' OR '.join(sql for sql, _ in tests)})", tuple(value for _, values in tests for value in values)
