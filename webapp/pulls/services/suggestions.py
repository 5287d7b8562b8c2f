"""Committing what readers suggest on lines of code."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django.db import transaction

from webapp.accounts.permissions import check_repository
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput
from webapp.git.trailers import add_trailers, name_co_author
from webapp.git.values import Change
from webapp.pulls import signals
from webapp.pulls.models import Comment, PullRequest
from webapp.pulls.queries.expected import check_head
from webapp.pulls.queries.lines import HEAD, follow_lines
from webapp.pulls.queries.threads import get_comment
from webapp.pulls.rules.states import PullState
from webapp.pulls.rules.suggestions import OverlapError, Replacement, list_suggestions, replace_lines
from webapp.pulls.services.pulls import refresh_pull
from webapp.repositories import queries as repositories
from webapp.repositories import services as repository_services

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from webapp.core.principals import Principal
    from webapp.git.values import CommitInfo
    from webapp.pulls.queries.lines import LinesNow

MAX_AT_ONCE = 100


def commit_suggestions(
    *,
    pull: PullRequest,
    comments: Sequence[int],
    by: Principal,
    message: str = "",
    expected_head: str | None = None,
    looked_at: datetime | None = None,
) -> CommitInfo:
    """Commit what comments suggest to the source branch, in one commit or not at all, and resolve their threads.

    Whoever suggested a change is a co-author of the commit. A process that dies after the commit leaves the threads
    open: they are outdated then, since their lines say something else.

    Args:
        pull: an open pull request.
        comments: the numbers of the comments.
        by: who commits; a writer of the repository.
        message: of the commit; one is written where it is empty.
        expected_head: the head that was looked at.
        looked_at: when the comments were looked at.

    Raises:
        InvalidInput: no comments or too many, one that suggests nothing, or two of the same line.
        NotFound: the pull request has no such comment.
        Conflict: it is not open, its head is not the expected one, lines have changed since the comment, or a comment
            since it was looked at.

    """
    check_repository(by, pull.repository.name, "write")
    if not 0 < len(set(comments)) <= MAX_AT_ONCE:
        text = f"Choose one to {MAX_AT_ONCE} suggestions."
        raise InvalidInput(text, errors={"comments": [text]})
    refresh_pull(pull=pull)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; its branch stays as it is.", code="not_open")
    check_head(pull, expected_head)
    chosen = [get_comment(pull, number) for number in dict.fromkeys(comments)]
    for comment in chosen:
        _check_as_seen(comment, looked_at)
    lines = _find_lines(pull, chosen)
    commit = repository_services.commit_files(
        repository=pull.repository,
        branch=pull.source,
        message=_write_message(chosen, message.strip(), paths={place.path for place in lines.values()}, by=by),
        changes=_collect_changes(pull, chosen, lines),
        expected_head=pull.head_sha,
        by=by,
    )
    _resolve(pull, chosen, by=by)
    refresh_pull(pull=pull)
    return commit


def _check_as_seen(comment: Comment, looked_at: datetime | None) -> None:
    """Refuse what nobody has read: its author may have changed it between the look and the click."""
    if looked_at and comment.edited_at and comment.edited_at > looked_at:
        message = f"{comment.author.username} changed comment {comment.pk} after you looked at it. Look again."
        raise Conflict(message, code="suggestion_changed")


def _find_lines(pull: PullRequest, comments: Sequence[Comment]) -> dict[int, LinesNow]:
    """Return by comment the lines that its suggestion replaces."""
    return {comment.pk: _find_suggested(pull, comment) for comment in comments}


def _find_suggested(pull: PullRequest, comment: Comment) -> LinesNow:
    """Return the lines that a suggestion replaces: they say what they said when it was written."""
    thread = comment.thread or comment
    anchor = thread.anchor or {}
    if not list_suggestions(comment.body) or anchor.get("side") != HEAD:
        text = f"Comment {comment.pk} suggests no change of the branch's code."
        raise InvalidInput(text, errors={"comments": [text]})
    lines = follow_lines(pull, thread)
    if lines.is_outdated:
        raise Conflict(
            f"The lines of {anchor['path']} that comment {comment.pk} is about have changed since. Change the file by "
            "hand, or ask for a new suggestion.",
            code="suggestion_outdated",
        )
    return lines


def _collect_changes(pull: PullRequest, comments: Sequence[Comment], lines: Mapping[int, LinesNow]) -> list[Change]:
    by_path: dict[str, list[Replacement]] = defaultdict(list)
    for comment in comments:
        place = lines[comment.pk]
        suggested = list_suggestions(comment.body)[0]
        by_path[place.path].append(Replacement(place.first, place.last, suggested.lines))
    return [_change_file(pull, path, replacements) for path, replacements in by_path.items()]


def _change_file(pull: PullRequest, path: str, replacements: Sequence[Replacement]) -> Change:
    content = repositories.read_file(pull.repository, pull.head_sha, path)
    try:
        return Change(path=path, content=replace_lines(content.decode(), replacements).encode())
    except OverlapError as error:
        text = f"Two suggestions change line {error.line} of {path}. Commit one of them."
        raise InvalidInput(text, errors={"comments": [text]}) from None
    except UnicodeDecodeError:
        text = f"{path} is no text in UTF-8. Change it by hand."
        raise InvalidInput(text, errors={"comments": [text]}) from None


def _write_message(comments: Sequence[Comment], message: str, *, paths: Collection[str], by: Principal) -> str:
    """Return the message of the commit, which names whoever suggested what."""
    others = {comment.author.username: comment.author for comment in comments if comment.author_id != by.user_id}
    if not message:
        what = f"suggestion on {next(iter(paths))}" if len(comments) == 1 else f"{len(comments)} suggestions"
        message = f"Apply {what}"
    return add_trailers(message, [name_co_author(repository_services.sign(author)) for author in others.values()])


def _resolve(pull: PullRequest, comments: Sequence[Comment], *, by: Principal) -> None:
    """Say that the threads are dealt with; the audit log has the commit."""
    with transaction.atomic():
        threads = Comment.objects.filter(pk__in=[comment.thread_id or comment.pk for comment in comments])
        threads.filter(resolved_at=None).update(resolved_at=clock.now(), resolved_by_id=by.user_id)
        signals.standing_moved.send(sender=PullRequest, pull=pull)
