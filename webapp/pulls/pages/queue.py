"""The merge queue: its page, and where one pull request stands in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from django.urls import reverse

from webapp.accounts.permissions import can_repository
from webapp.core.numbered import KeptPage
from webapp.pulls.pages.head import frame
from webapp.pulls.queries import queue
from webapp.pulls.rules.states import QueueState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest, QueuedMerge

SIZE = 25


@dataclass(frozen=True)
class QueueLine:
    """A merge that is asked for, or was."""

    queued: QueuedMerge
    place: int | None
    url: str
    leave_url: str
    """What takes it out; empty where the reader may not, or where it is too late."""


@dataclass(frozen=True)
class TargetQueue:
    """What is to land on one branch, in its order."""

    target: str
    lines: list[QueueLine]


@dataclass(frozen=True)
class QueuePage:
    """Context of the merge queue of a repository."""

    nav: str
    repo_bar: dict[str, str]
    repository: str
    queues: list[TargetQueue]
    left: list[QueueLine]
    """A page of those that landed or left, newest first."""
    part: KeptPage


def read_queue(principal: Principal, repository: str, parameters: Mapping[str, Any]) -> QueuePage:
    """Return what the page of a repository's merge queue shows."""
    row = repositories.get_repository(principal, repository)
    may_write = can_repository(principal, repository, "write")
    going_on = _list_lines(queue.list_queue(row), may_write=may_write)
    part = KeptPage.turn(queue.list_left(row), parameters, size=SIZE, scope=f"queue {repository}")
    targets = dict.fromkeys(line.queued.target for line in going_on)
    context: dict[str, Any] = frame(repository)
    return QueuePage(
        **context,
        repository=repository,
        queues=[TargetQueue(target, [line for line in going_on if line.queued.target == target]) for target in targets],
        left=_list_lines(part.rows, may_write=False),
        part=part,
    )


def _list_lines(rows: Iterable[QueuedMerge], *, may_write: bool) -> list[QueueLine]:
    rows = list(rows)
    places = queue.find_places(rows)
    lines = []
    for queued in rows:
        arguments = [queued.repository.name, queued.pull.number]
        may_leave = may_write and QueueState.WITHDRAWN in QueueState.transitions()[queued.state]
        leave_url = reverse("pull-leave-queue", args=arguments) if may_leave else ""
        lines.append(QueueLine(queued, places.get(queued.pk), reverse("pull", args=arguments), leave_url))
    return lines


@dataclass(frozen=True)
class QueueNote:
    """Where the merge of one pull request stands in the queue, for its merge box."""

    line: QueueLine
    title: str
    text: str

    @property
    def is_over(self) -> bool:
        """Whether it left."""
        return self.line.queued.state in QueueState.ends()


def read_note(pull: PullRequest, *, may_write: bool) -> QueueNote | None:
    """Return where the merge of a pull request stands, or why it was ejected with the head that is now."""
    queued = queue.find_queued(pull) or queue.find_ejected(pull)
    if queued is None:
        return None
    [line] = _list_lines([queued], may_write=may_write)
    return QueueNote(line, *_word(queued, line.place))


def _word(queued: QueuedMerge, place: int | None) -> tuple[str, str]:
    """Return a title and a sentence. Each state has words of its own: none is taken for another."""
    who, target = queued.enqueued_by.username, queued.target
    match queued.state:
        case QueueState.WAITING:
            return "Merges when it is ready", f"{who} asked for it. It joins the merge queue once nothing blocks it."
        case QueueState.QUEUED:
            return f"Number {place} in the merge queue", f"{who} asked for it. It is tested after those before it."
        case QueueState.TESTING:
            on = target if place == 1 else f"{target} and those before it"
            return f"Number {place} in the merge queue", f"What it makes on top of {on} is being built."
        case QueueState.GREEN:
            text = (
                "What would land is built." if place == 1 else "What would land is built; those before it land first."
            )
            return f"Number {place} in the merge queue", text
        case QueueState.RED:
            return f"Number {place} in the merge queue, its test failed", queued.reason
        case QueueState.LANDING:
            return "Merging", f"What was tested is being merged into {target}."
        case QueueState.EJECTED:
            return "Ejected from the merge queue", queued.reason
        case QueueState.LANDED | QueueState.WITHDRAWN:
            message = f"{queued.state} is told of elsewhere"
            raise LookupError(message)
        case _:
            assert_never(queued.state)
