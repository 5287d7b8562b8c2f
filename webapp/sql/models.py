"""Queries that were run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models

from webapp.core.moves import StateField
from webapp.dispatch.leases import Leases
from webapp.dispatch.models import AskedWork
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class QueryRows(Leases["Query"]):
    """Queries."""

    lease = timedelta(seconds=15)
    waits = QueryState.QUEUED
    runs = QueryState.RUNNING


class Query(AskedWork):
    """One run of a text of SQL over the tables that it named, each at the transaction that was newest when it was started."""

    repository = models.ForeignKey(
        "repositories.Repository", on_delete=models.CASCADE, related_name="queries", db_constraint=False
    )
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    branch = models.CharField(max_length=200)
    base = models.CharField(max_length=200, blank=True, db_default="")
    """The branch with whose result its own is compared; empty where it is not."""
    check_name = models.CharField(max_length=250, blank=True, db_default="")
    """Of the check for which it runs; empty where somebody ran it by hand."""
    sql = models.TextField()
    tables = models.JSONField(default=list)
    """What it reads: the `names` in its text, the `path`, `branch` and `transaction` that they mean, the `masked` columns.

    Kept as they were, so that who may see the result is known whatever becomes of the datasets.
    """
    base_tables = models.JSONField(default=list, db_default=[])
    """The same tables as they are on the base; of one without data there the `transaction` is empty."""
    state = StateField(max_length=10, default=QueryState.QUEUED)
    summary = models.JSONField(default=dict)
    """Of a result: `columns`, `rows`, `bytes`, `is_cut`, `rows_read`, `seconds`; with a base, `base` and `difference`."""

    objects = QueryRows.as_manager()

    class Meta(TypedModelMeta):
        verbose_name_plural = "queries"
        indexes: ClassVar = [
            models.Index(fields=["repository", "by", "-created_at"], name="query_of_person"),
            models.Index(fields=["state", "created_at"], name="query_by_state"),
            models.Index(fields=["created_at"], name="query_by_age"),
        ]

    def __str__(self) -> str:
        return f"query {self.pk} on {self.branch}"

    @property
    def paths(self) -> list[str]:
        """The datasets that it reads."""
        return sorted({table["path"] for table in (*self.tables, *self.base_tables)})
