"""Shapes of the REST API of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from webapp.core.inputs import Text
from webapp.datasets import queries
from webapp.datasets.rules import transactions as rules

if TYPE_CHECKING:
    from webapp.datasets.models import Dataset


class NewDatasetSerializer(serializers.Serializer[Any]):
    """Body of POST /datasets."""

    path = Text(max_length=400)
    description = Text(allow_blank=True, required=False, default="", max_length=2000)


class NewDatasetBranchSerializer(serializers.Serializer[Any]):
    """Body of POST …/branches."""

    name = Text(max_length=200)
    parent = Text(required=False, allow_null=True, default=None, max_length=200)  # type: ignore[assignment]  # DRF takes declared fields off the class
    transaction = Text(required=False, allow_null=True, default=None, max_length=12)


class NewTransactionSerializer(serializers.Serializer[Any]):
    """Body of POST …/transactions."""

    branch = Text(max_length=200)
    type = serializers.ChoiceField(choices=rules.TYPE_CHOICES, default=rules.SNAPSHOT)


class DatasetSerializer(serializers.Serializer[Any]):
    """A dataset."""

    id = serializers.IntegerField()
    path = serializers.CharField()
    table = serializers.CharField()
    description = serializers.CharField()
    jobspec_on_master = serializers.SerializerMethodField(
        help_text="whether a JobSpec on master makes it: its icon is blue then, else gray"
    )
    created_at = serializers.DateTimeField()

    def get_jobspec_on_master(self, dataset: Any) -> bool:
        """Look it up among those that have one."""
        return dataset.path in self.context["with_jobspec"]


class TransactionSerializer(serializers.Serializer[Any]):
    """A transaction."""

    id = serializers.CharField()
    branch = serializers.CharField(source="branch_name")
    number = serializers.IntegerField()
    parent = serializers.CharField(source="parent_id", allow_null=True)  # type: ignore[assignment]  # DRF takes declared fields off the class
    type = serializers.CharField()
    state = serializers.CharField()
    by = serializers.CharField()
    build = serializers.IntegerField(source="build_id", allow_null=True)
    job = serializers.CharField(source="job_id")
    staging_branch = serializers.CharField()
    snapshot_id = serializers.SerializerMethodField()
    schema_id = serializers.IntegerField(allow_null=True)
    spec_id = serializers.IntegerField(allow_null=True)
    order_id = serializers.IntegerField(allow_null=True)
    summary = serializers.JSONField()
    changes = serializers.ListField(
        child=serializers.CharField(),
        source="summary.changes",
        default=list,
        help_text="what it changed besides rows: schema, partition spec, sort order, properties, format version",
    )
    reason = serializers.CharField()
    started_at = serializers.DateTimeField()
    written_at = serializers.DateTimeField(
        allow_null=True, help_text="when its staging branch was last written, of one that a person opened"
    )
    abortable_at = serializers.DateTimeField(
        allow_null=True,
        help_text="from when on whoever may write there may abort it if nothing more is written; "
        "null of closed ones and of builds'",
    )
    closed_at = serializers.DateTimeField(allow_null=True)

    def get_snapshot_id(self, transaction: Any) -> int | None:
        """Return the id as Iceberg writes it: a JSON number of 64 bits, as in table metadata."""
        number: int | None = transaction.snapshot_id
        return number


class DatasetBranchSerializer(serializers.Serializer[Any]):
    """A branch of a dataset."""

    name = serializers.CharField()
    parent = serializers.CharField(source="parent.name", allow_null=True, default=None)  # type: ignore[assignment]  # DRF takes declared fields off the class
    transaction = TransactionSerializer(allow_null=True)
    created_at = serializers.DateTimeField()


class DeletedBranchSerializer(serializers.Serializer[Any]):
    """A deleted branch that can be restored."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # DRF takes declared fields off the class
    transaction = TransactionSerializer(allow_null=True)
    deleted_by = serializers.CharField()
    deleted_at = serializers.DateTimeField()
    restorable_until = serializers.DateTimeField()


class DatasetDetailSerializer(DatasetSerializer):
    """A dataset with its branches."""

    branches = DatasetBranchSerializer(many=True)


class ColumnSerializer(serializers.Serializer[Any]):
    """A column."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    type = serializers.CharField()
    required = serializers.BooleanField()  # type: ignore[assignment]  # DRF takes declared fields off the class


class SchemaColumnSerializer(ColumnSerializer):
    """A column or a field of a nested type."""

    doc = serializers.CharField()
    depth = serializers.IntegerField()


class SchemaSerializer(serializers.Serializer[Any]):
    """The schema of a branch or a transaction: Iceberg's own JSON, and flat for reading."""

    branch = serializers.CharField()
    transaction = serializers.CharField(allow_null=True)
    schema = serializers.JSONField()
    partition_spec = serializers.JSONField()
    sort_order = serializers.JSONField()
    columns = SchemaColumnSerializer(many=True)


class PreviewSerializer(serializers.Serializer[Any]):
    """A page of rows."""

    branch = serializers.CharField()
    transaction = serializers.CharField(allow_null=True)
    columns = ColumnSerializer(many=True)
    rows = serializers.ListField(child=serializers.DictField())
    total = serializers.IntegerField(allow_null=True)
    scanned = serializers.IntegerField(allow_null=True, help_text="rows sorted or searched, where not all were")
    left_out_columns = serializers.IntegerField()
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


def shape_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return a dataset as JSON."""
    return shape_datasets([dataset])[0]


def shape_datasets(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return datasets as JSON; which of them a JobSpec on master makes is asked for once."""
    with_jobspec = queries.list_with_jobspec(dataset.path for dataset in datasets)
    return [dict(DatasetSerializer(dataset, context={"with_jobspec": with_jobspec}).data) for dataset in datasets]


def shape_branch(branch: Any) -> dict[str, Any]:
    """Return a branch as JSON."""
    return dict(DatasetBranchSerializer(branch).data)


def shape_deleted_branch(branch: Any) -> dict[str, Any]:
    """Return a deleted branch as JSON."""
    return dict(DeletedBranchSerializer(branch).data)


def shape_transaction(transaction: Any) -> dict[str, Any]:
    """Return a transaction as JSON."""
    return dict(TransactionSerializer(transaction).data)
