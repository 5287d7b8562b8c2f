"""The Conversation tab: timeline, merge box, side column."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import urlencode

from django.db.models import Count, Max
from django.urls import reverse

from webapp.builds import queries as builds
from webapp.builds.models import Build
from webapp.builds.rules.states import JOB_ENDS, BuildState
from webapp.comparisons.rules.states import BREAKING, ComparisonState
from webapp.core.numbers import read_count
from webapp.core.templatetags.ui import duration
from webapp.core.words import counted
from webapp.pulls.models import Comment, Merge, Review, TimelineEvent
from webapp.pulls.pages.head import Loaded, PullHead, load, load_all_of, read_head
from webapp.pulls.pages.lines import word_build
from webapp.pulls.pages.rebuilding import FailedRebuild, read_failed_rebuild
from webapp.pulls.pages.reverting import Restored, WayBack, describe_way_back, read_restored
from webapp.pulls.pages.source import SourceBranch, read_source
from webapp.pulls.queries import named
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.remarks import Remark, RemarkReader, make_remark
from webapp.pulls.queries.threads import list_open_threads, list_threads
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import MergeState, PullState
from webapp.repositories.queries import publications_of_commits

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset, PullRequest
    from webapp.repositories.models import Publication

SHORT = 7
ENTRIES = 50
"""Of the timeline, on a page."""
_FIRST = {"opened": 0, "first-commits": 1, "first-build": 2}
"""What happened before it was opened, in that order."""


@dataclass(frozen=True)
class Mark:
    """A label beside an entry."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class CommitLine:
    """A commit in an entry about a push."""

    sha: str
    subject: str
    url: str
    state: str
    note: str


@dataclass(frozen=True)
class Anchor:
    """What a comment is about."""

    text: str
    url: str
    dataset: bool
    where: str = ""


@dataclass(frozen=True)
class ConversationEntry:
    """One entry of the timeline; cards are what people wrote."""

    id: str
    at: datetime
    actor: str = ""
    text: str = ""
    card: str = ""
    icon: str = "dot-fill"
    badge: str = ""
    url: str = ""
    link: str = ""
    tail: str = ""
    note: str = ""
    body: str = ""
    labels: tuple[Mark, ...] = ()
    commits: tuple[CommitLine, ...] = ()
    anchor: Anchor | None = None
    remark: Remark | None = None
    """What a thread says, with its replies."""


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
    cost: builds.Cost | None = None
    """What the jobs of these datasets took last; None where nothing is rebuilt."""
    cost_of_all: builds.Cost | None = None
    """With everything downstream; None where that is no more."""

    @property
    def total(self) -> int:
        """With everything downstream."""
        return self.datasets + self.affected


@dataclass(frozen=True)
class Compared:
    """What the rows say, and of which comparison."""

    delta: tuple[int, int, int]
    words: str
    target: str
    moved: int
    """Datasets that the target has changed since."""
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
    head: str
    effect: Effect
    not_landing: list[NotLanding]
    compared: Compared | None


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
    foot: str = ""
    behind: Behind | None = None
    failed: FailedRebuild | None = None
    way_back: WayBack | None = None
    source: SourceBranch | None = None
    restored: Restored | None = None
    moving: bool = False
    """Whether the page should keep asking."""


@dataclass(frozen=True)
class Reviewer:
    """Somebody whose verdict counts, or is asked for."""

    name: str
    kind: str
    word: str


@dataclass(frozen=True)
class DatasetLine:
    """A dataset in the side column."""

    path: str
    url: str
    added: int | None
    removed: int | None
    changed: int | None
    mark: Mark | None
    note: str


@dataclass(frozen=True)
class DatasetGroup:
    """Datasets that are changed in the same way."""

    name: str
    lines: list[DatasetLine]


