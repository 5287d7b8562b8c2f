"""What was loaded on the source, as the merge box offers to load it on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.urls import reverse

from webapp.pulls.queries.loads import find_load_refusal, find_writer, list_loaded
from webapp.pulls.queries.queue import find_queued
from webapp.pulls.rules.loads import explain_writer
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from webapp.builds.queries import Upload
    from webapp.core.principals import Principal
    from webapp.pulls.pages.head import Loaded, PullHead
    from webapp.pulls.queries.loads import LoadedDataset


@dataclass(frozen=True)
class ShownLoad:
    """A dataset that was loaded on the source."""

    path: str
    url: str
    uploads: Sequence[Upload]
    source: str
    target: str
    is_chosen: bool
    is_undecided: bool
    """Whether either side has other rows than when that was chosen."""
    has_other_rows: bool
    """Whether it is the source."""
    conflict: str
    """What became of it on the target since the source began, in words that go on from its name; empty for nothing."""
    conflict_at: datetime | None
    problem: str
    """Why it cannot be loaded there, in words that go on from its name."""
    refusal: str
    """Why the reader may not merge what is chosen; empty where they may."""
    left: str
    """What becomes of it when it is not loaded."""
    post_url: str
    """What chooses; empty where the reader may not."""
    transaction: str
    target_transaction: str


def show_loads(principal: Principal, loaded: Loaded, head: PullHead) -> list[ShownLoad]:
    """Return what was loaded on the source of an open pull request."""
    if loaded.pull.state != PullState.OPEN or not (datasets := list_loaded(loaded.pull, loaded.rows)):
        return []
    may_choose = head.may_write and find_queued(loaded.pull) is None
    post_url = reverse("pull-load", args=[head.repository, head.number]) if may_choose else ""
    return [_show(principal, loaded, dataset, post_url) for dataset in datasets]


def _show(principal: Principal, loaded: Loaded, dataset: LoadedDataset, post_url: str) -> ShownLoad:
    row, pull, now = dataset.row, loaded.pull, dataset.now
    return ShownLoad(
        path=row.path,
        url=loaded.find_data_url(row.path),
        uploads=dataset.uploads.uploads,
        source=pull.source,
        target=pull.target,
        is_chosen=dataset.is_chosen,
        is_undecided=dataset.is_undecided,
        has_other_rows=dataset.has_other_rows,
        conflict=explain_writer(find_writer(dataset)) if dataset.has_moved else "",
        conflict_at=now.closed_at if now else None,
        problem=dataset.problem,
        refusal=find_load_refusal(principal, pull, [row.path]) if dataset.is_chosen else "",
        left=row.lands_reason,
        post_url=post_url,
        transaction=row.after_id or "",
        target_transaction=dataset.target_transaction,
    )
