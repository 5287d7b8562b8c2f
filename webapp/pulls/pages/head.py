"""What stands above every tab of a pull request: title, state, verdict line, tabs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from webapp.accounts.permissions import can_repository
from webapp.builds import queries as builds
from webapp.builds.models import Build
from webapp.comparisons.rules.states import BREAKING, CHANGED, NOT_COMPARED
from webapp.core.errors import TooLarge
from webapp.core.words import counted
from webapp.pulls.pages import counts
from webapp.pulls.pages.lines import word_build
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.expected import version_of_data, version_of_pull
from webapp.pulls.queries.pending import read_pending
from webapp.pulls.queries.reverts import find_revert
from webapp.pulls.queries.unseen import UnseenData, count_unseen
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import PullState
from webapp.repositories.pages.frame import ref_url
from webapp.repositories.permissions import can_move_branch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.core.principals import Principal
    from webapp.git.diff import ChangedFile
    from webapp.pulls.models import PullDataset, PullRequest

MOST_HIDING = 5
"""Of the files that the warning names."""


@dataclass(frozen=True)
class Tab:
    """One tab, a real address."""

    name: str
    url: str
    icon: str
    count: int | None
    hotkey: str
    is_whole: bool = False
    """Whether its page has a script of its own, so that the browser loads it as a whole."""


@dataclass(frozen=True)
class VerdictItem:
    """One part of the verdict line."""

    kind: str
    icon: str
    text: str
    note: str
    url: str
    delta: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class LinkedPull:
    """Another pull request of the repository, as one links to it."""

    number: int
    url: str
    state: PullState

    @property
    def is_open(self) -> bool:
        """Whether it may still change."""
        return self.state == PullState.OPEN


@dataclass(frozen=True)
class PullHead:
    """What every tab shows of a pull request."""

    repository: str
    number: int
    title: str
    body: str
    state: PullState
    draft: bool
    author: str
    source: str
    source_url: str
    target: str
    target_url: str
    head_sha: str
    base_sha: str
    """The commit of the target that the page compares with."""
    version: str
    data_version: str
    url: str
    commits: int
    datasets: int
    """Those that the source changes and merging rebuilds; not what was loaded, nor what is only downstream."""
    verdict: list[VerdictItem]
    tabs: list[Tab]
    diff: counts.DiffSum
    is_known: bool
    """Whether what the branch changes is known: its head's JobSpecs are published, or it is over."""
    may_edit: bool
    may_write: bool
    may_update: bool
    """Whether the reader may move the source branch."""
    may_maintain: bool
    pending: int
    """How many comments wait for the reader's own review."""
    may_approve: bool
    approve_note: str
    """Why the reader's approval would not count; empty where it does."""
    edit_url: str
    unshown: str = ""
    """Why the Code tab does not show all that merging would change; empty if it does."""
    hidden_in: Sequence[str] = ()
    """Paths of the first files that add characters which nobody sees."""
    merged_by: str = ""
    reverts: LinkedPull | None = None
    """The merged one that it takes back."""
    reverted_by: LinkedPull | None = None
    """The one that takes it back: open, or merged and not itself reverted since."""

    @property
    def is_open(self) -> bool:
        """Whether it may still change."""
        return self.state == PullState.OPEN

    @property
    def is_moving(self) -> bool:
        """Whether something of it is under way that ends by itself."""
        return any(item.kind == "run" for item in self.verdict)

    @property
    def word(self) -> str:
        """Its state in one word."""
        return "Draft" if self.draft and self.is_open else self.state.label

    @property
    def icon(self) -> str:
        """The octicon of its state."""
        return {
            "Draft": "git-pull-request-draft", "Merged": "git-merge", "Closed": "git-pull-request-closed"
        }.get(self.word, "git-pull-request")  # fmt: skip

    @property
    def tone(self) -> str:
        """The colour class of its state."""
        return {"Draft": "s-draft", "Merged": "s-merged", "Closed": "s-closed"}.get(self.word, "")


