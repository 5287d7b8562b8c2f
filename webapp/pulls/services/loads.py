"""Files that were loaded on the source, chosen to be loaded on the target when merging."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.db import transaction

from webapp.accounts.permissions import check_repository
from webapp.core import clock
from webapp.core.errors import Conflict
from webapp.pulls.models import Merge, PullDataset, PullRequest, QueuedMerge
from webapp.pulls.queries.expected import check_rows
from webapp.pulls.queries.loads import get_loaded
from webapp.pulls.queries.pulls import find_merge
from webapp.pulls.queries.queue import find_queued
from webapp.pulls.rules.states import MergeState, PullState
from webapp.pulls.services.pulls import refresh_pull
from webapp.pulls.services.remarks import record_event, record_pull_act

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.core.principals import Principal
    from webapp.pulls.queries.loads import LoadedDataset


def choose_load(
    *,
    row: PullDataset,
    load: bool,
    by: Principal,
    expected_transaction: str | None = None,
    expected_target: str | None = None,
) -> LoadedDataset:
    """Choose whether merging loads on the target what was loaded on the source, on top of what the target has now.

    Approvals are bound to it.

    Raises:
        Conflict: the pull request is not open, its merge is asked for, nothing was loaded there or the files cannot be
            loaded again, or either side has other rows than those that were expected.

    """
    pull = row.pull
    check_repository(by, pull.repository.name, "write")
    _check_free(pull)
    loaded = get_loaded(pull, row)
    check_rows(row.path, branch=pull.source, now=loaded.row.after_id or "", expected=expected_transaction or None)
    check_rows(
        row.path,
        branch=pull.target,
        now=loaded.target_transaction,
        expected=expected_target,
        code="target_moved",
        member="target_transaction",
    )
    if load and loaded.problem:
        raise Conflict(f"{row.path} cannot be loaded when merging: it {loaded.problem}", code="load_impossible")
    onto = loaded.target_transaction if load else None
    with transaction.atomic():
        rows = row.after_id or "" if load else ""
        PullDataset.objects.filter(pk=row.pk).update(loads_onto=onto, loads_rows=rows)
        names = [file.name for file in loaded.uploads.repeat.files]
        record_event(
            pull=pull, kind="load_chosen", actor=by.username, data={"path": row.path, "load": load, "files": names}
        )
        record_pull_act(pull, "choose_load", by=by, path=row.path, load=load, files=names, onto=onto)
        PullRequest.objects.filter(pk=pull.pk).update(updated_at=clock.now())
    refresh_pull(pull=pull)
    return replace(loaded, row=PullDataset.objects.filter(pk=row.pk).select_related("pull").first() or row)


def _check_free(pull: PullRequest) -> None:
    """Refuse where what merging does is settled already."""
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; nothing is loaded for it any more.", code="not_open")
    if find_merge(pull) is not None:
        raise Conflict("It is being merged at this moment.", code="merge_running")
    if find_queued(pull) is not None:
        message = "Its merge is asked for when it is ready: take it out of the queue before you change what it loads."
        raise Conflict(message, code="queued_already")


def list_needed_uploads() -> Iterator[str]:
    """List the uploads whose files a merge may still repeat: it is under way, or its rebuild may be tried again."""
    merges = Merge.objects.exclude(state=MergeState.ABANDONED).exclude(state=MergeState.DONE, build__state="COMPLETED")
    for loads in (
        merges.values_list("loads", flat=True),
        QueuedMerge.objects.going_on().values_list("loads", flat=True),
    ):
        for load in loads:
            yield from (file["job"] for entry in load for file in entry["files"])
