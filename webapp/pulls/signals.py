"""What pull requests announce. All are sent inside the atomic block that records the fact; act on commit of the block."""

from django.dispatch import Signal

comment_written = Signal()
"""comment: Comment, before: str (what it said until now; empty for a new one), by: Principal."""

review_given = Signal()
"""review: Review, comments: Sequence[Comment] (those that waited for it), by: Principal."""

reviewers_asked = Signal()
"""pull: PullRequest, users: Collection[int] (ids of those whose review is asked for, or asked for again), by: Principal."""

event_recorded = Signal()
"""event: TimelineEvent."""

dataset_joined = Signal()
"""row: PullDataset that the pull request did not have."""

standing_moved = Signal()
"""pull: PullRequest of which something has moved that decides whether it is stale and what blocks it."""
