"""Lists of pull requests, and the page that opens one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.db.models import Count
from django.urls import reverse

from webapp.accounts.permissions import can_repository
from webapp.builds.models import Build
from webapp.core.choices import Choices, choose
from webapp.core.numbered import KeptPage
from webapp.pulls.models import PullRequest
from webapp.pulls.pages import lines
from webapp.pulls.pages.code import COMMITS_A_PAGE, FILES, ChangedFolder, FileView, group_files, view_file
from webapp.pulls.pages.head import frame
from webapp.pulls.queries.labels import list_labels
from webapp.pulls.queries.lists import ALL, PullFilter, list_pulls
from webapp.pulls.queries.own import choose_to_land
from webapp.pulls.queries.pulls import count_apart
from webapp.pulls.queries.specs import Head, compare_specs, find_work
from webapp.pulls.queries.templates import read_template
from webapp.pulls.rules.labels import TONE_CHOICES
from webapp.pulls.rules.loads import explain_nothing
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.git.values import CommitInfo
    from webapp.pulls.models import Label
    from webapp.repositories.models import Repository
    from webapp.repositories.queries import BranchInfo

SIZE = 25
MOST_TITLE = 250
RECENT = 10
LOOKED_AT = 30
"""Branches among which the recent ones are looked for: some have nothing to merge."""


@dataclass(frozen=True)
class StateTab:
    """One choice of the state filter."""

    name: str
    value: str
    count: int


@dataclass(frozen=True)
class ListPage:
    """Context of a list of pull requests."""

    nav: str
    repository: str
    pulls: list[lines.PullLine]
    states: list[StateTab]
    filters: PullFilter
    part: KeptPage
    may_open: bool
    labels: list[Label] = field(default_factory=list)
    """All of the repository, for the filter."""
    repo_bar: dict[str, str] = field(default_factory=dict)

    @property
    def is_comparing(self) -> bool:
        """Whether the list asks for itself."""
        return lines.is_comparing(self.pulls)


def read_list(principal: Principal, *, repository: str, parameters: Mapping[str, Any]) -> ListPage:
    """Return one page of pull requests, filtered as the address says."""
    filters = PullFilter.read_page(parameters)
    row = repositories.get_repository(principal, repository) if repository else None
    pulls = list_pulls(principal, replace(filters, state=ALL), repository=row)
    numbers = dict(pulls.order_by().values_list("state").annotate(number=Count("pk")))
    tabs = [
        StateTab(word, value, numbers.get(value, 0))
        for word, value in (("Open", PullState.OPEN), ("Merged", PullState.MERGED), ("Closed", PullState.CLOSED))
    ]
    chosen = pulls.filter(state=filters.state).order_by("-updated_at", "-pk")
    total = next(tab.count for tab in tabs if tab.value == filters.state)
    part = KeptPage.turn(chosen, parameters, size=SIZE, scope=f"pulls {repository}", total=total)
    context: dict[str, Any] = frame(repository) if repository else {"nav": "pulls"}
    return ListPage(
        **context,
        repository=repository,
        pulls=lines.describe_pulls(part.rows),
        states=tabs,
        filters=filters,
        part=part,
        may_open=bool(repository) and can_repository(principal, repository, "write"),
        labels=list(list_labels(row)) if row else [],
    )


@dataclass(frozen=True)
class LabelPage:
    """Context of the list of labels."""

    nav: str
    repo_bar: dict[str, str]
    repository: str
    labels: list[Label]
    tones: list[tuple[str, str]]
    may_write: bool


def read_labels(principal: Principal, repository: str) -> LabelPage:
    """Return the labels of a repository."""
    row = repositories.get_repository(principal, repository)
    return LabelPage(
        **frame(repository),
        repository=repository,
        labels=list(list_labels(row)),
        tones=TONE_CHOICES,
        may_write=can_repository(principal, repository, "write"),
    )


@dataclass(frozen=True, slots=True)
class RecentBranch:
    """A branch to open a pull request from, and the open one that it has."""

    branch: BranchInfo
    pull: PullRequest | None


@dataclass(frozen=True)
class Difference:
    """What a branch has and its target lacks."""

    commits: list[CommitInfo] = field(default_factory=list)
    """The newest of them."""
    commit_count: int = 0
    files: list[FileView] = field(default_factory=list)
    """The first of them."""
    file_count: int = 0
    datasets: dict[str, str] = field(default_factory=dict)
    """Path → how it differs."""
    loads: list[str] = field(default_factory=list)
    """Datasets that have files of its own."""
    conflicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NewPage:
    """Context of the page that opens a pull request."""

    nav: str
    repo_bar: dict[str, str]
    repository: Repository
    sources: Choices
    targets: Choices
    options_url: str
    """Where a text finds other branches."""
    source: str
    target: str
    problem: str
    existing: PullRequest | None
    existing_url: str
    difference: Difference
    folders: list[ChangedFolder]
    build: Build | None
    suggested_title: str
    suggested_body: str
    may_open: bool
    recent: list[RecentBranch]


def read_new(principal: Principal, *, repository: str, parameters: Mapping[str, Any]) -> NewPage:
    """Return the comparison of two branches, from which a pull request can be opened."""
    row = repositories.get_repository(principal, repository)
    branches = repositories.list_branch_names(row)
    target = str(parameters.get("target") or parameters.get("base") or row.default_branch)
    source = str(parameters.get("source") or parameters.get("head") or "")
    problem = _find_problem(branches, source, target)
    difference = Difference()
    if not problem:
        difference = _compare(row, source, target)
        if not difference.commits and not difference.loads:
            problem = explain_nothing(source=source, target=target)
    existing = PullRequest.objects.filter(repository=row, source=source, target=target, state=PullState.OPEN).first()
    return NewPage(
        **frame(repository),
        repository=row,
        sources=choose(branches, current=source),
        targets=choose(branches, current=target),
        options_url=f"/r/{row.name}/branches/options?view=select",
        source=source,
        target=target,
        problem=problem,
        existing=existing,
        existing_url=reverse("pull", args=[repository, existing.number]) if existing else "",
        difference=difference,
        folders=group_files(difference.files),
        build=Build.objects.filter(repository=row, branch=source, kind="run").order_by("-pk").first()
        if source
        else None,
        suggested_title=_find_title(difference),
        suggested_body=_suggest_body(row, target, difference.commits),
        may_open=can_repository(principal, repository, "write"),
        recent=_list_recent(row, target) if not source and target in branches else [],
    )


def _find_title(difference: Difference) -> str:
    """Return the subject of the branch's first commit: later ones mend it, and merges only bring others' work."""
    commits = difference.commits
    own = [commit for commit in commits if len(commit.parents) < 2] or commits
    title = own[-1].subject if own else f"Load {', '.join(difference.loads)}"
    return title[:MOST_TITLE]


def _suggest_body(repository: Repository, target: str, commits: list[CommitInfo]) -> str:
    """Return what a single commit says of itself, and the repository's own template below it."""
    if not commits:
        return ""
    own = commits[0].body if len(commits) == 1 else ""
    return "\n\n".join(filter(None, (own, read_template(repository, target))))


