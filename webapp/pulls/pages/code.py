"""The tabs Commits, Code and Builds of a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.builds import queries as builds
from webapp.builds.models import Build
from webapp.builds.rules.states import BUILD_UNFINISHED, JOB_ENDS
from webapp.core import clock
from webapp.core.numbered import KeptPage, NumberedPage
from webapp.core.numbers import read_count
from webapp.git.diff import FileDiff, limit_lines
from webapp.pulls.models import Merge, QueuedMerge
from webapp.pulls.pages.head import PullHead, frame, load, read_head
from webapp.pulls.pages.publications import word_publication
from webapp.pulls.pages.references import link_references, texts_of
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.looked import find_moved_review, has_other_changes, list_changes_since
from webapp.pulls.queries.remarks import (
    CodeTalk,
    FileTalk,
    Remark,
    Viewing,
    content_of_file,
    list_code_talk,
    read_viewed,
)
from webapp.repositories import queries as repositories
from webapp.repositories.pages.frame import ref_url

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.core.principals import Principal
    from webapp.git.values import CommitInfo
    from webapp.pulls.models import PullRequest
    from webapp.repositories.models import Publication, Repository

LINES = 400
"""Lines of one file that are drawn at once."""
FILES = 30
COMMITS_A_PAGE = 100
BUILDS_A_PAGE = 50
"""Of a page."""


@dataclass(frozen=True)
class PullCommitRow:
    """One commit with what came of publishing it."""

    commit: CommitInfo
    url: str
    tone: str
    note: str
    running: Publication | None
    """Its publication while the page is to ask for its end."""


@dataclass(frozen=True)
class PullCommitsPage:
    """Context of the Commits tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    commits: list[PullCommitRow]
    part: KeptPage
    """Which of all are shown."""


@dataclass(frozen=True)
class FileView:
    """One file of the diff with its addresses."""

    file: FileDiff
    id: str
    url: str
    edit_url: str
    more_url: str
    talk: FileTalk | None = None
    viewing: Viewing | None = None


@dataclass(frozen=True)
class ChangedFolder:
    """A folder of the tree: its name and files, folders of one child joined."""

    name: str
    files: list[FileView]


@dataclass(frozen=True)
class ReviewedHead:
    """What the reader's last review is bound to, where the head has moved since."""

    sha: str
    at: datetime
    is_gone: bool
    """Whether Git no longer has it, so that nothing can be compared with it."""
    is_shown: bool
    """Whether the page shows what came since, and not all changes."""


@dataclass(frozen=True)
class CodePage:
    """Context of the Code tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    files: list[FileView]
    folders: list[ChangedFolder]
    additions: int
    deletions: int
    split: bool
    """Whether both sides stand beside each other."""
    ignore_whitespace: bool
    total: int
    """Of the files that are changed, of which one page is shown."""
    q: str
    is_paged: bool
    text: str
    previous: int | None
    next: int | None
    viewed: int
    """How many files the reader has ticked."""
    lost: Sequence[Remark]
    """Comments on files that the pull request does not change any more."""
    suggestions: int
    """How many changes that comments suggest the reader can commit from this page."""
    looked_at: datetime
    """When the comments were read: one that is edited later is not what the reader has seen."""
    references: Mapping[str, str]
    """Addresses of what comments name."""
    reviewed: ReviewedHead | None
    """None where the reader has reviewed nothing, or what is there now."""


@dataclass(frozen=True)
class LargeCodePage:
    """Context of the Code tab of a pull request that changes more than is compared."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    reason: str
    command: str
    """What shows the difference in a clone."""


@dataclass(frozen=True)
class PullBuildRow:
    """One build of the branch."""

    build: Build
    url: str
    done: int
    total: int
    fresh: int
    role: str
    reason: str
    """What it waits for now, or why it ended as it did."""


