"""Lists of builds: all that somebody may see, those of a repository, and those beside its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webapp.builds import permissions
from webapp.builds.models import Build, Job
from webapp.builds.queries import builds as queries
from webapp.builds.queries import queue
from webapp.builds.rules.states import BUILD_UNFINISHED, BuildState, JobState
from webapp.core.numbered import KeptPage
from webapp.core.words import counted
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from webapp.core.principals import Principal


PAGE_SIZE = 30
LABELS = {
    JobState.COMPLETED.tone: JobState.COMPLETED.label,
    "fresh": "Fresh",
    **{state.tone: state.label for state in (JobState.RUNNING, JobState.WAITING, JobState.FAILED, JobState.ABORTED)},
}
"""Kind of a job → what counts of them say, in the order in which they say it."""


@dataclass(frozen=True, slots=True)
class BuildRow:
    """One build in a list."""

    build: Build
    counts: tuple[tuple[str, int, str], ...]
    waits: str = ""
    """What it waits for, or why it ended as it did."""


@dataclass(frozen=True, slots=True)
class BuildsPage:
    """A list of builds, of all repositories or of one."""

    nav: str
    repo_bar: Mapping[str, str] | None
    repository: str
    rows: tuple[BuildRow, ...]
    filters: queries.BuildFilter
    branches: tuple[str, ...]
    states: tuple[str, ...]
    is_filtered: bool
    part: KeptPage
    text: str
    running: int
    """Of those that the list can show."""
    is_moving: bool
    """Whether the list may change: one that runs can come into the state that is filtered by."""


def read_builds_page(
    principal: Principal,
    *,
    repository: Repository | None = None,
    filters: queries.BuildFilter,
    parameters: Mapping[str, str],
) -> BuildsPage:
    """Return a page of builds, newest first."""
    name = repository.name if repository else filters.repository
    chosen = replace(filters, repository=name)
    rows = queries.list_builds(principal, chosen)
    unfinished = queries.list_builds(principal, replace(chosen, state="")).filter(state__in=BUILD_UNFINISHED)
    running = rows.filter(state__in=BUILD_UNFINISHED).count()
    part = KeptPage.turn(rows, parameters, size=PAGE_SIZE, scope=f"builds {name}")
    builds = part.rows
    counts = _count_jobs(builds)
    waits, reasons = explain_waits(builds), queue.read_reasons(builds=builds)
    visible = Build.objects.filter(permissions.visible_builds(principal))
    if name:
        visible = visible.filter(repository__name=name)
    branches = sorted(set(visible.order_by("-pk").values_list("branch", flat=True)[:500]))
    return BuildsPage(
        nav="builds",
        repo_bar={"name": repository.name, "tab": "builds"} if repository else None,
        repository=repository.name if repository else "",
        rows=tuple(
            BuildRow(
                build,
                counts.get(build.pk, ()),
                waits.get(build.pk, "" if build.state == BuildState.COMPLETED else reasons[build.pk]),
            )
            for build in builds
        ),
        filters=filters,
        branches=tuple(branches),
        states=tuple(BuildState),
        is_filtered=not filters.is_any,
        part=part,
        text=f"{part.text}, newest first" if builds else "",
        running=running,
        is_moving=unfinished.exists() if filters.state else running > 0,
    )


def explain_waits(builds: Sequence[Build]) -> dict[int, str]:
    """Return for each of these builds that stands in a queue where it stands now; the others are left out."""
    waits = {
        pk: f"Waits for a worker, {counted(before, 'job')} before its own"
        for pk, before in queue.count_jobs_before(builds=builds).items()
        if before
    }
    return waits | {pk: place.words for pk, place in queue.read_places(builds=builds).items()}


def _count_jobs(builds: Sequence[Build]) -> dict[int, tuple[tuple[str, int, str], ...]]:
    kinds: dict[int, Counter[str]] = {}
    for build_id, state, skipped in Job.objects.filter(build__in=builds).values_list("build_id", "state", "skipped"):
        kinds.setdefault(build_id, Counter())["fresh" if skipped else state.tone] += 1
    return {
        build_id: tuple((kind, counted[kind], label) for kind, label in LABELS.items() if counted[kind])
        for build_id, counted in kinds.items()
    }


@dataclass(frozen=True, slots=True)
class BuildsSidebar:
    """What stands beside the files of a repository: the newest build of the branch, and what runs elsewhere."""

    repository: Repository
    branch: str
    latest: BuildRow | None
    running: tuple[Build, ...]


def read_builds_sidebar(principal: Principal, *, repository: Repository, branch: str) -> BuildsSidebar:
    """Return the short list for the repository's page."""
    builds = queries.list_builds(principal, queries.BuildFilter(repository=repository.name))
    newest = builds.filter(branch=branch).first()
    latest = None
    if newest:
        latest = BuildRow(newest, _count_jobs([newest]).get(newest.pk, ()))
    running = builds.filter(state__in=BUILD_UNFINISHED).exclude(branch=branch)
    return BuildsSidebar(repository=repository, branch=branch, latest=latest, running=tuple(running[:3]))
