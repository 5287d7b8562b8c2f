"""What the apps below state, and whom that is told. Called inside the atomic block of the fact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.accounts.models import User
from webapp.accounts.permissions import find_folder_owner
from webapp.builds.models import RUN
from webapp.builds.rules.states import BuildState
from webapp.core.names import MASTER
from webapp.datasets.models import Dataset
from webapp.notices.queries.people import list_in_thread, list_mentioned, list_taking_part, list_watchers
from webapp.notices.rules import facts
from webapp.notices.rules.facts import Reason
from webapp.notices.services.standings import ask_for_look
from webapp.notices.services.telling import tell
from webapp.pulls.models import PullRequest
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from webapp.builds.models import Build
    from webapp.core.principals import Principal
    from webapp.datasets.models import Transaction
    from webapp.pulls.models import Comment, PullDataset, Review, TimelineEvent
    from webapp.repositories.models import CommitStatus


def follow_comment(*, comment: Comment, before: str, by: Principal, **_: Any) -> None:
    """Tell whom a comment names, whose thread it answers, and who takes part; an edit tells whom it names anew."""
    to = {Reason.MENTIONED: list_mentioned(comment.body, before=before)}
    if not before:
        to |= {Reason.REPLIED: list_in_thread(comment), Reason.TOOK_PART: list_taking_part(comment.pull)}
    _tell_of(comment.pull, facts.COMMENT, to, by, comment=comment)


def follow_review(*, review: Review, comments: Sequence[Comment], by: Principal, **_: Any) -> None:
    """Tell the author of a pull request of a review, and whom it and its comments concern: each once of all of it."""
    text = "\n\n".join([review.body, *(comment.body for comment in comments)])
    to: dict[Reason, Collection[int]] = {
        Reason.MENTIONED: list_mentioned(text),
        Reason.REVIEWED: [review.pull.author_id],
    }
    if comments:
        answered = [user for comment in comments for user in list_in_thread(comment)]
        to |= {Reason.REPLIED: answered, Reason.TOOK_PART: list_taking_part(review.pull)}
    _tell_of(review.pull, facts.REVIEW, to, by, review=review)


def follow_request(*, pull: PullRequest, users: Collection[int], by: Principal, **_: Any) -> None:
    """Tell people that their review is asked for."""
    _tell_of(pull, facts.REQUEST, {Reason.ASKED: users}, by)


def follow_event(*, event: TimelineEvent, **_: Any) -> None:
    """Tell watchers of a new pull request, its author of rejected data, the newly mentioned, and those of a merge."""
    pull, by = event.pull, User.objects.filter(username=event.actor).values_list("pk", flat=True).first
    if event.kind == "opened":
        watching = list_watchers(repository=pull.repository)
        to = {Reason.MENTIONED: list_mentioned(pull.body), Reason.WATCHING: watching}
        tell(fact=facts.OPENED, to=to, actor_id=by(), actor=event.actor, **_about(pull))
    elif event.kind == "described":
        named = {Reason.MENTIONED: list_mentioned(pull.body, before=event.data["before"])}
        tell(fact=facts.DESCRIBED, to=named, actor_id=by(), actor=event.actor, **_about(pull))
    elif event.kind == "merged":
        to = {Reason.WAS_MERGED: [pull.author_id], Reason.TOOK_PART: list_taking_part(pull)}
        tell(fact=facts.MERGED, to=to, actor_id=by(), actor=event.actor, **_about(pull))
    elif event.kind == "judged" and event.data["verdict"] == states.REJECTED:
        to = {Reason.MENTIONED: list_mentioned(event.data["reason"]), Reason.REVIEWED: [pull.author_id]}
        dataset = Dataset.objects.filter(path=event.data["path"]).first()
        tell(fact=facts.REVIEW, to=to, actor_id=by(), actor=event.actor, dataset=dataset, **_about(pull))
    elif event.kind == "ejected":
        enqueuers = User.objects.filter(username=event.data["by"]).values_list("pk", flat=True)
        tell(fact=facts.EJECTED, to={Reason.NOT_MERGED: {*enqueuers, pull.author_id}}, **_about(pull))


def follow_dataset(*, row: PullDataset, **_: Any) -> None:
    """Tell who watches a dataset that a pull request changes it."""
    if row.dataset is None or row.change not in states.CHANGED:
        return
    pull, to = row.pull, {Reason.WATCHING: list_watchers(datasets=[row.dataset.pk])}
    about = {**_about(pull), "dataset": row.dataset, "actor": pull.author.username}
    tell(fact=facts.CHANGES_DATASET, to=to, actor_id=pull.author_id, **about)


def follow_standing(*, pull: PullRequest, **_: Any) -> None:
    """Look whether a pull request became stale or mergeable."""
    ask_for_look(pull)


def follow_status(*, status: CommitStatus, **_: Any) -> None:
    """Look whether what a program reported lets the pull requests of its commit be merged, or no more."""
    heads = PullRequest.objects.filter(repository=status.repository, state=PullState.OPEN, head_sha=status.sha)
    for pull in heads.order_by("pk"):
        ask_for_look(pull)


def follow_build(*, build: Build, **_: Any) -> None:
    """Tell who started a build that it failed, and who watches where it failed on master."""
    if build.state != BuildState.FAILED or build.kind != RUN:
        return
    to: dict[Reason, Collection[int]] = {Reason.FAILED: [build.by_id]}
    if build.branch == MASTER and build.repository is not None:
        targets = Dataset.objects.filter(path__in=build.targets).values_list("pk", flat=True)
        to[Reason.WATCHING] = list(list_watchers(repository=build.repository, datasets=list(targets)))
    tell(fact=facts.BUILD_FAILED, to=to, repository=build.repository, build=build)


def follow_transaction(*, transaction: Transaction, **_: Any) -> None:
    """Tell who watches a dataset, or its repository, that its schema changed on master."""
    before = transaction.parent
    if transaction.branch_name != MASTER or before is None or before.schema_id == transaction.schema_id:
        return
    dataset = transaction.dataset
    repository = repositories.find_repository(find_folder_owner(dataset.path))
    to = {Reason.WATCHING: list_watchers(repository=repository, datasets=[dataset.pk])}
    actor = User.objects.filter(username=transaction.by).values_list("pk", flat=True).first()
    tell(fact=facts.SCHEMA_CHANGED, to=to, actor_id=actor, actor=transaction.by, dataset=dataset)


def _tell_of(pull: PullRequest, fact: str, to: Mapping[Reason, Collection[int]], by: Principal, **about: Any) -> None:
    tell(fact=fact, to=to, actor_id=by.user_id, actor=by.username, **_about(pull), **about)


def _about(pull: PullRequest) -> dict[str, Any]:
    return {"pull": pull, "repository": pull.repository}
