"""Processes in the sandbox that read stored comparisons (jobs/entrypoints/artifact.py), kept for the next question.

Each reads one comparison in its life, so that files which have taken their reader over spoil no other comparison.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from threading import Condition
from typing import TYPE_CHECKING, Any

from webapp.core.errors import Unavailable
from webapp.runtime.readers import Reader

if TYPE_CHECKING:
    from collections.abc import Generator

    from jobs.channel import Heard

SECONDS = 20.0
"""For each question."""
MOST_ANSWER_BYTES = 32 * 1024 * 1024
MOST, MOST_DOWNLOADS = 6, 4
"""Processes of this one at a time."""
MOST_EACH = 2
"""Of those for one comparison, so that a slow one does not hinder all; downloads apart."""
WAIT_S = 5.0
KEPT_S = 60.0
"""So long a process waits for the next question."""
SLOW_S = 10.0
"""A download that waits for its client so long gives its place to one that waits for a place."""
OLDEST_S = 600.0
"""A process is not asked again when it is older."""
_GIB = 1024**3
LIMITS = {"memory_bytes": 4 * _GIB, "total_memory_bytes": 2 * _GIB, "fsize": _GIB}
CPU_S, CPU_DOWNLOAD_S = 900, 7200

Shown = tuple[str, ...]
"""The folders that a process sees."""


@dataclass(eq=False)
class _Place:
    """One process, or one that is about to be started."""

    shown: Shown
    folders: tuple[tuple[int, int], ...]
    """Which folders they are: those that have the same names later may be others."""
    is_download: bool
    taken: float
    reader: Reader | None = None
    rests_since: float | None = None
    """None while it works."""

    def is_for(self, other: _Place) -> bool:
        """Return whether it reads the same."""
        return (self.shown, self.folders) == (other.shown, other.folders)

    def has_rested(self, seconds: float, now: float) -> bool:
        """Return whether it has had nothing to do for so long."""
        return self.rests_since is not None and now - self.rests_since >= seconds

    def is_spent(self, now: float) -> bool:
        """Return whether nobody is going to ask it anything more: it is old, has rested long, or has ended."""
        if self.is_download or self.rests_since is None or self.reader is None:
            return False
        return now - self.taken > OLDEST_S or self.has_rested(KEPT_S, now) or not self.reader.is_ready


class Pool:
    """The processes of this one."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._places: list[_Place] = []

    def ask(self, shown: Shown, **question: Any) -> dict[str, Any]:
        """Return what a process that sees these folders answers; whatever goes wrong ends it.

        Raises:
            ReadFailed: the files cannot be read.
            Unavailable: all are at work, or none can be started.
            OSError: there is no such folder.

        """
        place = self._take(shown, is_download=False)
        try:
            heard = self._ask(place, question)
        except BaseException:
            self._end(place)
            raise
        self._rest(place)
        return heard.body

    def walk(self, shown: Shown, *, is_download: bool, **question: Any) -> Generator[bytes]:
        """Walk an answer that comes in parts. Between two of them a download may lose its process to others.

        Raises:
            ReadFailed: the files cannot be read.
            Unavailable: all are at work, or none can be started, or the process is lost.
            OSError: there is no such folder.

        """
        place = self._take(shown, is_download=is_download)
        try:
            heard = self._ask(place, question)
            while not heard.body["is_last"]:
                if is_download:
                    self._rest(place)
                yield heard.payload
                self._go_on(place)
                heard = self._ask(place, {"ask": "more"})
        except BaseException:
            self._end(place)
            raise
        if is_download:
            self._end(place)
        else:
            self._rest(place)

    def _take(self, shown: Shown, *, is_download: bool) -> _Place:
        """Take a place for these folders, with a process where one rests."""
        folders = tuple((status.st_dev, status.st_ino) for status in map(os.stat, shown))
        candidate = _Place(shown, folders, is_download, time.monotonic())
        with self._changed:
            while (place := self._find(candidate)) is None:
                if not self._changed.wait(candidate.taken + WAIT_S - time.monotonic()):
                    message = "Many rows are being read at this moment: try again in a few seconds."
                    raise Unavailable(message, code="readers_busy")
            place.rests_since = None
        return place

    def _find(self, candidate: _Place) -> _Place | None:
        """Find a place, if there is one: for this question, or by the end of what others no longer need."""
        now = time.monotonic()
        for place in [place for place in self._places if place.is_spent(now)]:
            self._remove(place)
        crowd = [place for place in self._places if place.is_download == candidate.is_download]
        if candidate.is_download:
            if len(crowd) >= MOST_DOWNLOADS and not self._end_one(crowd, rested=SLOW_S):
                return None
        else:
            own = [place for place in crowd if place.is_for(candidate)]
            for place in own:
                if place.rests_since is not None:
                    return place
            if len(own) >= MOST_EACH or (len(crowd) >= MOST and not self._end_one(crowd, rested=0)):
                return None
        self._places.append(candidate)
        return candidate

    def _end_one(self, places: list[_Place], *, rested: float) -> bool:
        """End the process that has rested longest, if it has for so long."""
        now = time.monotonic()
        resting = [place for place in places if place.has_rested(rested, now)]
        if resting:
            self._remove(min(resting, key=lambda place: place.rests_since or now))
        return bool(resting)

    def _remove(self, place: _Place) -> None:
        if place in self._places:
            self._places.remove(place)
        if place.reader is not None:
            place.reader.end()

    @staticmethod
    def _ask(place: _Place, question: dict[str, Any]) -> Heard:
        if place.reader is None:
            limits = {**LIMITS, "cpu_s": CPU_DOWNLOAD_S if place.is_download else CPU_S}
            place.reader = Reader(
                "artifact", limits=limits, seconds=SECONDS, most_answer_bytes=MOST_ANSWER_BYTES, readonly=place.shown
            )
        place.reader.allow(SECONDS)
        return place.reader.ask(question)

    def _rest(self, place: _Place) -> None:
        with self._changed:
            place.rests_since = time.monotonic()
            self._changed.notify_all()

    def _go_on(self, place: _Place) -> None:
        with self._changed:
            if place not in self._places:
                message = "The download was cut off: its client read too slowly while others waited."
                raise Unavailable(message, code="too_slow")
            place.rests_since = None

    def _end(self, place: _Place) -> None:
        with self._changed:
            self._remove(place)
            self._changed.notify_all()


pool = Pool()