@dataclass(frozen=True)
class Loaded:
    """A pull request with what several parts of a page need, loaded once."""

    pull: PullRequest
    rows: list[PullDataset]
    """Its datasets that the reader may see."""
    unseen: UnseenData
    """Those that the reader may not see."""

    @cached_property
    def facts(self) -> approvals.MergeFacts:
        """All that decides its merge; asked for where a page says something of that."""
        return queries.collect_facts(self.pull)

    @cached_property
    def blockers(self) -> list[approvals.Blocker]:
        """Why it may not be merged now."""
        return approvals.list_blockers(self.facts)

    @cached_property
    def build(self) -> Build | None:
        """The newest of its branch."""
        return queries.find_latest_build(self.pull)

    @cached_property
    def all_rows(self) -> Sequence[PullDataset]:
        """All of its datasets, for what is said of how many: merging does not ask who may see them."""
        return queries.list_all_datasets(self.pull)

    @property
    def url(self) -> str:
        """Its address."""
        return reverse("pull", args=[self.pull.repository.name, self.pull.number])

    def find_data_url(self, path: str) -> str:
        """Return where its Data tab shows a dataset."""
        return f"{self.url}/data?dataset={path}"

    @property
    def is_known(self) -> bool:
        """Whether what the branch changes is known: its head's JobSpecs are published, or it is over."""
        return self.facts.publication == "published" or self.pull.state != PullState.OPEN

    @property
    def is_complete(self) -> bool:
        """Whether its datasets are all that the branch changes."""
        return self.is_known and not self.unseen.datasets


def frame(name: str) -> dict[str, Any]:
    """Return what every page of pull requests of a repository has around it."""
    return {"nav": "pulls", "repo_bar": {"name": name, "tab": "pulls"}}


def load(principal: Principal, repository: str, number: int) -> Loaded:
    """Load a pull request that the reader may see."""
    return load_all_of(principal, queries.get_pull(principal, repository, number))


def load_all_of(principal: Principal, pull: PullRequest) -> Loaded:
    """Load what pages show of a pull request that has been looked up."""
    rows = queries.read_dataset_rows(principal, pull)
    order = {change: place for place, (_name, changes) in enumerate(states.CHANGE_GROUPS) for change in changes}
    return Loaded(
        pull=pull,
        rows=sorted(rows, key=lambda row: (order[row.change], row.path)),
        unseen=count_unseen(pull, seen=rows),
    )


def read_head(principal: Principal, loaded: Loaded) -> PullHead:
    """Return what stands above the tabs."""
    pull = loaded.pull
    name = pull.repository.name
    diff = counts.sum_rows(loaded.rows)
    commits = queries.count_own_commits(pull)
    files = _list_files(pull)
    may_write = can_repository(principal, name, "write")
    approve_note = _explain_approval(principal, pull)
    may_maintain = can_repository(principal, name, "maintain")
    return PullHead(
        repository=name,
        number=pull.number,
        title=pull.title,
        body=pull.body,
        state=pull.state,
        draft=pull.draft,
        author=pull.author.username,
        source=pull.source,
        source_url=ref_url(pull.repository, "tree", pull.source) if loaded.facts.source_exists else "",
        target=pull.target,
        target_url=ref_url(pull.repository, "tree", pull.target) if loaded.facts.target_exists else "",
        head_sha=pull.head_sha,
        base_sha=pull.base_sha,
        version=version_of_pull(pull),
        data_version=version_of_data(pull),
        url=loaded.url,
        commits=commits,
        datasets=len(queries.list_rebuilt(loaded.all_rows)),
        verdict=_list_verdict(loaded, diff),
        tabs=_list_tabs(loaded, commits, files=None if files is None else len(files)),
        diff=diff,
        is_known=loaded.is_known,
        may_edit=may_maintain or principal.user_id == pull.author_id,
        may_write=may_write,
        may_update=can_move_branch(principal, pull.repository, pull.source),
        may_maintain=may_maintain,
        pending=len(read_pending(principal, pull)),
        may_approve=not approve_note,
        approve_note=approve_note,
        edit_url=reverse("pull-edit", args=[name, pull.number]),
        unshown=next((item.message for item in loaded.blockers if item.code == approvals.LANDS_UNSHOWN), ""),
        hidden_in=[file.path for file in files or () if file.has_hidden][:MOST_HIDING],
        merged_by=pull.merge.merged_by.username if pull.state == PullState.MERGED else "",
        reverts=_link(name, pull.reverts),
        reverted_by=_link(name, find_revert(pull)) if pull.state == PullState.MERGED else None,
    )


def _link(repository: str, pull: PullRequest | None) -> LinkedPull | None:
    if pull is None:
        return None
    return LinkedPull(pull.number, reverse("pull", args=[repository, pull.number]), pull.state)


def _explain_approval(principal: Principal, pull: PullRequest) -> str:
    if not can_repository(principal, pull.repository.name, "write"):
        return "Needs the role writer."
    if principal.user_id == pull.author_id:
        return "Nobody approves their own pull request."
    objection = queries.find_objection(principal, pull)
    return f"Yours would not count: you {objection.words}." if objection else ""


