"""What happened to a pull request: events, reviews and comments in one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from django.db.models import QuerySet

    from webapp.pulls.models import PullRequest

OF_DATASETS = ("judged", "loaded", "load_chosen")
"""Kinds of events of one dataset, of which only who sees that one is told."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened."""

    kind: str
    actor: str
    """Empty where it was nobody's act."""
    at: datetime
    subject: Any
    """The event, review or comment itself."""


class TimelineList(Sequence[TimelineEntry]):
    """What happened, oldest first; of single datasets only of those with certain paths. A page of it loads what it shows."""

    def __init__(self, pull: PullRequest, *, visible: Collection[str]) -> None:
        events, reviews, comments = pull.events.all(), pull.reviews.all(), pull.comments.all()
        self._rows: Mapping[str, QuerySet[Any]] = {
            "event": events,
            "review": reviews.select_related("reviewer"),
            "comment": comments.select_related("author"),
        }
        seen = (
            (at, key)
            for at, key, kind, data in events.values_list("at", "pk", "kind", "data")
            if is_event_visible(kind, data, visible)
        )
        places = [
            *(("event", key, at) for at, key in seen),
            *(("review", key, at) for at, key in reviews.values_list("created_at", "pk")),
            *(("comment", key, at) for at, key in comments.values_list("created_at", "pk")),
        ]
        self._places = sorted(places, key=itemgetter(2))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> TimelineEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[TimelineEntry]: ...
    def __getitem__(self, index: int | slice) -> TimelineEntry | list[TimelineEntry]:
        if isinstance(index, int):
            return self._load([self._places[index]])[0]
        return self._load(self._places[index])

    def _load(self, places: Iterable[tuple[str, int, datetime]]) -> list[TimelineEntry]:
        places = list(places)
        rows = {
            name: rows.in_bulk([key for kind, key, _at in places if kind == name]) for name, rows in self._rows.items()
        }
        return [self._describe(kind, rows[kind][key], at) for kind, key, at in places if key in rows[kind]]

    def _describe(self, kind: str, subject: Any, at: datetime) -> TimelineEntry:
        if kind == "event":
            return TimelineEntry(subject.kind, subject.actor, at, subject)
        author = subject.reviewer if kind == "review" else subject.author
        return TimelineEntry(kind, author.username, at, subject)


def is_event_visible(kind: str, data: Mapping[str, Any], visible: Collection[str]) -> bool:
    """Return whether somebody who sees the datasets with these paths sees an event."""
    return kind not in OF_DATASETS or data["path"] in visible
