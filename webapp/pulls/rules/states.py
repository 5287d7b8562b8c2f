"""States and kinds of pull requests, each with the sentence that pages show."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State


class PullState(State):
    """Where a pull request stands."""

    OPEN = "open", "Open", "open", "Waits for builds, reviews and the merge."
    MERGED = "merged", "Merged", "merged", "Its code is on the target branch, its datasets are rebuilt there."
    CLOSED = "closed", "Closed", "closed", "Ended without a merge; it may be opened again."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[PullState, AbstractSet[PullState]]:
        """Return for each state those that may follow it."""
        # In rows of an earlier release: there it could be closed while its merge landed.
        return {cls.OPEN: {cls.MERGED, cls.CLOSED}, cls.CLOSED: {cls.OPEN, cls.MERGED}, cls.MERGED: set()}


MODIFIED, ADDED, REMOVED, AFFECTED = "modified", "added", "removed", "affected"
REFRESHED = "refreshed"
CHANGE_CHOICES = [
    (MODIFIED, "The branch changes its code or has built it"),
    (ADDED, "The branch adds it"),
    (REMOVED, "The branch removes its code"),
    (AFFECTED, "Only downstream of a change"),
    (REFRESHED, "Built on the branch, but changed by nothing of it"),
]
CHANGED = frozenset({MODIFIED, ADDED, REMOVED})
"""What a pull request is answerable for: its owners are asked, and approvals are bound to it."""
CHANGE_GROUPS = [
    ("Code or data changed", CHANGED),
    ("Downstream only", frozenset({AFFECTED})),
    ("Only rebuilt here", frozenset({REFRESHED})),
]
"""Headings of lists of datasets, each with the changes below it."""

THIS_BRANCH, CODE_EFFECT, TARGET_NOW = "base", "inputs", "master"
COMPARED_CHOICES = [
    (THIS_BRANCH, "this branch: the head against what the branch started from"),
    (CODE_EFFECT, "effect of the code: the head against what the base's code makes of the same inputs"),
    (TARGET_NOW, "against the target now: the head against the target's newest data"),
]
COMPARED_NAMES = [name for name, _sentence in COMPARED_CHOICES]
TARGET_SINCE = "since"
"""The comparison that shows what the target did since the branch left it."""
BEFORE_REVERTED = "before"
"""The comparison of a pull request that reverts another one: the head with what was there before that was merged."""
SINCE_REVIEW = "seen"
"""The comparison of the head with what one reviewer saw when they gave their last review."""
NAMED_CHOICES = [
    *COMPARED_CHOICES,
    (TARGET_SINCE, "what the target did since"),
    (BEFORE_REVERTED, "what was there before the pull request that is reverted"),
    (SINCE_REVIEW, "what came since the reader's last review"),
]

APPROVE, REJECT, COMMENT = "approve", "reject", "comment"
VERDICT_CHOICES = [(APPROVE, "approved"), (REJECT, "asked for changes"), (COMMENT, "reviewed")]

ACCEPTED, REJECTED = "accepted", "rejected"
DATASET_VERDICT_CHOICES = [(ACCEPTED, "accepted"), (REJECTED, "rejected")]
"""What a reviewer says of one dataset."""
VIEWED, UNSEEN = "viewed", "none"
"""What they may go back to: they have looked at it and say nothing, or have not looked at it."""

MERGE_METHOD, SQUASH = "merge", "squash"
METHOD_CHOICES = [(MERGE_METHOD, "Merge commit"), (SQUASH, "Squash into one commit")]
REBASE = "rebase"
UPDATE_CHOICES = [(MERGE_METHOD, "Merge commit"), (REBASE, "Commits anew on top")]
"""How a source takes what its target has since."""
REBUILD_CHOICES = [(MODIFIED, "What was modified"), (AFFECTED, "Also what is downstream")]


SAME_FILE, NEW_FILE, OTHER_FILE = "same", "added", "changed"
STANDING_CHOICES = [
    (SAME_FILE, "The target has the same file"),
    (NEW_FILE, "The target has no such file"),
    (OTHER_FILE, "The target's file says something else"),
]


class MergeState(State):
    """Where a merge stands."""

    PREPARED = "prepared", "Prepared", "wait", "The merge commit exists, the target branch has not moved."
    LANDED = "landed", "Landed", "run", "The target branch has the merge commit, the build is not there yet."
    BUILDING = "building", "Rebuilding", "run", "The target branch's datasets are being rebuilt."
    DONE = "done", "Done", "ok", "The rebuild has ended."
    ABANDONED = "abandoned", "Abandoned", "abort", "The target branch moved before it landed; nothing was changed."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[MergeState, AbstractSet[MergeState]]:
        """Return for each state those that may follow it."""
        return {
            cls.PREPARED: {cls.LANDED, cls.ABANDONED},
            cls.LANDED: {cls.BUILDING, cls.DONE},
            # The build, or an earlier try of it, is tried again: the last one decides.
            cls.BUILDING: {cls.DONE, cls.BUILDING},
            cls.DONE: {cls.BUILDING},
            cls.ABANDONED: set(),
        }


MERGE_GOES_ON = frozenset(MergeState) - MergeState.ends() - {MergeState.BUILDING, MergeState.DONE}
"""Merges that whoever began them carries on at once, and the sweep after a crash: all that wait for nothing else."""
MERGE_HAS_LANDED = frozenset({MergeState.LANDED, MergeState.BUILDING, MergeState.DONE})
"""Merges whose commit the target branch has."""


class QueueState(State):
    """Where a merge stands that somebody asked for when it is ready."""

    WAITING = "waiting", "Waiting", "wait", "Something else blocks the merge; it joins the queue once nothing does."
    QUEUED = "queued", "Queued", "wait", "It is tested once those before it are being tested."
    TESTING = (
        "testing",
        "Testing",
        "run",
        "What would land is being published and built, on a branch that nobody reads.",
    )
    GREEN = "green", "Green", "ok", "What would land is built; it lands once those before it have."
    RED = (
        "red",
        "Red",
        "bad",
        "Its test failed; it is ejected once it is the first, or tested again without those that left.",
    )
    LANDING = "landing", "Landing", "run", "What was tested is being merged."
    LANDED = "landed", "Landed", "merged", "The target has what was tested."
    EJECTED = "ejected", "Ejected", "bad", "It could not land, for the reason that it names."
    WITHDRAWN = "withdrawn", "Withdrawn", "abort", "Nobody asks for it any more."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[QueueState, AbstractSet[QueueState]]:
        """Return for each state those that may follow it."""
        leaving = {cls.EJECTED, cls.WITHDRAWN}
        return {
            cls.WAITING: {cls.QUEUED, *leaving},
            # Where its merge conflicts with those before it, or is what its branch was built with, there is nothing to build.
            cls.QUEUED: {cls.TESTING, cls.RED, cls.GREEN, *leaving},
            # A worker takes it over from one that died.
            cls.TESTING: {cls.TESTING, cls.GREEN, cls.RED, cls.QUEUED, *leaving},
            cls.GREEN: {cls.LANDING, cls.QUEUED, *leaving},
            cls.RED: {cls.QUEUED, cls.TESTING, *leaving},
            # The target moved at that moment: it is tested again on what is there now.
            cls.LANDING: {cls.LANDED, cls.QUEUED},
            cls.LANDED: set(),
            cls.EJECTED: set(),
            cls.WITHDRAWN: set(),
        }


QUEUE_GOES_ON = frozenset(QueueState) - QueueState.ends()
"""Merges that are still asked for."""
QUEUE_IN_LINE = QUEUE_GOES_ON - {QueueState.WAITING}
"""Merges that have a place in the queue; what waits for approvals has none yet."""
QUEUE_TESTED = frozenset({QueueState.TESTING, QueueState.GREEN, QueueState.RED})
"""Merges that are tested on a commit, or were: on another one they are tested again."""


EVENT_CHOICES = [
    ("opened", "opened this pull request"),
    ("pushed", "pushed commits"),
    ("built", "built the branch"),
    ("approval_void", "made an approval void"),
    ("target_moved", "moved the target branch"),
    ("retitled", "changed the title"),
    ("described", "edited the description"),
    ("retargeted", "changed the target branch"),
    ("ready", "marked it ready for review"),
    ("drafted", "made it a draft"),
    ("source_deleted", "deleted the source branch"),
    ("source_restored", "restored the source branch"),
    ("labelled", "changed the labels"),
    ("assigned", "changed who sees to it"),
    ("review_asked", "asked for a review"),
    ("review_unasked", "asked for a review no more"),
    ("closed", "closed this pull request"),
    ("reopened", "opened it again"),
    ("queued", "asked to merge it when it is ready"),
    ("unqueued", "took it out of the merge queue"),
    ("ejected", "was ejected from the merge queue"),
    ("merged", "merged it"),
    ("rebuilt", "rebuilt the target branch"),
    ("reverted", "opened a pull request that reverts it"),
    ("judged", "gave a verdict on a dataset"),
    ("loaded", "loaded a file on the branch"),
    ("load_chosen", "chose what is loaded when merging"),
]
