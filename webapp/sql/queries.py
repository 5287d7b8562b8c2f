"""Which tables a query reads, who may see it, and the rows of its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Q

from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.rules.sight import fold
from webapp.comparisons.diffs import reader
from webapp.core import names
from webapp.core.errors import Conflict, Gone, InvalidInput, NotFound
from webapp.datasets import queries as datasets
from webapp.datasets.models import Dataset, DatasetBranch
from webapp.datasets.permissions import see_rows
from webapp.repositories import queries as repositories
from webapp.runtime.readers import Reader, ReadFailed
from webapp.sql.models import Query
from webapp.sql.rules import names as rules
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

MAX_SQL = 100_000
"""Signs of a text."""
PARSE_SECONDS = 10.0
PARSE_LIMITS = {"memory_bytes": 4 * 1024**3, "total_memory_bytes": 1024**3, "fsize": 0, "cpu_s": 10}
PARSE_BYTES = 1024 * 1024
ROWS_FILE = "rows.parquet"
MOST_LISTED = 50
"""Tables that a page names."""


@dataclass(frozen=True)
class NamedTable:
    """A table as it stands on a branch, with the names that the text calls it by."""

    names: tuple[str, ...]
    path: str
    branch: str
    transaction: str
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
        parser = Reader("read", limits=PARSE_LIMITS, seconds=PARSE_SECONDS, most_answer_bytes=PARSE_BYTES)
        try:
            answer = parser.ask({"ask": "tables", "sql": sql}).body
        finally:
            parser.end()
    except ReadFailed as error:
        message = f"This text is not SQL that can be read here: {error}."
        raise InvalidInput(message, code="bad_sql", errors={"sql": [message]}) from error
    if "tables" not in answer:
        message = str(answer.get("problem"))
        raise InvalidInput(message, code="bad_sql", errors={"sql": [message]})
    return [str(name) for name in answer["tables"]]


def find_tables(principal: Principal, repository: Repository, *, branch: str, names: Sequence[str]) -> list[NamedTable]:
    """Return what these names mean on a branch: the newest transaction of each that its readers see.

    Raises:
        InvalidInput: a name means nothing that the reader may read, or several things; all of them are told at once.

    """
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
    return [_pin(principal, datasets[path], branch=branch, called=called) for path, called in named.items()]


def _find_candidates(principal: Principal, repository: Repository, names: Sequence[str]) -> list[Dataset]:
    """Return the datasets that any of the names may mean, of those that the reader sees."""
    fits = Q(path__in=[name for name in names if rules.is_path(name)])
    own = datasets.path_in_folders(accounts.list_folders(repository=repository.name))
    for name in names:
        if not rules.is_path(name):
            fits |= own & Q(path__iendswith=f"/{name}")
    return list(Dataset.objects.filter(fits, datasets.path_is_visible(principal)))


def _pin(principal: Principal, dataset: Dataset, *, branch: str, called: Sequence[str]) -> NamedTable:
    chain = (branch, *datasets.get_fallback_chain(path=dataset.path, branch=branch))
    name, transaction = datasets.resolve_view(dataset, chain) or (branch, None)
    if transaction is None:
        message = f"{dataset.path} has no data on {branch}."
        raise InvalidInput(message, code="nothing_committed", errors={"sql": [message]})
    sight = see_rows(principal, dataset, branch, name, transaction)
    return NamedTable(tuple(called), dataset.path, name, transaction.pk, tuple(sorted(sight.hidden)))


def check_branch(repository: Repository, branch: str) -> str:
    """Return a branch of the repository's code, or of any of its data, by this name.

    Raises:
        NotFound: there is none.

    """
    datasets.check_not_internal(branch)
    names.check_branch_name(branch)
    own = datasets.path_in_folders(accounts.list_folders(repository=repository.name))
    if branch not in repositories.list_branch_names(repository):
        pointers = DatasetBranch.objects.filter(name=branch, dataset__in=Dataset.objects.filter(own))
        if not pointers.exists():
            message = f"{repository.name} has no branch {branch}, and none of its datasets has."
            raise NotFound(message)
    return branch


def list_readable(principal: Principal, repository: Repository) -> tuple[list[str], int]:
    """Return the first datasets of a repository that the reader may query, and how many there are."""
    own = datasets.path_in_folders(accounts.list_folders(repository=repository.name))
    readable = Dataset.objects.filter(own, datasets.path_is_visible(principal)).order_by("path")
    return list(readable.values_list("path", flat=True)[:MOST_LISTED]), readable.count()


def list_queries(principal: Principal, repository: Repository) -> QuerySet[Query]:
    """Return the queries that somebody ran in a repository, newest first."""
    own = Query.objects.filter(repository=repository, by=principal.user_id)
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
    return all(
        permissions.can_dataset(principal, table["path"], "read") and _sees_all_of(principal, query, table)
        for table in query.tables
    )


def _sees_all_of(principal: Principal, query: Query, table: Mapping[str, Any]) -> bool:
    """Return whether nothing is hidden from somebody that was not hidden from who asked."""
    hidden = permissions.list_sensitive(principal, table["path"], branches={query.branch, table["branch"]})
    return {fold(name) for name in hidden} <= set(table.get("masked", ()))


def can_cancel(principal: Principal, query: Query) -> bool:
    """Return whether somebody may stop a query: their own, or as a maintainer of the repository."""
    return query.by_id == principal.user_id or permissions.can_repository(principal, query.repository.name, "maintain")


def result_folder(query: Query) -> Path:
    """Return where the result of a query lies."""
    return Path(settings.TRIBUTARY_HOME) / "queries" / str(query.pk)


def read_rows(query: Query, *, start: int, limit: int) -> list[list[Any]]:
    """Return a page of the rows of a result, each a list in the order of the columns.

    Raises:
        Conflict: it has none, or they are damaged.
        Gone: they have been removed.
        Unavailable: they cannot be read now.

    """
    if query.state != QueryState.READY:
        message = f"Query {query.pk} is {query.state.label.lower()}: it has no rows."
        raise Conflict(message, code="not_ready")
    path = result_folder(query) / ROWS_FILE
    if not path.exists():
        message = f"The rows of query {query.pk} have been removed. Run it again."
        raise Gone(message, code="expired")
    lines = reader.read_slice(path, start, limit)
    width = len(query.summary["columns"])
    return [[line[f"c{place}"] for place in range(width)] for line in lines]
