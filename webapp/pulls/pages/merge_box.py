"""How the merge of a pull request stands: what blocks it, what it would do, what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

from django.urls import reverse

from webapp.builds import queries as builds
from webapp.builds.models import Build
from webapp.builds.rules.states import JOB_ENDS
from webapp.comparisons.rules.states import ComparisonState
from webapp.core.words import counted
from webapp.pulls.models import Merge
from webapp.pulls.pages.head import Loaded, PullHead
from webapp.pulls.pages.lineage import ShownBreaks, show_breaks
from webapp.pulls.pages.loads import ShownLoad, show_loads
from webapp.pulls.pages.moved import judge_part
from webapp.pulls.pages.queue import QueueNote, read_note
from webapp.pulls.pages.rebuilding import FailedRebuild, read_failed_rebuild
from webapp.pulls.pages.reverting import Restored, WayBack, describe_way_back, read_restored
from webapp.pulls.pages.source import SourceBranch, read_source
from webapp.pulls.pages.timeline import describe_anchor
from webapp.pulls.queries import named
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.breaks import read_breaks
from webapp.pulls.queries.threads import list_open_threads
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import MergeState, PullState, QueueState

if TYPE_CHECKING:
    from collections.abc import Collection

    from webapp.core.principals import Principal

SHOWN_BREAKS = 5
"""Readers of columns that go; the Lineage tab has them all."""


@dataclass(frozen=True)
class ShownBlocker:
    """A reason against the merge, with what mends it."""

    code: str
    title: str
    message: str
    severity: str
    icon: str
    fix: str = ""
    fix_url: str = ""
    fix_post: str = ""
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What the rebuild on the target made of one dataset."""

    path: str
    url: str
    kind: str
    icon: str
    word: str
    text: str


@dataclass(frozen=True)
class Effect:
    """What merging would rebuild."""

    datasets: int
    affected: int
    target: str
    loads: int = 0
    """Datasets whose files it would load."""
    cost: builds.Cost | None = None
    """What the jobs of these datasets took last; None where nothing is rebuilt."""
    cost_of_all: builds.Cost | None = None
    """With everything downstream; None where that is no more."""
    is_known: bool = True
    """Whether the JobSpecs are published that say it."""

    @property
    def total(self) -> int:
        """All that is rebuilt, with everything downstream."""
        return self.datasets + self.affected


@dataclass(frozen=True)
class Compared:
    """What the rows say, and of which comparison."""

    delta: tuple[int, int, int]
    words: str
    target: str
    moved: int
    """Datasets that the target has changed since."""
    is_apart: bool
    """Whether none of that is in the rows."""
    url: str


@dataclass(frozen=True)
class NotLanding:
    """A dataset that merging does not bring to the target."""

    path: str
    url: str
    text: str


@dataclass(frozen=True)
class MergeSubject:
    """What is to be merged, or was."""

    post_url: str
    queue_url: str
    head: str
    effect: Effect
    not_landing: list[NotLanding]
    compared: Compared | None
    loads: list[ShownLoad] = field(default_factory=list)
    """What was loaded on the source."""
    breaks: ShownBreaks | None = None
    """Whose code reads columns that go; None where none go, or nobody is known to read them."""


@dataclass(frozen=True)
class Behind:
    """Commits of the target that the source has not."""

    commits: int
    source: str
    target: str
    post_url: str
    """What merges them; empty where the reader may not, or where files conflict."""


@dataclass(frozen=True)
class MergeBox:
    """How the merge stands."""

    tone: str
    title: str
    text: str
    subject: MergeSubject
    blockers: list[ShownBlocker] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    may_write: bool = False
    may_merge: bool = False
    may_bypass: bool = False
    may_queue: bool = False
    """Whether nothing speaks against the merge but what may mend, or what the queue finds out."""
    queue: QueueNote | None = None
    foot: str = ""
    behind: Behind | None = None
    failed: FailedRebuild | None = None
    way_back: WayBack | None = None
    source: SourceBranch | None = None
    restored: Restored | None = None
    moving: bool = False
    """Whether the page should keep asking."""


