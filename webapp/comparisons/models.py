"""Stored answers about the history of datasets."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models

from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ComparisonState
from webapp.core.moves import StateField
from webapp.dispatch.leases import Leases
from webapp.dispatch.models import AskedWork

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class ComparisonRows(Leases["Comparison"]):
    """Comparisons."""

    lease = timedelta(seconds=15)
    waits = ComparisonState.QUEUED
    runs = ComparisonState.RUNNING


class Comparison(AskedWork):
    """A stored answer about a dataset's history: immutable once READY, shared by all pages that ask for it.

    Mostly the row diff between two transactions; also a changelog of a range, or who changed one row.
    """

    identity = models.CharField(max_length=64, unique=True)
    """SHA-256 of dataset, both transactions and the rules; of another kind than a row diff also the kind."""
    kind = models.CharField(max_length=10, choices=states.KIND_CHOICES, default=states.ROWS)
    dataset = models.ForeignKey("datasets.Dataset", on_delete=models.CASCADE, related_name="comparisons")
    before = models.ForeignKey("datasets.Transaction", null=True, on_delete=models.CASCADE, related_name="+")
    after = models.ForeignKey("datasets.Transaction", null=True, on_delete=models.CASCADE, related_name="+")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    """The user whose share of the slots it takes: the first to ask, or the last to run it again."""
    rules = models.JSONField(default=dict)
    """Key, ignored columns, tolerance and row filter from pipeline.toml; of another kind what was asked."""
    state = StateField(max_length=10, default=ComparisonState.QUEUED)
    progress = models.JSONField(default=dict)
    summary = models.JSONField(default=dict)
    schema = models.JSONField(default=dict)

    objects = ComparisonRows.as_manager()

    class Meta(TypedModelMeta):
        db_table = "pulls_comparison"

    def __str__(self) -> str:
        return f"{self.dataset_id}: {self.before_id} to {self.after_id}"