def _list_files(pull: PullRequest) -> Sequence[ChangedFile] | None:
    """List the files that it changes; None where these are more than are compared."""
    try:
        return queries.list_changes(pull).files
    except TooLarge:
        return None


def _list_tabs(loaded: Loaded, commits: int, *, files: int | None) -> list[Tab]:
    pull, url = loaded.pull, loaded.url
    talk = pull.comments.filter(deleted_at=None).count() + len(queries.list_reviews(pull))
    builds = queries.count_builds(pull)
    is_counted = bool(loaded.rows) or loaded.is_complete  # none is known of is not none
    return [
        Tab("Conversation", url, "comment", talk, "g o"),
        Tab("Commits", f"{url}/commits", "git-commit", commits, "g m"),
        Tab("Code", f"{url}/code", "code", files, "g c"),
        Tab("Schema", f"{url}/schema", "rows", _count_schemas(loaded) if is_counted else None, "g s"),
        Tab("Data", f"{url}/data", "table", len(loaded.rows) if is_counted else None, "g d"),
        Tab("Lineage", f"{url}/lineage", "git-compare", None, "g l", is_whole=True),
        Tab("Builds", f"{url}/builds", "workflow", builds, "g b"),
        Tab("Checks", f"{url}/checks", "check-circle", None, "g k"),
    ]


def _count_schemas(loaded: Loaded) -> int:
    """Return how many schemas the tab shows, also of what does not land."""
    return sum(row.schema_status in (CHANGED, BREAKING) for row in loaded.rows)


def _list_verdict(loaded: Loaded, diff: counts.DiffSum) -> list[VerdictItem]:
    return [
        _judge_build(loaded),
        _judge_reviews(loaded),
        _judge_rows(loaded, diff),
        _judge_schemas(loaded, diff),
        _judge_landing(loaded, diff),
    ]


def _judge_landing(loaded: Loaded, diff: counts.DiffSum) -> VerdictItem:
    """Say whether it landed, or what is in the way of that, the worst first."""
    pull, url = loaded.pull, loaded.url
    if pull.state == PullState.MERGED:
        note = f"into {pull.target} as {pull.merge.merge_commit[:7]}"
        return VerdictItem("ok", "git-merge", "Merged", note, f"{url}#merge-title")
    if diff.failed:
        words = f"{diff.failed} of {diff.total} not compared"
        return VerdictItem("bad", "x-circle-fill", words, "a diff failed", f"{url}/data")
    is_open = pull.state == PullState.OPEN
    if is_open and (gone := _find_gone(loaded)):
        return VerdictItem("bad", "git-branch", "Branch gone", f"there is no {gone}", f"{url}#merge-title")
    if loaded.facts.conflicts:
        note = f"in {counted(len(loaded.facts.conflicts), 'file')}"
        return VerdictItem("bad", "alert", "Conflicts", note, f"{url}#merge-title")
    if diff.running:
        words = f"{diff.running} of {diff.compared} diffs running"
        return VerdictItem("run", "sync", words, "the page follows", f"{url}/data")
    if is_open and queries.has_newer_data(pull):
        note = f"{pull.target} has newer data; shown apart"
        return VerdictItem("warn", "history", "Stale", note, f"{url}/data")
    if is_open and loaded.facts.behind:
        note = f"{pull.target} has commits that the branch lacks"
        return VerdictItem("warn", "history", "Stale", note, f"{url}/commits")
    return VerdictItem("ok", "check-circle-fill", "No conflict", f"with {pull.target}", f"{url}/code")


def _find_gone(loaded: Loaded) -> str:
    """Return which of its branches there is no more; empty where both are there."""
    pull, facts = loaded.pull, loaded.facts
    if not facts.source_exists:
        return pull.source
    return "" if facts.target_exists else pull.target


