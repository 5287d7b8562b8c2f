"""The Conversation tab: timeline, merge box, side column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.comparisons.rules.states import BREAKING, ComparisonState
from webapp.core.numbers import read_count
from webapp.pulls.pages.head import Loaded, PullHead, load, load_all_of, read_head
from webapp.pulls.pages.merge_box import MergeBox, describe_merge
from webapp.pulls.pages.references import link_references, texts_of
from webapp.pulls.pages.timeline import ConversationEntry, Mark, read_timeline, sum_up
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.remarks import Remark, RemarkReader
from webapp.pulls.rules import states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset, PullRequest
    from webapp.pulls.rules.checks import CheckResult

ENTRIES = 50
"""Of the timeline, on a page."""


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


def frame(name: str) -> dict[str, Any]:
    """Return what every page of pull requests of a repository has around it."""
    return {"nav": "pulls", "repo_bar": {"name": name, "tab": "pulls"}}


def read_conversation(
    principal: Principal, repository: str, number: int, *, before: int | None = None
) -> ConversationPage:
    """Return what the Conversation tab shows; `before` counts entries from the beginning, so that its addresses last."""
    loaded = load(principal, repository, number)
    head = read_head(principal, loaded)
    timeline = read_timeline(loaded, RemarkReader.of(principal, loaded.pull))
    opened, *entries = timeline.entries
    end = min(len(entries) if before is None else before, len(entries))
    start = max(0, end - ENTRIES)
    shown = [opened, *entries[start:end]]
    return ConversationPage(
        **frame(repository),
        head=head,
        tab="Conversation",
        entries=shown,
        earlier=start,
        later=len(entries) - end,
        earlier_url=f"{head.url}?before={start}",
        later_url=f"{head.url}?before={end + ENTRIES}" if end + ENTRIES < len(entries) else head.url,
        news_url=_find_news_url(loaded.pull, after=len(timeline.entries), seen=timeline.seen),
        merge=describe_merge(loaded, head),
        reviewers=_list_reviewers(loaded),
        groups=_group_datasets(loaded),
        checks=queries.list_checks(loaded.pull),
        rules=_list_rules(loaded),
        references=_link(principal, loaded.pull, shown),
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
    if seen == sum_up(pull):
        return None
    timeline = read_timeline(load_all_of(principal, pull), RemarkReader.of(principal, pull))
    end = min(after + ENTRIES, len(timeline.entries))
    shown = timeline.entries[:1] + timeline.entries[1:after][-ENTRIES:]
    newest = read_count(seen.rpartition("-")[2]) if seen else None
    replies = _list_replies(shown, after=newest) if newest is not None else []
    seen = timeline.seen if end == len(timeline.entries) else ""  # there are more, whatever comes meanwhile
    entries = timeline.entries[after:end]
    references = _link(principal, pull, entries, texts_of(replies))
    return News(entries, replies, _find_news_url(pull, after=end, seen=seen), references)


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
        url=loaded.find_data_url(row.path),
        added=summary.get("inserted"),
        removed=summary.get("deleted"),
        changed=summary.get("updated"),
        mark=_mark_dataset(loaded, row),
        note="" if ready else comparison.state.label.lower() if comparison else "not compared",
    )


def _mark_dataset(loaded: Loaded, row: PullDataset) -> Mark | None:
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
    rules += [f"approval for {path}" for path in sorted(protection.paths)]
    rules += [f"a green check {name}" for name in protection.checks]
    if protection.resolved_threads:
        rules.append("every thread on code or data resolved")
    if protection.allow_bypass and rules:
        rules.append("maintainers may merge past them")
    return rules
