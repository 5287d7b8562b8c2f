"""What the page shows on which SQL is written and its result stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.builds.pages.links import list_branch_links
from webapp.core.errors import AppError
from webapp.core.numbered import NumberedPage
from webapp.sql import queries
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.choices import Picker
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
    text: str
    previous_url: str
    next_url: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A query and what came of it."""

    query: Query
    repository: Repository
    poll_url: str
    """Where it is asked again how it goes; empty once it is over."""
    can_cancel: bool
    result: ResultPart | None


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A text of SQL to write, the tables that it may name, and what came of it."""

    nav: str
    repo_bar: Mapping[str, str]
    repository: Repository
    branch: str
    branches: Picker
    form: QueryForm
    sql: str
    tables: Sequence[str]
    table_count: int
    recent: Sequence[Query]
    shown: QueryPart | None


def read_console(
    principal: Principal,
    repository: Repository,
    *,
    branch: str,
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
        form=form,
        sql=sql,
        tables=tables,
        table_count=count,
        recent=list(queries.list_queries(principal, repository)[:MOST_RECENT]),
        shown=shown,
    )


def list_branches(repository: Repository, *, current: str = "", q: str = "") -> Picker:
    """Return the branches to query that have a text in their name."""
    return list_branch_links(repository, reverse("repository-sql", args=[repository.name]), current=current, q=q)


def read_query(principal: Principal, query: Query, *, page: int) -> QueryPart:
    """Return what came of a query so far."""
    address = reverse("query", args=[query.repository.name, query.pk])
    is_over = query.state.is_over
    return QueryPart(
        query=query,
        repository=query.repository,
        poll_url="" if is_over else address,
        can_cancel=not is_over and queries.can_cancel(principal, query),
        result=_read_result(query, page, address) if query.state == QueryState.READY else None,
    )


def _read_result(query: Query, page: int, address: str) -> ResultPart:
    columns = [
        ResultColumn(str(column["name"]), str(column["type"]), _holds_numbers(str(column["type"])))
        for column in query.summary["columns"]
    ]
    part = NumberedPage.choose(page, size=PAGE_SIZE, total=query.summary["rows"])
    try:
        rows = queries.read_rows(query, start=part.start, limit=PAGE_SIZE) if part.total else []
    except AppError as error:
        return ResultPart(columns, [], "", "", "", problem=error.detail)

    def link(number: int) -> str:
        return f"{address}?{urlencode({'page': number})}"

    return ResultPart(
        columns=columns,
        rows=[[(value, column.is_number) for value, column in zip(row, columns, strict=True)] for row in rows],
        text=part.text,
        previous_url=part.link_previous(link),
        next_url=part.link_next(link),
    )


def _holds_numbers(type_: str) -> bool:
    return "[" not in type_ and "(" not in type_.removeprefix("DECIMAL(") and any(word in type_ for word in _NUMBERS)
