"""What people are told, and why them."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

INBOX, MAIL, NONE = "inbox", "mail", "none"
CHANNEL_CHOICES = [(INBOX, "In the inbox"), (MAIL, "In the inbox and by mail"), (NONE, "Not at all")]

COMMENT, REVIEW, REQUEST = "comment", "review", "review_request"
OPENED, MERGED, STALE, MERGEABLE = "pull_opened", "pull_merged", "pull_stale", "pull_mergeable"
EJECTED, DESCRIBED = "pull_ejected", "pull_described"
BUILD_FAILED, SCHEMA_CHANGED, CHANGES_DATASET = "build_failed", "schema_changed", "changes_dataset"
FACT_CHOICES = [
    (COMMENT, "A comment on a pull request"),
    (REVIEW, "A review of a pull request"),
    (REQUEST, "A review was asked for"),
    (OPENED, "A pull request was opened"),
    (DESCRIBED, "The description of a pull request was edited"),
    (MERGED, "A pull request was merged"),
    (EJECTED, "A pull request was ejected from the merge queue"),
    (STALE, "The target of a pull request has moved on"),
    (MERGEABLE, "A pull request can be merged"),
    (BUILD_FAILED, "A build failed"),
    (SCHEMA_CHANGED, "The schema of a dataset changed on master"),
    (CHANGES_DATASET, "A pull request changes a dataset"),
]
LASTING = frozenset({STALE, MERGEABLE, SCHEMA_CHANGED})
"""What is not said again to somebody who has not read yet that it is so."""


class Reason(StrEnum):
    """Why somebody is told; of several the first counts."""

    label: str
    """What pages call it."""
    sentence: str
    """When it holds, on the page of settings."""
    channel: str
    """Where they are told unless they choose."""

    def __new__(cls, value: str, label: str, sentence: str, channel: str) -> Self:
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.label, reason.sentence, reason.channel = label, sentence, channel
        return reason

    ASKED = "review_requested", "Review asked of you", "Somebody asks you for a review.", MAIL
    MENTIONED = "mentioned", "You were mentioned", "A text names you with @ and your user name.", MAIL
    REPLIED = "replied", "Reply in your thread", "Somebody replies in a thread that you wrote in.", MAIL
    REVIEWED = "reviewed", "Review of yours", "Your pull request gets a review.", MAIL
    FAILED = "build_failed", "Your build failed", "A build that you started, also by a merge, fails.", MAIL
    WAS_MERGED = "merged", "Yours was merged", "Somebody else merges your pull request.", INBOX
    NOT_MERGED = (
        "ejected",
        "Yours was ejected",
        "A merge that you asked for, or of yours, leaves the merge queue.",
        MAIL,
    )
    READY = "mergeable", "Yours can be merged", "Nothing blocks your pull request any more.", INBOX
    OUTDATED = "stale", "Yours is stale", "The target of your pull request has newer commits or data.", INBOX
    TOOK_PART = (
        "participating",
        "You take part",
        "Something is said in a pull request that you opened or spoke in.",
        INBOX,
    )
    WATCHING = (
        "watching",
        "You watch it",
        "A repository or dataset that you watch: a build fails on master, a schema changes there, a pull request opens.",
        INBOX,
    )

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Return what a column may hold, with its label."""
        return [(reason.value, reason.label) for reason in cls]


REASONS = {reason.value: reason for reason in Reason}
"""Value of a column → reason."""
