"""What readers leave on a pull request: threads of comments, on all of it or on one place, and marks of what they viewed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts.permissions import can_repository, check_repository
from webapp.accounts.services import record_audit
from webapp.comparisons.diffs.pictures import take_picture
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.core.inputs import show_name
from webapp.core.numbers import read_count
from webapp.pulls import signals
from webapp.pulls.models import Comment, CommentVersion, PullRequest, TimelineEvent, Viewed
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.expected import (
    NOTHING,
    check_reviewed,
    check_rows,
    check_version,
    find_shown_head,
    version_of_comment,
)
from webapp.pulls.queries.lines import HEAD, MAX_LINES, read_lines
from webapp.pulls.queries.named import find_shown, see_shown
from webapp.pulls.queries.places import PlaceReader
from webapp.pulls.queries.threads import get_comment
from webapp.pulls.rules.suggestions import list_suggestions
from webapp.repositories.rules import webhooks
from webapp.repositories.services import announce_event

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset
    from webapp.pulls.queries.expected import Expected
    from webapp.pulls.queries.lines import ShownLines
    from webapp.pulls.queries.named import Shown

MAX_BODY = 65_536
MAX_ANCHOR = 20_000
MAX_CONTENT = 100


@dataclass(frozen=True, slots=True)
class CommentPlace:
    """Where a comment stands: in a thread, on an anchor, or on all of the pull request."""

    anchor: dict[str, Any] | None = None
    quoted: str = ""
    """What was shown there: the lines, or the transaction that the row is of."""
    picture: dict[str, Any] | None = None
    """What the row looks like."""
    seen: dict[str, str] | None = None
    """The commit that showed the lines, and the path of the file there."""
    thread: Comment | None = None


def add_comment(
    *,
    pull: PullRequest,
    body: str,
    by: Principal,
    anchor: Mapping[str, Any] | None = None,
    reply_to: int | None = None,
    expected: Expected = NOTHING,
) -> Comment:
    """Remark on the pull request, a line of code or a cell of data, or reply to the comment of that number.

    Raises:
        Conflict: what was shown there has moved.
        InvalidInput: no text, too much of it, two suggestions, an anchor that is none, or a reply that has one.
        NotFound: the pull request has no comment to reply to.

    """
    check_repository(by, pull.repository.name, "read")
    check_comment(body)
    place = read_place(pull, anchor, reply_to, by=by, expected=expected)
    with transaction.atomic():
        comment = Comment.objects.create(
            pull=pull,
            author_id=by.user_id,
            body=body,
            anchor=place.anchor,
            quoted=place.quoted,
            picture=place.picture,
            seen=place.seen,
            thread=place.thread,
        )
        announce_comment(comment, "created", by=by)
        signals.comment_written.send(sender=Comment, comment=comment, before="", by=by)
        record_pull_act(pull, "comment", by=by, comment=comment.pk)
    return comment


def edit_comment(*, comment: Comment, body: str, by: Principal, expected_version: str = "") -> Comment:
    """Change what a comment says; what it said before stays with it.

    Raises:
        PermissionDenied: another user wrote it.
        InvalidInput: no text, or too much of it.
        Conflict: it was deleted, or edited since it was shown.

    """
    check_repository(by, comment.pull.repository.name, "read")
    if comment.author_id != by.user_id:
        raise PermissionDenied("Only who wrote a comment changes it.")
    check_comment(body)
    with transaction.atomic():
        comment = _lock_comment(comment)
        if comment.body == body:
            return comment
        _check_comment_version(comment, expected_version)
        CommentVersion.objects.create(
            comment=comment, body=comment.body, written_at=comment.edited_at or comment.created_at
        )
        before, comment.body, comment.edited_at = comment.body, body, clock.now()
        comment.save(update_fields=["body", "edited_at"])
        announce_comment(comment, "edited", by=by)
        signals.comment_written.send(sender=Comment, comment=comment, before=before, by=by)
        record_pull_act(comment.pull, "edit_comment", by=by, comment=comment.pk)
    return comment


def delete_comment(*, comment: Comment, by: Principal, expected_version: str = "") -> None:
    """Take away what a comment says, and all that it said before; that there was one, and its replies, stay.

    Raises:
        PermissionDenied: neither its author nor a maintainer of the repository.
        Conflict: it was deleted already, or edited since it was shown.

    """
    name = comment.pull.repository.name
    check_repository(by, name, "read")
    if comment.author_id != by.user_id and not can_repository(by, name, "maintain"):
        raise PermissionDenied("Only who wrote a comment and maintainers of the repository delete it.")
    with transaction.atomic():
        comment = _lock_comment(comment)
        _check_comment_version(comment, expected_version)
        comment.versions.all().delete()
        Comment.objects.filter(pk=comment.pk).update(
            body="", picture=None, deleted_at=clock.now(), deleted_by=by.user_id
        )
        comment.body = ""
        announce_comment(comment, "deleted", by=by)
        record_pull_act(comment.pull, "delete_comment", by=by, comment=comment.pk)


def resolve_comment(*, comment: Comment, by: Principal, resolved: bool = True, expected_version: str = "") -> None:
    """Say that a thread is dealt with, or that it is not.

    Raises:
        PermissionDenied: neither who began it nor a writer of the repository.
        InvalidInput: a reply: its thread is resolved as a whole.
        Conflict: it was edited since it was shown.

    """
    name = comment.pull.repository.name
    check_repository(by, name, "read")
    if comment.author_id != by.user_id and not can_repository(by, name, "write"):
        raise PermissionDenied("Only who wrote a comment and writers of the repository resolve it.")
    if comment.thread_id is not None:
        message = f"Comment {comment.pk} is a reply. Resolve its thread, which comment {comment.thread_id} begins."
        raise InvalidInput(message, errors={"resolved": [message]})
    _check_comment_version(comment, expected_version)
    comment.resolved_at = clock.now() if resolved else None
    comment.resolved_by_id = by.user_id if resolved else None
    with transaction.atomic():
        comment.save(update_fields=["resolved_at", "resolved_by"])
        verb = "resolve_comment" if resolved else "unresolve_comment"
        record_pull_act(comment.pull, verb, by=by, comment=comment.pk)
        signals.standing_moved.send(sender=PullRequest, pull=comment.pull)


def mark_viewed(*, pull: PullRequest, place: str, content: str, by: Principal) -> None:
    """Remember that a reader has looked at a file or dataset, as it was; no content takes the mark away.

    Raises:
        InvalidInput: the pull request has no such file or dataset.

    """
    check_repository(by, pull.repository.name, "read")
    if not content:
        with transaction.atomic():
            Viewed.objects.filter(pull=pull, user_id=by.user_id, place=place).delete()
            record_pull_act(pull, "unmark_viewed", by=by, place=place)
        return
    if not pull.datasets.filter(path=place).exists() and place not in _list_files(pull):
        raise InvalidInput(f"The pull request changes no {place}.", errors={"place": ["Unknown file or dataset."]})
    with transaction.atomic():
        Viewed.objects.update_or_create(
            pull=pull, user_id=by.user_id, place=place, defaults={"content": content[:MAX_CONTENT]}
        )
        record_pull_act(pull, "mark_viewed", by=by, place=place)


def record_pull_act(pull: PullRequest, verb: str, *, by: Principal | None, **detail: Any) -> None:
    """Record an action on a pull request in the audit log; without a user if it follows from another action."""
    record_audit(by=by, verb=verb, object=f"{pull.repository.name}#{pull.number}", branch=pull.source, detail=detail)


def announce_pull(pull: PullRequest, event: str, **details: Any) -> None:
    """Tell the repository's webhooks what happened to a pull request."""
    names = ("number", "title", "state", "draft", "source", "target")
    facts = {**{name: getattr(pull, name) for name in names}, "head": pull.head_sha, "author": pull.author.username}
    announce_event(repository=pull.repository, event=event, payload={"pull_request": facts, **details})