@dataclass(frozen=True)
class ConversationPage:
    """Context of the Conversation tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    entries: list[ConversationEntry]
    """The one that opened it, then a page of what followed, the newest without anything asked."""
    earlier: int
    """How many entries before that page are left out, and how many after it."""
    later: int
    earlier_url: str
    later_url: str
    news_url: str
    """Where the page asks for what comes after its newest entry."""
    merge: MergeBox
    reviewers: list[Reviewer]
    groups: list[DatasetGroup]
    checks: list[queries.CheckResult]
    rules: list[str]


@dataclass(frozen=True)
class News:
    """What a timeline has got since a page was drawn."""

    entries: list[ConversationEntry]
    replies: list[Remark]
    """In threads that the page shows."""
    news_url: str


def frame(name: str) -> dict[str, Any]:
    """Return what every page of pull requests of a repository has around it."""
    return {"nav": "pulls", "repo_bar": {"name": name, "tab": "pulls"}}


def read_conversation(
    principal: Principal, repository: str, number: int, *, before: int | None = None
) -> ConversationPage:
    """Return what the Conversation tab shows; `before` counts entries from the beginning, so that its addresses last."""
    loaded = load(principal, repository, number)
    head = read_head(principal, loaded)
    timeline = _read_timeline(loaded, RemarkReader.of(principal, loaded.pull))
    opened, *entries = timeline.entries
    end = min(len(entries) if before is None else before, len(entries))
    start = max(0, end - ENTRIES)
    return ConversationPage(
        **frame(repository),
        head=head,
        tab="Conversation",
        entries=[opened, *entries[start:end]],
        earlier=start,
        later=len(entries) - end,
        earlier_url=f"{head.url}?before={start}",
        later_url=f"{head.url}?before={end + ENTRIES}" if end + ENTRIES < len(entries) else head.url,
        news_url=_find_news_url(loaded.pull, after=len(timeline.entries), seen=timeline.seen),
        merge=_describe_merge(loaded, head),
        reviewers=_list_reviewers(loaded),
        groups=_group_datasets(loaded),
        checks=queries.list_checks(loaded.pull),
        rules=_list_rules(loaded),
    )


def read_news(principal: Principal, repository: str, number: int, *, after: int, seen: str) -> News | None:
    """Return a page of the entries after the first so many; None where nothing came since, which costs next to nothing.

    Args:
        principal: who asks.
        repository: its name.
        number: of the pull request.
        after: how many entries the page knows.
        seen: what the timeline was made of then.

    """
    pull = queries.get_pull(principal, repository, number)
    if seen == _sum_up(pull):
        return None
    timeline = _read_timeline(load_all_of(principal, pull), RemarkReader.of(principal, pull))
    end = min(after + ENTRIES, len(timeline.entries))
    shown = timeline.entries[:1] + timeline.entries[1:after][-ENTRIES:]
    newest = read_count(seen.rpartition("-")[2]) if seen else None
    replies = _list_replies(shown, after=newest) if newest is not None else []
    seen = timeline.seen if end == len(timeline.entries) else ""  # there are more, whatever comes meanwhile
    return News(timeline.entries[after:end], replies, _find_news_url(pull, after=end, seen=seen))


def _list_replies(entries: list[ConversationEntry], *, after: int) -> list[Remark]:
    """Return what was replied in these threads after the comment of that number."""
    remarks = [entry.remark for entry in entries if entry.remark is not None]
    return [reply for remark in remarks for reply in remark.replies if reply.id > after]


def _find_news_url(pull: PullRequest, *, after: int, seen: str) -> str:
    query = urlencode({"after": after, "seen": seen})
    return f"{reverse('pull-news', args=[pull.repository.name, pull.number])}?{query}"


# ---- timeline ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timeline:
    """All entries, the oldest first."""

    entries: list[ConversationEntry]
    seen: str
    """Of how many parts they were made, and which comment is the newest, so that a page can ask for others."""


def _sum_up(pull: PullRequest) -> str:
    """Return what `Timeline.seen` would be."""
    comments = pull.comments.aggregate(count=Count("pk"), newest=Max("pk"))
    return _write_seen(pull.events.count(), pull.reviews.count(), comments["count"], comments["newest"] or 0)


def _write_seen(events: int, reviews: int, comments: int, newest: int) -> str:
    return f"{events}-{reviews}-{comments}-{newest}"


def _read_timeline(loaded: Loaded, reader: RemarkReader) -> Timeline:
    pull = loaded.pull
    events, threads = list(pull.events.all()), list(list_threads(pull))
    reviews = list(pull.reviews.select_related("reviewer"))
    shas = [commit["sha"] for event in events for commit in event.data.get("commits", ())]
    published = publications_of_commits(pull.repository, shas, branch=pull.source)
    entries = [
        ConversationEntry(
            id="opened",
            at=pull.created_at,
            actor=pull.author.username,
            text="opened this pull request",
            card="opened",
            body=pull.body,
        )
    ]
    own_merge = {event.data.get("commit") for event in events if event.kind == "merged"}
    entries += [
        _describe_event(pull, event, published)
        for event in events
        # That its own merge moved the target is no news.
        if event.kind != "opened" and not (event.kind == "target_moved" and event.data.get("after") in own_merge)
    ]
    entries += _describe_beginning(loaded, shas)
    entries += [_describe_thread(loaded, thread, reader) for thread in threads]
    entries += [_describe_review(loaded, review) for review in reviews]
    ordered = sorted(entries, key=lambda entry: (entry.id != "opened", entry.at, _FIRST.get(entry.id, len(_FIRST))))
    numbers = [comment.pk for thread in threads for comment in (thread, *thread.replies.all())]
    seen = _write_seen(len(events), len(reviews), len(numbers), max(numbers, default=0))
    return Timeline(ordered, seen)


def _describe_beginning(loaded: Loaded, known: list[str]) -> list[ConversationEntry]:
    """Return the commits with which it was opened, and the build that there was then: no event was recorded of them."""
    pull = loaded.pull
    first = [commit for commit in reversed(queries.list_own_commits(pull)) if commit.sha not in known][:20]
    entries = []
    if first:
        data: dict[str, Any] = {"commits": [{"sha": commit.sha, "subject": commit.subject} for commit in first]}
        published = publications_of_commits(pull.repository, [commit.sha for commit in first], branch=pull.source)
        entry = ConversationEntry("first-commits", pull.created_at, actor=pull.author.username)
        pushed = _describe_push(pull, entry, data, published)
        entries.append(replace(pushed, text=f"opened it with {len(first)} commit{'s' if len(first) != 1 else ''}"))
    build = (
        Build.objects.filter(
            repository=pull.repository, branch=pull.source, kind="run", finished_at__lt=pull.created_at
        )
        .exclude(trigger="review")
        .order_by("-pk")
        .first()
    )
    if build is not None and build.finished_at is not None:
        jobs = build.jobs.values_list("skipped", flat=True)
        data = {
            "build": build.pk,
            "state": build.state,
            "jobs": sum(not skipped for skipped in jobs),
            "fresh": sum(jobs),
            "seconds": (build.finished_at - build.created_at).total_seconds(),
            "reason": build.reason,
        }
        entries.append(_describe_build(ConversationEntry("first-build", pull.created_at), data, rebuilt=False))
    return entries


def _describe_thread(loaded: Loaded, comment: Comment, reader: RemarkReader) -> ConversationEntry:
    remark = make_remark(comment, reader)
    if remark.deleted_by and not remark.replies:
        whose = "a comment" if remark.deleted_by == remark.author else f"a comment of {remark.author}"
        return ConversationEntry(
            f"comment-{comment.pk}", comment.created_at, remark.deleted_by, f"deleted {whose}", icon="trash"
        )
    anchor = _describe_anchor(loaded, comment.anchor or {})
    return ConversationEntry(
        id=f"comment-{comment.pk}",
        at=comment.created_at,
        actor=remark.author,
        text="commented on" if anchor else "commented",
        card="comment",
        labels=(Mark(f"Resolved by {remark.resolved_by}", "ok"),) if remark.resolved_by else (),
        anchor=anchor,
        remark=remark,
    )


def _describe_anchor(loaded: Loaded, anchor: dict[str, Any]) -> Anchor | None:
    if anchor.get("dataset"):
        path = anchor["dataset"]
        key = anchor.get("key") or {}
        words = ", ".join(f"{name} = {value}" for name, value in key.items()) if isinstance(key, dict) else str(key)
        where = " · ".join(part for part in (words, anchor.get("column") and f"column {anchor['column']}") if part)
        return Anchor(path, f"{loaded.url}/data?dataset={path}", dataset=True, where=where)
    if anchor.get("path"):
        text = f"{anchor['path']}:{anchor.get('line', '')}"
        return Anchor(
            text, f"{loaded.url}/code?{urlencode({'path': anchor['path']})}#file-{anchor['path']}", dataset=False
        )
    return None


def _describe_review(loaded: Loaded, review: Review) -> ConversationEntry:
    labels = (Mark("Void now", "bad"),) if review.voided_at else ()
    reason = loaded.facts.ineligible.get(review.reviewer.username)
    is_uncounted = bool(reason) and review.verdict == states.APPROVE and not review.voided_at
    if is_uncounted:
        labels = (Mark("Does not count", "bad"),)
    words = {states.APPROVE: "approved", states.REJECT: "asked for changes to", states.COMMENT: "reviewed"}
    badge = {states.APPROVE: "ok", states.REJECT: "bad"}.get(review.verdict, "") if not review.voided_at else ""
    seen = review.seen or {}
    count = len(seen.get("transactions", {}))
    text = f"{words.get(review.verdict, review.verdict)} commit {str(seen.get('head', ''))[:SHORT]}"
    if count:
        text += f" with {count} transaction{'s' if count != 1 else ''}"
    note = f"Void: {review.void_reason}." if review.voided_at and review.void_reason else ""
    if is_uncounted:
        note = f"Does not count: {review.reviewer.username} {reason}."
    if review.body:
        return ConversationEntry(
            id=f"review-{review.pk}", at=review.created_at, actor=review.reviewer.username, text=text, card="review",
            badge=badge, body=review.body, labels=labels, note=note,
        )  # fmt: skip
    icon = {states.APPROVE: "check", states.REJECT: "x", states.COMMENT: "comment"}.get(review.verdict, "comment")
    return ConversationEntry(
        id=f"review-{review.pk}",
        at=review.created_at,
        actor=review.reviewer.username,
        text=text,
        icon=icon,
        badge=badge,
        labels=labels,
    )


_PLAIN: dict[str, tuple[str, str, str]] = {
    "ready": ("eye", "", "marked it ready for review"),
    "drafted": ("git-pull-request-draft", "", "made it a draft"),
    "source_deleted": ("trash", "warn", "deleted the source branch"),
    "source_restored": ("git-branch", "", "restored the source branch"),
    "closed": ("git-pull-request-closed", "bad", "closed this pull request"),
    "reopened": ("git-pull-request", "ok", "opened it again"),
}


def _describe_event(pull: PullRequest, event: TimelineEvent, published: Any) -> ConversationEntry:
    data = event.data
    entry = ConversationEntry(f"event-{event.pk}", event.at, actor=event.actor)
    if event.kind in _PLAIN:
        icon, badge, text = _PLAIN[event.kind]
        return replace(entry, icon=icon, badge=badge, text=text)
    if event.kind == "pushed":
        return _describe_push(pull, entry, data, published)
    if event.kind in ("built", "rebuilt"):
        return _describe_build(entry, data, rebuilt=event.kind == "rebuilt")
    if event.kind == "approval_void":
        return replace(
            entry, icon="circle-slash", badge="void", text=f"The approval of {data.get('reviewer', 'somebody')} became void",
            note=str(data.get("reason", "")),
        )  # fmt: skip
    if event.kind == "target_moved":
        text = f"{data.get('branch', pull.target)} moved from {str(data.get('before'))[:SHORT]} to {str(data.get('after'))[:SHORT]}"
        return replace(entry, icon="history", badge="warn", text=text)
    if event.kind == "retitled":
        return replace(
            entry, icon="pencil", text=f"changed the title from “{data.get('before')}” to “{data.get('after')}”"
        )
    if event.kind == "retargeted":
        return replace(
            entry, icon="git-branch", text=f"changed the target from {data.get('before')} to {data.get('after')}"
        )
    if event.kind == "merged":
        return _describe_merged(pull, entry, data)
    if event.kind == "reverted":
        url = reverse("pull", args=[pull.repository.name, data["revert"]])
        text = f"was opened by {event.actor} to revert this"
        return replace(entry, actor="", icon="history", url=url, link=f"#{data['revert']}", text=text)
    return replace(entry, text=event.get_kind_display())


def _describe_push(
    pull: PullRequest, entry: ConversationEntry, data: dict[str, Any], published: Any
) -> ConversationEntry:
    count = int(data.get("count") or len(data.get("commits", ())))
    commits = []
    for commit in data.get("commits", ()):
        state, note = _describe_publication(pull, commit["sha"], published.get(commit["sha"]))
        url = reverse("repository-commit", args=[pull.repository.name, commit["sha"]])
        commits.append(CommitLine(commit["sha"], commit["subject"], url, state, note))
    return replace(
        entry,
        icon="git-commit",
        text=_say_pushed(count, int(data.get("taken", 0)), pull.target),
        commits=tuple(commits),
    )


def _say_pushed(count: int, taken: int, target: str) -> str:
    """Say what came to the source: own commits, and those that the target has."""
    own, of_target = (f"{number} commit{'s' if number != 1 else ''}" for number in (count, taken))
    if not taken:
        return f"pushed {own}"
    return f"pushed {own} and took {of_target} of {target}" if count else f"took {of_target} of {target}"


def _describe_publication(pull: PullRequest, sha: str, publication: Publication | None) -> tuple[str, str]:
    """Return the kind of state, and in words what came of publishing a commit."""
    if publication is None or publication.status == "pending":
        if sha != pull.head_sha:
            # Only heads are published: one that a later commit came over is not missed.
            return "open", "overtaken by a later commit"
        if publication is None and queries.is_source_gone(pull):
            return "open", "its JobSpecs went with the branch"
        return "wait", "being published"
    if publication.status == "failed":
        count = len(publication.errors)
        return "bad", f"{count} error{'s' if count != 1 else ''}"
    return "ok", f"{publication.jobspecs} JobSpec{'s' if publication.jobspecs != 1 else ''} published"


def _describe_build(entry: ConversationEntry, data: dict[str, Any], *, rebuilt: bool) -> ConversationEntry:
    state = BuildState[data["state"]]
    icon = {"ok": "check", "bad": "x"}.get(state.tone, "stop")
    badge = {"ok": "ok", "bad": "bad"}.get(state.tone, "void")
    where = " on the target" if rebuilt else ""
    seconds = data.get("seconds")
    text = f"{word_build(state)}{where}" + (f" in {duration(seconds)}" if seconds is not None else "")
    tail = (
        f"{data['jobs']} job{'s' if data['jobs'] != 1 else ''} run, {data.get('fresh', 0)} fresh"
        if "jobs" in data
        else ""
    )
    build = data.get("build")
    return replace(
        entry, actor="", icon=icon, badge=badge, url=reverse("build", args=[build]) if build else "", link=f"Build {build}",
        text=text, tail=tail, note=str(data.get("reason") or ""),
    )  # fmt: skip


def _describe_merged(pull: PullRequest, entry: ConversationEntry, data: dict[str, Any]) -> ConversationEntry:
    bypassed = [blocker.get("message", "") for blocker in data.get("bypassed", ())]
    commit = str(data.get("commit", ""))
    return replace(
        entry, icon="git-merge", badge="done", text=f"merged this into {data.get('target', pull.target)} as {commit[:SHORT]}",
        labels=(Mark("past the requirements", "bad"),) if bypassed else (),
        note=" ".join(bypassed),
    )  # fmt: skip


# ---- merge box -----------------------------------------------------------------------------------------------------


_TITLES: dict[str, tuple[str, str, str]] = {
    "draft": ("This is a draft", "warn", "git-pull-request-draft"),
    "source_missing": ("The source branch is gone", "bad", "git-branch"),
    "target_missing": ("The target branch is gone", "bad", "git-branch"),
    "nothing_to_merge": ("There is nothing to merge", "warn", "git-merge"),
    "conflict": ("The code conflicts with the target", "bad", "alert"),
    "publication_failed": ("The code of the head does not publish", "bad", "x-circle-fill"),
    "publication_pending": ("The code of the head is being published", "warn", "clock"),
    "build_running": ("A build is running", "warn", "sync"),
    "build_failed": ("The newest build failed", "bad", "x-circle-fill"),
    "build_missing": ("The data is not built with the newest code", "warn", "workflow"),
    "check_failed": ("A required check is not green", "bad", "x-circle-fill"),
    "approval_missing": ("An approval is missing", "bad", "shield-lock"),
    "group_approval_missing": ("A group has to approve", "bad", "people"),
    "path_approval_missing": ("Those responsible have to approve", "bad", "people"),
    "rejected": ("A reviewer asked for changes", "bad", "x-circle-fill"),
    "threads_unresolved": ("Not every thread is resolved", "warn", "comment"),
}


def _describe_merge(loaded: Loaded, head: PullHead) -> MergeBox:
    merge, restored = queries.find_merge(loaded.pull), read_restored(loaded, head)
    box = _describe_standing(loaded, head, merge)
    return replace(
        box,
        failed=read_failed_rebuild(merge, head),
        way_back=describe_way_back(loaded, head),
        source=read_source(loaded, head),
        restored=restored,
        moving=box.moving or (restored is not None and restored.is_moving),
    )


def _describe_standing(loaded: Loaded, head: PullHead, merge: Merge | None) -> MergeBox:
    pull = loaded.pull
    subject = MergeSubject(
        post_url=reverse("pull-merge", args=[pull.repository.name, pull.number]),
        head=pull.head_sha,
        effect=Effect(0, 0, pull.target) if merge is not None else _describe_effect(loaded),
        not_landing=[] if pull.state != PullState.OPEN else _list_not_landing(loaded),
        compared=_describe_compared(loaded, head) if pull.state == PullState.OPEN else None,
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
    return MergeBox(
        "ok", "Ready to merge", text, subject, met=_list_met(loaded), may_write=head.may_write, may_merge=True,
        foot="" if head.may_write else "Merging needs the role writer.", behind=_describe_behind(loaded, head),
    )  # fmt: skip


def _describe_behind(loaded: Loaded, head: PullHead) -> Behind | None:
    pull, commits = loaded.pull, loaded.facts.behind
    if not commits:
        return None
    url = reverse("pull-update", args=[pull.repository.name, pull.number])
    may_update = head.may_update and not loaded.facts.conflicts
    return Behind(commits, pull.source, pull.target, url if may_update else "")


def _list_not_landing(loaded: Loaded) -> list[NotLanding]:
    return [NotLanding(row.path, _url_of(loaded, row), row.lands_reason) for row in loaded.rows if not row.lands]


def _describe_compared(loaded: Loaded, head: PullHead) -> Compared | None:
    if head.diff.delta is None:
        return None
    return Compared(
        delta=head.diff.delta,
        words=head.diff.compared_words,
        target=loaded.pull.target,
        moved=sum(named.find_since(row) is not None for row in loaded.rows),
        url=f"{loaded.url}/data",
    )


def _describe_effect(loaded: Loaded) -> Effect:
    specs = queries.read_specs(pull=loaded.pull)
    modified, everything = (
        queries.list_targets(rows=loaded.rows, specs=specs, rebuild=rebuild)
        for rebuild in (states.MODIFIED, states.AFFECTED)
    )
    cost, cost_of_all = builds.read_costs([modified, everything], branches=(loaded.pull.source, loaded.pull.target))
    return Effect(
        datasets=len(modified),
        affected=len(everything) - len(modified),
        target=loaded.pull.target,
        cost=cost if modified else None,
        cost_of_all=cost_of_all if everything != modified else None,
    )


def _url_of(loaded: Loaded, row: PullDataset) -> str:
    return f"{loaded.url}/data?dataset={row.path}"


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
    if code in ("build_missing", "build_failed") and head.may_write:
        if code == "build_failed" and loaded.build:
            return {"fix": "Open build", "fix_url": reverse("build", args=[loaded.build.pk])}
        return {"fix": "Build the branch", "fix_post": reverse("pull-build", args=arguments)}
    if code == "build_running" and loaded.build:
        return {"fix": "Follow it", "fix_url": reverse("build", args=[loaded.build.pk])}
    if code in ("publication_failed", "publication_pending"):
        return {
            "fix": "Open commit",
            "fix_url": reverse("repository-commit", args=[pull.repository.name, pull.head_sha]),
        }
    if code in ("approval_missing", "group_approval_missing", "path_approval_missing") and head.may_approve:
        return {"fix": "Review", "fix_url": f"{loaded.url}/data"}
    if code == "conflict":
        return {"fix": "See the code", "fix_url": f"{loaded.url}/code"}
    if code == "source_missing" and head.may_edit:
        return {"fix": "Close it", "fix_post": reverse("pull-close", args=arguments)}
    if code == "threads_unresolved":
        return {"fix": "See the first", "fix_url": _find_thread_url(loaded)}
    if code == "check_failed":
        return {"fix": "See the checks", "fix_url": "#checks"}
    return {}


def _find_thread_url(loaded: Loaded) -> str:
    """Return where the first thread is that nobody has resolved: on the page of what it is about."""
    thread = list_open_threads(loaded.pull).first()
    anchor = _describe_anchor(loaded, thread.anchor or {}) if thread else None
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
    if "rejected" not in codes:
        met.append("No standing rejection")
    troubles = [row for row in loaded.rows if row.comparison and (row.comparison.summary or {}).get("key_trouble")]
    if not troubles and any(row.comparison and row.comparison.state == ComparisonState.READY for row in loaded.rows):
        met.append("No duplicate or null keys in what changed")
    return met


def _describe_begun(loaded: Loaded, merge: Merge, subject: MergeSubject) -> MergeBox:
    """Describe a merge that somebody has asked for. Each state has words of its own: none is taken for another."""
    who, commit, target = merge.merged_by.username, merge.merge_commit[:SHORT], loaded.pull.target
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
    commit, target = merge.merge_commit[:SHORT], loaded.pull.target
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
    commit = merge.merge_commit[:SHORT]
    text = f"{who} merged it into {loaded.pull.target} as {commit}"
    if build is not None and not failed:
        rebuilt_words = f"rebuilt {counted(len(merge.targets), 'dataset')} on {loaded.pull.target}"
        url = reverse("build", args=[build.pk])
        outcomes.insert(0, Outcome(f"Build {build.pk}", url, "ok", "workflow", build.state.label, rebuilt_words))
    rebuilt = [result for result in results.values() if result["state"] != "not_landed"]
    equal = sum(result["state"] == "equal" for result in rebuilt)
    if rebuilt and equal == len(rebuilt):
        text += (
            f"; all {equal} rebuilt datasets are equal to what was reviewed"
            if equal > 1
            else "; the rebuilt dataset is equal to what was reviewed"
        )
    moving = any(result["state"] == "comparing" for result in results.values())
    return MergeBox("bad" if failed else "merged", title, f"{text}.", subject, outcomes=outcomes, moving=moving)


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


# ---- side column ---------------------------------------------------------------------------------------------------


def _list_reviewers(loaded: Loaded) -> list[Reviewer]:
    words = {
        states.APPROVE: ("ok", "approved"),
        states.REJECT: ("bad", "asked for changes"),
        states.COMMENT: ("open", "commented"),
    }
    reviewers: dict[str, Reviewer] = {}
    for fact in loaded.facts.reviews:
        if fact.void:
            reviewers[fact.reviewer] = Reviewer(fact.reviewer, "void", "approval void")
        elif fact.verdict == states.APPROVE and fact.reviewer in loaded.facts.ineligible:
            reviewers[fact.reviewer] = Reviewer(fact.reviewer, "void", "does not count")
        elif fact.verdict != states.COMMENT or fact.reviewer not in reviewers:
            kind, word = words.get(fact.verdict, ("open", fact.verdict))
            reviewers[fact.reviewer] = Reviewer(fact.reviewer, kind, word)
    required = [
        Reviewer(group, "warn", "required")
        for group, members in sorted(loaded.facts.protection.groups.items())
        if not any(reviewers.get(name, Reviewer("", "", "")).kind == "ok" for name in members)
    ]
    return [*reviewers.values(), *required]


def _group_datasets(loaded: Loaded) -> list[DatasetGroup]:
    groups = [
        ("Code or data changed", (states.MODIFIED, states.ADDED, states.REMOVED)),
        ("Downstream only", (states.AFFECTED,)),
    ]
    parts = []
    for name, changes in groups:
        lines = [_describe_dataset(loaded, row) for row in loaded.rows if row.change in changes]
        if lines:
            parts.append(DatasetGroup(name, lines))
    return parts


def _describe_dataset(loaded: Loaded, row: PullDataset) -> DatasetLine:
    comparison = row.comparison
    ready = comparison is not None and comparison.state == ComparisonState.READY
    summary = comparison.summary if ready and comparison else {}
    return DatasetLine(
        path=row.path,
        url=_url_of(loaded, row),
        added=summary.get("inserted"),
        removed=summary.get("deleted"),
        changed=summary.get("updated"),
        mark=_mark_dataset(row),
        note="" if ready else comparison.state.label.lower() if comparison else "not compared",
    )


def _mark_dataset(row: PullDataset) -> Mark | None:
    if not row.lands:
        return Mark("does not land", "bad")
    if row.schema_status == BREAKING:
        return Mark("breaking", "bad")
    if row.change == states.ADDED:
        return Mark("new", "ok")
    if row.change == states.REMOVED:
        return Mark("removed", "bad")
    if not row.current and row.change == states.MODIFIED:
        return Mark("not current", "warn")
    return None


def _list_rules(loaded: Loaded) -> list[str]:
    protection = loaded.facts.protection
    rules = []
    if protection.approvals:
        rules.append(f"{protection.approvals} approval{'s' if protection.approvals != 1 else ''} by others")
    rules += [f"approval of {name}" for name in sorted(protection.groups)]
    rules += [f"approval for {path}" for path in sorted(protection.paths)]
    rules += [f"a green check {name}" for name in protection.checks]
    if protection.resolved_threads:
        rules.append("every thread on code or data resolved")
    if protection.allow_bypass and rules:
        rules.append("maintainers may merge past them")
    return rules
