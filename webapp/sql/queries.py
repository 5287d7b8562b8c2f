"""Which tables a query reads, who may see it, and the rows of its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Q

from jobs.protocol import fold_column
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.comparisons.diffs import reader
from webapp.core import names
from webapp.core.errors import Conflict, Gone, InvalidInput, NotFound
from webapp.datasets import queries as datasets
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.datasets.permissions import see_rows
from webapp.repositories import queries as repositories
from webapp.runtime.readers import ReadFailed, ask_reader
from webapp.sql.models import Query
from webapp.sql.rules import names as rules
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

MAX_SQL = 100_000
"""Signs of a text."""
PARSE_SECONDS = 10.0
PARSE_LIMITS = {"memory_bytes": 4 * 1024**3, "total_memory_bytes": 1024**3, "fsize": 0, "cpu_s": 10}
PARSE_BYTES = 1024 * 1024
ROWS_FILE, BASE_FILE, DIFFERENCE_FILE = "rows.parquet", "base.parquet", "difference.parquet"
MOST_LISTED = 50
"""Tables that a page names."""


@dataclass(frozen=True)
class NamedTable:
    """A table as it stands on a branch, with the names that the text calls it by."""

    names: tuple[str, ...]
    path: str
    branch: str
    transaction: str
    """Empty where it has no data there."""
    masked: tuple[str, ...] = ()
    """Columns that are NULL in it, because they are hidden from who asks."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a query keeps it."""
        fields = {"names": list(self.names), "path": self.path, "branch": self.branch, "transaction": self.transaction}
        return {**fields, "masked": list(self.masked)}


def list_names(sql: str) -> list[str]:
    """Return the tables that a text of SQL names; a process in the sandbox parses it.

    Raises:
        InvalidInput: it is no single statement that reads.
        Unavailable: no process can be started.

    """
    if len(sql) > MAX_SQL:
        message = f"A query has at most {MAX_SQL:,} signs; this one has {len(sql):,}."
        raise InvalidInput(message, code="sql_too_long", errors={"sql": [message]})
    try:
        question = {"ask": "tables", "sql": sql}
        answer = ask_reader(question, limits=PARSE_LIMITS, seconds=PARSE_SECONDS, most_answer_bytes=PARSE_BYTES)
    except ReadFailed as error:
        message = f"This text is not SQL that can be read here: {error}."
        raise InvalidInput(message, code="bad_sql", errors={"sql": [message]}) from error
    if "tables" not in answer:
        message = str(answer.get("problem"))
        raise InvalidInput(message, code="bad_sql", errors={"sql": [message]})
    return [str(name) for name in answer["tables"]]


