"""The home page: what waits for the reader, what happens now, and what happened lately."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Count, Min, OuterRef, Subquery
from django.db.models.functions import Lower

from webapp.accounts.models import Folder
from webapp.builds import queries as builds
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import BUILD_UNFINISHED, JOB_ENDS
from webapp.core import names
from webapp.datasets.models import Dataset
from webapp.datasets.queries import is_listed
from webapp.pulls.models import PullRequest
from webapp.pulls.pages import lines
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries import waiting
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository
from webapp.site.pages import activity, tour

if TYPE_CHECKING:
    from webapp.core.principals import Principal

REVIEWS = 10
FAILED = 5
OWN = 5
FEED = 8
RUNNING = 5
REPOSITORIES = 6
YOU = "You"


@dataclass(frozen=True)
class OwnPull:
    """One of the reader's own pull requests, with what it waits for."""

    line: lines.PullLine
    waits_for: str
    note: str

    @property
    def is_mine(self) -> bool:
        """Whether it waits for the reader."""
        return self.waits_for == YOU


@dataclass(frozen=True)
class FailedBuild:
    """A build that failed, with the first job that did."""

    build: Build
    job: Job | None
    path: str
    error: str
    others: int
    """Further jobs that failed."""


@dataclass(frozen=True)
class RunningBuild:
    """A build that is under way."""

    build: Build
    done: int
    failed: int
    total: int

    @property
    def percent(self) -> int:
        """Share of its jobs that are settled."""
        return round(100 * self.done / self.total) if self.total else 0


@dataclass(frozen=True)
class RepositoryLine:
    """A repository in the side column."""

    name: str
    description: str
    datasets: int
    pulls: int
    build_kind: str
    build_text: str


@dataclass(frozen=True)
class HomePage:
    """Context of the home page."""

    nav: str
    reviews: list[lines.PullLine]
    review_count: int
    is_comparing: bool
    """Whether the list of reviews asks for itself."""
    failed: list[FailedBuild]
    failed_count: int
    own: list[OwnPull]
    own_count: int
    feed: list[activity.FeedLine]
    running: list[RunningBuild]
    running_count: int
    repositories: list[RepositoryLine]
    tour_url: str
    """Where the tour of the demo begins, where the reader has not ended it."""

    @property
    def waiting(self) -> int:
        """How many things wait for the reader, of their own pull requests among those that are shown."""
        return self.review_count + self.failed_count + sum(pull.is_mine for pull in self.own)


def read_home(principal: Principal, *, wants_tour: bool) -> HomePage:
    """Return what the home page shows: the newest of everything, each with the number of all."""
    reviews, failed = waiting.list_reviews(principal), waiting.list_failed_builds(principal)
    own = waiting.list_own(principal)
    newest_reviews, newest_own = list(reviews[:REVIEWS]), list(own[:OWN])
    described = lines.describe_pulls([*newest_reviews, *newest_own])
    running = builds.list_builds(principal).filter(state__in=BUILD_UNFINISHED)
    return HomePage(
        nav="home",
        reviews=described[: len(newest_reviews)],
        review_count=waiting.count_at_most(reviews),
        is_comparing=lines.is_comparing(described[: len(newest_reviews)]),
        failed=_describe_failed(list(failed[:FAILED])),
        failed_count=waiting.count_at_most(failed),
        own=_describe_own(newest_own, described[len(newest_reviews) :]),
        own_count=waiting.count_at_most(own),
        feed=activity.list_newest(principal, most=FEED),
        running=_describe_running(list(running[:RUNNING])),
        running_count=running.count(),
        repositories=_list_repositories(principal),
        tour_url=tour.offer_tour(principal) if wants_tour else "",
    )


def _describe_failed(failed: list[Build]) -> list[FailedBuild]:
    failures = Job.objects.filter(build__in=failed, state="FAILED")
    first = failures.order_by().values("build").annotate(first=Min("number"), count=Count("pk"))
    numbers, counts = {}, {}
    for row in first:
        numbers[row["build"]], counts[row["build"]] = row["first"], row["count"]
    jobs = failures.filter(number__in=set(numbers.values())).prefetch_related("outputs")
    by_build = {job.build_id: job for job in jobs if job.number == numbers[job.build_id]}
    return [_describe_failure(build, by_build.get(build.pk), counts.get(build.pk, 1)) for build in failed]


