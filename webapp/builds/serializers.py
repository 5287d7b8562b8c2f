"""Builds, jobs, JobSpecs and lineage as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from webapp.builds.models import Build, Job, PublishedSpec
from webapp.builds.queries import Lineage
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.rules.values import BuildPlan
from webapp.datasets.rules.transactions import TransactionState
from webapp.dispatch.log_lines import LogEnd, LogLine


class NewBuildSerializer(serializers.Serializer[Any]):
    """Body of POST /builds. The chain is `branch` then `fallback`; without it, from Git's ancestry."""

    branch = serializers.CharField()
    targets = serializers.ListField(child=serializers.CharField(), required=False, help_text="dataset paths")
    fallback = serializers.ListField(child=serializers.CharField(), required=False, allow_null=True)
    repository = serializers.CharField(required=False, allow_blank=True, help_text="default: the targets' own")
    upstream = serializers.BooleanField(required=False, help_text="build what the targets are made from, too")
    force = serializers.BooleanField(required=False, help_text="run what is fresh, too")
    dry_run = serializers.BooleanField(required=False, help_text="only plan: 200, or 422 where that fails")


class BuildSerializer(serializers.Serializer[Any]):
    """A build, as lists show it."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=["run", "upload"])
    state = serializers.ChoiceField(choices=list(BuildState))
    code = serializers.CharField(allow_null=True, help_text="why it failed, for programs")
    reason = serializers.CharField(allow_null=True, help_text="why it failed or what resolution waits for")
    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    targets = serializers.ListField(child=serializers.CharField())
    upstream = serializers.BooleanField()
    force = serializers.BooleanField()
    repository = serializers.CharField(allow_null=True)
    sha = serializers.CharField(allow_null=True, help_text="head of the branch when the plan was made")
    title = serializers.CharField()
    by = serializers.CharField()
    trigger = serializers.CharField()
    retry_of = serializers.IntegerField(allow_null=True)
    cancel_requested = serializers.BooleanField()
    notes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class PlannedInputSerializer(serializers.Serializer[Any]):
    """Where a planned job reads one input."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField()
    transaction = serializers.CharField(allow_null=True, help_text="null where a job of the plan makes it")
    from_job = serializers.IntegerField(allow_null=True, help_text="number of that job")
    fallback = serializers.BooleanField()


class PlannedOutputSerializer(serializers.Serializer[Any]):
    """What a planned job writes."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField()
    is_new = serializers.BooleanField(help_text="the dataset branch is made")
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # collected by DRF


class TransformSerializer(serializers.Serializer[Any]):
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


class PlanSerializer(serializers.Serializer[Any]):
    """Jobs in an order in which they may run, every input and output decided."""

    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    targets = serializers.ListField(child=serializers.CharField())
    jobs = PlannedJobSerializer(many=True)


class JobInputSerializer(serializers.Serializer[Any]):
    """What a job reads."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField()
    transaction = serializers.CharField(allow_null=True)
    fallback = serializers.BooleanField()
    from_job = serializers.CharField(allow_null=True)


class JobOutputSerializer(serializers.Serializer[Any]):
    """What a job writes."""

    name = serializers.CharField()
    path = serializers.CharField()
    dataset = serializers.IntegerField(allow_null=True)
    transaction = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=list(TransactionState), allow_null=True)
    summary = serializers.DictField()


class JobSerializer(TransformSerializer):
    """A job with its inputs and outputs."""

    id = serializers.CharField()
    build = serializers.IntegerField()
    number = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=["run", "upload"])
    state = serializers.ChoiceField(choices=list(JobState))
    skipped = serializers.BooleanField()
    why = serializers.CharField()
    reason = serializers.CharField(allow_null=True, help_text="how it ended, or what it waits for")
    error = serializers.DictField(allow_null=True, help_text="message, and where known code, file, line, traceback")
    repository = serializers.CharField(allow_null=True)
    spec_branch = serializers.CharField(allow_null=True)
    sha = serializers.CharField(allow_null=True)
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


