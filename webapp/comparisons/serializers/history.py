"""A dataset's history as the API describes it: two ends compared, the changelog of a range, who changed one row."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.serializers.described import ROW, ROW_CHANGES, Fields, RowsSerializer, SchemaDiffSerializer
from webapp.datasets.serializers import ColumnSerializer, TransactionSerializer

RANGE_STATES = [ComparisonState.RUNNING, ComparisonState.READY, ComparisonState.FAILED]


class EndSerializer(serializers.Serializer[Any]):
    """One end of a comparison."""

    asked = serializers.CharField(help_text="as the address names it")
    branch = serializers.CharField()
    transaction = TransactionSerializer(
        allow_null=True, help_text="null: nothing is committed there, it reads as empty"
    )


class RulesSerializer(serializers.Serializer[Any]):
    """How rows are compared."""

    key = serializers.ListField(child=serializers.CharField())
    ignore = serializers.ListField(child=serializers.CharField())
    tolerance = serializers.DictField(child=serializers.DictField(child=serializers.FloatField()))
    row_filter = serializers.CharField(required=False)


class ChangedSerializer(serializers.Serializer[Any]):
    """What one transaction changed in rows."""

    is_exact = serializers.BooleanField(help_text="from a stored row diff; else as its writer counted")
    inserted = serializers.IntegerField()
    deleted = serializers.IntegerField()
    updated = serializers.IntegerField(allow_null=True)


class StepSerializer(TransactionSerializer):
    """A transaction between two ends."""

    changed = ChangedSerializer(allow_null=True)


class BetweenSerializer(serializers.Serializer[Any]):
    """The transactions of each end since the last one that both have, newest first and at most a hundred of each."""

    base = serializers.CharField(allow_null=True)
    came = StepSerializer(many=True)
    left = StepSerializer(many=True)
    came_count = serializers.IntegerField()
    left_count = serializers.IntegerField()


class DatasetComparisonSerializer(RowsSerializer):
    """Two ends of a dataset: schema, one page of rows, and what lies between."""

    dataset = serializers.IntegerField()
    path = serializers.CharField()
    to = EndSerializer()
    rules = RulesSerializer()
    schema = SchemaDiffSerializer(allow_null=True)
    between = BetweenSerializer()

    def get_fields(self) -> Fields:
        """Add the field whose name Python keeps for itself."""
        return {**super().get_fields(), "from": EndSerializer()}


class ChangelogSummarySerializer(serializers.Serializer[Any]):
    """How many rows a changelog has."""

    rows = serializers.IntegerField()
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="by _change_type")


class ChangelogSerializer(serializers.Serializer[Any]):
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
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")


class MadeSerializer(serializers.Serializer[Any]):
    """What made a transaction."""

    job = serializers.CharField()
    build = serializers.IntegerField()
    function = serializers.CharField()
    repository = serializers.CharField()
    branch = serializers.CharField()
    commit = serializers.CharField()


class RowChangeSerializer(serializers.Serializer[Any]):
    """One transaction that changed the row."""

    transaction = TransactionSerializer()
    change = serializers.ChoiceField(choices=ROW_CHANGES)
    before = serializers.DictField(allow_null=True, **ROW)  # type: ignore[arg-type]
    after = serializers.DictField(allow_null=True, **ROW)  # type: ignore[arg-type]
    changed = serializers.ListField(child=serializers.CharField())
    job = MadeSerializer(allow_null=True, help_text="null: no job made it")
    rows = serializers.DictField(required=False, help_text="before and after in full, where several rows have the key")


class BlameSerializer(serializers.Serializer[Any]):
    """The transactions that changed one row, newest first."""

    dataset = serializers.IntegerField()
    path = serializers.CharField()
    branch = serializers.CharField()
    key = serializers.DictField(help_text="column → value")
    ignore = serializers.ListField(child=serializers.CharField())
    state = serializers.ChoiceField(choices=RANGE_STATES)
    reason = serializers.CharField(required=False)
    code = serializers.CharField(required=False)
    changes = RowChangeSerializer(many=True)
    looked_at = serializers.IntegerField(help_text="transactions")
    ended = serializers.CharField(allow_null=True, required=False, help_text="why it ended early: expired")
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")
