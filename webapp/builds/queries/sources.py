"""What the columns of datasets are made of, as the plans told that wrote them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts import permissions
from webapp.builds.models import OutputColumns

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from webapp.builds.rules.sources import MadeOf
    from webapp.core.principals import Principal


@dataclass(frozen=True)
class ColumnSource:
    """Columns of one dataset that a column is made of."""

    path: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class MadeColumn:
    """One column of a dataset, and what it is made of; of nothing where it counts rows, or is the same in each."""

    name: str
    sources: tuple[ColumnSource, ...]
    hidden: int
    """How many of the datasets that it is made of the reader may not see."""


def read_made_columns(principal: Principal, transactions: Collection[str]) -> dict[str, tuple[MadeColumn, ...]]:
    """Return the columns that some transactions wrote of which it is known what they are made of, by transaction."""
    rows = OutputColumns.objects.filter(output__transaction__in=transactions)
    stored: dict[str, Sequence[MadeOf]] = dict(rows.values_list("output__transaction_id", "columns"))
    paths = {path for columns in stored.values() for entry in columns for path in entry["sources"]}
    hidden = set(permissions.list_hidden(principal, sorted(paths)))
    return {transaction: tuple(_read(entry, hidden) for entry in columns) for transaction, columns in stored.items()}


def _read(entry: MadeOf, hidden: AbstractSet[str]) -> MadeColumn:
    seen = {path: columns for path, columns in sorted(entry["sources"].items()) if path not in hidden}
    return MadeColumn(
        name=entry["column"],
        sources=tuple(ColumnSource(path, tuple(columns)) for path, columns in seen.items()),
        hidden=len(entry["sources"]) - len(seen),
    )
