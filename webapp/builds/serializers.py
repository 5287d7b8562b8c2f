"""Builds, jobs, JobSpecs and lineage as JSON."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.builds.models import Build, JobOutput, PublishedSpec
from webapp.builds.rules.states import BuildState, JobState
from webapp.core.inputs import Flag, Text
from webapp.core.serializers import Fields, NounSerializer, TextOrNull
from webapp.datasets.rules.transactions import TransactionState
from webapp.dispatch.log_lines import LogLine


def list_texts(**options: Any) -> serializers.ListField:
    """Return a field of a list of texts, each as it was sent."""
    return serializers.ListField(
        child=Text(allow_blank=True, trim_whitespace=False), required=False, allow_null=True, default=None, **options
    )


class NewBuildSerializer(serializers.Serializer[Any]):
    """Body of POST /builds. The chain is `branch` then `fallback`; without it, from Git's ancestry."""

    branch = Text(trim_whitespace=False)
    targets = list_texts(help_text="dataset paths")
    fallback = list_texts(source="fallbacks")
    repository = Text(required=False, allow_blank=True, default="", help_text="default: the targets' own")
    upstream = Flag(required=False, default=False, help_text="build what the targets are made from, too")
    force = Flag(required=False, default=False, help_text="run what is fresh, too")
    dry_run = Flag(required=False, default=False, help_text="only plan: 200, or 422 where that fails")


class BuildSerializer(NounSerializer):
    """A build, as lists show it."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=["run", "upload"])
    state = serializers.ChoiceField(choices=list(BuildState))
    code = TextOrNull(help_text="why it failed, for programs")
    reason = serializers.SerializerMethodField(help_text="why it failed or what resolution waits for")
    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    targets = serializers.ListField(child=serializers.CharField())
    upstream = serializers.BooleanField()
    force = serializers.BooleanField()
    repository = serializers.CharField(source="repository.name", allow_null=True)
    sha = TextOrNull(help_text="head of the branch when the plan was made")
    title = serializers.CharField()
    by = serializers.CharField(source="by.username")
    trigger = serializers.CharField()
    retry_of = serializers.IntegerField(source="retry_of_id", allow_null=True)
    cancel_requested = serializers.BooleanField()
    notes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    def get_reason(self, build: Build) -> str | None:
        """Write what it waits for now where that was looked up, else what it wrote down."""
        return self.context.get("reasons", {}).get(build.pk, build.reason) or None


class PlannedInputSerializer(NounSerializer):
    """Where a planned job reads one input."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField()
    transaction = serializers.CharField(allow_null=True, help_text="null where a job of the plan makes it")
    from_job = serializers.IntegerField(allow_null=True, help_text="number of that job")
    fallback = serializers.BooleanField()


class PlannedOutputSerializer(NounSerializer):
    """What a planned job writes."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField()
    is_new = serializers.BooleanField(help_text="the dataset branch is made")
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # collected by DRF


class TransformSerializer(NounSerializer):
    """The code of a job, and what it runs with."""

    function = serializers.CharField()
    file = serializers.CharField()
    line = serializers.IntegerField()
    profile = serializers.CharField()
    size = serializers.CharField()
    digest = serializers.CharField()


class PlannedJobSerializer(TransformSerializer):
    """One transform of a plan."""

    number = serializers.IntegerField()
    spec = serializers.IntegerField()
    repository = serializers.CharField()
    spec_branch = serializers.CharField()
    sha = serializers.CharField()
    is_incremental = serializers.BooleanField()
    is_fresh = serializers.BooleanField(help_text="its result is there already: it is skipped")
    why = serializers.CharField()
    inputs = PlannedInputSerializer(many=True)
    outputs = PlannedOutputSerializer(many=True)
    after = serializers.ListField(child=serializers.IntegerField(), help_text="numbers of the jobs it waits for")


class PlanSerializer(NounSerializer):
    """Jobs in an order in which they may run, every input and output decided."""

    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    targets = serializers.ListField(child=serializers.CharField())
    jobs = PlannedJobSerializer(many=True)


class JobInputSerializer(NounSerializer):
    """What a job reads."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField()
    transaction = serializers.CharField(source="transaction_id", allow_null=True)
    fallback = serializers.BooleanField()
    from_job = serializers.CharField(source="from_job_id", allow_null=True)