class PlannedBuildSerializer(serializers.Serializer[Any]):
    """What a build would do: the answer to a dry run."""

    id = serializers.IntegerField(allow_null=True, help_text="null")
    state = serializers.CharField(allow_null=True, help_text="null")
    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    targets = serializers.ListField(child=serializers.CharField())
    repository = serializers.CharField(allow_null=True)
    notes = serializers.ListField(child=serializers.CharField())
    plan = PlanSerializer()
    explanation = serializers.CharField()
    jobs = JobSerializer(many=True, help_text="empty: nothing runs")


class LogLineSerializer(serializers.Serializer[Any]):
    """One line."""

    n = serializers.IntegerField()
    t = serializers.CharField()
    stream = serializers.CharField()
    text = serializers.CharField()


class LogEndSerializer(serializers.Serializer[Any]):
    """How a log ended."""

    reason = serializers.CharField()
    code = serializers.IntegerField(help_text="the exit status of its process")


class LogSerializer(serializers.Serializer[Any]):
    """Lines of a log; `next` is what to pass as `after` for the following ones."""

    lines = LogLineSerializer(many=True)
    next = serializers.IntegerField()
    done = serializers.BooleanField()
    end = LogEndSerializer(allow_null=True)


class CheckSpecSerializer(serializers.Serializer[Any]):
    """An expectation of an output."""

    name = serializers.CharField()
    expectation = serializers.CharField()
    on_error = serializers.CharField()


class InputSpecSerializer(serializers.Serializer[Any]):
    """A declared input."""

    name = serializers.CharField()
    path = serializers.CharField()
    branch = serializers.CharField(allow_null=True, help_text="only where the code names one")


class OutputSpecSerializer(serializers.Serializer[Any]):
    """A declared output."""

    name = serializers.CharField()
    path = serializers.CharField()
    checks = CheckSpecSerializer(many=True)


class JobSpecSerializer(TransformSerializer):
    """A published JobSpec with the branch it was found on."""

    branch = serializers.CharField()
    sha = serializers.CharField(help_text="the commit whose code runs")
    changed_sha = serializers.CharField(help_text="the commit that brought this digest")
    incremental = serializers.BooleanField()
    description = serializers.CharField()
    inputs = InputSpecSerializer(many=True)
    outputs = OutputSpecSerializer(many=True)


class LineageNodeSerializer(serializers.Serializer[Any]):
    """One dataset of the graph."""

    path = serializers.CharField()
    dataset = serializers.IntegerField(allow_null=True)
    depth = serializers.IntegerField(help_text="steps from the dataset asked for: negative upstream")
    state = serializers.ChoiceField(choices=["source", "fresh", "stale", "unknown"])
    why = serializers.CharField()
    function = serializers.CharField(allow_null=True)
    repository = serializers.CharField(allow_null=True)
    branch = serializers.CharField(allow_null=True)


