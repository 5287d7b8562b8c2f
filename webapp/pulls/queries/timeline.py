"""What happened to a pull request: events, reviews and comments in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from webapp.pulls.models import PullRequest, TimelineEvent


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened."""

    kind: str
    actor: str
    """Empty where it was nobody's act."""
    at: datetime
    subject: Any
    """The event, review or comment itself."""


def list_entries(pull: PullRequest, *, visible: Collection[str]) -> list[TimelineEntry]:
    """Return what happened, oldest first; of single datasets only of those with these paths."""
    reviews, comments = pull.reviews.select_related("reviewer"), pull.comments.select_related("author")
    entries = [
        *(
            TimelineEntry(event.kind, event.actor, event.at, event)
            for event in pull.events.all()
            if is_event_visible(event, visible)
        ),
        *(TimelineEntry("review", review.reviewer.username, review.created_at, review) for review in reviews),
        *(TimelineEntry("comment", comment.author.username, comment.created_at, comment) for comment in comments),
    ]
    return sorted(entries, key=lambda entry: entry.at)


def is_event_visible(event: TimelineEvent, visible: Collection[str]) -> bool:
    """Return whether somebody who sees the datasets with these paths sees an event."""
    return event.kind not in ("judged", "loaded", "load_chosen") or event.data["path"] in visible
