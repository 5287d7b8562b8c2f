"""The Conversation tab: timeline, merge box, side column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from webapp.comparisons.rules.states import BREAKING, ComparisonState
from webapp.core.numbers import read_count
from webapp.core.words import counted
from webapp.pulls.pages.head import Loaded, PullHead, frame, load, load_all_of, read_head
from webapp.pulls.pages.merge_box import MergeBox, describe_merge
from webapp.pulls.pages.references import link_references, texts_of
from webapp.pulls.pages.timeline import Anchor, ConversationEntry, Mark, describe_anchor, read_timeline, sum_up
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.labels import list_labels
from webapp.pulls.queries.places import PlaceReader
from webapp.pulls.queries.remarks import Remark, RemarkReader, make_remark
from webapp.pulls.queries.reviewers import OfferedNames, list_reviewers, may_ask, offer_reviewers
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.reviewers import ReviewerState
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.pulls.models import Label, PendingComment, PullDataset, PullRequest
    from webapp.pulls.queries.unseen import UnseenData
    from webapp.pulls.rules.checks import CheckResult

ENTRIES = 30
"""Of the timeline, on a page."""
PENDING = 20
"""Comments of the reader's own review, on a page: the others are where they belong in code and data, and on a page of all."""


@dataclass(frozen=True)
class Reviewer:
    """Somebody whose verdict counts, or is asked for."""

    name: str
    kind: str
    word: str
    is_group: bool = False
    is_asked: bool = False
    is_answered: bool = True
    """Whether asking again asks for something new."""
    co_authored: str = ""
    """A commit that names them as co-author."""


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
class PendingEntry:
    """A comment of the reader's review that they have not submitted."""

    remark: Remark
    anchor: Anchor | None
    """What it is about; None where that is all of the pull request."""
    reply_to: str
    """Whose comment it answers; empty where it begins a thread."""


@dataclass(frozen=True)
class OwnReview:
    """What a form for a comment needs to know of its reader's review."""

    is_open: bool
    """Whether the pull request takes one."""
    pending: int


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
    pending: list[PendingEntry]
    """What waits for the reader's own review, the newest of it without anything asked."""
    earlier_pending: int
    merge: MergeBox
    reviewers: list[Reviewer]
    offered: OfferedNames | None
    """Whose review the reader may ask for; None where they may not."""
    labels: list[Label]
    assignees: list[str]
    may_sort: bool
    """Whether the reader may change these two."""
    offered_labels: list[Label]
    groups: list[DatasetGroup]
    unseen: UnseenData
    """Datasets that the reader may not see."""
    checks: list[CheckResult]
    rules: list[str]
    references: Mapping[str, str]
    """Addresses of what people wrote of."""


@dataclass(frozen=True)
class News:
    """What a timeline has got since a page was drawn."""

    entries: list[ConversationEntry]
    replies: list[Remark]
    """In threads that the page shows."""
    news_url: str
    references: Mapping[str, str]
    head: OwnReview


def read_conversation(
    principal: Principal, repository: str, number: int, *, before: int | None = None, shows_all_pending: bool = False
) -> ConversationPage:
    """Return what the Conversation tab shows; `before` counts entries from the beginning, so that its addresses last."""
    loaded = load(principal, repository, number)
    head = read_head(principal, loaded)
    reader = RemarkReader.of(principal, loaded.pull)
    timeline = read_timeline(principal, loaded, replace(reader, pending=()))  # they have a box of their own
    waiting = reader.pending if shows_all_pending else reader.pending[-PENDING:]
    pending = _list_pending(principal, loaded, waiting, reader)
    may_sort = may_ask(principal, loaded.pull)
    opened, *rest = timeline.outlines
    end = min(len(rest) if before is None else before, len(rest))
    start = max(0, end - ENTRIES)
    shown = timeline.describe([opened, *rest[start:end]])
    return ConversationPage(
        **frame(repository),
        head=head,
        tab="Conversation",
        entries=shown,
        earlier=start,
        later=len(rest) - end,
        earlier_url=f"{head.url}?before={start}",
        later_url=f"{head.url}?before={end + ENTRIES}" if end + ENTRIES < len(rest) else head.url,
        news_url=_find_news_url(loaded.pull, after=len(timeline), seen=timeline.seen),
        pending=pending,
        earlier_pending=head.pending - len(pending),
        merge=describe_merge(principal, loaded, head),
        reviewers=_list_reviewers(loaded),
        offered=offer_reviewers(principal, loaded.pull) if head.is_open and may_sort else None,
        labels=[row.label for row in loaded.pull.labels.select_related("label")],
        assignees=[row.user.username for row in loaded.pull.assignees.select_related("user")],
        may_sort=may_sort,
        offered_labels=list(list_labels(loaded.pull.repository)) if may_sort else [],
        groups=_group_datasets(loaded),
        unseen=loaded.unseen,
        checks=queries.list_checks(loaded.pull),
        rules=_list_rules(loaded),
        references=_link(principal, loaded.pull, shown, texts_of(entry.remark for entry in pending)),
    )


@dataclass(frozen=True)
class MergePart:
    """Context of the merge box alone."""

    head: PullHead
    merge: MergeBox


