"""What happened lately: beside what waits for the reader, and on a page of its own back to the beginning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.urls import reverse

from webapp.accounts import permissions as accounts
from webapp.core import names
from webapp.core.errors import BadRequest
from webapp.core.moments import read_moment
from webapp.datasets.models import Transaction
from webapp.pulls.models import Comment, PullRequest, TimelineEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from django.db.models import QuerySet

    from webapp.core.principals import Principal

PAGE_SIZE = 50
NEWEST = 500
"""So many newest acts of everybody are looked through for those that the reader may see."""


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
class ActivityPage:
    """Context of the page of everything that happened."""

    nav: str
    feed: list[FeedLine]
    before: str
    older: str
    """The time before which the next page begins; empty where nothing older can be seen."""


def read_activity(principal: Principal, *, before: str) -> ActivityPage:
    """Return a page of what happened before a time in ISO 8601, newest first; up to now without one.

    Raises:
        BadRequest: this is no time.

    """
    sources = _list_sources(principal, _read_moment(before))
    # Beyond what was looked through of one kind of act, the next page shows the others as well.
    floor = max((end for source in sources if (end := source.find_end()) is not None), default=None)
    feed = [line for line in _merge(sources, most=PAGE_SIZE + 1) if floor is None or line.at >= floor]
    shown = feed[:PAGE_SIZE]
    if len(feed) > PAGE_SIZE:
        # What happened at one moment stays together.
        shown = [line for line in shown if line.at > feed[PAGE_SIZE].at] or shown
    older = shown[-1].at if len(feed) > PAGE_SIZE else floor
    return ActivityPage(nav="home", feed=shown, before=before, older=older.isoformat() if older else "")


def list_newest(principal: Principal, *, most: int) -> list[FeedLine]:
    """Return what happened last of what the reader may see, newest first."""
    return _merge(_list_sources(principal, None), most=most)


@dataclass(frozen=True)
class _Source:
    """Acts of one kind, newest first."""

    rows: QuerySet[Any]
    """Of everybody."""
    time: str
    seen: Q
    describe: Callable[[Any], FeedLine]

    def list_lines(self, most: int) -> Iterator[FeedLine]:
        """Return what the reader may see of the newest rows: where all is others', no table is walked to its end for it."""
        return map(self.describe, self.rows.filter(self.seen, pk__in=self.rows.values("pk")[:NEWEST])[:most])

    def find_end(self) -> datetime | None:
        """Return the time of the last row that is looked through; None where these are all."""
        return self.rows.values_list(self.time, flat=True)[NEWEST - 1 : NEWEST].first()


def _list_sources(principal: Principal, before: datetime | None) -> list[_Source]:
    visible, folders = accounts.visible_repositories(principal), accounts.visible_folders(principal)
    mine = Q() if visible is None else Q(pull__repository__name__in=visible)
    in_folders = Q() if folders is None else Q(dataset__folder__in=[folder.lower() for folder in folders])
    events = TimelineEvent.objects.filter(kind__in=("opened", "merged", "rebuilt", "closed"))
    transactions = Transaction.objects.filter(state="COMMITTED", branch_name=names.MASTER)
    comments = Comment.objects.filter(deleted_at=None).select_related("pull__repository", "author")
    sources = [
        _Source(events.select_related("pull__repository"), "at", mine, _describe_event),
        _Source(comments, "created_at", mine, _describe_comment),
        _Source(transactions.select_related("dataset"), "closed_at", in_folders, _describe_transaction),
    ]
    return [replace(source, rows=_order(source.rows, source.time, before)) for source in sources]


def _order(rows: QuerySet[Any], time: str, before: datetime | None) -> QuerySet[Any]:
    return (rows if before is None else rows.filter(**{f"{time}__lt": before})).order_by(f"-{time}")


def _merge(sources: Iterable[_Source], *, most: int) -> list[FeedLine]:
    lines = [line for source in sources for line in source.list_lines(most)]
    return sorted(lines, key=lambda line: line.at, reverse=True)[:most]


def _read_moment(text: str) -> datetime | None:
    if not text:
        return None
    moment = read_moment(text)
    if moment is None:
        raise BadRequest(f"{text!r} is no time in ISO 8601 with a time zone.", code="bad_time")
    return moment


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


def _describe_transaction(transaction: Transaction) -> FeedLine:
    rows = transaction.summary.get("rows")
    return FeedLine(
        icon="table",
        tone="okc",
        actor="",
        text="",
        link=transaction.dataset.path,
        url=f"/d{transaction.dataset.path}",
        tail=f"got transaction {transaction.pk[:6]} on master"
        + (f", {rows:,} rows now" if isinstance(rows, int) else ""),
        at=transaction.closed_at or transaction.started_at,
    )
