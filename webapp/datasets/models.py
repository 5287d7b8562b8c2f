"""Datasets, their branches, and the transactions that branches point to."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Lower, StrIndex, Substr

from webapp.core import clock, ids
from webapp.core.moves import Moves, StateField
from webapp.core.names import MASTER
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from datetime import datetime

    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


KEPT_PREFIX = "_deleted/"
"""What the names of refs start with that keep the snapshots of deleted branches."""


class Dataset(models.Model):
    """What users see and build; the Iceberg table behind it is `table`."""

    path = models.CharField(max_length=400, unique=True)
    """For example /nyc/delays/daily."""
    folder = models.GeneratedField(
        expression=Lower(Substr("path", 2, StrIndex(Substr("path", 2), Value("/")) - 1)),
        output_field=models.CharField(max_length=400),
        db_persist=True,
    )
    """The top folder in lower case, for example nyc: rights are looked up by it."""
    table = models.CharField(max_length=400, unique=True)
    """For example nyc.delays.daily."""
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["folder", "path"], name="dataset_by_folder")]
        ordering: ClassVar = ["path"]

    def __str__(self) -> str:
        return self.path


class DatasetBranch(models.Model):
    """A pointer of a dataset to its latest transaction on a branch, with at most one parent."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="branches")
    name = models.CharField(max_length=200)
    name_lower = models.CharField(max_length=200)
    """Branch names are unique without case, as Git refs on some file systems are."""
    parent = models.ForeignKey("self", null=True, on_delete=models.RESTRICT, related_name="children")
    """None for a root. Deleting re-parents first, so a dangling parent is a bug that this refuses."""
    transaction = models.ForeignKey("Transaction", null=True, on_delete=models.RESTRICT, related_name="pointers")
    """The latest one, which may be OPEN; a child may share its parent's."""
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["dataset", "name_lower"], name="dataset_branch_name"),
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | ~Q(parent=F("id")), name="dataset_branch_not_own_parent"
            ),
        ]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.dataset_id}: {self.name}"


class DeletedBranch(models.Model):
    """A branch that somebody deleted: first what is to be done, then what it takes to bring it back, for a time."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="deleted_branches")
    branch = models.OneToOneField(DatasetBranch, null=True, on_delete=models.SET_NULL, related_name="deletion")
    """Until it is gone: a crash in between is taken on from here."""
    name = models.CharField(max_length=200)
    parent = models.CharField(max_length=200, blank=True)
    """The name of its parent; empty for a root."""
    transaction = models.ForeignKey("Transaction", null=True, on_delete=models.CASCADE, related_name="+")
    """The committed one that it showed."""
    snapshot_id = models.BigIntegerField(null=True)
    schema_id = models.IntegerField(null=True)
    """With the two below where the table stood on the branch; None where it had nothing of its own there."""
    spec_id = models.IntegerField(null=True)
    order_id = models.IntegerField(null=True)
    definitions = models.JSONField(default=dict, db_default={})
    """What these ids meant, as the table's metadata wrote it: maintenance may remove it meanwhile."""
    git_head = models.CharField(max_length=40, blank=True, db_default="")
    """The commit of the branch of Git with which it went; empty where it was deleted by itself."""
    deleted_by = models.CharField(max_length=150, blank=True)
    deleted_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["-deleted_at", "-pk"]
        verbose_name_plural = "deleted branches"

    def __str__(self) -> str:
        return f"{self.dataset_id}: {self.name}, deleted"

    @property
    def kept_as(self) -> str:
        """The name of the table's ref that keeps its snapshot."""
        return f"{KEPT_PREFIX}{self.pk}"

    @property
    def restorable_until(self) -> datetime:
        """When it is too late to bring it back."""
        return self.deleted_at + timedelta(hours=settings.TRIBUTARY_DELETED_BRANCH_HOURS)


class TransactionRows(Moves["Transaction"]):
    """Transactions."""


