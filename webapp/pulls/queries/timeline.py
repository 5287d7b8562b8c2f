"""What happened to a pull request: events, reviews and comments in one order."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from webapp.core.lazy_lists import LazyList

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
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


class _EntryPlace(NamedTuple):
    name: str
    """Which of the three it is: event, review or comment."""
    key: int
    at: datetime


class TimelineList(LazyList[_EntryPlace, TimelineEntry]):
    """What happened, oldest first; of single datasets only of those with certain paths."""

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
            *(_EntryPlace("event", key, at) for at, key in seen),
            *(_EntryPlace("review", key, at) for at, key in reviews.values_list("created_at", "pk")),
            *(_EntryPlace("comment", key, at) for at, key in comments.values_list("created_at", "pk")),
        ]
        super().__init__(sorted(places, key=attrgetter("at", "name", "key")))

    def list_keys(self) -> list[tuple[datetime, str, int]]:
        """Return what orders them."""
        return [(place.at, place.name, place.key) for place in self._places]

    def _load(self, places: Sequence[_EntryPlace]) -> list[TimelineEntry]:
        subjects = {
            name: rows.in_bulk([place.key for place in places if place.name == name])
            for name, rows in self._rows.items()
        }
        return [
            _describe(place, subjects[place.name][place.key]) for place in places if place.key in subjects[place.name]
        ]


def _describe(place: _EntryPlace, subject: Any) -> TimelineEntry:
    if place.name == "event":
        return TimelineEntry(subject.kind, subject.actor, place.at, subject)
    author = subject.reviewer if place.name == "review" else subject.author
    return TimelineEntry(place.name, author.username, place.at, subject)


class EarlierText(NamedTuple):
    """What a text said before somebody edited it."""

    body: str
    written_at: datetime
    edited_by: str


def list_descriptions(pull: PullRequest) -> list[EarlierText]:
    """List the earlier descriptions of a pull request, the oldest first."""
    events = list(pull.events.filter(kind="described"))
    written = [pull.created_at, *(event.at for event in events)]
    return [EarlierText(event.data["before"], at, event.actor) for event, at in zip(events, written, strict=False)]


def is_event_visible(kind: str, data: Mapping[str, Any], visible: Collection[str]) -> bool:
    """Return whether somebody who sees the datasets with these paths sees an event."""
    return kind not in OF_DATASETS or data["path"] in visible
