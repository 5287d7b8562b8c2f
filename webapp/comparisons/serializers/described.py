"""Comparisons as the API describes them: the shapes of what the functions beside return."""

from __future__ import annotations

from rest_framework import serializers

from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ROW_CHANGES, ComparisonState
from webapp.core.serializers import Fields, NounSerializer

ROW_STATES = [states.NOT_COMPARED, ComparisonState.RUNNING, ComparisonState.READY, ComparisonState.FAILED]
SCHEMA_STATUSES = [states.UNCHANGED, states.CHANGED, states.BREAKING, states.NOT_COMPARED]
MASKED = "columns whose values are hidden from you: null in every row"
ROW = {"help_text": "column → value; null on a side that does not exist"}


class RowCountsSerializer(NounSerializer):
    """How far a row diff is and what it found. Counts are null where nothing is known: not compared is not unchanged."""

    state = serializers.ChoiceField(choices=ROW_STATES)
    inserted = serializers.IntegerField(allow_null=True)
    deleted = serializers.IntegerField(allow_null=True)
    updated = serializers.IntegerField(allow_null=True)
    unchanged = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(required=False, help_text="why it is not compared or failed")
    executor = serializers.ChoiceField(
        choices=["embedded", "spark"], required=False, help_text="what compares the rows"
    )
    executor_reason = serializers.CharField(required=False, help_text="why that one, once it is chosen")
    by_row_ids = serializers.DictField(
        child=serializers.IntegerField(),
        required=False,
        help_text="inserted, deleted and updated by row ids alone, before values are compared",
    )


class ShownComparisonSerializer(NounSerializer):
    """One comparison of a dataset: its two ends, and what it found."""

    schema_status = serializers.ChoiceField(choices=SCHEMA_STATUSES)
    to = serializers.CharField(source="after.pk", allow_null=True, help_text="transaction")
    rows = RowCountsSerializer(source="counts")

    def get_fields(self) -> Fields:
        """Add the field whose name Python keeps for itself."""
        start = serializers.CharField(source="before.pk", allow_null=True, help_text="transaction")
        return {**super().get_fields(), "from": start}


COLUMN_CHANGES = ["type", "required", "identity", "default", "initial_default", "doc", "position"]


class LayoutDiffSerializer(NounSerializer):
    """A partition spec or sort order at both ends, as text."""

    to = serializers.CharField(source="after", allow_null=True)

    def get_fields(self) -> Fields:
        """Add the field whose name Python keeps for itself."""
        return {"from": serializers.CharField(source="before", allow_null=True), **super().get_fields()}


class ColumnDiffSerializer(NounSerializer):
    """A column that differs; each is one entry."""

    to = serializers.CharField(source="weightiest.after", allow_null=True)
    name = serializers.CharField(source="path")
    field_id = serializers.IntegerField()
    destructive = serializers.BooleanField(source="is_breaking")
    widening = serializers.BooleanField(source="is_widening")
    sentence = serializers.CharField(help_text="who notices")

    def get_fields(self) -> Fields:
        """Add the field whose name Python keeps for itself."""
        return {"from": serializers.CharField(source="weightiest.before", allow_null=True), **super().get_fields()}


class ColumnChangeSerializer(LayoutDiffSerializer):
    """One difference of one column."""

    what = serializers.ChoiceField(choices=["renamed", *COLUMN_CHANGES])
    destructive = serializers.BooleanField()
    widening = serializers.BooleanField()
    sentence = serializers.CharField(help_text="who notices")


class ModifiedColumnSerializer(ColumnDiffSerializer):
    """A column that both ends have, with everything that changed about it; `from` and `to` say what weighs most of that."""

    what = serializers.ListField(child=serializers.ChoiceField(choices=COLUMN_CHANGES), help_text="besides its name")
    changes = ColumnChangeSerializer(many=True)


class SchemaDiffSerializer(NounSerializer):
    """Everything that differs between two schemas."""

    status = serializers.ChoiceField(choices=SCHEMA_STATUSES)
    added = ColumnDiffSerializer(many=True)
    removed = ColumnDiffSerializer(many=True)
    renamed = ModifiedColumnSerializer(many=True)
    modified = ModifiedColumnSerializer(source="not_renamed", many=True)
    partition_spec = LayoutDiffSerializer()
    sort_order = LayoutDiffSerializer()


class DiffRowSerializer(NounSerializer):
    """One changed row with both images."""

    change = serializers.ChoiceField(choices=ROW_CHANGES)
    key = serializers.DictField(allow_null=True, help_text="column → value; null for net changes")
    before = serializers.DictField(allow_null=True, **ROW)  # type: ignore[arg-type]
    after = serializers.DictField(allow_null=True, **ROW)  # type: ignore[arg-type]
    changed = serializers.ListField(child=serializers.CharField(), help_text="columns")
    copies = serializers.IntegerField(required=False, help_text="of net changes, where more than one row is the same")


class RowsSerializer(NounSerializer):
    """One page of a row diff. Before it is ready there is its state, with the first rows by key as soon as they are known.

    Rows of a diff that is not ready are not all: `next` is null then, and a filter, order or cursor gets none.
    """

    state = serializers.ChoiceField(choices=ROW_STATES)
    mode = serializers.ChoiceField(choices=["identifier", "net"], allow_null=True)
    key = serializers.ListField(child=serializers.CharField(), allow_null=True)
    summary = serializers.DictField(help_text="the counts, and when ready how they were found")
    total = serializers.IntegerField(required=False, help_text="rows that match the filters, over all pages")
    masked = serializers.ListField(child=serializers.CharField(), required=False, help_text=MASKED)
    rows = DiffRowSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")
    previous = serializers.CharField(allow_null=True, required=False)


class SpreadValueSerializer(NounSerializer):
    """How many rows changed that have one value."""

    value = serializers.JSONField(help_text="null where it has none")
    inserted = serializers.IntegerField()
    deleted = serializers.IntegerField()
    updated = serializers.IntegerField()


class SpreadSerializer(NounSerializer):
    """How the changed rows spread over the values of a column: those that they have now, of removed rows what they had."""

    column = serializers.CharField()
    unit = serializers.ChoiceField(choices=["", "day", "month", "year"], help_text="of times; else empty")
    values = SpreadValueSerializer(many=True)
    others = serializers.IntegerField(help_text="changed rows with other values than these")
    total = serializers.IntegerField()


class StatisticsSerializer(NounSerializer):
    """Each column in numbers at both ends."""

    class RowsOfBoth(NounSerializer):
        """How many rows were measured."""

        before = serializers.IntegerField(source="rows_before")
        after = serializers.IntegerField(source="rows_after")

    scope = serializers.ChoiceField(choices=["table", "changed"])
    table_is_measured = serializers.BooleanField()
    rows = RowsOfBoth(source="*")
    masked = serializers.ListField(
        child=serializers.CharField(), help_text="columns of which you may see counts alone, without any value"
    )
    columns = serializers.ListField(
        child=serializers.DictField(),
        source="measures",
        help_text="index, name, match_rate, changed; before and after with nulls, distinct, min, max, mean, "
        "quantiles and histogram; bins; top values",
    )