def record_event(
    *, pull: PullRequest, kind: str, actor: str = "", data: Mapping[str, Any] | None = None
) -> TimelineEvent:
    """Append to the timeline, and tell webhooks and the apps above."""
    event = TimelineEvent.objects.create(pull=pull, kind=kind, actor=actor, data=dict(data or {}))
    if kind not in ("built", "rebuilt"):
        announce_pull(pull, webhooks.PULL_REQUEST, action=kind, by=actor or None)
    signals.event_recorded.send(sender=TimelineEvent, event=event)
    return event


def check_comment(body: str) -> None:
    """Refuse a comment that says nothing, or too much, or suggests two changes of which one would be committed."""
    if not body.strip():
        raise InvalidInput("The comment is empty.", errors={"body": ["Write something."]})
    if len(list_suggestions(body)) > 1:
        message = "A comment suggests one change. Write a comment for each."
        raise InvalidInput(message, errors={"body": [message]})
    check_body(body)


def check_body(body: str) -> None:
    """Refuse a text that is too long."""
    if len(body) > MAX_BODY:
        raise InvalidInput("The text is too long.", errors={"body": [f"At most {MAX_BODY} characters."]})


def read_place(
    pull: PullRequest,
    anchor: Mapping[str, Any] | None,
    reply_to: int | None,
    *,
    by: Principal,
    expected: Expected = NOTHING,
) -> CommentPlace:
    """Return where a comment on an anchor, or a reply to the comment of that number, stands.

    Raises:
        Conflict: what was shown there has moved.
        InvalidInput: an anchor that is none, or a reply that has one.
        NotFound: the pull request has no comment to reply to.

    """
    head = find_shown_head(pull, expected, is_on_lines=bool(anchor) and "path" in (anchor or {}))
    if not anchor or "path" in anchor:
        check_reviewed(pull, transaction=expected.transaction, data=None)
    if reply_to is None:
        return _check_anchor(pull, anchor, by, head=head, expected=expected) if anchor else CommentPlace()
    if anchor:
        message = "A reply is where its thread is."
        raise InvalidInput(message, errors={"anchor": [message]})
    comment = get_comment(pull, reply_to)
    return CommentPlace(thread=comment.thread or comment)