@dataclass(frozen=True)
class NamedTables:
    """What the names in a text mean on a branch and, where there is one, on its base."""

    tables: list[NamedTable]
    base_tables: list[NamedTable]

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return them as a query keeps them."""
        return {
            "tables": [table.as_json() for table in self.tables],
            "base_tables": [table.as_json() for table in self.base_tables],
        }


def find_tables(
    principal: Principal, repository: Repository, *, branch: str, names: Sequence[str], base: str = ""
) -> NamedTables:
    """Return what these names mean on a branch, and on its base: the newest transaction of each that its readers see.

    Raises:
        InvalidInput: a name means nothing that the reader may read, or several things; all of them are told at once.

    """
    named = _find_named(principal, repository, names)
    tables = [_pin(principal, dataset, branch=branch, called=called) for dataset, called in named]
    for table in tables:
        if not table.transaction:
            message = f"{table.path} has no data on {branch}."
            raise InvalidInput(message, code="nothing_committed", errors={"sql": [message]})
    base_tables = [_pin(principal, dataset, branch=base, called=called) for dataset, called in named] if base else []
    return NamedTables(tables, base_tables)


def _find_named(principal: Principal, repository: Repository, names: Sequence[str]) -> list[tuple[Dataset, list[str]]]:
    problems: list[str] = []
    named: dict[str, list[str]] = {}
    datasets = {dataset.path: dataset for dataset in _find_candidates(principal, repository, names)}
    for name in names:
        fitting = [name] if name in datasets else [] if rules.is_path(name) else rules.list_called(name, datasets)
        if len(fitting) == 1:
            named.setdefault(fitting[0], []).append(name)
        else:
            problems.append(rules.explain_ambiguous(name, fitting) if fitting else rules.explain_unknown(name))
    if problems:
        raise InvalidInput(" ".join(problems), code="unknown_table", errors={"sql": problems})
    return [(datasets[path], called) for path, called in named.items()]


def _find_candidates(principal: Principal, repository: Repository, names: Sequence[str]) -> list[Dataset]:
    """Return the datasets that any of the names may mean, of those that the reader sees."""
    fits = Q(path__in=[name for name in names if rules.is_path(name)])
    own = datasets.path_in_folders(accounts.list_folders(repository=repository.name))
    for name in names:
        if not rules.is_path(name):
            fits |= own & Q(path__iendswith=f"/{name}")
    return list(Dataset.objects.filter(fits, datasets.path_is_visible(principal)))


def find_moved(queries: Iterable[Query]) -> set[int]:
    """Return the ids of those queries that would read other transactions if they were run now."""
    newest: dict[tuple[str, str], str] = {}
    moved = set()
    for query in queries:
        pins = [(query.branch, table) for table in query.tables]
        pins += [(query.base, table) for table in query.base_tables]
        for branch, table in pins:
            place = (branch, str(table["path"]))
            if place not in newest:
                dataset = datasets.find_dataset(place[1])
                transaction = _find_newest(dataset, branch)[1] if dataset else None
                newest[place] = transaction.pk if transaction else ""
            if newest[place] != table["transaction"]:
                moved.add(query.pk)
    return moved


def _find_newest(dataset: Dataset, branch: str) -> tuple[str, Transaction | None]:
    """Return the transaction that readers of a branch see, with the branch that has it."""
    chain = (branch, *datasets.get_fallback_chain(path=dataset.path, branch=branch))
    return datasets.resolve_view(dataset, chain) or (branch, None)


def _pin(principal: Principal, dataset: Dataset, *, branch: str, called: Sequence[str]) -> NamedTable:
    name, transaction = _find_newest(dataset, branch)
    if transaction is None:
        return NamedTable(tuple(called), dataset.path, name, "")
    sight = see_rows(principal, dataset, branch, name, transaction)
    return NamedTable(tuple(called), dataset.path, name, transaction.pk, tuple(sorted(sight.hidden)))


def check_branch(repository: Repository, branch: str) -> None:
    """Refuse what is no branch of the repository's code, nor of any of its data.

    Raises:
        NotFound: there is none of this name.

    """
    datasets.check_not_internal(branch)
    names.check_branch_name(branch)
    own = datasets.path_in_folders(accounts.list_folders(repository=repository.name))
    if branch not in repositories.list_branch_names(repository):
        pointers = DatasetBranch.objects.filter(name=branch, dataset__in=Dataset.objects.filter(own))
        if not pointers.exists():
            message = f"{repository.name} has no branch {branch}, and none of its datasets has."
            raise NotFound(message)


def list_readable(principal: Principal, repository: Repository) -> tuple[list[str], int]:
    """Return the first datasets of a repository that the reader may query, and how many there are."""
    own = datasets.path_in_folders(accounts.list_folders(repository=repository.name))
    readable = Dataset.objects.filter(own, datasets.path_is_visible(principal)).order_by("path")
    return list(readable.values_list("path", flat=True)[:MOST_LISTED]), readable.count()


def list_queries(principal: Principal, repository: Repository) -> QuerySet[Query]:
    """Return the queries that somebody ran in a repository, newest first."""
    own = Query.objects.filter(repository=repository, by=principal.user_id, check_name="")
    return own.select_related("by", "repository").order_by("-created_at", "-pk")


def get_query(principal: Principal, repository: Repository, number: int) -> Query:
    """Return a query of a repository; who may not read one of its datasets any more does not see it.

    Raises:
        NotFound: there is none for this reader.

    """
    query = Query.objects.filter(repository=repository, pk=number).select_related("by", "repository").first()
    if query is None or not can_read(principal, query):
        message = f"{repository.name} has no query {number}, or you may not read what it read."
        raise NotFound(message)
    return query


def can_read(principal: Principal, query: Query) -> bool:
    """Return whether somebody may read all that a query read: its datasets, and in them the columns that it saw."""
    return can_read_tables(principal, branch=query.branch, tables=query.tables) and can_read_tables(
        principal, branch=query.base, tables=query.base_tables
    )


def can_read_tables(principal: Principal, *, branch: str, tables: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether somebody may read tables of a branch as a query keeps them, with every column that is not masked."""
    return all(
        permissions.can_dataset(principal, table["path"], "read") and _sees_all_of(principal, branch, table)
        for table in tables
    )