_TITLES: dict[str, tuple[str, str, str]] = {
    "draft": ("This is a draft", "warn", "git-pull-request-draft"),
    "source_missing": ("The source branch is gone", "bad", "git-branch"),
    "target_missing": ("The target branch is gone", "bad", "git-branch"),
    "nothing_to_merge": ("There is nothing to merge", "warn", "git-merge"),
    "conflict": ("The code conflicts with the target", "bad", "alert"),
    approvals.LANDS_UNSHOWN: ("The merge would change more than is shown", "bad", "alert"),
    "publication_failed": ("The code of the head does not publish", "bad", "x-circle-fill"),
    "publication_pending": ("The code of the head is being published", "warn", "clock"),
    "build_running": ("A build is running", "warn", "sync"),
    "build_failed": ("The newest build failed", "bad", "x-circle-fill"),
    "build_missing": ("The data is not built with the newest code", "warn", "workflow"),
    "check_failed": ("A required check is not green", "bad", "x-circle-fill"),
    "approval_missing": ("An approval is missing", "bad", "shield-lock"),
    "group_approval_missing": ("A group has to approve", "bad", "people"),
    "path_approval_missing": ("Those responsible have to approve", "bad", "people"),
    "owner_approval_missing": ("An owner has to approve", "bad", "people"),
    "rejected": ("A reviewer asked for changes", "bad", "x-circle-fill"),
    "dataset_rejected": ("A reviewer rejected data", "bad", "x-circle-fill"),
    approvals.TESTED_IN_QUEUE: ("The merge result is not tested", "warn", "git-merge"),
    "rule_refused": ("A review rule names hidden columns", "bad", "alert"),
    "load_outdated": ("Other files were loaded than those that were chosen", "bad", "alert"),
    "load_conflict": ("The target moved under a file that merging loads", "bad", "alert"),
    "load_impossible": ("A file cannot be loaded when merging", "bad", "alert"),
    "threads_unresolved": ("Not every thread is resolved", "warn", "comment"),
}


def describe_merge(principal: Principal, loaded: Loaded, head: PullHead) -> MergeBox:
    """Return what the box says, with the ways on and back."""
    merge, restored = queries.find_merge(loaded.pull), read_restored(loaded, head)
    box = _describe_standing(principal, loaded, head, merge)
    if merge is None and loaded.pull.state == PullState.OPEN:
        box = _add_queue(box, loaded, head)
    return replace(
        box,
        failed=read_failed_rebuild(merge, head),
        way_back=describe_way_back(loaded, head),
        source=read_source(loaded, head),
        restored=restored,
        moving=box.moving or (restored is not None and restored.is_moving),
    )


def _describe_standing(principal: Principal, loaded: Loaded, head: PullHead, merge: Merge | None) -> MergeBox:
    pull = loaded.pull
    loads = show_loads(principal, loaded, head) if merge is None else []
    shown = {load.path for load in loads}
    subject = MergeSubject(
        post_url=reverse("pull-merge", args=[pull.repository.name, pull.number]),
        queue_url=reverse("pull-queue", args=[pull.repository.name, pull.number]),
        head=pull.head_sha,
        effect=Effect(0, 0, pull.target) if merge is not None else _describe_effect(loaded),
        not_landing=[] if pull.state != PullState.OPEN else _list_not_landing(loaded, but=shown),
        compared=_describe_compared(loaded, head) if pull.state == PullState.OPEN else None,
        loads=loads,
        breaks=_describe_breaks(principal, loaded) if merge is None else None,
    )
    if merge is not None:
        return _describe_begun(loaded, merge, subject)
    if pull.state == PullState.CLOSED:
        text = (
            "The branch and its data are untouched. It may be opened again."
            if loaded.facts.source_exists
            else f"{pull.source} is deleted. With its branch it may be opened again."
        )
        return MergeBox("closed", "Closed without a merge", text, subject)
    if loaded.blockers:
        return _describe_blocked(loaded, head, subject)
    text = f"Code, data and reviews are as the rules of {pull.target} ask for."
    refusal = next((load.refusal for load in loads if load.refusal), "")
    may_write = head.may_write and not refusal
    foot = "" if may_write else refusal if head.may_write else "Merging needs the role writer."
    return MergeBox(
        "ok", "Ready to merge", text, subject, met=_list_met(loaded), may_write=may_write, may_merge=True,
        foot=foot, behind=_describe_behind(loaded, head),
    )  # fmt: skip


def _add_queue(box: MergeBox, loaded: Loaded, head: PullHead) -> MergeBox:
    """Say where it stands in the merge queue; while it does, it is not merged by hand."""
    note = read_note(loaded.pull, may_write=head.may_write)
    if note is None or note.is_over:
        may_queue = head.may_write and all(
            blocker.code in approvals.MAY_COME or blocker.code == approvals.TESTED_IN_QUEUE
            for blocker in loaded.blockers
        )
        return replace(box, queue=note, may_queue=may_queue)
    blockers = [blocker for blocker in box.blockers if blocker.code != approvals.TESTED_IN_QUEUE]
    return replace(
        box,
        tone="bad" if note.line.queued.state == QueueState.RED else "run",
        title=note.title,
        text=note.text,
        blockers=blockers,
        queue=note,
        behind=None,  # bringing the branch up to date would take it out
        may_write=False,
        foot="Take it out of the queue to merge it by hand." if head.may_write else "",
        moving=True,
    )


