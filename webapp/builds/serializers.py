"""Builds, jobs, JobSpecs and lineage as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webapp.builds.models import Build, Job, PublishedSpec
from webapp.builds.queries import Lineage
from webapp.builds.rules.log_lines import LogEnd, LogLine
from webapp.builds.rules.values import BuildPlan


def shape_build(build: Build, *, jobs: Iterable[Job] | None = None) -> dict[str, Any]:
    """Return a build; its plan and jobs only where they were loaded."""
    shape: dict[str, Any] = {
        "id": build.pk,
        "kind": build.kind,
        "state": build.state,
        "code": build.code or None,
        "reason": build.reason or None,
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
