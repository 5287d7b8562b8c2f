"""What services, pages and API need to know of the merge queue of a branch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts import queries as accounts
from webapp.accounts.permissions import check_repository
from webapp.core.errors import find_refusal
from webapp.core.filters import ListFilter, offer
from webapp.pulls.models import Merge, PullDataset, PullRequest, QueuedMerge, SpecRecord
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.loads import find_load_refusal
from webapp.pulls.rules import approvals
from webapp.pulls.rules.queue import Entry, Fate, explain_departure, explain_lost_rights
from webapp.pulls.rules.states import MERGE_HAS_LANDED, QUEUE_IN_LINE, MergeState, PullState, QueueState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from django.db.models import QuerySet

    from webapp.repositories.models import Repository


NEEDED = ("pull__repository", "pull__author", "repository", "enqueued_by", "build")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter(ListFilter):
    """Which of the merges of a repository that are asked for are wanted."""

    target: str = offer("target", words="into this branch only")


def list_queue(repository: Repository, filters: QueueFilter = QueueFilter()) -> QuerySet[QueuedMerge]:
    """List the merges that are asked for in a repository, in the order in which those into one branch land."""
    rows = QueuedMerge.objects.filter(repository=repository, **filters.lookups).going_on()
    return rows.select_related(*NEEDED)


def list_left(repository: Repository) -> QuerySet[QueuedMerge]:
    """List the merges that landed or left, newest first."""
    rows = QueuedMerge.objects.filter(repository=repository, state__in=QueueState.ends()).order_by(
        "-finished_at", "-pk"
    )
    return rows.select_related(*NEEDED)


def list_before(queued: QueuedMerge) -> list[QueuedMerge]:
    """List the merges that land before one, the nearest first."""
    rows = list_queue(queued.repository, QueueFilter(target=queued.target))
    return list(rows.filter(place__gt=0, place__lt=queued.place))[::-1]


def is_waiting_for_files(queued: QueuedMerge) -> bool:
    """Return whether files that land before a merge are still to be loaded, by a test before it or on the target."""
    untested = [row.pull_id for row in list_before(queued) if row.state not in (QueueState.GREEN, QueueState.LANDING)]
    if PullDataset.objects.loading().filter(pull__in=untested).exists():
        return True
    merges = Merge.objects.filter(repository=queued.repository, target=queued.target).exclude(loads=[])
    return merges.exclude(state__in=[MergeState.DONE, MergeState.ABANDONED]).exists()


def find_queued(pull: PullRequest) -> QueuedMerge | None:
    """Find the merge of a pull request that is asked for."""
    rows = QueuedMerge.objects.filter(pull=pull).going_on()
    return rows.select_related("repository", "enqueued_by", "build").first()


def find_ejected(pull: PullRequest) -> QueuedMerge | None:
    """Find the merge of an open pull request that was asked for last, where it was ejected with the head that is now."""
    newest = QueuedMerge.objects.filter(pull=pull).select_related("repository", "enqueued_by", "build").first()
    is_ejected = newest is not None and newest.state == QueueState.EJECTED and newest.source_sha == pull.head_sha
    return newest if is_ejected and pull.state == PullState.OPEN else None


def find_places(rows: Iterable[QueuedMerge]) -> dict[int, int]:
    """Return the places in their queues, from 1, of those of some merges that have one."""
    repositories = {row.repository_id for row in rows}
    going_on = QueuedMerge.objects.filter(repository__in=repositories).going_on().filter(state__in=QUEUE_IN_LINE)
    places: dict[int, int] = {}
    taken: Counter[tuple[int, str]] = Counter()
    for pk, repository, target in going_on.values_list("pk", "repository", "target"):
        taken[repository, target] += 1
        places[pk] = taken[repository, target]
    return places


def list_objections(pull: PullRequest) -> list[approvals.Blocker]:
    """List what blocks a merge whatever the queue finds out."""
    return [blocker for blocker in queries.list_blockers(pull) if blocker.code != approvals.TESTED_IN_QUEUE]


def read_entries(repository: Repository, target: str) -> tuple[list[QueuedMerge], list[Entry]]:
    """Return the rows of a queue, and each as the rules see it."""
    rows = list(list_queue(repository, QueueFilter(target=target)))
    merges = {merge.pull_id: merge for merge in Merge.objects.filter(pull__in=[row.pull_id for row in rows])}
    return rows, [_read_entry(row, merges.get(row.pull_id)) for row in rows]


def _read_entry(row: QueuedMerge, merge: Merge | None) -> Entry:
    pull = row.pull
    departure = explain_departure(
        state=pull.state, target=(row.target, pull.target), head=(row.source_sha, pull.head_sha)
    )
    objections = [] if departure or row.state == QueueState.LANDING else list_objections(pull)
    refusal = find_refusal_of_rights(row)
    return Entry(
        id=row.pk,
        state=row.state,
        base=row.base_sha,
        tested=row.tested_sha,
        departure=departure,
        objection=refusal or " ".join(blocker.message for blocker in objections),
        may_come=not refusal and all(blocker.code in approvals.MAY_COME for blocker in objections),
        failure=row.reason,
        fate=_find_fate(row, merge),
    )


def find_refusal_of_rights(row: QueuedMerge) -> str:
    """Return why who asked for a merge may not merge any more; empty where they may."""
    user = row.enqueued_by
    if not user.is_active:
        return explain_lost_rights(user.username, "")
    by = accounts.principal_for_user(user)
    refusal = find_refusal(check_repository, by, row.repository.name, "write")
    if not refusal:
        paths = row.pull.datasets.loading().values_list("path", flat=True)
        refusal = find_load_refusal(by, row.pull, list(paths))
    return explain_lost_rights(user.username, refusal) if refusal else ""


def _find_fate(row: QueuedMerge, merge: Merge | None) -> Fate:
    if merge is None or merge.state == MergeState.ABANDONED or merge.merge_commit != row.tested_sha:
        return Fate.LOST
    return Fate.LANDED if merge.state in MERGE_HAS_LANDED else Fate.OPEN


def read_specs_of(repository: Repository, sha: str) -> Mapping[str, Any] | None:
    """Return the JobSpecs of one commit by output path; None where they were never published."""
    record = SpecRecord.objects.filter(repository=repository, sha=sha).first()
    return record.specs if record else None


def list_waiting_queues() -> Collection[tuple[int, str]]:
    """List the repositories and branches into which merges are asked for."""
    rows = QueuedMerge.objects.going_on().order_by("repository", "target")
    return rows.values_list("repository", "target").distinct()
