"""Verdicts of reviewers on single datasets of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts.permissions import check_repository
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.pulls import signals
from webapp.pulls.models import DatasetVerdict, PullRequest, Viewed
from webapp.pulls.queries.expected import check_rows
from webapp.pulls.queries.loads import list_uploaders
from webapp.pulls.queries.remarks import content_of_dataset
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.remarks import check_body, record_event, record_pull_act

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset


def judge_dataset(
    *, row: PullDataset, verdict: str, by: Principal, reason: str = "", expected_transaction: str | None = None
) -> None:
    """Accept or reject one dataset as it is now, or take that back; who accepts or rejects it has viewed it.

    `viewed` takes a verdict back, `none` the tick as viewed, too.

    Raises:
        PermissionDenied: accepting a dataset of one's own pull request, or one into which one loaded a file oneself.
        Conflict: the pull request is not open, or the dataset has other rows than those that were expected.
        InvalidInput: an unknown verdict, a rejection without a reason, or one of a dataset that has no rows.

    """
    pull = row.pull
    check_repository(by, pull.repository.name, "read")
    _check_verdict(row, verdict, reason, by)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; it takes no more verdicts.", code="not_open")
    now = row.after_id or ""
    check_rows(row.path, branch=pull.source, now=now, expected=expected_transaction or None)
    own: dict[str, Any] = {"pull": pull, "reviewer_id": by.user_id, "path": row.path}
    with transaction.atomic():
        if verdict in (states.ACCEPTED, states.REJECTED):
            fields = {"verdict": verdict, "reason": reason.strip(), "transaction": now, "given_at": clock.now()}
            DatasetVerdict.objects.update_or_create(**own, defaults=fields)
            is_news = True
        else:
            is_news = bool(DatasetVerdict.objects.filter(**own).delete()[0])
        _mark(row, by, is_viewed=verdict != states.UNSEEN)
        if is_news:
            data = {"path": row.path, "verdict": verdict, "reason": reason.strip()}
            record_event(pull=pull, kind="judged", actor=by.username, data=data)
        record_pull_act(pull, "judge_dataset", by=by, path=row.path, verdict=verdict, transaction=now)
        PullRequest.objects.filter(pk=pull.pk).update(updated_at=clock.now())
        signals.standing_moved.send(sender=PullRequest, pull=pull)


def _check_verdict(row: PullDataset, verdict: str, reason: str, by: Principal) -> None:
    verdicts = (states.ACCEPTED, states.REJECTED, states.VIEWED, states.UNSEEN)
    if verdict not in verdicts:
        raise InvalidInput(f"{verdict!r} is no verdict.", errors={"verdict": [f"One of {', '.join(verdicts)}."]})
    if verdict == states.REJECTED and not reason.strip():
        raise InvalidInput("A rejection needs a reason.", errors={"reason": ["Say what is wrong with the data."]})
    check_body(reason)
    if verdict in (states.ACCEPTED, states.REJECTED) and row.after_id is None:
        message = f"{row.path} has no rows on {row.pull.source} yet: build the branch."
        raise InvalidInput(message, errors={"verdict": [message]})
    if verdict == states.ACCEPTED and by.user_id == row.pull.author_id:
        raise PermissionDenied("Nobody accepts the data of their own pull request.", code="own_pull")
    if verdict == states.ACCEPTED and by.username in list_uploaders(row):
        raise PermissionDenied(f"Nobody accepts data that they loaded themselves: {row.path}.", code="own_upload")


def _mark(row: PullDataset, by: Principal, *, is_viewed: bool) -> None:
    own: dict[str, Any] = {"pull": row.pull, "user_id": by.user_id, "place": row.path}
    if is_viewed:
        Viewed.objects.update_or_create(**own, defaults={"content": content_of_dataset(row)})
    else:
        Viewed.objects.filter(**own).delete()
