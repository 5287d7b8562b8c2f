"""Builds and jobs, looked up for somebody."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db.models import Prefetch, QuerySet, prefetch_related_objects

from webapp.builds import permissions
from webapp.builds.models import Build, Job, JobInput, JobOutput
from webapp.builds.queries import queue
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.core.errors import InvalidInput, NotFound
from webapp.core.filters import ListFilter, offer
from webapp.dispatch import logs
from webapp.dispatch.log_lines import LogPart
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from webapp.core.principals import Principal


def find_build(build_id: int) -> Build | None:
    """Return a build without asking who wants it."""
    return Build.objects.select_related("repository", "by").filter(pk=build_id).first()


def list_tries(*, build: Build) -> set[int]:
    """Return the ids of all builds that try the same: the first one, and every retry of it or of a retry."""
    first = build
    while first.retry_of is not None:
        first = first.retry_of
    tries = newest = {first.pk}
    while newest:
        newest = set(Build.objects.filter(retry_of__in=newest).values_list("pk", flat=True))
        tries = tries | newest
    return tries


def find_repository_by_name(name: str) -> Repository | None:
    """Return a repository without asking who wants it."""
    return repositories.find_repository(name)


def get_build(principal: Principal, build_id: int) -> Build:
    """Return a build that somebody may see."""
    build = find_build(build_id)
    if build is None:
        message = f"There is no build {build_id}, or you may not see it."
        raise NotFound(message)
    permissions.check_read(principal, build)
    return build


def get_job(principal: Principal, job_id: str) -> Job:
    """Return a job whose build somebody may see."""
    job = Job.objects.select_related("build__repository", "build__by").filter(pk=job_id).first()
    if job is None:
        message = f"There is no job {job_id}, or you may not see it."
        raise NotFound(message)
    permissions.check_read(principal, job.build)
    return job


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFilter(ListFilter):
    """Which builds are wanted."""

    repository: str = offer("repository__name", words="of this repository")
    branch: str = offer("branch", words="on this branch")
    state: str = offer("state", choices=tuple(BuildState))
    by: str = offer("by__username", words="started by this user")
    target: str = offer("jobs__outputs__path", words="with a job that makes this dataset", on_page=False)
    q: str = offer("title__icontains", words="a text in the title")


ALL = BuildFilter()


def list_builds(principal: Principal, filters: BuildFilter = ALL) -> QuerySet[Build]:
    """Return the builds that somebody may see, newest first."""
    if filters.state and filters.state not in set(BuildState):
        message = f"A build's state is one of {', '.join(BuildState)}, not {filters.state!r}."
        raise InvalidInput(message, errors={"state": ["Unknown state."]})
    builds = Build.objects.filter(permissions.visible_builds(principal), **filters.lookups)
    builds = builds.select_related("repository", "by").order_by("-pk")
    # A build may make one dataset by several of its jobs.
    return builds.distinct() if filters.target else builds


def list_jobs(build: Build, *, after: int = 0, limit: int | None = None) -> list[Job]:
    """Return the jobs of a build behind a number, in the order of the plan, inputs and outputs with them."""
    return list(_with_ends(build.jobs.filter(number__gt=after).order_by("number"))[:limit])


def list_failed_jobs(build: Build) -> list[Job]:
    """Return the jobs of a build that failed, in the order of the plan, outputs with them."""
    return list(build.jobs.filter(state=JobState.FAILED).order_by("number").prefetch_related("outputs"))


def load_jobs(builds: Sequence[Build]) -> None:
    """Read the jobs of builds at once, in the order of their plans, inputs and outputs with them."""
    prefetch_related_objects(builds, Prefetch("jobs", _with_ends(Job.objects.order_by("number"))))


def _with_ends(jobs: QuerySet[Job]) -> QuerySet[Job]:
    return jobs.prefetch_related(
        Prefetch("inputs", JobInput.objects.select_related("from_job", "transaction").order_by("pk")),
        Prefetch("outputs", JobOutput.objects.select_related("transaction", "dataset").order_by("pk")),
    )


def read_log(job: Job, *, after: int = 0, limit: int = 1000) -> LogPart:
    """Return lines of a job's log after a line number."""
    lines, end = logs.read_lines(paths.log_path(job.pk), after=after, limit=limit)
    return LogPart(tuple(lines), end, after)


def log_file(job: Job) -> Path:
    """Return the file of a job's log, for the stream and the download."""
    return paths.log_path(job.pk)


def find_log_owner(job: Job) -> str:
    """Return what the audit log names when a job's log is read: its repository, or of an upload the dataset."""
    return job.repository or next(iter(job.build.targets), "")


def is_job_over(job_id: str) -> bool:
    """Return whether a job reached its end, or is gone."""
    job = Job.objects.filter(pk=job_id).first()
    return job is None or job.is_over


def read_progress(build_id: int) -> dict[str, Any]:
    """Return what a page that follows a build must know: its state and that of every job."""
    build = Build.objects.filter(pk=build_id).first()
    if build is None:
        return {"version": "gone", "state": "ABORTED", "is_over": True, "jobs": []}
    jobs = [
        {"id": pk, "number": number, "state": state, "skipped": skipped, "reason": reason, "progress": progress}
        for pk, number, state, skipped, reason, progress in build.jobs.order_by("number").values_list(
            "pk", "number", "state", "skipped", "reason", "progress"
        )
    ]
    place = queue.read_places(builds=[build]).get(build.pk) if build.state == BuildState.RESOLVING else None
    reason = queue.read_reasons(builds=[build])[build.pk]
    body = json.dumps([build.state, reason, place, jobs], default=str)
    return {
        "version": hashlib.sha256(body.encode()).hexdigest()[:16],
        "state": build.state,
        "reason": reason,
        "is_over": build.is_over,
        "jobs": jobs,
    }


def dump_plan(build: Build) -> str:
    """Return a build's plan as JSON text for people and programs."""
    return json.dumps(build.plan, indent=2, sort_keys=True)