def _judge_build(loaded: Loaded) -> VerdictItem:
    build = loaded.build
    if loaded.facts.publication == "published" and not queries.list_rebuilt(loaded.rows):
        return VerdictItem(
            "ok", "check-circle-fill", "Nothing to build", "no JobSpec is changed", f"{loaded.url}/builds"
        )
    if build is None:
        return VerdictItem("wait", "circle", "Not built", "no build of the branch yet", f"{loaded.url}/builds")
    kind = build.state.tone
    icon = {"ok": "check-circle-fill", "bad": "x-circle-fill", "abort": "stop", "run": "sync"}.get(kind, "clock")
    jobs, done = builds.count_jobs(build)
    modified = [row for row in loaded.rows if row.change in (states.MODIFIED, states.ADDED)]
    current = "current" if all(row.current for row in modified) else "not of the newest code"
    kind = {"abort": "bad", "wait": "wait"}.get(kind, kind)
    note = f"{done} of {jobs} jobs, {current}" if jobs else builds.read_reasons(builds=[build])[build.pk] or current
    return VerdictItem(
        kind, icon, f"Build {build.pk} {word_build(build.state)}", note, reverse("build", args=[build.pk])
    )


def _judge_reviews(loaded: Loaded) -> VerdictItem:
    facts = loaded.facts
    standing = approvals.list_standing(facts.reviews)
    approved = len(approvals.list_approving(facts))
    rejecting = [reviewer for reviewer, verdict in standing.items() if verdict == states.REJECT]
    void = sum(review.void and review.verdict == states.APPROVE for review in facts.reviews)
    required = facts.protection.approvals
    note = f"{void} became void" if void else f"by the rules of {facts.target}" if required else "none needed"
    if rejecting:
        return VerdictItem("bad", "x-circle-fill", "Changes asked for", f"by {', '.join(rejecting)}", loaded.url)
    text = f"{approved} of {required} approvals" if required else f"{approved} approval{'s' if approved != 1 else ''}"
    if approved >= required:
        kind = "ok" if approved else "info"
        return VerdictItem(kind, "check-circle-fill" if approved else "person", text, note, loaded.url)
    return VerdictItem("bad", "x-circle-fill", text, note, f"{loaded.url}#merge-title")


def _judge_rows(loaded: Loaded, diff: counts.DiffSum) -> VerdictItem:
    url = f"{loaded.url}/data"
    if not diff.total and loaded.is_complete:
        return VerdictItem("ok", "check-circle-fill", "No row change", _say_none(loaded), url)
    if diff.is_unlanded:
        return VerdictItem("info", "rows", "No row lands", diff.unlanded_words, url)
    if diff.delta is None:
        text = "Comparing rows" if diff.running else "Rows not compared"
        note = ", ".join(filter(None, (counted(diff.total - diff.unlanded, "dataset"), diff.unlanded_words)))
        return VerdictItem(
            "run" if diff.running else "wait", "rows", text, note if diff.total else _say_none(loaded), url
        )
    landing = diff.ready - diff.unlanded
    note = f"rows in {counted(landing, 'dataset')}"
    if diff.ready < diff.total:
        note = f"rows in {landing} of {diff.total} datasets"
    note = ", ".join(filter(None, (note, diff.compared_words, diff.unlanded_words)))
    return VerdictItem("info", "rows", "", note, url, diff.delta)


_NO_SCHEMAS = ("wait", "rows", "Schemas not compared")


def _judge_schemas(loaded: Loaded, diff: counts.DiffSum) -> VerdictItem:
    url = f"{loaded.url}/schema"
    if diff.breaking:
        text = f"{diff.breaking} breaking schema{'s' if diff.breaking != 1 else ''}"
        return VerdictItem("bad", "alert", text, f"of {diff.schemas} changed, {diff.compared_words}", url)
    if diff.schemas:
        text = f"{diff.schemas} schema{'s' if diff.schemas != 1 else ''} changed"
        return VerdictItem("warn", "rows", text, f"nothing breaks, {diff.compared_words}", url)
    if not diff.total:
        words = ("ok", "check-circle-fill", "No schema change") if loaded.is_complete else _NO_SCHEMAS
        return VerdictItem(*words, _say_none(loaded), url)
    landing = [row for row in loaded.rows if row.lands and row.change != states.REFRESHED]
    if not landing:
        return VerdictItem("info", "rows", "No schema lands", diff.unlanded_words, url)
    compared = [row for row in landing if row.schema_status != NOT_COMPARED]
    if not compared:
        return VerdictItem(*_NO_SCHEMAS, "nothing is built yet", url)
    note = ", ".join(filter(None, (f"in {counted(len(compared), 'dataset')}", diff.unlanded_words)))
    return VerdictItem("ok", "check-circle-fill", "No schema change", note, url)


def _say_none(loaded: Loaded) -> str:
    """Return why no dataset is shown."""
    if loaded.unseen.datasets:
        return f"{counted(loaded.unseen.datasets, 'dataset')} that you may not see"
    return "no dataset is changed" if loaded.is_known else "the JobSpecs are not published"
