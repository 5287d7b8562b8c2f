"""What the page shows on which SQL is written and its result stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.accounts.permissions import can_repository
from webapp.builds.pages.links import list_branch_links
from webapp.comparisons.pages.rows import SIGNS, Cell, ColumnHead, DiffRow, DiffTable, make_table
from webapp.core.choices import choose
from webapp.core.errors import AppError
from webapp.core.numbered import NumberedPage
from webapp.repositories import queries as repositories
from webapp.sql import queries
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.choices import Choices, Picker
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository
    from webapp.sql.forms import QueryForm
    from webapp.sql.models import Query

PAGE_SIZE = 100
MOST_RECENT = 10
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "REAL", "DECIMAL")
"""What the names of DuckDB's types of numbers hold."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result."""

    name: str
    type: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class ResultPart:
    """One page of the rows of a result, or why it cannot be shown."""

    columns: Sequence[ResultColumn]
    rows: Sequence[Sequence[tuple[Any, bool]]]
    """Each value with whether it is set flush right."""
    summary: Mapping[str, Any]
    """How many rows it has and were read, and whether it is cut."""
    text: str
    previous_url: str
    next_url: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """How two results differ, with a page of the rows that do, or why these cannot be shown."""

    difference: Mapping[str, Any]
    """As the process found it: `state`, `reason`, `key`, `columns` and counts."""
    table: DiffTable
    text: str
    previous_url: str
    next_url: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that was read, and what it is on the base."""

    path: str
    branch: str
    transaction: str
    base: Mapping[str, str] | None
    masked: Sequence[str]
    """Columns that are NULL in it, because they are hidden from who asks."""


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A query and what came of it."""

    query: Query
    repository: Repository
    poll_url: str
    """Where it is asked again how it goes; empty once it is over."""
    can_cancel: bool
    result: ResultPart | None
    base_result: ResultPart | None
    difference: DifferencePart | None
    reads: Sequence[ReadTable]


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A text of SQL to write, the tables that it may name, and what came of it."""

    nav: str
    repo_bar: Mapping[str, str]
    repository: Repository
    branch: str
    branches: Picker
    base: str
    """The branch with whose result another one is compared; empty where none is."""
    bases: Choices
    form: QueryForm
    sql: str
    may_save: bool
    """Whether the reader may commit to the repository."""
    tables: Sequence[str]
    table_count: int
    recent: Sequence[Query]
    shown: QueryPart | None


def read_console(
    principal: Principal,
    repository: Repository,
    *,
    branch: str,
    base: str,
    form: QueryForm,
    sql: str,
    shown: QueryPart | None = None,
) -> ConsolePage:
    """Return the page; with a query, what came of it stands below the text."""
    tables, count = queries.list_readable(principal, repository)
    return ConsolePage(
        nav="repositories",
        repo_bar={"name": repository.name, "tab": "sql"},
        repository=repository,
        branch=branch,
        branches=list_branches(repository, current=branch),
        base=base,
        bases=list_bases(repository, current=base),
        form=form,
        sql=sql,
        may_save=can_repository(principal, repository.name, "write"),
        tables=tables,
        table_count=count,
        recent=list(queries.list_queries(principal, repository)[:MOST_RECENT]),
        shown=shown,
    )


def list_branches(repository: Repository, *, current: str = "", q: str = "") -> Picker:
    """Return the branches to query that have a text in their name."""
    return list_branch_links(repository, reverse("repository-sql", args=[repository.name]), current=current, q=q)


def list_bases(repository: Repository, *, current: str = "", q: str = "") -> Choices:
    """Return the branches to compare with that have a text in their name."""
    return choose(repositories.list_branch_names(repository), q=q, current=current)


def read_query(principal: Principal, query: Query, *, places: Mapping[str, int]) -> QueryPart:
    """Return what came of a query so far.

    Args:
        principal: who looks.
        query: what was run.
        places: by the name of its parameter, the page of each list of rows; those that are left out are at their first.

    """
    address = reverse("query", args=[query.repository.name, query.pk])
    is_over = query.state.is_over
    is_ready = query.state == QueryState.READY
    has_base = is_ready and bool(query.summary.get("base"))
    return QueryPart(
        query=query,
        repository=query.repository,
        poll_url="" if is_over else address,
        can_cancel=not is_over and queries.can_cancel(principal, query),
        result=_read_result(query, _Turner("page", places, address)) if is_ready else None,
        base_result=_read_result(query, _Turner("base_page", places, address), on_base=True) if has_base else None,
        difference=read_difference(query, _Turner("difference_page", places, address), size=PAGE_SIZE)
        if is_ready and query.summary.get("difference")
        else None,
        reads=_list_read(query),
    )


@dataclass(frozen=True, slots=True)
class _Turner:
    """The pages of one of the lists of a page: the others stay where they are."""

    parameter: str
    places: Mapping[str, int]
    address: str

    def choose(self, total: int, size: int) -> NumberedPage:
        """Return the page that is shown."""
        return NumberedPage.choose(self.places.get(self.parameter, 1), size=size, total=total)

    def link(self, number: int) -> str:
        """Return the address of another page."""
        places = {**self.places, self.parameter: number}
        return f"{self.address}?{urlencode({name: place for name, place in places.items() if place > 1})}"


def _list_read(query: Query) -> list[ReadTable]:
    bases = {table["path"]: table for table in query.base_tables}
    return [
        ReadTable(
            table["path"], table["branch"], table["transaction"], bases.get(table["path"]), table.get("masked", ())
        )
        for table in query.tables
    ]


def _read_result(query: Query, turner: _Turner, *, on_base: bool = False) -> ResultPart:
    summary = queries.get_summary(query, on_base=on_base)
    columns = list_columns(summary)
    part = turner.choose(summary["rows"], PAGE_SIZE)
    try:
        rows = queries.read_rows(query, start=part.start, limit=PAGE_SIZE, on_base=on_base) if part.total else []
    except AppError as error:
        return ResultPart(columns, [], summary, "", "", "", problem=error.detail)
    return ResultPart(
        columns=columns,
        rows=[[(value, column.is_number) for value, column in zip(row, columns, strict=True)] for row in rows],
        summary=summary,
        text=part.text,
        previous_url=part.link_previous(turner.link),
        next_url=part.link_next(turner.link),
    )


def list_columns(summary: Mapping[str, Any]) -> list[ResultColumn]:
    """Return the columns of a result."""
    return [
        ResultColumn(str(column["name"]), str(column["type"]), _holds_numbers(str(column["type"])))
        for column in summary["columns"]
    ]


def read_difference(query: Query, turner: _Turner | None, *, size: int) -> DifferencePart:
    """Return how the two results of a query differ, with a page of the rows that do; the first ones without a turner."""
    difference = queries.get_difference(query)
    lines = difference["lines"]
    part = turner.choose(lines, size) if turner else NumberedPage.choose(1, size=size, total=lines)
    columns, problem = list_columns(query.summary), ""
    try:
        rows = queries.read_difference(query, start=part.start, limit=size)
    except AppError as error:
        rows, problem = [], error.detail
    heads = [
        ColumnHead(
            column.name, column.type.lower(), column.name == difference["key"] and not place, column.is_number, ""
        )
        for place, column in enumerate(columns)
    ]
    return DifferencePart(
        difference=difference,
        table=make_table(heads, [draw_row(row, heads, part.start + place) for place, row in enumerate(rows, 1)]),
        text=part.text,
        previous_url=part.link_previous(turner.link) if turner else "",
        next_url=part.link_next(turner.link) if turner else "",
        problem=problem,
    )


def draw_row(row: queries.DifferentRow, heads: Sequence[ColumnHead], number: int) -> DiffRow:
    """Return a row that differs as a table draws it."""
    css, sign, word = SIGNS[row.change]
    before, after = row.before or row.after or (), row.after or row.before or ()
    cells = [_draw_cell(head, old, new, row.change) for head, old, new in zip(heads, before, after, strict=True)]
    return DiffRow(number, css, sign, word, row.copies, cells, url="", key={})


def _draw_cell(head: ColumnHead, before: Any, after: Any, change: str) -> Cell:
    state = change
    if change == "updated":
        state = "same" if before == after else "changed"
    marks = [*(["num"] if head.is_number else []), *({"same": ["same"], "changed": ["chg"]}.get(state, []))]
    return Cell(state, before, after, None, " ".join(marks), head.pin, head.is_number)


def _holds_numbers(type_: str) -> bool:
    return "[" not in type_ and "(" not in type_.removeprefix("DECIMAL(") and any(word in type_ for word in _NUMBERS)
