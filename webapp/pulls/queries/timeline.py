"""What happened to a pull request: events, reviews and comments in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.pulls.models import PullRequest


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened."""

    kind: str
    actor: str
    """Empty where it was nobody's act."""
    at: datetime
    subject: Any
    """The event, review or comment itself."""


def list_entries(pull: PullRequest) -> list[TimelineEntry]:
    """Return what happened, oldest first."""
    reviews, comments = pull.reviews.select_related("reviewer"), pull.comments.select_related("author")
    entries = [
        *(TimelineEntry(event.kind, event.actor, event.at, event) for event in pull.events.all()),
        *(TimelineEntry("review", review.reviewer.username, review.created_at, review) for review in reviews),
        *(TimelineEntry("comment", comment.author.username, comment.created_at, comment) for comment in comments),
    ]
    return sorted(entries, key=lambda entry: entry.at)
