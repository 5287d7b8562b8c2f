"""What builds wait for: an earlier build in a queue, a build or user that writes an output now, code that is not published yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

SHORT_SHA = 7
FREE = "Nothing is in its way any more: it is planned next."
_STOOD = ("Waits for build ", "Waits for transaction ")
"""How the sentences begin that are true only while another build or transaction is in the way."""


@dataclass(frozen=True, slots=True)
class EarlierBuild:
    """The build that is first in the queue for a dataset."""

    build: int
    path: str

    @property
    def sentence(self) -> str:
        """What those behind it wait for."""
        return f"Waits for build {self.build}, which is before it in the queue for {self.path}."


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """A build or user that writes a dataset on a branch now."""

    transaction: str
    path: str
    branch: str
    build: int | None
    """None: a person or a client of theirs."""
    by: str
    started_at: datetime
    written_at: datetime | None
    abortable_at: datetime | None

    @property
    def sentence(self) -> str:
        """What a build that is to write there waits for."""
        holder = f"build {self.build}" if self.build else f"transaction {self.transaction} of {self.by}"
        message = f"Waits for {holder}, which is writing {self.path} on {self.branch}."
        return message if self.build else f"{message} {self._explain_person()}"

    def _explain_person(self) -> str:
        """Explain how idle a user's open transaction is, who can end it, and from when on others can."""
        written = f"last written {_write_time(self.written_at)}" if self.written_at else "not written yet"
        text = f"It is open since {_write_time(self.started_at)} UTC, {written}: {self.by} or a maintainer commits or aborts it"
        if self.abortable_at is None:
            return f"{text}."
        since = _write_time(self.abortable_at)
        return f"{text}; if nothing more is written, every writer can abort it from {since} UTC on."


def _write_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def has_stood(reason: str) -> bool:
    """Return whether the recorded reason names a build or transaction that may have finished since."""
    return reason.startswith(_STOOD)


class PlaceInQueue(NamedTuple):
    """Where a build stands in the queue for a dataset."""

    number: int
    """Counted from 1."""
    length: int
    path: str

    @property
    def words(self) -> str:
        """Such as "3rd of 12 in the queue for /shop/one"."""
        return f"{_write_ordinal(self.number)} of {self.length} in the queue for {self.path}"


def _write_ordinal(number: int) -> str:
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"


@dataclass(frozen=True, slots=True)
class BranchHead:
    """A branch and its newest commit."""

    branch: str
    sha: str

    def __str__(self) -> str:
        return f"{self.branch} at {self.sha[:SHORT_SHA]}"


@dataclass(frozen=True, slots=True)
class FailedHead(BranchHead):
    """A head whose JobSpecs could not be published."""

    place: str
    """File and line of the first error."""
    error: str
    """Its message."""

    @property
    def note(self) -> str:
        """What that means for a build."""
        why = f" ({self.place} {self.error})" if self.place else ""
        return f"Commit {self.sha[:SHORT_SHA]} on {self.branch} could not be published{why}. The last good JobSpecs are used."
