"""Pull requests, reviews, comments and diffs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.comparisons.serializers import shape_comparison
from webapp.pulls.models import Comment, Merge, PullDataset, PullRequest, Review, TimelineEvent
from webapp.pulls.queries import named
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules.states import MergeState, PullState


def shape_pull(pull: PullRequest) -> dict[str, Any]:
    """Return a pull request as lists show it."""
    return {
        "number": pull.number,
        "repository": pull.repository.name,
        "title": pull.title,
        "body": pull.body,
        "state": pull.state,
        "draft": pull.draft,
        "author": pull.author.username,
        "source": pull.source,
        "target": pull.target,
        "head": pull.head_sha,
        "base": pull.base_sha,
        "created_at": pull.created_at,
        "updated_at": pull.updated_at,
        "closed_at": pull.closed_at,
    }


def shape_pull_detail(pull: PullRequest) -> dict[str, Any]:
    """Return a pull request with everything that decides its merge."""
    blockers = queries.list_blockers(pull)
    merge = Merge.objects.filter(pull=pull).exclude(state=MergeState.ABANDONED).first()
    ineligible = queries.explain_reviewers(pull)
    return {
        **shape_pull(pull),
        "mergeable": not blockers,
        "blocked_by": [one.as_json() for one in blockers] if pull.state == PullState.OPEN else [],
        "stale": queries.is_stale(pull),
        "reviews": [shape_review(review, ineligible=ineligible) for review in pull.reviews.select_related("reviewer")],
        "merge": shape_merge(merge) if merge else None,
    }


def shape_merge(merge: Merge) -> dict[str, Any]:
    """Return a merge with its rebuild and what became of it."""
    return {
        "merge_commit": merge.merge_commit,
        "state": merge.state,
        "method": merge.method,
        "rebuild": merge.rebuild,
        "targets": merge.targets,
        "bypassed": merge.bypassed,
        "build": {"id": merge.build.pk, "state": merge.build.state} if merge.build else None,
        "outcome": queries.describe_outcome(merge),
        "merged_by": merge.merged_by.username,
    }


def shape_dataset(row: PullDataset, *, name: str = "") -> dict[str, Any]:
    """Return one dataset of a pull request with the counts of the comparison of that name, or why it has none."""
    shown = named.find_shown(row, name)
    since = named.find_since(row)
    return {
        "id": row.dataset_id,
        "path": row.path,
        "lands": row.lands,
        **({} if row.lands else {"lands_reason": row.lands_reason}),
        "change": row.change,
        "current": row.current,
        "compared": shown.name,
        **({"compared_note": shown.note} if shown.note else {}),
        **_shape_shown(shown),
        "since": {**_shape_shown(since), "both": named.count_both(row, shown)} if since else None,
        "rule_changes": row.rule_changes,
    }


def _shape_shown(shown: named.Shown) -> dict[str, Any]:
    return {
        "schema_status": shown.schema_status,
        "from": shown.before.pk if shown.before else None,
        "to": shown.after.pk if shown.after else None,
        "rows": shape_comparison(shown.comparison, reason=shown.reason),
    }


def shape_review(review: Review, *, ineligible: Mapping[str, str]) -> dict[str, Any]:
    """Return a review with what it is bound to, and whether its author is one whose approval counts."""
    return {
        "id": review.pk,
        "reviewer": review.reviewer.username,
        "verdict": review.verdict,
        "body": review.body,
        "head": review.seen.get("head"),
        "void": review.voided_at is not None,
        "void_reason": review.void_reason or None,
        "ineligible_reason": ineligible.get(review.reviewer.username),
        "created_at": review.created_at,
    }


def shape_comment(comment: Comment) -> dict[str, Any]:
    """Return a comment."""
    return {
        "id": comment.pk,
        "author": comment.author.username,
        "body": comment.body,
        "anchor": comment.anchor,
        "created_at": comment.created_at,
    }


def shape_event(event: TimelineEvent) -> dict[str, Any]:
    """Return an entry of the timeline."""
    return {"kind": event.kind, "actor": event.actor or None, "at": event.at, "data": event.data}


def shape_timeline(pull: PullRequest) -> list[dict[str, Any]]:
    """Return events, reviews and comments in the order in which they happened."""
    entries = [shape_event(one) for one in pull.events.all()]
    ineligible = queries.explain_reviewers(pull)
    entries += [
        {
            "kind": "review",
            "actor": review.reviewer.username,
            "at": review.created_at,
            "data": shape_review(review, ineligible=ineligible),
        }
        for review in pull.reviews.select_related("reviewer")
    ]
    entries += [
        {"kind": "comment", "actor": one.author.username, "at": one.created_at, "data": shape_comment(one)}
        for one in pull.comments.select_related("author")
    ]
    return sorted(entries, key=lambda entry: entry["at"])
