"""Queries as the API reads and writes them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.core.inputs import Text
from webapp.core.serializers import NounSerializer, OptionalText
from webapp.sql.queries import MAX_SQL
from webapp.sql.rules.differences import DIFFERENT, EQUAL, NOT_COMPARED
from webapp.sql.rules.states import QueryState


class NewQuerySerializer(serializers.Serializer[Any]):
    """What to run, and on which branch."""

    branch = Text(max_length=200, default="master")
    sql = Text(max_length=MAX_SQL, trim_whitespace=False, help_text="one statement of DuckDB's SQL that reads")
    base = Text(
        max_length=200,
        default="",
        allow_blank=True,
        help_text="another branch on which to run it, too; the two results are compared",
    )


class QueryTableSerializer(NounSerializer):
    """A table that a query reads, at the transaction that was newest when the query was started."""

    names = serializers.ListField(child=serializers.CharField(), help_text="what the text calls it")
    path = serializers.CharField()
    branch = serializers.CharField(help_text="the branch whose rows these are: the one asked for, or its fallback")
    transaction = serializers.CharField(help_text="empty where the base has no data of it")
    masked = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="columns that are NULL in it, in lower case: they are hidden from who ran the query",
    )


class QueryColumnSerializer(NounSerializer):
    """A column of a result."""

    name = serializers.CharField()
    type = serializers.CharField(help_text="in DuckDB's words")


class DifferentColumnSerializer(NounSerializer):
    """A column whose name or type is not the same in two results."""

    place = serializers.IntegerField(help_text="counted from 0")
    before = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="name and type on the base; null where it has none"
    )
    after = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text="the same on the branch")


class DifferenceSerializer(NounSerializer):
    """How the result of a query differs from its result on the base: columns by place, rows in any order."""

    state = serializers.ChoiceField(choices=[EQUAL, DIFFERENT, NOT_COMPARED])
    reason = serializers.CharField(help_text="why rows are not compared, where they are not")
    key = serializers.CharField(
        help_text="the first column, where it names each row of both sides; else whole rows are compared"
    )
    columns = DifferentColumnSerializer(many=True)
    inserted = serializers.IntegerField()
    deleted = serializers.IntegerField()
    updated = serializers.IntegerField()
    lines = serializers.IntegerField(help_text="that are kept of these rows")


class QuerySerializer(NounSerializer):
    """A query: what it reads, how far it is, and what its result is like."""

    id = serializers.IntegerField()
    repository = serializers.CharField(source="repository.name")
    branch = serializers.CharField()
    base = OptionalText(help_text="the branch that it is compared with")
    check = OptionalText(source="check_name", help_text="the check of a pull request that it was run for")
    sql = serializers.CharField()
    by = serializers.CharField(source="by.username", default=None, allow_null=True)
    state = serializers.ChoiceField(choices=QueryState.choices())
    reason = OptionalText(source="error", help_text="why it failed, or who stopped it")
    code = OptionalText()
    tables = QueryTableSerializer(many=True)
    base_tables = QueryTableSerializer(many=True)
    columns = QueryColumnSerializer(source="summary.columns", many=True, default=None, allow_null=True)
    rows = serializers.IntegerField(source="summary.rows", default=None, allow_null=True, help_text="of the result")
    is_cut = serializers.BooleanField(
        source="summary.is_cut", default=False, help_text="whether the result has more rows than are kept"
    )
    rows_read = serializers.IntegerField(
        source="summary.rows_read", default=None, allow_null=True, help_text="of tables; null where it is not known"
    )
    base_rows = serializers.IntegerField(
        source="summary.base.rows", default=None, allow_null=True, help_text="of the result on the base"
    )
    difference = DifferenceSerializer(source="summary.difference", default=None, allow_null=True)
    seconds = serializers.FloatField(source="summary.seconds", default=None, allow_null=True)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class QueryRowsSerializer(NounSerializer):
    """A page of the rows of a result."""

    columns = QueryColumnSerializer(many=True)
    rows = serializers.ListField(
        child=serializers.ListField(), help_text="each a list in the order of the columns, whose names may repeat"
    )
    total = serializers.IntegerField()
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")


class DifferentRowSerializer(NounSerializer):
    """Rows of two results that belong together, or a row that only one of them has."""

    change = serializers.ChoiceField(choices=["inserted", "deleted", "updated"])
    copies = serializers.IntegerField(help_text="so many rows like it")
    before = serializers.ListField(allow_null=True, help_text="on the base")
    after = serializers.ListField(allow_null=True, help_text="on the branch")


class DifferentRowsSerializer(DifferenceSerializer):
    """A difference, with a page of its rows."""

    rows = DifferentRowSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")