def read_merge(principal: Principal, repository: str, number: int) -> MergePart:
    """Return the merge box alone: a page asks for it every few seconds, and what was said takes longer to read."""
    loaded = load(principal, repository, number)
    head = read_head(principal, loaded)
    return MergePart(head, describe_merge(principal, loaded, head))


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
    if seen == sum_up(pull):
        return None
    reader = RemarkReader.of(principal, pull)
    timeline = read_timeline(principal, load_all_of(principal, pull), replace(reader, pending=()))
    end = min(after + ENTRIES, len(timeline))
    drawn = [*timeline.outlines[:1], *timeline.outlines[1:after][-ENTRIES:]]
    newest = read_count(seen.rpartition("-")[2]) if seen else None
    replies = _list_replies(timeline.describe(drawn), after=newest) if newest is not None else []
    seen = timeline.seen if end == len(timeline) else ""  # there are more, whatever comes meanwhile
    entries = timeline.describe(timeline.outlines[after:end])
    references = _link(principal, pull, entries, texts_of(replies))
    own = OwnReview(pull.state == PullState.OPEN, len(reader.pending))
    return News(entries, replies, _find_news_url(pull, after=end, seen=seen), references, own)


def _list_pending(
    principal: Principal, loaded: Loaded, waiting: Sequence[PendingComment], reader: RemarkReader
) -> list[PendingEntry]:
    anchors = [(comment.thread or comment).anchor for comment in waiting]
    places = PlaceReader.of(principal, anchors)
    return [
        PendingEntry(
            remark=make_remark(comment, reader),
            anchor=describe_anchor(loaded, places.show(anchor) or {}),
            reply_to=comment.thread.author.username if comment.thread else "",
        )
        for comment, anchor in zip(waiting, anchors, strict=True)
    ]


def _link(
    principal: Principal, pull: PullRequest, entries: list[ConversationEntry], texts: Iterable[str] = ()
) -> Mapping[str, str]:
    """Return the addresses of what entries and other texts name."""
    said = texts_of(entry.remark for entry in entries if entry.remark is not None)
    return link_references(principal, pull.repository, [*(entry.body for entry in entries), *said, *texts], pull)


def _list_replies(entries: list[ConversationEntry], *, after: int) -> list[Remark]:
    """Return what was replied in these threads after the comment of that number."""
    remarks = [entry.remark for entry in entries if entry.remark is not None]
    return [reply for remark in remarks for reply in remark.replies if reply.id > after]


def _find_news_url(pull: PullRequest, *, after: int, seen: str) -> str:
    query = urlencode({"after": after, "seen": seen})
    return f"{reverse('pull-news', args=[pull.repository.name, pull.number])}?{query}"


_WORDS = {
    ReviewerState.ASKED: ("wait", "asked"),
    ReviewerState.APPROVED: ("ok", "approved"),
    ReviewerState.REJECTED: ("bad", "asked for changes"),
    ReviewerState.COMMENTED: ("open", "commented"),
    ReviewerState.VOID: ("void", "approval void"),
    ReviewerState.UNCOUNTED: ("void", "does not count"),
}


def _list_reviewers(loaded: Loaded) -> list[Reviewer]:
    facts = loaded.facts
    reviewers = [
        Reviewer(
            standing.name,
            *_WORDS[standing.state],
            is_group=standing.is_group,
            is_asked=standing.asked_at is not None,
            is_answered=standing.state.is_answered,
            co_authored="" if standing.is_group else facts.co_authors.get(standing.name, ""),
        )
        for standing in list_reviewers(loaded.pull, uncounted=facts.ineligible)
    ]
    listed = {reviewer.name for reviewer in reviewers if reviewer.is_group}
    approving = approvals.list_approving(facts)
    required = [
        Reviewer(group, "warn", "required", is_group=True)
        for group, members in sorted(facts.protection.groups.items())
        if group not in listed and not approving & members
    ]
    return [*reviewers, *required]


def _group_datasets(loaded: Loaded) -> list[DatasetGroup]:
    parts = []
    for name, changes in states.CHANGE_GROUPS:
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
        url=loaded.find_data_url(row.path),
        added=summary.get("inserted"),
        removed=summary.get("deleted"),
        changed=summary.get("updated"),
        mark=_mark_dataset(loaded, row),
        note="" if ready else comparison.state.label.lower() if comparison else "not compared",
    )


def _mark_dataset(loaded: Loaded, row: PullDataset) -> Mark | None:
    if row.change == states.REFRESHED:
        return None
    if not row.lands:
        return Mark("does not land", "bad")
    verdicts = {
        verdict.verdict for verdict in loaded.facts.dataset_verdicts if verdict.path == row.path and not verdict.void
    }
    if verdicts:
        return Mark("rejected", "bad") if states.REJECTED in verdicts else Mark("accepted", "ok")
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
    rules += [f"{counted(rule.approvals, 'approval')} of {rule.group} for {rule.pattern}" for rule in protection.paths]
    rules += [f"approval by an owner of {pattern}" for pattern in sorted(protection.owners)]
    rules += [f"a green check {name}" for name in protection.checks]
    if protection.resolved_threads:
        rules.append("every thread on code or data resolved")
    if protection.allow_bypass and rules:
        rules.append("maintainers may merge past them")
    return rules