class LineageEdgeSerializer(serializers.Serializer[Any]):
    """From input to output."""

    to = serializers.CharField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the field whose name Python keeps for itself."""
        return {"from": serializers.CharField(), **super().get_fields()}


class LineageSerializer(serializers.Serializer[Any]):
    """What a dataset is made from and what is made from it, as one branch sees it."""

    path = serializers.CharField()
    branch = serializers.CharField()
    chain = serializers.ListField(child=serializers.CharField())
    nodes = LineageNodeSerializer(many=True)
    edges = LineageEdgeSerializer(many=True)
    cut = serializers.BooleanField(help_text="larger than what is shown")


def shape_build(build: Build, *, jobs: Iterable[Job] | None = None, reason: str | None = None) -> dict[str, Any]:
    """Return a build; its plan and jobs only where they were loaded, and what it waits for as it wrote down or is given."""
    shape: dict[str, Any] = {
        "id": build.pk,
        "kind": build.kind,
        "state": build.state,
        "code": build.code or None,
        "reason": (build.reason if reason is None else reason) or None,
        "branch": build.branch,
        "chain": build.chain,
        "targets": build.targets,
        "upstream": build.upstream,
        "force": build.force,
        "repository": build.repository.name if build.repository else None,
        "sha": build.sha or None,
        "title": build.title,
        "by": build.by.username,
        "trigger": build.trigger,
        "retry_of": build.retry_of_id,
        "cancel_requested": build.cancel_requested,
        "notes": build.notes,
        "created_at": build.created_at,
        "started_at": build.started_at,
        "finished_at": build.finished_at,
    }
    if jobs is not None:
        shape["plan"] = build.plan
        shape["jobs"] = [shape_job(job) for job in jobs]
    return shape


def shape_plan(build: Build, plan: BuildPlan) -> dict[str, Any]:
    """Return what a build would do: the answer to a dry run."""
    return {
        "id": None,
        "state": None,
        "branch": build.branch,
        "chain": build.chain,
        "targets": build.targets,
        "repository": build.repository.name if build.repository else None,
        "notes": build.notes,
        "plan": plan.to_json(),
        "explanation": plan.explain(),
        "jobs": [],
    }


def shape_job(job: Job) -> dict[str, Any]:
    """Return a job with its inputs and outputs."""
    return {
        "id": job.pk,
        "build": job.build_id,
        "number": job.number,
        "kind": job.kind,
        "state": job.state,
        "skipped": job.skipped,
        "why": job.why,
        "reason": job.reason or None,
        "error": job.error,
        "function": job.function,
        "file": job.file,
        "line": job.line,
        "repository": job.repository or None,
        "spec_branch": job.spec_branch or None,
        "sha": job.sha or None,
        "profile": job.profile,
        "size": job.size,
        "digest": job.digest,
        "attempt": job.attempt,
        "progress": job.progress,
        "inputs": [
            {
                "name": each.name,
                "path": each.path,
                "branch": each.branch,
                "transaction": each.transaction_id,
                "fallback": each.fallback,
                "from_job": each.from_job_id,
            }
            for each in job.inputs.all()
        ],
        "outputs": [
            {
                "name": each.name,
                "path": each.path,
                "dataset": each.dataset_id,
                "transaction": each.transaction_id,
                "state": each.transaction.state if each.transaction else None,
                "summary": each.summary,
            }
            for each in job.outputs.all()
        ],
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
    }


def shape_log(lines: list[LogLine], end: LogEnd | None, *, after: int) -> dict[str, Any]:
    """Return lines of a log; `next` is what to pass as `after` for the following ones."""
    return {
        "lines": [{"n": each.n, "t": each.t, "stream": each.stream, "text": each.text} for each in lines],
        "next": lines[-1].n if lines else after,
        "done": end is not None,
        "end": {"reason": end.reason, "code": end.code} if end else None,
    }


def shape_jobspec(spec: PublishedSpec) -> dict[str, Any]:
    """Return a published JobSpec with the branch it was found on."""
    return {
        "function": spec.function,
        "file": spec.file,
        "line": spec.line,
        "profile": spec.profile,
        "digest": spec.digest,
        "branch": spec.branch,
        "sha": spec.sha,
        "changed_sha": spec.changed_sha,
        **spec.spec,
    }


def shape_lineage(lineage: Lineage) -> dict[str, Any]:
    """Return a graph: nodes with their freshness, edges from input to output."""
    return {
        "path": lineage.path,
        "branch": lineage.branch,
        "chain": list(lineage.chain),
        "nodes": [
            {
                "path": each.path,
                "dataset": each.dataset_id,
                "depth": each.depth,
                "state": each.state,
                "why": each.why,
                "function": each.function or None,
                "repository": each.repository or None,
                "branch": each.branch or None,
            }
            for each in lineage.nodes
        ],
        "edges": [{"from": source, "to": target} for source, target in lineage.edges],
        "cut": lineage.is_cut,
    }
