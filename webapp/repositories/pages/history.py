"""Commits: lists of them, one, and what one ref has that another has not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from webapp.core.numbered import KeptPage, NumberedPage
from webapp.git.diff import FileDiff, limit_lines
from webapp.repositories.pages.frame import Frame, frame, ref_url
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.branches import publications_of_commits
from webapp.repositories.queries.statuses import list_statuses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.git.diff import CodeDiff
    from webapp.git.values import CommitInfo
    from webapp.repositories.models import CommitStatus, Publication, Repository
    from webapp.repositories.queries.searches import CommitFilter

DIFF_LINES_AT_ONCE = 400
DIFF_LINES_A_PAGE = 3_000
DIFF_FILES_A_PAGE = 30
COMMITS_A_PAGE = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """A commit in a list."""

    commit: CommitInfo
    publication: Publication | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsPage:
    """The history of a ref."""

    frame: Frame
    filters: CommitFilter
    days: tuple[tuple[date, tuple[CommitRow, ...]], ...]
    text: str
    previous_url: str
    next_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffChoice:
    """How a reader wants to see a comparison."""

    split: bool = False
    ignore_whitespace: bool = False
    context: int = 3
    unfolded: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffView:
    """A page of the files of a comparison, and what is said of all of them."""

    files: tuple[FileDiff, ...]
    total: int
    additions: int
    deletions: int
    choice: DiffChoice
    text: str
    previous: int | None
    """The page before this one."""
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """One commit with its changes and publications."""

    frame: Frame
    commit: CommitInfo
    publications: tuple[Publication, ...]
    pending: bool
    statuses: tuple[CommitStatus, ...]
    diff: DiffView


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePage:
    """Two refs."""

    frame: Frame
    base: str
    compare_head: str
    names: tuple[str, ...]
    options_url: str
    """Where a text finds other branches."""
    overview: code.CompareOverview
    rows: tuple[CommitRow, ...]
    diff: DiffView
    clean: bool
    conflicts: tuple[str, ...]


def commits_page(
    principal: Principal, repository: Repository, ref: str, *, filters: CommitFilter, parameters: Mapping[str, str]
) -> CommitsPage:
    """Collect a page of the history."""
    common = frame(principal, repository, ref, view="commits")
    commits = code.LazyCommits(repository, common.head, filters=filters)
    base = ref_url(repository, "commits", common.ref)
    part = KeptPage.turn(commits, parameters, size=COMMITS_A_PAGE, scope=base)
    rows = commit_rows(repository, part.rows, branch=common.ref)
    previous, following = (part.link(other, **asdict(filters)) for other in (part.previous, part.next))
    return CommitsPage(
        frame=common,
        filters=filters,
        days=tuple((day, tuple(group)) for day, group in groupby(rows, lambda row: row.commit.committed_at.date())),
        text=part.text,
        previous_url=f"{base}{previous}" if previous else "",
        next_url=f"{base}{following}" if following else "",
    )


def commit_rows(repository: Repository, commits: Sequence[CommitInfo], *, branch: str = "") -> tuple[CommitRow, ...]:
    """Join commits with their publications."""
    published = publications_of_commits(repository, [commit.sha for commit in commits], branch=branch)
    return tuple(
        CommitRow(commit=commit, publication=published.get(commit.sha)) for commit in code.name_authors(commits)
    )


def diff_view(
    repository: Repository, changes: CodeDiff, choice: DiffChoice, read: Callable[..., list[FileDiff]]
) -> DiffView:
    """Collect a page of the files of a comparison; it holds only so many lines, the rest is loaded by file.

    Args:
        repository: whose files they are.
        changes: what all files are.
        choice: how they are shown, and the page or the file that is asked for.
        read: returns the files of some `paths` with their lines.

    """
    paths = [file.path for file in changes.files]
    is_named = choice.unfolded in paths
    number = paths.index(choice.unfolded) // DIFF_FILES_A_PAGE + 1 if is_named else choice.page
    part = NumberedPage.choose(number, size=DIFF_FILES_A_PAGE, total=len(paths))
    named = paths[part.start : part.end]
    left = DIFF_LINES_A_PAGE
    shown = []
    for file in read(paths=named, context=choice.context, ignore_whitespace=choice.ignore_whitespace) if named else ():
        limit = file.line_count if file.path == choice.unfolded else min(DIFF_LINES_AT_ONCE, max(left, 0))
        cut = limit_lines(file, limit=limit)
        left -= cut.line_count
        shown.append(cut)
    return DiffView(
        files=tuple(code.decorate_files(repository, shown)),
        total=len(paths),
        additions=changes.additions,
        deletions=changes.deletions,
        choice=choice,
        text=f"{part.text} files",
        previous=part.previous,
        next=part.next,
    )


def commit_page(principal: Principal, repository: Repository, sha: str, choice: DiffChoice) -> CommitPage:
    """Collect a commit's page."""
    commit = code.get_commit(repository, sha)
    publications = branch_queries.list_publications(repository, commit.sha)
    changes = code.list_commit_changes(repository, commit.sha, ignore_whitespace=choice.ignore_whitespace)
    return CommitPage(
        frame=frame(principal, repository, publications[0].branch if publications else ""),
        commit=code.name_authors([commit])[0],
        publications=tuple(publications),
        pending=any(item.status == "pending" for item in publications),
        statuses=tuple(list_statuses(repository, commit.sha)),
        diff=diff_view(repository, changes, choice, partial(code.diff_commit, repository, commit.sha)),
    )


def compare_page(
    principal: Principal, repository: Repository, choice: DiffChoice, *, base: str, head: str
) -> ComparePage:
    """Collect the page of two refs."""
    common = frame(principal, repository)
    base = base or repository.default_branch
    head = head or repository.default_branch
    overview = code.compare_overview(repository, base, head, limit=COMMITS_A_PAGE)
    ends = (overview.base_sha, overview.head_sha)
    changes = code.list_changes(repository, *ends, ignore_whitespace=choice.ignore_whitespace)
    state = code.merge_state(repository, overview.head_sha, overview.base_sha)
    return ComparePage(
        frame=common,
        base=base,
        compare_head=head,
        names=tuple(dict.fromkeys([option.name for option in common.branches] + [base, head])),
        options_url=f"/r/{repository.name}/branches/options?view=select",
        overview=overview,
        rows=commit_rows(repository, overview.commits, branch=head),
        diff=diff_view(repository, changes, choice, partial(code.compare, repository, *ends)),
        clean=state.clean,
        conflicts=state.conflicts,
    )
