"""Pull requests as lines of a list: what a reader needs to choose one, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Max, prefetch_related_objects
from django.urls import reverse

from webapp.builds.models import Build
from webapp.builds.rules.states import BuildState
from webapp.pulls.models import Review
from webapp.pulls.pages import counts
from webapp.pulls.queries.approvers import list_ineligible
from webapp.pulls.queries.lists import list_sorted_by
from webapp.pulls.queries.pulls import find_base, find_protection
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.pulls.models import Label, PullRequest
    from webapp.repositories.models import Protection


@dataclass(frozen=True)
class PullLine:
    """One pull request in a list."""

    id: int
    number: int
    repository: str
    title: str
    author: str
    source: str
    target: str
    state: PullState
    draft: bool
    url: str
    created_at: datetime
    updated_at: datetime
    diff: counts.DiffSum
    build: Build | None
    build_kind: str
    build_text: str
    approved: int
    needed: int
    void: int
    rejected: int
    labels: list[Label]
    assignees: list[str]

    @property
    def icon(self) -> str:
        """The octicon of its state."""
        if self.state == PullState.MERGED:
            return "git-merge"
        if self.state == PullState.CLOSED:
            return "git-pull-request-closed"
        return "git-pull-request-draft" if self.draft else "git-pull-request"

    @property
    def tone(self) -> str:
        """The colour class of that icon."""
        if self.state == PullState.MERGED:
            return "donec"
        if self.state == PullState.CLOSED:
            return "badc"
        return "" if self.draft else "okc"

    @property
    def review_kind(self) -> str:
        """The kind of state that its reviews are in."""
        if self.rejected:
            return "bad"
        if self.approved >= self.needed and (self.approved or not self.needed):
            return "ok" if self.approved else "open"
        return "bad" if self.void else "wait"

    @property
    def review_text(self) -> str:
        """Its reviews in a few words."""
        if self.rejected:
            return "changes asked for"
        if not self.needed:
            return f"{self.approved} approved" if self.approved else "none asked"
        return f"{self.approved} of {self.needed}"


def word_build(state: BuildState) -> str:
    """Say in a word how a build stands."""
    return "passed" if state == BuildState.COMPLETED else state.label.lower()


def describe_pulls(pulls: Sequence[PullRequest]) -> list[PullLine]:
    """Turn loaded pull requests into lines."""
    diffs = counts.sum_by_pull([pull.pk for pull in pulls])
    builds = _newest_builds(pulls)
    reviews: dict[int, list[Review]] = {}
    for review in Review.objects.filter(pull__in=pulls).select_related("reviewer"):
        reviews.setdefault(review.pull_id, []).append(review)
    prefetch_related_objects(pulls, "repository__protections", *list_sorted_by())
    return [
        _describe(
            pull,
            diffs.get(pull.pk, counts.DiffSum()),
            builds.get((pull.repository_id, pull.source)),
            reviews.get(pull.pk, []),
            find_protection(pull),
        )
        for pull in pulls
    ]


def is_comparing(pulls: Iterable[PullLine]) -> bool:
    """Say whether rows of one of them are still being compared, so that a list of them asks for itself."""
    return any(pull.diff.running for pull in pulls)


def _newest_builds(pulls: Sequence[PullRequest]) -> dict[tuple[int | None, str], Build]:
    of_branches = Build.objects.filter(
        repository__in={pull.repository_id for pull in pulls}, branch__in={pull.source for pull in pulls}, kind="run"
    ).exclude(trigger="review")
    newest = of_branches.order_by().values("repository", "branch").annotate(newest=Max("pk")).values("newest")
    return {(build.repository_id, build.branch): build for build in Build.objects.filter(pk__in=newest)}


def _describe(
    pull: PullRequest,
    diff: counts.DiffSum,
    build: Build | None,
    reviews: Sequence[Review],
    protection: Protection | None,
) -> PullLine:
    facts = [
        approvals.ReviewFact(review.reviewer.username, review.verdict, review.voided_at is not None)
        for review in reviews
    ]
    standing = approvals.list_standing(facts)
    return PullLine(
        id=pull.pk,
        number=pull.number,
        repository=pull.repository.name,
        title=pull.title,
        author=pull.author.username,
        source=pull.source,
        target=pull.target,
        state=pull.state,
        draft=pull.draft,
        url=reverse("pull", args=[pull.repository.name, pull.number]),
        created_at=pull.created_at,
        updated_at=pull.updated_at,
        diff=diff,
        build=build,
        build_kind=build.state.tone if build else "open",
        build_text=f"{build.pk} {word_build(build.state)}" if build else "not built",
        approved=_count_approvals(pull, reviews, standing),
        needed=protection.approvals if protection else 0,
        void=sum(fact.void and fact.verdict == states.APPROVE for fact in facts),
        rejected=sum(verdict == states.REJECT for verdict in standing.values()),
        labels=[row.label for row in pull.labels.all()],
        assignees=[row.user.username for row in pull.assignees.all()],
    )


def _count_approvals(pull: PullRequest, reviews: Sequence[Review], standing: Mapping[str, str]) -> int:
    approvers = {review.reviewer for review in reviews if standing.get(review.reviewer.username) == states.APPROVE}
    return len(approvers) - len(list_ineligible(pull, reviewers=approvers, base=find_base(pull)))