class Transaction(models.Model):
    """One step of a branch's history: OPEN, then COMMITTED or ABORTED once."""

    id = models.CharField(primary_key=True, max_length=12, default=ids.new_id, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="transactions")
    dataset_branch = models.ForeignKey(
        DatasetBranch, null=True, on_delete=models.SET_NULL, related_name="own_transactions"
    )
    """The branch it was started on; None once that branch is deleted."""
    deleted_branch = models.ForeignKey(
        DeletedBranch, null=True, on_delete=models.SET_NULL, related_name="own_transactions"
    )
    """The same, while that branch can be brought back."""
    branch_name = models.CharField(max_length=200)
    """The name of that branch, kept for the history."""
    deleted_line = models.CharField(max_length=12, blank=True, default="", db_default="")
    """The first transaction of that branch once it is deleted: another branch of its name began with another."""
    number = models.PositiveIntegerField()
    """Counts the transactions of the branch in the order in which they started."""
    parent = models.ForeignKey("self", null=True, on_delete=models.RESTRICT, related_name="children")
    """The committed one it stands on; readers see that one while this is open, and again if this is aborted."""
    type = models.CharField(max_length=8, choices=rules.TYPE_CHOICES)
    state = StateField(max_length=9, default=TransactionState.OPEN)
    by = models.CharField(max_length=150)
    build_id = models.BigIntegerField(null=True)
    job_id = models.CharField(max_length=40, blank=True)
    staging_branch = models.CharField(max_length=200, blank=True)
    """The table branch its writer writes to; empty for a plain client's commit."""
    snapshot_id = models.BigIntegerField(null=True)
    schema_id = models.IntegerField(null=True)
    spec_id = models.IntegerField(null=True)
    order_id = models.IntegerField(null=True)
    reason = models.CharField(max_length=400, blank=True)
    """Why it was aborted."""
    summary = models.JSONField(default=dict)
    """rows, files, bytes at its end; added, deleted by it."""
    started_at = models.DateTimeField(default=clock.now)
    written_at = models.DateTimeField(null=True)
    """When its staging branch was last written, of one that a person opened."""
    closed_at = models.DateTimeField(null=True)

    objects = TransactionRows.as_manager()

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["dataset", "branch_name"],
                condition=Q(state=TransactionState.OPEN),
                name="transaction_one_open_per_branch",
            ),
            models.UniqueConstraint(fields=["dataset_branch", "number"], name="transaction_order_on_branch"),
            models.UniqueConstraint(
                fields=["dataset_branch", "parent"],
                condition=Q(state=TransactionState.COMMITTED),
                name="transaction_committed_line",
            ),
            models.UniqueConstraint(
                fields=["dataset_branch"],
                condition=Q(state=TransactionState.COMMITTED, parent__isnull=True),
                name="transaction_one_first_on_branch",
            ),
            models.CheckConstraint(condition=Q(state__in=list(TransactionState)), name="transaction_state"),
            models.CheckConstraint(condition=Q(type__in=rules.TYPES), name="transaction_type"),
            models.CheckConstraint(
                condition=Q(state=TransactionState.OPEN, closed_at__isnull=True)
                # A comparison with NULL is no refusal in SQL, so that it is there is said apart.
                | (~Q(state=TransactionState.OPEN) & Q(closed_at__isnull=False, closed_at__gte=F("started_at"))),
                name="transaction_closed_after_start",
            ),
            models.CheckConstraint(
                condition=~Q(state=TransactionState.COMMITTED) | Q(schema_id__isnull=False),
                name="transaction_committed_schema",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | ~Q(parent=F("id")), name="transaction_not_own_parent"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["dataset", "branch_name", "state"], name="transaction_by_branch"),
            models.Index(fields=["staging_branch"], condition=~Q(staging_branch=""), name="transaction_by_staging"),
            models.Index(fields=["job_id"], condition=~Q(job_id=""), name="transaction_by_job"),
            models.Index(
                fields=["-closed_at"],
                condition=Q(state=TransactionState.COMMITTED, branch_name=MASTER),
                name="transaction_newest_on_master",
            ),
        ]
        ordering: ClassVar = ["-started_at", "-number"]

    def __str__(self) -> str:
        return f"{self.id}: {self.type} {self.state}"

    @property
    def is_open(self) -> bool:
        """Whether it still may be written, committed or aborted."""
        return self.state == TransactionState.OPEN

    @property
    def abortable_at(self) -> datetime | None:
        """When whoever may write there may abort it if nothing more is written to it; None of builds' and closed ones."""
        hours = settings.TRIBUTARY_IDLE_TRANSACTION_HOURS
        if not self.is_open or self.build_id is not None or not hours:
            return None
        return (self.written_at or self.started_at) + timedelta(hours=hours)

    @property
    def is_idle(self) -> bool:
        """Whether that time has come."""
        return self.abortable_at is not None and self.abortable_at <= clock.cautious_now()


class Leftover(models.Model):
    """What an aborted transaction has left in a table that could not be written then; removed as soon as it can be."""

    transaction = models.OneToOneField(Transaction, on_delete=models.CASCADE, related_name="leftover")
    branches = models.JSONField(default=list)
    """Keys of the branches that shared it: they are to get a place of their own in the table."""
    created_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"of {self.transaction_id}"
