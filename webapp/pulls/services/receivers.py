"""What pull requests do when something below them changes. Called inside the atomic block of that change."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from webapp.builds.models import RUN, UPLOAD, Build
from webapp.builds.queries import describe_published
from webapp.builds.rules.states import BuildState
from webapp.core.prepared import Prepared
from webapp.datasets.models import Transaction
from webapp.pulls.models import PullRequest, SpecRecord, TimelineEvent
from webapp.pulls.rules.sides import read_review_branch
from webapp.pulls.rules.states import PullState
from webapp.pulls.services import merging, pulls, queueing
from webapp.pulls.services.checks import list_pulls_of
from webapp.pulls.services.remarks import record_event
from webapp.pulls.signals import standing_moved
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules import webhooks
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services import announce_event
from webapp.sql.models import Query

_SHOWING = Prepared(
    lambda branch, dataset: (
        PullRequest.objects.filter(
            Q(source=branch) | Q(target=branch, datasets__dataset=dataset),
            state=PullState.OPEN,
        )
        .order_by("pk")
        .values_list("pk")
        .distinct()
    ),
    str,
    int,
)
"""The open pull requests from a branch, or into it with this dataset; asked at every commit to any table."""


def follow_commit(*, repository: Repository, branch: str, **_: Any) -> None:
    """Look again at the pull requests from and into a branch that moved, and at its queue."""
    pulls.announce_branch_moved(repository=repository, branch=branch)
    queueing.ring_for_target(repository=repository, branch=branch)


def follow_event(*, event: TimelineEvent, **_: Any) -> None:
    """Carry on the queue in which a pull request stands that something happened to."""
    if event.kind not in ("queued", "built", "rebuilt"):
        queueing.ring_for_pull(event.pull)


def follow_standing(*, pull: PullRequest, **_: Any) -> None:
    """Carry on the queue in which a pull request stands of which something moved that decides its merge."""
    queueing.ring_for_pull(pull)


def follow_deleted_branch(*, repository: Repository, branch: str, head: str, by: Any, **_: Any) -> None:
    """Note on pull requests that their source is gone: open ones stay open, and say so.

    On one that is over where the branch still was what it had been then; another one may have had the name since.
    """
    pulls.announce_branch_moved(repository=repository, branch=branch)
    sources = PullRequest.objects.filter(repository=repository, source=branch)
    for pull in sources.filter(Q(state=PullState.OPEN) | Q(head_sha=head)):
        record_event(pull=pull, kind="source_deleted", actor=by.username if by else "", data={"branch": branch})


def follow_publication(*, publication: Publication, **_: Any) -> None:
    """Keep the JobSpecs of a published commit, and look again at its pull requests."""
    if publication.status == PublicationState.PUBLISHED:
        SpecRecord.objects.update_or_create(
            repository=publication.repository,
            sha=publication.sha,
            defaults={"specs": describe_published(repository=publication.repository, branch=publication.branch)},
        )
    pulls.announce_branch_moved(repository=publication.repository, branch=publication.branch)


def follow_transaction(*, transaction: Transaction, **_: Any) -> None:
    """Look again at the pull requests that show a dataset whose branch moved."""
    review = read_review_branch(transaction.branch_name)
    if review is not None:
        for pull in PullRequest.objects.filter(repository__name=review[0], number=review[1]):
            pulls.ring_refresh(pull_id=pull.pk)
    for (pk,) in _SHOWING.all(transaction.branch_name, transaction.dataset_id):
        pulls.ring_refresh(pull_id=pk)


def follow_build(*, build: Build, **_: Any) -> None:
    """Note a build that ended on the pull requests of its branch, and close the merge that it belongs to."""
    merging.note_build_finished(build=build)
    queueing.note_build_finished(build=build)
    if build.repository is None:
        return
    pulls_from_it = PullRequest.objects.filter(
        repository=build.repository_id, source=build.branch, state=PullState.OPEN
    )
    if build.kind == UPLOAD and build.state == BuildState.COMPLETED:
        for pull in pulls_from_it:
            pulls.record_upload(pull=pull, build=build)
    if build.kind != RUN:
        return
    facts = {
        "id": build.pk,
        "state": build.state,
        "branch": build.branch,
        "trigger": build.trigger,
        "reason": build.reason,
    }
    announce_event(repository=build.repository, event=webhooks.BUILD, payload={"build": facts})
    for pull in pulls_from_it:
        pulls.record_build(pull=pull, build=build)
        pulls.ring_refresh(pull_id=pull.pk)


def follow_query(*, query: Query, **_: Any) -> None:
    """Look again at the pull requests of which a query that has ended is a check."""
    for pull in list_pulls_of(query):
        standing_moved.send(sender=PullRequest, pull=pull)


def follow_retry(*, build: Build, again: Build, **_: Any) -> None:
    """Let the merge, or the test, that a build belongs to wait for the new one when the build is tried again."""
    merging.follow_retry(build=build, again=again)
    queueing.follow_retry(build=build, again=again)