def _describe_behind(loaded: Loaded, head: PullHead) -> Behind | None:
    pull, commits = loaded.pull, loaded.facts.behind
    if not commits:
        return None
    url = reverse("pull-update", args=[pull.repository.name, pull.number])
    may_update = head.may_update and not loaded.facts.conflicts
    return Behind(commits, pull.source, pull.target, url if may_update else "")


def _list_not_landing(loaded: Loaded, *, but: Collection[str]) -> list[NotLanding]:
    return [
        NotLanding(row.path, loaded.find_data_url(row.path), row.lands_reason)
        for row in loaded.rows
        if not row.lands and row.path not in but
    ]


def _describe_breaks(principal: Principal, loaded: Loaded) -> ShownBreaks | None:
    breaks = show_breaks(loaded, read_breaks(principal, loaded.pull, loaded.rows), most=SHOWN_BREAKS)
    return breaks if breaks is not None and (breaks.lines or breaks.hidden) else None


def _describe_compared(loaded: Loaded, head: PullHead) -> Compared | None:
    if head.diff.delta is None:
        return None
    moved = [row for row in loaded.rows if row.change != states.REFRESHED and named.find_since(row) is not None]
    return Compared(
        delta=head.diff.delta,
        words=head.diff.compared_words,
        target=loaded.pull.target,
        moved=len(moved),
        is_apart=all(judge_part(loaded, row, named.find_shown(row)) == "no" for row in moved),
        url=f"{loaded.url}/data",
    )


def _describe_effect(loaded: Loaded) -> Effect:
    loads = [row.path for row in loaded.all_rows if row.loads_onto is not None]
    if not loaded.is_known:
        # The rows are those that the head before would change.
        return Effect(0, 0, loaded.pull.target, loads=len(loads), is_known=False)
    specs = queries.read_specs(pull=loaded.pull)
    modified, everything = (
        queries.list_targets(rows=loaded.all_rows, specs=specs, rebuild=rebuild)
        for rebuild in (states.MODIFIED, states.AFFECTED)
    )
    cost, cost_of_all = builds.read_costs(
        [[*loads, *modified], [*loads, *everything]], branches=(loaded.pull.source, loaded.pull.target)
    )
    return Effect(
        datasets=len(modified),
        affected=len(everything) - len(modified),
        target=loaded.pull.target,
        loads=len(loads),
        cost=cost if modified or loads else None,
        cost_of_all=cost_of_all if everything != modified else None,
    )


def _describe_blocked(loaded: Loaded, head: PullHead, subject: MergeSubject) -> MergeBox:
    count = len(loaded.blockers)
    passable = all(blocker.code in approvals.BYPASSABLE for blocker in loaded.blockers)
    may_bypass = passable and head.may_maintain and loaded.facts.protection.allow_bypass
    return MergeBox(
        "bad",
        f"Merging is blocked for {count} reason{'s' if count != 1 else ''}",
        "This is all of them. The box updates by itself."
        if count > 1
        else "It is the only one. The box updates by itself.",
        subject,
        blockers=[_show_blocker(loaded, head, blocker) for blocker in loaded.blockers],
        met=_list_met(loaded),
        may_write=head.may_write,
        may_bypass=may_bypass,
        behind=_describe_behind(loaded, head),
        moving=True,
    )


def _show_blocker(loaded: Loaded, head: PullHead, blocker: approvals.Blocker) -> ShownBlocker:
    title, severity, icon = _TITLES.get(blocker.code, (blocker.code.replace("_", " ").capitalize(), "bad", "alert"))
    return ShownBlocker(blocker.code, title, blocker.message, severity, icon, **_find_fix(loaded, head, blocker.code))


