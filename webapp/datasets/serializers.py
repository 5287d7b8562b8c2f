"""Shapes of the REST API of datasets."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.core.inputs import Text
from webapp.core.serializers import NounSerializer
from webapp.datasets.models import Dataset
from webapp.datasets.queries.details import find_damage, list_branches
from webapp.datasets.queries.preview import Preview
from webapp.datasets.rules import transactions as rules


class NewDatasetSerializer(NounSerializer):
    """Body of POST /datasets."""

    path = Text(max_length=400)
    description = Text(allow_blank=True, required=False, default="", max_length=2000)


class NewDatasetBranchSerializer(NounSerializer):
    """Body of POST …/branches."""

    name = Text(max_length=200)
    parent = Text(required=False, allow_null=True, default=None, max_length=200)  # type: ignore[assignment]  # DRF takes declared fields off the class
    transaction = Text(required=False, allow_null=True, default=None, max_length=12)


class BranchParentSerializer(NounSerializer):
    """Body of PATCH …/branches/{branch}."""

    parent = Text(allow_null=True, max_length=200)  # type: ignore[assignment]  # DRF takes declared fields off the class


class NewTransactionSerializer(NounSerializer):
    """Body of POST …/transactions."""

    branch = Text(max_length=200)
    type = serializers.ChoiceField(choices=rules.TYPE_CHOICES, default=rules.SNAPSHOT)


class DatasetSerializer(NounSerializer):
    """A dataset."""

    id = serializers.IntegerField()
    path = serializers.CharField()
    table = serializers.CharField()
    description = serializers.CharField()
    jobspec_on_master = serializers.SerializerMethodField(
        help_text="whether a JobSpec on master makes it: its icon is blue then, else gray"
    )
    created_at = serializers.DateTimeField()

    def get_jobspec_on_master(self, dataset: Dataset) -> bool:
        """Look it up among those that have one."""
        return dataset.path in self.context["with_jobspec"]


class TransactionSerializer(NounSerializer):
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
    snapshot_id = serializers.IntegerField(
        allow_null=True, help_text="as Iceberg writes it: a JSON number of 64 bits, as in table metadata"
    )
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


class DatasetBranchSerializer(NounSerializer):
    """A branch of a dataset."""

    name = serializers.CharField()
    parent = serializers.CharField(source="parent.name", allow_null=True, default=None)  # type: ignore[assignment]  # DRF takes declared fields off the class
    transaction = TransactionSerializer(allow_null=True)
    created_at = serializers.DateTimeField()


class DeletedBranchSerializer(NounSerializer):
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

    branches = serializers.SerializerMethodField()
    damage = serializers.SerializerMethodField(help_text="why the catalog cannot read its table; empty if it can")

    @extend_schema_field(DatasetBranchSerializer(many=True))
    def get_branches(self, dataset: Dataset) -> Any:
        """Write those that are shown, by name."""
        return DatasetBranchSerializer(list_branches(dataset), many=True).data

    def get_damage(self, dataset: Dataset) -> str:
        """Read the table's metadata."""
        return find_damage(dataset)


class ColumnSerializer(NounSerializer):
    """A column."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    type = serializers.CharField()
    required = serializers.BooleanField()  # type: ignore[assignment]  # DRF takes declared fields off the class


class SchemaColumnSerializer(ColumnSerializer):
    """A column or a field of a nested type."""

    doc = serializers.CharField()
    depth = serializers.IntegerField()


class SchemaSerializer(NounSerializer):
    """The schema of a branch or a transaction: Iceberg's own JSON, and flat for reading."""

    branch = serializers.CharField()
    transaction = serializers.CharField(source="transaction.pk", allow_null=True)
    schema = serializers.JSONField()
    partition_spec = serializers.JSONField()
    sort_order = serializers.JSONField()
    columns = SchemaColumnSerializer(many=True)


class PreviewSerializer(NounSerializer):
    """A page of rows."""

    branch = serializers.CharField()
    transaction = serializers.CharField(source="transaction.pk", allow_null=True)
    columns = ColumnSerializer(many=True)
    masked = serializers.ListField(
        child=serializers.CharField(), help_text="columns whose values are hidden from you: null in every row"
    )
    rows = serializers.SerializerMethodField()
    total = serializers.IntegerField(allow_null=True)
    scanned = serializers.IntegerField(allow_null=True, help_text="rows sorted or searched, where not all were")
    left_out_columns = serializers.IntegerField(source="left_out")
    next = serializers.SerializerMethodField()
    previous = serializers.SerializerMethodField()

    def get_rows(self, preview: Preview) -> list[dict[str, Any]]:
        """Show each row as column → value."""
        names = [column.name for column in preview.columns]
        return [dict(zip(names, row, strict=True)) for row in preview.rows]

    def get_next(self, _preview: Preview) -> str | None:
        """Return the address of the following page."""
        address: str | None = self.context["next"]
        return address

    def get_previous(self, _preview: Preview) -> str | None:
        """Return the address of the page before."""
        address: str | None = self.context["previous"]
        return address
