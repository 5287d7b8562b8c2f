"""How the statistics of a dataset went over its last transactions, by what is stored already: nothing is measured for it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from webapp.catalog import queries as catalog
from webapp.comparisons.diffs.statistics import load_ends
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ComparisonState
from webapp.core.errors import AppError, InvalidInput
from webapp.core.names import MASTER
from webapp.datasets import queries as datasets
from webapp.datasets.permissions import see_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.statistics import SideStatistics
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

MOST_STEPS = 12
"""Of each branch: the row diffs of so many are opened where a column is asked for."""
MOST_STORED = 50
"""Stored row diffs of these transactions that are looked at, the newest first."""


@dataclass(frozen=True)
class TrendStep:
    """One committed transaction, with what is known of the rows after it."""

    transaction: Transaction
    measured: SideStatistics | None
    """The chosen column, where a row diff measured the whole table."""

    @property
    def rows(self) -> int | None:
        """How many rows the dataset had then; None where its writer did not say."""
        return self._count("rows")

    @property
    def added(self) -> int | None:
        """Rows that it wrote, rewritten ones included."""
        return self._count("added")

    @property
    def deleted(self) -> int | None:
        """Rows that it removed, rewritten ones included."""
        return self._count("deleted")

    def _count(self, name: str) -> int | None:
        count: int | None = self.transaction.summary.get(name)
        return count


@dataclass(frozen=True)
class TrendLine:
    """The last transactions that led to what a branch shows, oldest first."""

    branch: str
    transactions: tuple[str, ...]
    """By their ids."""


@dataclass(frozen=True)
class Trend:
    """The last transactions of one or two branches of a dataset."""

    lines: tuple[TrendLine, ...]
    steps: tuple[TrendStep, ...]
    """Oldest first; those that both branches have stand once."""
    columns: tuple[str, ...]
    """That can be asked for."""
    column: str
    """That was asked for, or empty."""
    masked: tuple[str, ...]
    """That column, where its values are hidden from the reader: then there are only counts."""


def find_heads(dataset: Dataset, *, branch: str = "", transaction: str = "") -> dict[str, Transaction]:
    """Return the transactions whose trends a dataset's page shows: master's, and what the address names."""
    resolved, shown = datasets.parse_view(dataset, branch=branch or None, transaction=transaction or None)
    heads = {MASTER: datasets.latest_committed(dataset, MASTER), resolved: shown}
    return {name: head for name, head in heads.items() if head is not None}


def read_trend(principal: Principal, dataset: Dataset, heads: Mapping[str, Transaction], *, column: str = "") -> Trend:
    """Return the last transactions that led to some heads, by branch.

    Raises:
        InvalidInput: none of the heads has such a column.

    """
    columns = _list_columns(dataset, heads)
    if column and column not in columns:
        message = f"column: {dataset.path} has no column {column!r}."
        raise InvalidInput(message, code="no_column", errors={"column": [message]})
    lines = {name: datasets.list_newest(head, most=MOST_STEPS)[::-1] for name, head in heads.items()}
    merged = heapq.merge(*lines.values(), key=lambda row: row.closed_at or row.started_at)
    transactions = {row.pk: row for row in merged}
    sight = see_rows(principal, dataset, *heads, *transactions.values())
    measured = _find_measured(dataset, transactions, sight, column) if column else {}
    return Trend(
        lines=tuple(TrendLine(name, tuple(row.pk for row in rows)) for name, rows in lines.items()),
        steps=tuple(TrendStep(row, measured.get(pk)) for pk, row in transactions.items()),
        columns=columns,
        column=column,
        masked=tuple(sight.pick_hidden([column])),
    )


def _list_columns(dataset: Dataset, heads: Mapping[str, Transaction]) -> tuple[str, ...]:
    schemas = {schema["schema-id"]: schema["fields"] for schema in catalog.get_metadata(table=dataset.table)["schemas"]}
    ids = [head.schema_id for head in heads.values() if head.schema_id is not None]
    return tuple(dict.fromkeys(field["name"] for number in ids for field in schemas.get(number, ())))


def _find_measured(
    dataset: Dataset, transactions: Mapping[str, Any], sight: RowSight, column: str
) -> dict[str, SideStatistics]:
    """Return what stored row diffs measured of a column after each of some transactions, where one did."""
    ends = Q(before__in=list(transactions)) | Q(after__in=list(transactions))
    stored = Comparison.objects.filter(ends, dataset=dataset, kind=states.ROWS, state=ComparisonState.READY)
    measured: dict[str, SideStatistics] = {}
    for comparison in stored.defer("summary", "schema", "progress").order_by("-finished_at")[:MOST_STORED]:
        missing = {comparison.before_id, comparison.after_id} & transactions.keys() - measured.keys()
        # What was measured of chosen rows only says nothing of the rest.
        if missing and not comparison.rules.get("row_filter"):
            measured |= _read_measured(comparison, sight, column)
    return measured


def _read_measured(comparison: Comparison, sight: RowSight, column: str) -> dict[str, SideStatistics]:
    try:
        ends = load_ends(artifact_folder(comparison), sight, column=column)
    except AppError:  # its files are gone or damaged, which the page of the comparison says
        return {}
    sides = {comparison.before_id: ends.before, comparison.after_id: ends.after}
    return {pk: side for pk, side in sides.items() if pk is not None and side is not None}