def _find_fix(loaded: Loaded, head: PullHead, code: str) -> dict[str, Any]:
    pull = loaded.pull
    arguments = [pull.repository.name, pull.number]
    if code == "draft" and head.may_edit:
        return {"fix": "Ready for review", "fix_post": head.edit_url, "fields": (("draft", "0"),)}
    if code == "source_missing" and head.may_edit:
        return {"fix": "Close it", "fix_post": reverse("pull-close", args=arguments)}
    if code in ("build_missing", "build_failed") and head.may_write:
        if code == "build_failed" and loaded.build:
            return {"fix": "Open build", "fix_url": reverse("build", args=[loaded.build.pk])}
        return {"fix": "Build the branch", "fix_post": reverse("pull-build", args=arguments)}
    if code == approvals.LANDS_UNSHOWN and head.may_update:
        fields = (("expected_head", pull.head_sha),)
        return {"fix": "Update branch", "fix_post": reverse("pull-update", args=arguments), "fields": fields}
    return _find_page(loaded, head, code)


def _find_page(loaded: Loaded, head: PullHead, code: str) -> dict[str, Any]:
    """Return the page on which somebody sees what is in the way, and may mend it."""
    pull = loaded.pull
    if code == "build_running" and loaded.build:
        return {"fix": "Follow it", "fix_url": reverse("build", args=[loaded.build.pk])}
    if code in ("publication_failed", "publication_pending"):
        return {
            "fix": "Open commit",
            "fix_url": reverse("repository-commit", args=[pull.repository.name, pull.head_sha]),
        }
    if code.endswith("approval_missing") and head.may_approve:
        return {"fix": "Review", "fix_url": f"{loaded.url}/data"}
    if code in ("conflict", "dataset_rejected"):
        return _find_place(loaded, head, code)
    if code == "threads_unresolved":
        return {"fix": "See the first", "fix_url": _find_thread_url(loaded)}
    if code == approvals.LANDS_UNSHOWN:
        return {"fix": "See the code", "fix_url": f"{loaded.url}/code"}
    if code == "check_failed":
        return {"fix": "See the checks", "fix_url": f"{loaded.url}/checks"}
    return {}


def _find_place(loaded: Loaded, head: PullHead, code: str) -> dict[str, Any]:
    """Return where the trouble is to be seen."""
    if code == "conflict":
        words = "Resolve conflicts" if head.may_update else "See the conflicts"
        return {
            "fix": words,
            "fix_url": reverse("pull-conflicts", args=[loaded.pull.repository.name, loaded.pull.number]),
        }
    return {"fix": "See the data", "fix_url": loaded.find_data_url(approvals.list_rejected(loaded.facts)[0].path)}


def _find_thread_url(loaded: Loaded) -> str:
    """Return where the first thread is that nobody has resolved: on the page of what it is about."""
    thread = list_open_threads(loaded.pull).first()
    anchor = describe_anchor(loaded, thread.anchor or {}) if thread else None
    return f"{anchor.url.partition('#')[0]}#comment-{thread.pk}" if thread and anchor else loaded.url


def _list_met(loaded: Loaded) -> list[str]:
    facts = loaded.facts
    codes = {blocker.code for blocker in loaded.blockers}
    met = []
    if facts.source_exists and facts.target_exists and "conflict" not in codes:
        met.append(f"No code conflict with {facts.target}")
    if facts.publication == "published":
        met.append("The JobSpecs of the head are published")
    if facts.build_state == "COMPLETED" and "build_missing" not in codes:
        met.append(f"Build {facts.build_id} is green and current")
    if facts.protection.approvals and "approval_missing" not in codes:
        met.append(f"{facts.protection.approvals} approval{'s' if facts.protection.approvals != 1 else ''} given")
    if not codes & {"rejected", "dataset_rejected"}:
        met.append("No standing rejection")
    troubles = [row for row in loaded.rows if row.comparison and (row.comparison.summary or {}).get("key_trouble")]
    if not troubles and any(row.comparison and row.comparison.state == ComparisonState.READY for row in loaded.rows):
        met.append("No duplicate or null keys in what changed")
    return met


def _describe_begun(loaded: Loaded, merge: Merge, subject: MergeSubject) -> MergeBox:
    """Describe a merge that somebody has asked for. Each state has words of its own: none is taken for another."""
    who, commit, target = merge.merged_by.username, merge.merge_commit[:7], loaded.pull.target
    match merge.state:
        case MergeState.PREPARED:
            # Whether the target has it already is written down a moment after it has.
            text = f"{who} is merging the code into {target} as {commit}."
            return MergeBox("run", "Merging", text, subject, moving=True)
        case MergeState.LANDED:
            text = f"{who} merged the code as {commit}; the rebuild starts at once."
            return MergeBox("run", "Merging", text, subject, moving=True)
        case MergeState.BUILDING if merge.build is not None:
            return _describe_rebuild(loaded, merge, merge.build, subject)
        case MergeState.BUILDING | MergeState.DONE:
            return _describe_ended(loaded, merge, subject, who)
        case MergeState.ABANDONED:
            message = f"merge {merge.pk} was given up: its pull request is as if nobody had asked for it"
            raise LookupError(message)
        case _:
            assert_never(merge.state)


