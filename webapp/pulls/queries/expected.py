"""Checks that what a user acts on is still what they were shown: a head, a transaction, or a version of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from webapp.core.errors import Conflict
from webapp.core.preconditions import make_tag
from webapp.pulls.queries.pulls import find_head, list_reviewed
from webapp.pulls.rules import approvals
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.pulls.models import Comment, PendingComment, PullRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a form or request names as shown; empty members are not checked."""

    head: str = ""
    transaction: str = ""
    """After the change, in the comparison that was shown."""
    before: str | None = None
    """Before the change; empty if there was none, None if it is not checked."""
    version: str = ""
    """Of the text that is overwritten."""
    keeps_lines: bool = False
    """Whether a comment on lines of an earlier head stays with that head instead of being refused."""

    @classmethod
    def pop(cls, fields: dict[str, Any], *, keeps_lines: bool = False) -> Self:
        """Take what was shown out of the fields of a form or body."""
        head, transaction, version = (
            fields.pop(f"expected_{name}", "") or "" for name in ("head", "transaction", "version")
        )
        before = fields.pop("expected_before", None)
        return cls(head=head, transaction=transaction, before=before, version=version, keeps_lines=keeps_lines)


NOTHING = Expected()


def check_head(pull: PullRequest, expected: str | None) -> None:
    """Refuse an action on another head than the one that was shown.

    Raises:
        Conflict: somebody pushed.

    """
    if expected and pull.head_sha != expected:
        raise _refuse_head(pull.head_sha, expected)


def find_shown_head(pull: PullRequest, expected: Expected, *, is_on_lines: bool) -> str:
    """Return the head that the author of a comment saw.

    Raises:
        Conflict: somebody pushed, and the comment cannot stay with the head that was shown.

    """
    if not expected.head:
        return pull.head_sha
    head = find_head(pull.repository, pull.source) if pull.state == PullState.OPEN else None
    newest = head or pull.head_sha
    if expected.head == newest or (is_on_lines and expected.keeps_lines and expected.head in _list_heads(pull)):
        return expected.head
    raise _refuse_head(newest, expected.head)


def check_pull(pull: PullRequest, expected: Expected) -> None:
    """Refuse an edit if the pull request has another head or data than was shown.

    Raises:
        Conflict: somebody pushed, or a dataset has another transaction.

    """
    find_shown_head(pull, expected, is_on_lines=False)
    check_reviewed(pull, transaction=expected.transaction, data=None)


def _refuse_head(now: str, expected: str) -> Conflict:
    message = f"The head is {now[:7]}, not {expected[:7]}: somebody pushed. Look again."
    return Conflict(message, code="head_moved", head=now)


def _list_heads(pull: PullRequest) -> set[str]:
    """Return the heads that pages have shown."""
    events = pull.events.filter(kind__in=("opened", "pushed")).values_list("data", flat=True)
    return {pull.head_sha, *(data.get(name) for data in events for name in ("head", "before", "after"))}


def check_target(pull: PullRequest, target_sha: str, expected: str | None) -> None:
    """Refuse an action on another head of the target than the one that was shown.

    Raises:
        Conflict: the target has moved.

    """
    if expected and target_sha != expected:
        message = f"{pull.target} is at {target_sha[:7]}, not {expected[:7]}: it has moved. Look again."
        raise Conflict(message, code="target_moved", target_head=target_sha)


def check_shown(pull: PullRequest, expected_target: str | None) -> None:
    """Refuse if merging would change more than a comparison with an earlier head of the target showed.

    Raises:
        Conflict: the target has moved so that the same head changes other files.

    """
    if not expected_target or expected_target == pull.base_sha:
        return
    base = repositories.find_merge_base(pull.repository, expected_target, pull.head_sha)
    landing = repositories.find_landing(
        pull.repository, source_sha=pull.head_sha, target_sha=pull.base_sha, shown_from=base
    )
    if reason := approvals.explain_unshown(landing.unshown & landing.changed, pull.target):
        message = f"{pull.target} has moved: {reason}. Look again."
        raise Conflict(message, code="target_moved", target_head=pull.base_sha)


def check_rows(
    path: str, *, branch: str, now: str, expected: str | None, code: str = "data_moved", member: str = "transaction"
) -> None:
    """Refuse an action on other rows of a dataset than those that were shown; None is not checked.

    Raises:
        Conflict: the branch has another transaction.

    """
    if expected is not None and expected != now:
        message = f"{path} has other rows on {branch} now than those that you looked at. Look again."
        state: dict[str, Any] = {member: now or None}
        raise Conflict(message, code=code, **state)


def check_reviewed(pull: PullRequest, *, transaction: str | None, data: str | None) -> None:
    """Refuse a verdict on other data than was shown.

    Args:
        pull: the pull request.
        transaction: one that was shown of a dataset.
        data: the version of all datasets that was shown.

    Raises:
        Conflict: a dataset has another transaction now.

    """
    now = list_reviewed(pull)
    if (transaction and transaction not in now.values()) or (data and data != version_of_data(pull)):
        message = f"Datasets have other rows on {pull.source} now than those that you looked at. Look again."
        raise Conflict(message, code="data_moved", transactions=now, data=version_of_data(pull))


def check_version(now: str, expected: str | None, *, what: str, **current: str) -> None:
    """Refuse to overwrite another version of a text than the one that was shown.

    Raises:
        Conflict: somebody edited it.

    """
    if expected and expected != now:
        message = f"{what} was edited after you opened it. Look again."
        raise Conflict(message, code="text_moved", version=now, current=current)


def version_of_pull(pull: PullRequest) -> str:
    """Return the version of what an edit of a pull request overwrites."""
    return make_tag(pull.title, pull.body, pull.draft, pull.target, pull.state)


def version_of_comment(comment: Comment | PendingComment) -> str:
    """Return the version of what an edit of a comment overwrites."""
    ends = (getattr(comment, name, None) is not None for name in ("resolved_at", "deleted_at"))
    return make_tag(comment.body, *ends)


def version_of_data(pull: PullRequest) -> str:
    """Return the version of the data that a verdict is about."""
    return make_tag(sorted(list_reviewed(pull).items()))


def tag_of_pull(pull: PullRequest) -> str:
    """Return the version of a pull request with its head, data, labels and assignees."""
    labels = pull.labels.values_list("label__name", flat=True)
    assignees = pull.assignees.values_list("user__username", flat=True)
    return make_tag(version_of_pull(pull), pull.head_sha, version_of_data(pull), sorted(labels), sorted(assignees))