def _describe_failure(build: Build, job: Job | None, count: int) -> FailedBuild:
    outputs = list(job.outputs.all()) if job else []
    error = (job.error or {}).get("message", "") or job.reason if job else build.reason
    return FailedBuild(build=build, job=job, path=outputs[0].path if outputs else "", error=error, others=count - 1)


def _describe_own(pulls: list[PullRequest], described: list[lines.PullLine]) -> list[OwnPull]:
    return [
        OwnPull(line, *_say_what_for(line, [blocker.code for blocker in queries.list_blockers(pull)]))
        for pull, line in zip(pulls, described, strict=True)
    ]


def _say_what_for(line: lines.PullLine, codes: list[str]) -> tuple[str, str]:
    reasons = f"{len(codes)} reason{'s' if len(codes) != 1 else ''} against the merge"
    if not codes:
        return YOU, "ready to merge"
    if "build_running" in codes and line.build:
        return f"Build {line.build.pk}", reasons
    if {
        "draft",
        "conflict",
        "publication_failed",
        "build_failed",
        "build_missing",
        "rejected",
        "dataset_rejected",
        "threads_unresolved",
    } & set(codes):
        return YOU, reasons
    if "publication_pending" in codes:
        return "JobSpecs", "being published"
    return "Reviewers", reasons


def _describe_running(running: list[Build]) -> list[RunningBuild]:
    counted: dict[int, Counter[str]] = {build.pk: Counter() for build in running}
    states_of_jobs = Job.objects.filter(build__in=running).order_by().values_list("build", "state")
    for build_id, state, number in states_of_jobs.annotate(number=Count("pk")):
        counted[build_id][state] = number
    return [
        RunningBuild(
            build=build,
            done=sum(number for state, number in counted[build.pk].items() if state in JOB_ENDS),
            failed=counted[build.pk]["FAILED"],
            total=counted[build.pk].total(),
        )
        for build in running
    ]


def _list_repositories(principal: Principal) -> list[RepositoryLine]:
    newest = list(repositories.list_repositories(principal).order_by("-created_at")[:REPOSITORIES])
    datasets = _count_datasets([repository.name for repository in newest])
    pulls = dict(
        PullRequest.objects.filter(repository__in=newest, state=PullState.OPEN)
        .order_by()
        .values_list("repository")
        .annotate(number=Count("pk"))
    )
    masters = _find_newest_on_master(newest)
    shown = []
    for repository in newest:
        kind, text = _describe_master(masters.get(repository.pk))
        shown.append(
            RepositoryLine(
                name=repository.name,
                description=repository.description,
                datasets=datasets[repository.name],
                pulls=pulls.get(repository.pk, 0),
                build_kind=kind,
                build_text=text,
            )
        )
    return shown


def _count_datasets(names_of_repositories: list[str]) -> Counter[str]:
    folders = dict(Folder.objects.filter(repository__in=names_of_repositories).values_list(Lower("name"), "repository"))
    numbers = (
        Dataset.objects.filter(is_listed(), folder__in=folders)
        .order_by()
        .values_list("folder")
        .annotate(number=Count("pk"))
    )
    counted: Counter[str] = Counter()
    for folder, number in numbers:
        counted[folders[folder]] += number
    return counted


def _find_newest_on_master(newest: list[Repository]) -> dict[int | None, Build]:
    on_master = Build.objects.filter(repository=OuterRef("pk"), branch=names.MASTER, kind="run").order_by("-pk")
    with_build = Repository.objects.filter(pk__in=[repository.pk for repository in newest]).annotate(
        build=Subquery(on_master.values("pk")[:1])
    )
    return {build.repository_id: build for build in Build.objects.filter(pk__in=with_build.values("build"))}


def _describe_master(build: Build | None) -> tuple[str, str]:
    if build is None:
        return "open", "not built"
    return {
        "COMPLETED": ("ok", "master built"),
        "FAILED": ("bad", "master failed"),
        "ABORTED": ("abort", "master aborted"),
    }.get(build.state, ("run", "master builds"))