def _sees_all_of(principal: Principal, branch: str, table: Mapping[str, Any]) -> bool:
    """Return whether nothing is hidden from somebody that was not hidden from who asked, on this branch."""
    hidden = permissions.list_sensitive(principal, table["path"], branches={branch, table["branch"]})
    return not table["transaction"] or {fold_column(name) for name in hidden} <= set(table.get("masked", ()))


def can_cancel(principal: Principal, query: Query) -> bool:
    """Return whether somebody may stop a query: their own, or as a maintainer of the repository."""
    return query.by_id == principal.user_id or permissions.can_repository(principal, query.repository.name, "maintain")


def result_folder(query: Query) -> Path:
    """Return where the result of a query lies."""
    return Path(settings.TRIBUTARY_HOME) / "queries" / str(query.pk)


def reader_folder(query: Query) -> Path:
    """Return where the process works that reads a query's tables; the process that runs the SQL does not see it."""
    return result_folder(query).with_name(f"{query.pk}.tables")


def get_summary(query: Query, *, on_base: bool = False) -> Mapping[str, Any]:
    """Return what is known of a result, or of that of the base.

    Raises:
        Conflict: there is none.

    """
    if query.state != QueryState.READY:
        message = f"Query {query.pk} is {query.state.label.lower()}: it has no rows."
        raise Conflict(message, code="not_ready")
    summary: Mapping[str, Any] | None = query.summary.get("base") if on_base else query.summary
    if summary is None:
        message = f"Query {query.pk} has no result on a base."
        raise Conflict(message, code="not_compared")
    return summary


def read_rows(query: Query, *, start: int, limit: int, on_base: bool = False) -> list[list[Any]]:
    """Return a page of the rows of a result, each a list in the order of the columns.

    Raises:
        Conflict: it has none, or they are damaged.
        Gone: they have been removed.
        Unavailable: they cannot be read now.

    """
    width = len(get_summary(query, on_base=on_base)["columns"])
    lines = _read_lines(query, BASE_FILE if on_base else ROWS_FILE, start, limit)
    return [[line[f"c{place}"] for place in range(width)] for line in lines]


@dataclass(frozen=True)
class DifferentRow:
    """Rows of two results that belong together, or a row that only one of them has."""

    change: str
    copies: int
    before: list[Any] | None
    after: list[Any] | None


def get_difference(query: Query) -> Mapping[str, Any]:
    """Return how a result differs from that of the base.

    Raises:
        Conflict: there is no result yet, or it is compared with none.

    """
    difference: Mapping[str, Any] | None = get_summary(query).get("difference")
    if difference is None:
        message = f"Query {query.pk} is compared with no other branch."
        raise Conflict(message, code="not_compared")
    return difference


def read_difference(query: Query, *, start: int, limit: int) -> list[DifferentRow]:
    """Return a page of the rows in which two results differ.

    Raises:
        Conflict: there are none to read, or they are damaged.
        Gone: they have been removed.
        Unavailable: they cannot be read now.

    """
    if not get_difference(query)["lines"]:
        return []
    return pair_sides(_read_lines(query, DIFFERENCE_FILE, start, limit), width=len(query.summary["columns"]))


def pair_sides(lines: Iterable[Mapping[str, Any]], *, width: int) -> list[DifferentRow]:
    """Return stored lines of a difference as rows of so many columns on both sides."""
    return [
        DifferentRow(
            change=line["change"],
            copies=line["copies"],
            before=None if line["change"] == "inserted" else [line[f"b{place}"] for place in range(width)],
            after=None if line["change"] == "deleted" else [line[f"a{place}"] for place in range(width)],
        )
        for line in lines
    ]


def _read_lines(query: Query, name: str, start: int, limit: int) -> list[reader.Line]:
    path = result_folder(query) / name
    if not path.exists():
        message = f"The rows of query {query.pk} have been removed. Run it again."
        raise Gone(message, code="expired")
    return reader.read_slice(path, start, limit)
