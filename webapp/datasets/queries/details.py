"""Answers of the REST API that are more than one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.catalog import queries as catalog_queries
from webapp.core.errors import find_refusal
from webapp.datasets import queries
from webapp.datasets.permissions import see_rows
from webapp.datasets.queries.preview import current_schema, read_metadata
from webapp.datasets.rules import schemas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, DatasetBranch, Transaction


@dataclass(frozen=True)
class SchemaView:
    """The schema, partition spec and sort order of a branch or a transaction."""

    branch: str
    transaction: Transaction | None
    schema: Mapping[str, Any]
    partition_spec: Mapping[str, Any]
    sort_order: Mapping[str, Any]
    columns: Sequence[schemas.SchemaColumn]


def get_schema(
    by: Principal, dataset: Dataset, *, branch: str | None = None, transaction: str | None = None
) -> SchemaView:
    """Return the schema that a branch tracks, or that a committed transaction had, as far as the reader may see it.

    Older rows have the default of a column as their value, so hidden columns have none here.
    """
    resolved, pinned = queries.parse_view(dataset, branch=branch, transaction=transaction)
    metadata = read_metadata(dataset, branch=resolved, transaction=pinned)
    sight = see_rows(by, dataset, branch or resolved, resolved, pinned)
    schema = schemas.drop_defaults(current_schema(metadata), sight.hides)
    return SchemaView(
        branch=resolved,
        transaction=pinned,
        schema=schema,
        partition_spec=_find(metadata["partition-specs"], "spec-id", metadata["default-spec-id"]),
        sort_order=_find(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"]),
        columns=schemas.list_columns(schema),
    )


def check_undamaged(dataset: Dataset) -> None:
    """Refuse a dataset whose table the catalog cannot read.

    Raises:
        DamagedTable: says what is wrong, and which earlier metadata file can be registered.

    """
    catalog_queries.get_metadata(table=dataset.table)


def find_damage(dataset: Dataset) -> str:
    """Return why the catalog cannot read the dataset's table, or an empty text."""
    return find_refusal(check_undamaged, dataset)


def list_branches(dataset: Dataset) -> QuerySet[DatasetBranch]:
    """Return the branches by name, with what they point to; those that only builds fill are not shown."""
    shown = dataset.branches.exclude(name__startswith=queries.INTERNAL_PREFIX)
    return shown.select_related("parent", "transaction__parent").order_by("name")


def _find(items: Sequence[Mapping[str, Any]], key: str, number: int) -> Mapping[str, Any]:
    return next(item for item in items if item[key] == number)
