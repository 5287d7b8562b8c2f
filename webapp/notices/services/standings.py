"""Pull requests that became stale or mergeable, which is found out by looking: soon after anything moved, by a worker."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from webapp.core import clock
from webapp.dispatch.leases import RING_AGAIN
from webapp.notices.models import PullStanding
from webapp.notices.rules import facts
from webapp.notices.rules.facts import Reason
from webapp.notices.services.telling import tell
from webapp.pulls.models import PullRequest
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import approvals
from webapp.pulls.rules.states import PullState
from webapp.runtime import doorbell

LOOK_TASK = "webapp.notices.tasks.look_at"


def ask_for_look(pull: PullRequest) -> None:
    """Have an open pull request looked at once the current changes are committed."""
    if pull.state != PullState.OPEN:
        return
    standing = PullStanding(pull=pull, asked_at=clock.now())
    PullStanding.objects.bulk_create(
        [standing], update_conflicts=True, unique_fields=["pull"], update_fields=["asked_at"]
    )
    transaction.on_commit(lambda: _ring(pull.pk))


def look_at(*, pull_id: int) -> None:
    """Look where a pull request stands, if something moved since the last look, and tell its author what became so."""
    before = PullStanding.objects.filter(pull=pull_id).exclude(asked_at=None).first()
    if before is None:
        return
    pull = PullRequest.objects.select_related("repository", "author").filter(pk=pull_id).first()
    if pull is None:
        before.delete()
        return
    facts_now = queries.collect_facts(pull)
    is_open = pull.state == PullState.OPEN
    # While its own merge lands, the target moves first.
    merge = queries.find_merge(pull)
    is_stale = is_open and not (merge and queries.is_landed(merge)) and queries.is_stale(pull, facts_now)
    is_mergeable = is_open and not approvals.list_blockers(facts_now)
    with transaction.atomic():
        # Whoever asked meanwhile is answered by the next look.
        seen = PullStanding.objects.filter(pk=before.pk, asked_at=before.asked_at)
        if not seen.update(asked_at=None, is_stale=is_stale, is_mergeable=is_mergeable):
            return
        about: dict[str, Any] = {"pull": pull, "repository": pull.repository}
        if is_stale and not before.is_stale and not queries.is_moved_by_own_merge(pull, facts_now):
            tell(fact=facts.STALE, to={Reason.OUTDATED: [pull.author_id]}, **about)
        if is_mergeable and not before.is_mergeable:
            tell(fact=facts.MERGEABLE, to={Reason.READY: [pull.author_id]}, **about)


def sweep_standings() -> int:
    """Ring once more for pull requests that nobody has looked at."""
    due = PullStanding.objects.filter(asked_at__lt=clock.now() - RING_AGAIN).order_by("asked_at")
    pulls = due.values_list("pull", flat=True)[: doorbell.count_room("quick")]
    for pk in pulls:
        _ring(pk)
    return len(pulls)


def _ring(pull_id: int) -> None:
    doorbell.ring(LOOK_TASK, queue="quick", id=pull_id)
