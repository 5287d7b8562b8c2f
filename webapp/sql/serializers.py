"""Queries as the API reads and writes them."""

from __future__ import annotations

from rest_framework import serializers

from webapp.core.inputs import ExactBody, Text
from webapp.core.serializers import NounSerializer, OptionalText
from webapp.sql.queries import MAX_SQL
from webapp.sql.rules.states import QueryState


class NewQuerySerializer(ExactBody):
    """What to run, and on which branch."""

    branch = Text(max_length=200, default="master")
    sql = Text(max_length=MAX_SQL, trim_whitespace=False, help_text="one statement of DuckDB's SQL that reads")


class QueryTableSerializer(NounSerializer):
    """A table that a query reads, at the transaction that was newest when the query was started."""

    names = serializers.ListField(child=serializers.CharField(), help_text="what the text calls it")
    path = serializers.CharField()
    branch = serializers.CharField(help_text="the branch whose rows these are: the one asked for, or its fallback")
    transaction = serializers.CharField()
    masked = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="columns that are NULL in it, in lower case: they are hidden from who ran the query",
    )


class QueryColumnSerializer(NounSerializer):
    """A column of a result."""

    name = serializers.CharField()
    type = serializers.CharField(help_text="in DuckDB's words")


class QuerySerializer(NounSerializer):
    """A query: what it reads, how far it is, and what its result is like."""

    id = serializers.IntegerField()
    repository = serializers.CharField(source="repository.name")
    branch = serializers.CharField()
    sql = serializers.CharField()
    by = serializers.CharField(source="by.username", default=None, allow_null=True)
    state = serializers.ChoiceField(choices=QueryState.choices())
    reason = OptionalText(source="error", help_text="why it failed, or who stopped it")
    code = OptionalText()
    tables = QueryTableSerializer(many=True)
    columns = QueryColumnSerializer(source="summary.columns", many=True, default=None, allow_null=True)
    rows = serializers.IntegerField(source="summary.rows", default=None, allow_null=True, help_text="of the result")
    is_cut = serializers.BooleanField(
        source="summary.is_cut", default=False, help_text="whether the result has more rows than are kept"
    )
    rows_read = serializers.IntegerField(
        source="summary.rows_read", default=None, allow_null=True, help_text="of tables; null where it is not known"
    )
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