def _list_recent(repository: Repository, target: str) -> list[RecentBranch]:
    """Return the newest branches that have something to merge, with their open pull requests."""
    newest = repositories.BranchList(repository)[:LOOKED_AT]
    ahead = [branch for branch in newest if branch.name != target and branch.ahead][:RECENT]
    opened = PullRequest.objects.filter(
        repository=repository, target=target, state=PullState.OPEN, source__in=[branch.name for branch in ahead]
    )
    by_source = {pull.source: pull for pull in opened}
    commits = repositories.name_authors(branch.commit for branch in ahead)
    return [
        RecentBranch(replace(branch, commit=commit), by_source.get(branch.name))
        for branch, commit in zip(ahead, commits, strict=True)
    ]


def _find_problem(branches: list[str], source: str, target: str) -> str:
    if target not in branches:
        return f"There is no branch {target}."
    if not source:
        return "Choose the branch to merge."
    if source not in branches:
        return f"There is no branch {source}."
    return "Choose two branches that differ." if source == target else ""


def _compare(repository: Repository, source: str, target: str) -> Difference:
    head, base = repositories.get_head(repository, source), repositories.get_head(repository, target)
    changed = [file.path for file in repositories.list_changes(repository, base, head).files]
    files = repositories.compare(repository, base, head, paths=changed[:FILES]) if changed else []
    here = reverse("pull-new", args=[repository.name])
    specs = compare_specs(repository, source=Head(source, head), target=Head(target, base))
    work = find_work(repository, specs=specs, branches=[source], target=base)
    heads = {path: work.own[path] for path in work.loaded}
    return Difference(
        commits=repositories.name_authors(
            repositories.list_commits(repository, head, not_in=base, limit=COMMITS_A_PAGE)
        ),
        commit_count=count_apart(repository, sha=head, base=base).ahead,
        files=[view_file(repository, source, file, may_edit=False, whole="", here=here, keeps={}) for file in files],
        file_count=len(changed),
        datasets=dict(work.changes),
        loads=choose_to_land(repository, heads, source=source, target=target),
        conflicts=list(repositories.merge_state(repository, head, base).conflicts),
    )