def _describe_rebuild(loaded: Loaded, merge: Merge, build: Build, subject: MergeSubject) -> MergeBox:
    commit, target = merge.merge_commit[:7], loaded.pull.target
    done, total = build.jobs.filter(state__in=JOB_ENDS).count(), build.jobs.count()
    text = f"The code is on {target} as {commit}. Build {build.pk} rebuilds the data: {done} of {total} jobs settled."
    outcome = Outcome(
        f"Build {build.pk}",
        reverse("build", args=[build.pk]),
        "run",
        "sync",
        build.state.label,
        builds.read_reasons(builds=[build])[build.pk] or "Follow its jobs and logs there.",
    )
    left = [
        _describe_outcome(path, result, is_all_landed=False)
        for path, result in sorted(queries.describe_outcome(merge).items())
        if result["state"] == "not_landed"
    ]
    return MergeBox("run", "Merged, the rebuild is running", text, subject, outcomes=[outcome, *left], moving=True)


def _describe_ended(loaded: Loaded, merge: Merge, subject: MergeSubject, who: str) -> MergeBox:
    build, failed = merge.build, queries.is_rebuild_failed(merge)
    results = queries.describe_outcome(merge)
    is_all_landed = all(result["state"] != "not_landed" for result in results.values())
    outcomes = [
        _describe_outcome(path, result, is_all_landed=is_all_landed) for path, result in sorted(results.items())
    ]
    title = "Merged, but the rebuild failed" if failed else "Merged"
    commit = merge.merge_commit[:7]
    text = f"{who} merged it into {loaded.pull.target} as {commit}"
    if build is not None and not failed:
        rebuilt_words = _say_built(merge, loaded.pull.target)
        url = reverse("build", args=[build.pk])
        outcomes.insert(0, Outcome(f"Build {build.pk}", url, "ok", "workflow", build.state.label, rebuilt_words))
    loads = {load["path"]: ", ".join(file["name"] for file in load["files"]) for load in merge.loads}
    outcomes = [
        replace(outcome, text=f"Loaded {loads[outcome.path]} again. {outcome.text}")
        if outcome.path in loads
        else outcome
        for outcome in outcomes
    ]
    rebuilt = [result for result in results.values() if result["state"] != "not_landed"]
    equal = sum(result["state"] == "equal" for result in rebuilt)
    done = "loaded and rebuilt" if loads and merge.targets else "loaded" if loads else "rebuilt"
    if rebuilt and equal == len(rebuilt):
        text += (
            f"; all {equal} {done} datasets are equal to what was reviewed"
            if equal > 1
            else f"; the {done} dataset is equal to what was reviewed"
        )
    moving = any(result["state"] == "comparing" for result in results.values())
    return MergeBox("bad" if failed else "merged", title, f"{text}.", subject, outcomes=outcomes, moving=moving)


def _say_built(merge: Merge, target: str) -> str:
    loaded = f"loaded {counted(len(merge.loads), 'dataset')}" if merge.loads else ""
    rebuilt = f"rebuilt {counted(len(merge.targets), 'dataset')}" if merge.targets or not merge.loads else ""
    return f"{' and '.join(filter(None, (loaded, rebuilt)))} on {target}"


def _describe_outcome(path: str, result: dict[str, Any], *, is_all_landed: bool) -> Outcome:
    url = f"/d{path}"
    if result["state"] == "equal":
        return Outcome(
            path,
            url,
            "ok",
            "check-circle-fill",
            "Equal",
            "Equal to what was reviewed: the same rows and the same schema.",
        )
    if result["state"] == "comparing":
        return Outcome(path, url, "run", "sync", "Comparing", "Rebuilt; being compared with what was reviewed.")
    if result["state"] == "not_landed":
        return Outcome(path, url, "warn", "alert", "Did not land", result["reason"])
    if result["state"] == "different":
        counts = f"+{result.get('inserted', 0):,} −{result.get('deleted', 0):,} ~{result.get('updated', 0):,} rows"
        reason = "are the usual reason" if is_all_landed else "or what did not land are the usual reasons"
        text = f"Not what was reviewed: {counts}. Newer inputs on the target {reason}."
        return Outcome(path, url, "warn", "alert", "Different", text)
    return Outcome(
        path,
        url,
        "void",
        "circle-slash",
        "Not compared",
        result.get("reason") or "There was nothing reviewed to compare with.",
    )