@dataclass(frozen=True)
class PullBuildsPage:
    """Context of the Builds tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    builds: list[PullBuildRow]
    total: int
    build_url: str
    is_moving: bool
    part: KeptPage
    """Which of all are shown."""


def read_commits(
    principal: Principal, repository: str, number: int, *, parameters: Mapping[str, str]
) -> PullCommitsPage:
    """Return what the Commits tab shows."""
    loaded = load(principal, repository, number)
    head = read_head(principal, loaded)
    own = repositories.LazyCommits(loaded.pull.repository, loaded.pull.head_sha, not_in=queries.find_base(loaded.pull))
    scope = f"commits of {loaded.url}"
    part = KeptPage.turn(own, parameters, size=COMMITS_A_PAGE, scope=scope, total=head.commits)
    commits = part.rows
    published = repositories.publications_of_commits(
        loaded.pull.repository, [commit.sha for commit in commits], branch=loaded.pull.source
    )
    return PullCommitsPage(
        **frame(repository),
        head=head,
        tab="Commits",
        commits=[
            _make_commit_row(loaded.pull, commit, published.get(commit.sha))
            for commit in repositories.name_authors(commits)
        ],
        part=part,
    )


def _make_commit_row(pull: PullRequest, commit: CommitInfo, publication: Publication | None) -> PullCommitRow:
    tone, note = word_publication(pull, commit.sha, publication)
    return PullCommitRow(
        commit,
        url=reverse("repository-commit", args=[pull.repository.name, commit.sha]),
        tone=tone,
        note=note,
        running=publication if tone == "wait" else None,
    )


def read_code(principal: Principal, repository: str, number: int, *, parameters: Mapping[str, Any]) -> CodePage:
    """Return what the Code tab shows."""
    loaded = load(principal, repository, number)
    pull = loaded.pull
    head = read_head(principal, loaded)
    ignore = parameters.get("whitespace") == "ignore"
    everything = queries.list_changes(pull, ignore_whitespace=ignore)
    review = find_moved_review(principal, pull)
    if review and has_other_changes(review):
        review = None  # what came since would leave something out
    newer = list_changes_since(review, ignore_whitespace=ignore) if review else None
    is_since = newer is not None and parameters.get("since") != "all"
    changes = newer if newer is not None and is_since else everything
    q = str(parameters.get("q", "")).strip()
    named = [file.path for file in changes.files if q.lower() in file.path.lower()]
    whole = parameters.get("whole", "")
    page = _choose_page(named, path=parameters.get("path", "") or whole, page=str(parameters.get("page", "")))
    paths = named[page.start : page.end]
    if review is not None and is_since:
        files = repositories.compare_commits(
            pull.repository, review.head_sha, pull.head_sha, ignore_whitespace=ignore, paths=paths
        )
    else:
        files = repositories.compare(
            pull.repository, queries.find_base(pull), pull.head_sha, ignore_whitespace=ignore, paths=paths
        )
    may_edit = head.may_write and head.is_open and loaded.facts.source_exists
    ref = pull.source if loaded.facts.source_exists else pull.head_sha
    looked_at = clock.now()
    talk = list_code_talk(
        pull, files, principal, changed={file.path for file in everything.files}, is_base_shown=not is_since
    )
    contents = {file.path: content_of_file(file) for file in (*changes.files, *everything.files)}
    marks = read_viewed(pull, {file.path: contents[file.path] for file in changes.files}, principal)
    keeps = {name: str(parameters[name]) for name in ("since", "view", "whitespace") if parameters.get(name)}
    shown = [
        replace(
            view_file(pull.repository, ref, file, may_edit=may_edit, whole=whole, here=f"{head.url}/code", keeps=keeps),
            talk=talk.by_path.get(file.path),
            viewing=marks[file.path],
        )
        for file in files
    ]
    return CodePage(
        **frame(repository),
        head=head,
        tab="Code",
        files=shown,
        folders=group_files(shown),
        additions=changes.additions,
        deletions=changes.deletions,
        split=parameters.get("view") == "split",
        ignore_whitespace=ignore,
        total=len(changes.files),
        q=q,
        is_paged=len(changes.files) > FILES,
        text=f"{page.text} files" if shown else "",
        previous=page.previous,
        next=page.next,
        viewed=sum(mark.is_viewed for mark in marks.values()),
        lost=[] if q else talk.lost,
        suggestions=_count_suggestions(talk) if head.is_open else 0,
        looked_at=looked_at,
        references=link_references(principal, pull.repository, texts_of(talk.threads), pull),
        reviewed=ReviewedHead(review.head_sha, review.created_at, newer is None, is_since) if review else None,
    )


def read_large_code(principal: Principal, repository: str, number: int, *, reason: str) -> LargeCodePage:
    """Return what the Code tab shows where the change is more than is compared."""
    loaded = load(principal, repository, number)
    return LargeCodePage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Code",
        reason=reason,
        command=f"git diff {queries.find_base(loaded.pull)} {loaded.pull.head_sha}",
    )


def _choose_page(paths: list[str], *, path: str, page: str) -> NumberedPage:
    """Return the page of a file that is asked for, else the one that is."""
    number = paths.index(path) // FILES + 1 if path in paths else read_count(page) or 1
    return NumberedPage.choose(number, size=FILES, total=len(paths))


def _count_suggestions(talk: CodeTalk) -> int:
    said = [remark for thread in talk.threads for remark in (thread, *thread.replies)]
    return sum(remark.suggestion is not None and remark.suggestion.may_commit for remark in said)


def view_file(
    repository: Repository,
    ref: str,
    file: FileDiff,
    *,
    may_edit: bool,
    whole: str,
    here: str,
    keeps: Mapping[str, str],
) -> FileView:
    """Return a file of a diff with its addresses, long ones cut."""
    is_there = file.status != "deleted"
    shown = file if whole == file.path else limit_lines(file, limit=LINES)
    return FileView(
        file=repositories.decorate_files(repository, [shown])[0],
        id=f"file-{file.path}",
        url=ref_url(repository, "blob", ref, file.path) if is_there else "",
        edit_url=ref_url(repository, "edit", ref, file.path) if is_there and may_edit and file.is_file else "",
        more_url=f"{here}?{urlencode({**keeps, 'whole': file.path})}#file-{file.path}",
    )


def group_files(files: list[FileView]) -> list[ChangedFolder]:
    """Group files by folder for the tree beside the diff."""
    folders: dict[str, list[FileView]] = {}
    for view in files:
        folders.setdefault(view.file.path.rpartition("/")[0], []).append(view)
    return [ChangedFolder(name, folders[name]) for name in sorted(folders)]


def read_builds(principal: Principal, repository: str, number: int, *, parameters: Mapping[str, str]) -> PullBuildsPage:
    """Return what the Builds tab shows."""
    loaded = load(principal, repository, number)
    pull = loaded.pull
    listed, total = queries.list_builds(pull).select_related("by"), queries.count_builds(pull)
    part = KeptPage.turn(listed, parameters, size=BUILDS_A_PAGE, scope=f"builds of {loaded.url}", total=total)
    shown = part.rows
    roles = {
        **dict.fromkeys(
            QueuedMerge.objects.filter(pull=pull).values_list("build", flat=True), "test of the merge queue"
        ),
        **dict.fromkeys(Merge.objects.filter(pull=pull).values_list("build", flat=True), "rebuild of the merge"),
    }
    reasons = builds.read_reasons(builds=shown)
    rows = [_describe_build(build, roles.get(build.pk, ""), reasons[build.pk]) for build in shown]
    return PullBuildsPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Builds",
        builds=rows,
        total=total,
        build_url=reverse("pull-build", args=[repository, number]),
        is_moving=any(row.build.state in BUILD_UNFINISHED for row in rows),
        part=part,
    )


def _describe_build(build: Build, role: str, reason: str) -> PullBuildRow:
    jobs = list(build.jobs.values_list("state", "skipped"))
    return PullBuildRow(
        build=build,
        url=reverse("build", args=[build.pk]),
        done=sum(state in JOB_ENDS for state, _ in jobs),
        total=len(jobs),
        fresh=sum(skipped for _, skipped in jobs),
        reason=reason,
        role=role or ("hidden base side" if build.trigger == "review" else ""),
    )