def _lock_comment(comment: Comment) -> Comment:
    """Return it as it is now, locked until the transaction ends."""
    locked = Comment.objects.select_for_update(of=("self",)).select_related("pull__repository", "pull__author")
    now = locked.get(pk=comment.pk)
    if now.deleted_at is not None:
        raise Conflict(f"Comment {now.pk} was deleted.", code="comment_deleted")
    return now


def _check_comment_version(comment: Comment, expected: str) -> None:
    check_version(version_of_comment(comment), expected, what=f"Comment {comment.pk}", body=comment.body)


def announce_comment(comment: Comment, action: str, *, by: Principal) -> None:
    """Tell the repository's webhooks what happened to a comment, and note that something did."""
    anchor = PlaceReader(None).show(comment.anchor)
    details = {"body": comment.body, "anchor": anchor, "comment": comment.pk, "reply_to": comment.thread_id}
    announce_pull(comment.pull, webhooks.COMMENT, action=action, by=by.username, **details)
    PullRequest.objects.filter(pk=comment.pull_id).update(updated_at=clock.now())
    if comment.anchor:
        signals.standing_moved.send(sender=PullRequest, pull=comment.pull)


def _list_files(pull: PullRequest) -> set[str]:
    return {file.path for file in queries.list_changes(pull).files}


def _check_anchor(
    pull: PullRequest, anchor: Mapping[str, Any], by: Principal, *, head: str, expected: Expected
) -> CommentPlace:
    if len(json.dumps(anchor)) > MAX_ANCHOR:
        raise InvalidInput("The anchor is too long.", errors={"anchor": [f"At most {MAX_ANCHOR} characters."]})
    if {"path", "line"} <= set(anchor) <= {"path", "line", "start_line", "side"}:
        place = _read_lines(anchor)
        if place is not None:
            shown = _read_lines_at(pull, place, head)
            return CommentPlace(place, shown.text, seen={"commit": shown.commit, "path": shown.path})
    if {"dataset"} <= set(anchor) <= {"dataset", "key", "column", "compared"}:
        number = read_count(str(anchor["dataset"]))
        rows = queries.list_dataset_rows(by, pull)
        row = rows.filter(dataset_id=number).first() if number is not None else None
        row = row or rows.filter(path=str(anchor["dataset"])).first()
        if row is None:
            raise InvalidInput(
                f"The pull request has no dataset {anchor['dataset']}.", errors={"anchor": ["Unknown dataset."]}
            )
        place = {"dataset": row.path, "key": anchor.get("key"), "column": anchor.get("column")}
        shown_rows = find_shown(row, str(anchor.get("compared") or ""))
        _check_shown_rows(row, shown_rows, expected)
        picture = _take_picture(by, row, place, shown_rows)
        return CommentPlace(place, row.after_id or "", picture)
    raise InvalidInput(
        "The anchor is neither {path, line, start_line, side} nor {dataset, key, column, compared}.",
        errors={
            "anchor": [f"side is head or base, line a number, start_line one before it, at most {MAX_LINES} lines up."]
        },
    )


def _read_lines_at(pull: PullRequest, place: Mapping[str, Any], head: str) -> ShownLines:
    """Return the lines that a comment is about as they were shown; refuse lines that the file does not have."""
    shown = read_lines(pull, place, head=head)
    if shown is None:
        side = "after" if place["side"] == HEAD else "before"
        message = f"{show_name(place['path'])} has no line {place['line']} {side} the change, or cannot be shown."
        raise InvalidInput(message, errors={"anchor": [message]})
    return shown


def _check_shown_rows(row: PullDataset, shown: Shown, expected: Expected) -> None:
    """Refuse a comment on other rows than those that were shown, on either side."""
    before, after = shown.ends
    check_rows(row.path, branch=row.pull.source, now=after, expected=expected.transaction or None)
    check_rows(row.path, branch=row.pull.target, now=before, expected=expected.before, member="before")


def _take_picture(by: Principal, row: PullDataset, place: Mapping[str, Any], shown: Shown) -> dict[str, Any] | None:
    """Return what the row looks like by a comparison; None where the place is no row that it shows."""
    if shown.folder is None or not isinstance(place["key"], Mapping):
        return None
    if see_shown(by, row, shown).pick_hidden(place["key"]):
        return None  # whether there is one would say what is in the key
    picture = take_picture(shown.folder, key=place["key"], column=place["column"])
    return {**picture, "compared": shown.name} if picture else None


def _read_lines(anchor: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the place in code that an anchor names; None where it names none."""
    path, last, side = anchor["path"], anchor["line"], anchor.get("side", "head")
    first = anchor.get("start_line")
    first = last if first is None else first
    if side not in ("head", "base") or type(first) is not int or type(last) is not int or not isinstance(path, str):
        return None
    if first != last and not 0 < first < last < first + MAX_LINES:
        return None
    place = {"path": path, "line": last, "side": side}
    return place if first == last else {**place, "start_line": first}