class LoadedColumnSerializer(NounSerializer):
    """A column of a file that was loaded."""

    name = serializers.CharField()
    type = serializers.CharField(help_text="as Iceberg writes it")
    nulls = serializers.IntegerField(help_text="rows without a value")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="what could not be kept of its values")


class JobOutputSerializer(NounSerializer):
    """What a job writes."""

    name = serializers.CharField()
    path = serializers.CharField()
    dataset = serializers.IntegerField(source="dataset_id", allow_null=True)
    transaction = serializers.CharField(source="transaction_id", allow_null=True)
    state = serializers.ChoiceField(choices=list(TransactionState), source="transaction.state", allow_null=True)
    summary = serializers.SerializerMethodField(help_text="rows, and how they were written")
    columns = LoadedColumnSerializer(
        many=True, source="loaded_columns", help_text="of an upload or a seed, as its file had them; empty of others"
    )

    @extend_schema_field(serializers.DictField)
    def get_summary(self, output: JobOutput) -> dict[str, Any]:
        """Leave out what has a member of its own."""
        return {name: value for name, value in output.summary.items() if name != "columns"}


class JobSerializer(TransformSerializer):
    """A job with its inputs and outputs."""

    id = serializers.CharField()
    build = serializers.IntegerField(source="build_id")
    number = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=["run", "upload"])
    state = serializers.ChoiceField(choices=list(JobState))
    skipped = serializers.BooleanField()
    why = serializers.CharField()
    reason = TextOrNull(help_text="how it ended, or what it waits for")
    error = serializers.DictField(allow_null=True, help_text="message, and where known code, file, line, traceback")
    repository = TextOrNull()
    spec_branch = TextOrNull()
    sha = TextOrNull()
    attempt = serializers.IntegerField()
    progress = serializers.DictField()
    inputs = JobInputSerializer(many=True)
    outputs = JobOutputSerializer(many=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class BuildDetailSerializer(BuildSerializer):
    """A build with its plan, which is null until it is resolved, and its jobs."""

    plan = PlanSerializer(allow_null=True)
    jobs = JobSerializer(many=True)


class LoadedBuildSerializer(BuildDetailSerializer):
    """The build of an upload, and the columns of its file; none before it is completed."""

    columns = serializers.SerializerMethodField()

    @extend_schema_field(LoadedColumnSerializer(many=True))
    def get_columns(self, build: Build) -> list[dict[str, Any]]:
        """Read them from the one output of its one job."""
        return [column for job in build.jobs.all() for output in job.outputs.all() for column in output.loaded_columns]


class PlannedBuildSerializer(NounSerializer):
    """What a build would do: the answer to a dry run."""

    id = serializers.IntegerField(source="build.pk", allow_null=True, help_text="null")
    state = serializers.CharField(allow_null=True, help_text="null")
    branch = serializers.CharField(source="build.branch")
    chain = serializers.ListField(source="build.chain", child=serializers.CharField())
    targets = serializers.ListField(source="build.targets", child=serializers.CharField())
    repository = serializers.CharField(source="build.repository.name", allow_null=True)
    notes = serializers.ListField(source="build.notes", child=serializers.CharField())
    plan = PlanSerializer()
    explanation = serializers.CharField(source="plan.explain")
    jobs = JobSerializer(many=True, help_text="empty: nothing runs")


class LogLineSerializer(NounSerializer):
    """One line."""

    n = serializers.IntegerField()
    t = serializers.CharField()
    stream = serializers.CharField()
    text = serializers.CharField()


class StreamedLineSerializer(LogLineSerializer):
    """One line of a log that is followed."""

    level = serializers.SerializerMethodField()

    def get_level(self, line: LogLine) -> str:
        """Write a word for every line."""
        return line.level or "info"


class LogEndSerializer(NounSerializer):
    """How a log ended."""

    reason = serializers.CharField()
    code = serializers.IntegerField(help_text="the exit status of its process")


class LogSerializer(NounSerializer):
    """Lines of a log; `next` is what to pass as `after` for the following ones."""

    lines = LogLineSerializer(many=True)
    next = serializers.IntegerField()
    done = serializers.BooleanField(source="is_done")
    end = LogEndSerializer(allow_null=True)


class CheckSpecSerializer(NounSerializer):
    """An expectation of an output."""

    name = serializers.CharField()
    expectation = serializers.CharField()
    on_error = serializers.CharField()


class InputSpecSerializer(NounSerializer):
    """A declared input."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField(allow_null=True, help_text="only where the code names one")


class OutputSpecSerializer(NounSerializer):
    """A declared output."""

    name = serializers.CharField()
    path = serializers.CharField()
    checks = CheckSpecSerializer(many=True)


class JobSpecSerializer(TransformSerializer):
    """A published JobSpec with the branch it was found on."""

    branch = serializers.CharField()
    sha = serializers.CharField(help_text="the commit whose code runs")
    changed_sha = serializers.CharField(help_text="the commit that brought this digest")
    incremental = serializers.BooleanField(source="spec.incremental")
    description = serializers.CharField(source="spec.description")
    inputs = InputSpecSerializer(source="spec.inputs", many=True)
    outputs = OutputSpecSerializer(source="spec.outputs", many=True)
    size = serializers.CharField(source="spec.size")
    depends_on = serializers.SerializerMethodField(
        help_text="modules and files of the repository that its freshness depends on"
    )
    why_all = serializers.SerializerMethodField(help_text="why it depends on the whole repository; null if it does not")

    def get_depends_on(self, spec: PublishedSpec) -> list[str]:
        """Look it up by the digest."""
        return list(self.context["depends_on"][spec.digest])

    def get_why_all(self, spec: PublishedSpec) -> str | None:
        """Read it from what was published; earlier releases did not say."""
        return spec.spec.get("why_all") or None


class LineageNodeSerializer(NounSerializer):
    """One dataset of the graph."""

    path = serializers.CharField()
    dataset = serializers.IntegerField(source="dataset_id", allow_null=True)
    depth = serializers.IntegerField(help_text="steps from the dataset asked for: negative upstream")
    state = serializers.ChoiceField(choices=["source", "fresh", "stale", "unknown"])
    why = serializers.CharField()
    function = TextOrNull()
    repository = TextOrNull()
    branch = TextOrNull()


class LineageEdgeSerializer(NounSerializer):
    """From input to output."""

    to = serializers.CharField(source="output")

    def get_fields(self) -> Fields:
        """Add the field whose name Python keeps for itself."""
        return {"from": serializers.CharField(source="input"), **super().get_fields()}


class ColumnSourceSerializer(NounSerializer):
    """Columns of one dataset that a column is made of."""

    path = serializers.CharField()
    columns = serializers.ListField(child=serializers.CharField())


class MadeColumnSerializer(NounSerializer):
    """What the values of one column are made of; nothing where it counts rows, or is the same in each."""

    name = serializers.CharField()
    sources = ColumnSourceSerializer(many=True)
    hidden = serializers.IntegerField(help_text="datasets that it is made of and you may not see")


class LineageSerializer(NounSerializer):
    """What a dataset is made from and what is made from it, as one branch sees it."""

    path = serializers.CharField()
    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    nodes = LineageNodeSerializer(many=True)
    edges = LineageEdgeSerializer(many=True)
    cut = serializers.BooleanField(source="is_cut", help_text="larger than what is shown")
    columns = MadeColumnSerializer(
        many=True, help_text="of the dataset asked for, as the plan told that wrote it; what is not known is left out"
    )
