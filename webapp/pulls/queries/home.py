"""The home page: what waits for the reader, what happens now, and what happened lately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from webapp.accounts import permissions as accounts
from webapp.accounts.models import Folder
from webapp.builds import queries as builds
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import JOB_ENDS
from webapp.core import names
from webapp.datasets.models import Dataset, Transaction
from webapp.pulls.models import Comment, PullRequest, TimelineEvent
from webapp.pulls.queries import lines, waiting
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import states
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.accounts.rules.principals import Principal
    from webapp.repositories.models import Repository

FEED = 8
RUNNING = 5
REPOSITORIES = 6


@dataclass(frozen=True)
class OwnPull:
    """One of the reader's own pull requests, with what it waits for."""

    line: lines.PullLine
    waits_for: str
    note: str


@dataclass(frozen=True)
class FailedBuild:
    """A build that failed, with the first job that did."""

    build: Build
    job: Job | None
    path: str
    error: str


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
class FeedLine:
    """Something that happened."""

    icon: str
    tone: str
    actor: str
    text: str
    link: str
    url: str
    tail: str
    at: datetime


@dataclass(frozen=True)
class HomePage:
    """Context of the home page."""

    nav: str
    reviews: list[lines.PullLine]
    failed: list[FailedBuild]
    own: list[OwnPull]
    feed: list[FeedLine]
    running: list[RunningBuild]
    running_count: int
    repositories: list[RepositoryLine]
    may_create: bool

    @property
    def waiting(self) -> int:
        """How many things wait for the reader."""
        return len(self.reviews) + len(self.failed)


def read_home(principal: Principal) -> HomePage:
    """Return what the home page shows."""
    asked = list(
        waiting.list_visible(principal).filter(pk__in=waiting.list_review_ids(principal)).order_by("-updated_at")
    )
    running = builds.list_builds(principal).filter(state__in=["RESOLVING", "RUNNING"])
    return HomePage(
        nav="home",
        reviews=lines.describe_pulls(asked),
        failed=[_describe_failed(build) for build in waiting.list_failed_builds(principal)],
        own=_list_own(principal),
        feed=_list_feed(principal),
        running=[_describe_running(build) for build in running[:RUNNING]],
        running_count=running.count(),
        repositories=_list_repositories(principal),
        may_create=True,
    )


def _describe_failed(build: Build) -> FailedBuild:
    job = build.jobs.filter(state="FAILED").order_by("number").prefetch_related("outputs").first()
    outputs = list(job.outputs.all()) if job else []
    error = (job.error or {}).get("message", "") or job.reason if job else build.reason
    return FailedBuild(build=build, job=job, path=outputs[0].path if outputs else "", error=error)


def _list_own(principal: Principal) -> list[OwnPull]:
    pulls = list(waiting.list_own(principal)[:10])
    found = []
    for pull, line in zip(pulls, lines.describe_pulls(pulls), strict=True):
        blockers = queries.list_blockers(pull)
        found.append(OwnPull(line, *_say_what_for(line, [one.code for one in blockers])))
    return found


def _say_what_for(line: lines.PullLine, codes: list[str]) -> tuple[str, str]:
    reasons = f"{len(codes)} reason{'s' if len(codes) != 1 else ''} against the merge"
    if not codes:
        return "You", "ready to merge"
    if "build_running" in codes and line.build:
        return f"Build {line.build.pk}", reasons
    if {"draft", "conflict", "publication_failed", "build_failed", "build_missing", "rejected"} & set(codes):
        return "You", reasons
    if "publication_pending" in codes:
        return "JobSpecs", "being published"
    return "Reviewers", reasons


def _describe_running(build: Build) -> RunningBuild:
    found = list(build.jobs.values_list("state", flat=True))
    return RunningBuild(
        build=build,
        done=sum(state in JOB_ENDS for state in found),
        failed=found.count("FAILED"),
        total=len(found),
    )


def _list_repositories(principal: Principal) -> list[RepositoryLine]:
    found = []
    for repository in repositories.list_repositories(principal).order_by("-created_at")[:REPOSITORIES]:
        folders = list(Folder.objects.filter(repository=repository.name).values_list("name", flat=True))
        kind, text = _describe_master(repository)
        found.append(
            RepositoryLine(
                name=repository.name,
                description=repository.description,
                datasets=sum(Dataset.objects.filter(path__istartswith=f"/{folder}/").count() for folder in folders),
                pulls=PullRequest.objects.filter(repository=repository, state=states.OPEN).count(),
                build_kind=kind,
                build_text=text,
            )
        )
    return found


def _describe_master(repository: Repository) -> tuple[str, str]:
    build = Build.objects.filter(repository=repository, branch=names.MASTER, kind="run").order_by("-pk").first()
    if build is None:
        return "open", "not built"
    return {
        "COMPLETED": ("ok", "master built"),
        "FAILED": ("bad", "master failed"),
        "ABORTED": ("abort", "master aborted"),
    }.get(build.state, ("run", "master builds"))


def _list_feed(principal: Principal) -> list[FeedLine]:
    visible = repositories.list_repositories(principal)
    events = TimelineEvent.objects.filter(
        pull__repository__in=visible, kind__in=("opened", "merged", "rebuilt", "closed")
    ).select_related("pull__repository")
    found = [_describe_event(event) for event in events.order_by("-at")[:FEED]]
    comments = Comment.objects.filter(pull__repository__in=visible).select_related("pull__repository", "author")
    found += [_describe_comment(comment) for comment in comments.order_by("-created_at")[:FEED]]
    folders = accounts.visible_folders(principal)
    transactions = Transaction.objects.filter(state="COMMITTED", branch_name=names.MASTER).select_related("dataset")
    found += [
        _describe_transaction(one)
        for one in transactions.order_by("-closed_at")[: FEED * 3]
        if folders is None or names.folder_of(one.dataset.path) in folders
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)[:FEED]


def _pull_link(pull: PullRequest) -> dict[str, str]:
    return {
        "link": f"#{pull.number} {pull.title}",
        "url": reverse("pull", args=[pull.repository.name, pull.number]),
    }


def _describe_event(event: TimelineEvent) -> FeedLine:
    shown: dict[str, tuple[str, str, str]] = {
        "opened": ("git-pull-request", "okc", "opened"),
        "merged": ("git-merge", "donec", "merged"),
        "closed": ("git-pull-request-closed", "badc", "closed"),
        "rebuilt": ("workflow", "", "merged; the rebuild ended for"),
    }
    icon, tone, text = shown[event.kind]
    tail = (
        f"build {event.data.get('build')} {str(event.data.get('state', '')).lower()}" if event.kind == "rebuilt" else ""
    )
    return FeedLine(icon, tone, event.actor, text, tail=tail, at=event.at, **_pull_link(event.pull))


def _describe_comment(comment: Comment) -> FeedLine:
    anchor: dict[str, Any] = comment.anchor or {}
    where = anchor.get("dataset") or anchor.get("path") or ""
    text = f"commented on {where} in" if where else "commented on"
    return FeedLine(
        "comment", "", comment.author.username, text, tail="", at=comment.created_at, **_pull_link(comment.pull)
    )


def _describe_transaction(one: Transaction) -> FeedLine:
    rows = one.summary.get("rows")
    return FeedLine(
        icon="table",
        tone="okc",
        actor="",
        text="",
        link=one.dataset.path,
        url=f"/d{one.dataset.path}",
        tail=f"got transaction {one.pk[:6]} on master" + (f", {rows:,} rows now" if isinstance(rows, int) else ""),
        at=one.closed_at or one.started_at,
    )
