"""Previews as the API reads and writes them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.core.inputs import Text
from webapp.core.serializers import NounSerializer, OptionalText
from webapp.previews.rules.states import PreviewState
from webapp.sql.rules.differences import DIFFERENT, EQUAL, NOT_COMPARED
from webapp.sql.serializers import DifferentRowSerializer, QueryColumnSerializer


class ChangedFileSerializer(serializers.Serializer[Any]):
    """A file that differs from the commit, as it is to be."""

    path = Text(max_length=2000, help_text="where it is to lie")
    old_path = Text(
        max_length=2000, default="", allow_blank=True, help_text="where it lies in the commit, if elsewhere"
    )
    text = Text(allow_blank=True, trim_whitespace=False)


class NewPreviewSerializer(serializers.Serializer[Any]):
    """What to run, and over which branch's data."""

    branch = Text(max_length=200, default="master")
    head = Text(
        max_length=40, default="", allow_blank=True, help_text="the commit that the files are changed from; the newest"
    )
    file = Text(max_length=2000, help_text="whose transforms are run")
    files = ChangedFileSerializer(many=True, default=list)


class CodeProblemSerializer(NounSerializer):
    """Something that is wrong with the code."""

    file = serializers.CharField()
    line = serializers.IntegerField(help_text="0 for the whole file")
    message = serializers.CharField()


class PreviewInputSerializer(NounSerializer):
    """What was read of a dataset."""

    path = serializers.CharField()
    branch = serializers.CharField(help_text="the branch whose rows these are: the one asked for, or its fallback")
    transaction = serializers.CharField()
    masked = serializers.ListField(
        child=serializers.CharField(), help_text="columns that are NULL in it: they are hidden from who asked"
    )
    rows = serializers.IntegerField(default=None, allow_null=True, help_text="that were read")
    is_whole = serializers.BooleanField(default=None, allow_null=True, help_text="whether these are all of its rows")


class PreviewDifferenceSerializer(NounSerializer):
    """How rows differ from those that the committed code writes from the same rows of its inputs."""

    state = serializers.ChoiceField(choices=[EQUAL, DIFFERENT, NOT_COMPARED])
    reason = serializers.CharField(help_text="why rows are not compared, where they are not")
    key = serializers.CharField(help_text="the columns that rows are matched by; else whole rows are compared")
    shown = QueryColumnSerializer(many=True, help_text="the columns that both sides have, which are compared")
    only_before = serializers.ListField(child=serializers.CharField(), help_text="columns not compared, of the commit")
    only_after = serializers.ListField(child=serializers.CharField(), help_text="columns not compared, of the preview")
    ignored = serializers.ListField(child=serializers.CharField(), help_text="columns that pipeline.toml leaves out")
    inserted = serializers.IntegerField()
    deleted = serializers.IntegerField()
    updated = serializers.IntegerField()
    lines = serializers.IntegerField(help_text="that are kept of these rows")


class PreviewedOutputSerializer(NounSerializer):
    """What was written to a dataset; no table got it."""

    path = serializers.CharField()
    columns = QueryColumnSerializer(many=True)
    rows = serializers.IntegerField()
    is_cut = serializers.BooleanField(help_text="whether more rows were written than are kept")
    schema = serializers.DictField(allow_null=True, help_text="what a build would give the branch, as Iceberg's JSON")
    schema_problem = serializers.CharField(help_text="why a build could not write these columns")
    before_schema = serializers.DictField(allow_null=True, help_text="what the branch has now")
    difference = PreviewDifferenceSerializer(allow_null=True)
    why_not_compared = serializers.CharField(help_text="why there is no difference, where there is none")


class SkippedTransformSerializer(NounSerializer):
    """A transform of the file that was not run."""

    function = serializers.CharField()
    reason = serializers.CharField()


class CodePreviewSerializer(NounSerializer):
    """A preview: what it runs, how far it is, and what came of it."""

    id = serializers.IntegerField()
    repository = serializers.CharField(source="repository.name")
    branch = serializers.CharField()
    head = serializers.CharField()
    file = serializers.CharField()
    by = serializers.CharField(source="by.username", default=None, allow_null=True)
    state = serializers.ChoiceField(choices=PreviewState.choices())
    step = OptionalText(help_text="what it is doing")
    reason = OptionalText(source="error", help_text="why it failed, or who stopped it")
    code = OptionalText()
    problems = CodeProblemSerializer(source="summary.problems", many=True, default=list)
    inputs = PreviewInputSerializer(source="tables", many=True)
    outputs = PreviewedOutputSerializer(source="summary.outputs", many=True, default=list)
    skipped = SkippedTransformSerializer(source="summary.skipped", many=True, default=list)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class PreviewLogSerializer(NounSerializer):
    """The first lines of the log."""

    lines = serializers.ListField(child=serializers.CharField())


class PreviewRowsSerializer(NounSerializer):
    """A page of the rows of an output."""

    columns = QueryColumnSerializer(many=True)
    rows = serializers.ListField(child=serializers.ListField(), help_text="each a list in the order of the columns")
    total = serializers.IntegerField()
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")


class PreviewDifferentRowsSerializer(PreviewDifferenceSerializer):
    """A difference, with a page of its rows."""

    rows = DifferentRowSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="what to pass as `cursor`")
