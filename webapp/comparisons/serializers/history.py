"""A dataset's history as the API describes it: two ends compared, a range of changes, who changed one row, statistics over time."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.comparisons.diffs.schema import diff_artifact
from webapp.comparisons.queries.ends import Between, ComparedEnds, list_changes
from webapp.comparisons.rules.states import ROW_CHANGES, ComparisonState
from webapp.comparisons.serializers.described import MASKED, ROW, RowsSerializer, SchemaDiffSerializer
from webapp.core.serializers import Fields, NounSerializer, OptionalText, TextOrNull
from webapp.datasets.models import Transaction
from webapp.datasets.serializers import ColumnSerializer, TransactionSerializer

MOST_BETWEEN = 100
"""Transactions between two ends that an answer lists; beyond it there is only their count."""
RANGE_STATES = [ComparisonState.RUNNING, ComparisonState.READY, ComparisonState.FAILED]


class EndSerializer(NounSerializer):
    """One end of a comparison."""

    asked = serializers.CharField(help_text="as the address names it")
    branch = serializers.CharField()
    transaction = TransactionSerializer(
        allow_null=True, help_text="null: nothing is committed there, it reads as empty"
    )


class RulesSerializer(NounSerializer):
    """How rows are compared."""

    key = serializers.ListField(child=serializers.CharField())
    ignore = serializers.ListField(child=serializers.CharField())
    tolerance = serializers.DictField(child=serializers.DictField(child=serializers.FloatField()))
    row_filter = serializers.CharField(required=False)


class ChangedSerializer(NounSerializer):
    """What one transaction changed in rows."""

    is_exact = serializers.BooleanField(help_text="from a stored row diff; else as its writer counted")
    inserted = serializers.IntegerField()
    deleted = serializers.IntegerField()
    updated = serializers.IntegerField(allow_null=True)


class StepSerializer(TransactionSerializer):
    """A transaction between two ends."""

    changed = serializers.SerializerMethodField()

    @extend_schema_field(ChangedSerializer(allow_null=True))
    def get_changed(self, transaction: Transaction) -> Any:
        """Look it up among the changes of all transactions of the answer."""
        changed = self.context["changes"].get(transaction.pk)
        return None if changed is None else vars(changed)


class BetweenSerializer(NounSerializer):
    """The transactions of each end since the last one that both have, newest first and at most a hundred of each."""

    base = serializers.CharField(source="base.pk", allow_null=True)
    came = serializers.SerializerMethodField()
    left = serializers.SerializerMethodField()
    came_count = serializers.SerializerMethodField()
    left_count = serializers.SerializerMethodField()

    def to_representation(self, instance: Between) -> dict[str, Any]:
        """Ask once what the transactions of both ends changed."""
        changes = list_changes([*instance.came[:MOST_BETWEEN], *instance.left[:MOST_BETWEEN]])
        self._steps = StepSerializer(many=True, context={"changes": changes})
        return super().to_representation(instance)

    @extend_schema_field(StepSerializer(many=True))
    def get_came(self, between: Between) -> Any:
        """Write the newest of the second end."""
        return self._steps.to_representation(between.came[:MOST_BETWEEN])

    @extend_schema_field(StepSerializer(many=True))
    def get_left(self, between: Between) -> Any:
        """Write the newest of the first end."""
        return self._steps.to_representation(between.left[:MOST_BETWEEN])

    def get_came_count(self, between: Between) -> int:
        """Count all of the second end."""
        return len(between.came)

    def get_left_count(self, between: Between) -> int:
        """Count all of the first end."""
        return len(between.left)


class ComparedEndsSerializer(NounSerializer):
    """Two ends of a dataset: their schemas, how their rows are compared, and what lies between."""

    dataset = serializers.IntegerField(source="dataset.pk")
    path = serializers.CharField(source="dataset.path")
    to = EndSerializer(source="after")
    rules = RulesSerializer(source="rules.as_json")
    schema = serializers.SerializerMethodField()
    between = BetweenSerializer()

    def get_fields(self) -> Fields:
        """Add the field whose name Python keeps for itself."""
        return {**super().get_fields(), "from": EndSerializer(source="before")}

    @extend_schema_field(SchemaDiffSerializer(allow_null=True))
    def get_schema(self, compared: ComparedEnds) -> Any:
        """Write what differs between the schemas, as it was stored."""
        if compared.comparison is None:
            return None
        return SchemaDiffSerializer(diff_artifact(compared.comparison.schema)).data


class DatasetComparisonSerializer(ComparedEndsSerializer, RowsSerializer):
    """Two ends of a dataset: schema, one page of rows, and what lies between."""


class ChangelogSummarySerializer(NounSerializer):
    """How many rows a changelog has."""

    rows = serializers.IntegerField()
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="by _change_type")


class ChangelogSerializer(NounSerializer):
    """One page of the changelog of a range. Before it is ready there is its state, with no rows."""

    dataset = serializers.IntegerField()
    path = serializers.CharField()
    branch = serializers.CharField()
    start = serializers.CharField(allow_null=True, help_text="snapshot id, exclusive; null: from nothing")
    end = serializers.CharField(allow_null=True, help_text="snapshot id; null: nothing is committed")
    keys = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text="null: net changes")
    images = serializers.ChoiceField(choices=["first", "latest"])
    state = serializers.ChoiceField(choices=RANGE_STATES)
    reason = serializers.CharField(required=False)
    code = serializers.CharField(required=False)
    columns = ColumnSerializer(many=True)
    summary = ChangelogSummarySerializer(required=False)
    rows = serializers.ListField(
        child=serializers.DictField(), help_text="with _change_type, _change_ordinal and _commit_snapshot_id"
    )
    total = serializers.IntegerField(required=False)
    masked = serializers.ListField(child=serializers.CharField(), required=False, help_text=MASKED)
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")


class MeasuredSerializer(NounSerializer):
    """A column in numbers, over all rows."""

    rows = serializers.IntegerField()
    nulls = serializers.IntegerField()
    distinct = serializers.IntegerField()
    distinct_exact = serializers.BooleanField(help_text="else it is an estimate")
    min = serializers.JSONField(help_text="times in UTC; null where it has none, or is hidden from you")
    max = serializers.JSONField(help_text="times in UTC; null where it has none, or is hidden from you")
    mean = serializers.JSONField(help_text="null where it has none, or is hidden from you")


class TrendStepSerializer(NounSerializer):
    """One committed transaction, with what is known of the rows after it."""

    transaction = TransactionSerializer()
    rows = serializers.IntegerField(allow_null=True)
    added = serializers.IntegerField(allow_null=True, help_text="rows that it wrote, rewritten ones included")
    deleted = serializers.IntegerField(allow_null=True, help_text="rows that it removed, rewritten ones included")
    measured = MeasuredSerializer(
        allow_null=True, help_text="the column that was asked for; null where no row diff measured the whole table"
    )


class TrendLineSerializer(NounSerializer):
    """The last transactions that led to what a branch shows."""

    branch = serializers.CharField()
    transactions = serializers.ListField(child=serializers.CharField(), help_text="ids, oldest first")


class TrendSerializer(NounSerializer):
    """A dataset over its last transactions; those that two branches have stand once."""

    columns = serializers.ListField(child=serializers.CharField(), help_text="that can be asked for")
    column = TextOrNull()
    masked = serializers.ListField(
        child=serializers.CharField(), help_text="columns of which you may see counts alone, without any value"
    )
    lines = TrendLineSerializer(many=True)
    steps = TrendStepSerializer(many=True, help_text="oldest first")


class MadeSerializer(NounSerializer):
    """What made a transaction."""

    job = serializers.CharField()
    build = serializers.IntegerField()
    function = serializers.CharField()
    repository = serializers.CharField()
    branch = serializers.CharField()
    commit = serializers.CharField()


class RowChangeSerializer(NounSerializer):
    """One transaction that changed the row."""

    transaction = TransactionSerializer()
    change = serializers.ChoiceField(choices=ROW_CHANGES)
    before = serializers.DictField(source="row_before", allow_null=True, **ROW)  # type: ignore[arg-type]
    after = serializers.DictField(source="row_after", allow_null=True, **ROW)  # type: ignore[arg-type]
    changed = serializers.ListField(child=serializers.CharField())
    job = MadeSerializer(source="origin", allow_null=True, help_text="null: no job made it")
    rows = serializers.DictField(required=False, help_text="before and after in full, where several rows have the key")


class BlameSerializer(NounSerializer):
    """The transactions that changed one row, newest first."""

    dataset = serializers.IntegerField(source="walk.dataset.pk")
    path = serializers.CharField(source="walk.dataset.path")
    branch = serializers.CharField(source="walk.branch")
    key = serializers.DictField(source="walk.key", help_text="column → value")
    ignore = serializers.ListField(source="walk.ignore", child=serializers.CharField())
    state = serializers.ChoiceField(choices=RANGE_STATES)
    reason = OptionalText(source="comparison.error")
    code = OptionalText(source="comparison.code")
    masked = serializers.ListField(source="found.masked", child=serializers.CharField(), help_text=MASKED)
    changes = RowChangeSerializer(source="found.changes", many=True)
    looked_at = serializers.IntegerField(source="found.looked_at", help_text="transactions")
    ended = TextOrNull(source="found.ended", help_text="why it ended early: expired")
    next = serializers.CharField(source="found.next", allow_null=True, help_text="what to pass as `cursor`")
