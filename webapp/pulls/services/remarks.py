"""What readers leave on a pull request: comments, on all of it or on one place, and marks of what they have viewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts.permissions import can_repository, check_repository
from webapp.accounts.services import record_audit
from webapp.core import clock
from webapp.core.errors import InvalidInput, PermissionDenied
from webapp.core.numbers import read_count
from webapp.pulls.models import Comment, PullRequest, Viewed
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.remarks import find_line
from webapp.repositories.rules import webhooks
from webapp.repositories.services import announce_event

if TYPE_CHECKING:
    from webapp.core.principals import Principal

MAX_BODY = 65_536
MAX_CONTENT = 100


def add_comment(*, pull: PullRequest, body: str, by: Principal, anchor: Mapping[str, Any] | None = None) -> Comment:
    """Remark on the pull request, a line of code or a cell of data.

    Raises:
        InvalidInput: no text, too much of it, or an anchor that is none.

    """
    check_repository(by, pull.repository.name, "read")
    if not body.strip():
        raise InvalidInput("The comment is empty.", errors={"body": ["Write something."]})
    check_body(body)
    place, quoted = _check_anchor(pull, anchor) if anchor else (None, "")
    with transaction.atomic():
        comment = Comment.objects.create(pull=pull, author_id=by.user_id, body=body, anchor=place, quoted=quoted)
        announce_pull(pull, webhooks.COMMENT, action="created", by=by.username, body=body, anchor=place)
        PullRequest.objects.filter(pk=pull.pk).update(updated_at=clock.now())
        record_pull_act(pull, "comment", by=by, comment=comment.pk)
    return comment


def resolve_comment(*, comment: Comment, by: Principal, resolved: bool = True) -> None:
    """Say that a comment is dealt with, or that it is not.

    Raises:
        PermissionDenied: neither its author nor a writer of the repository.

    """
    name = comment.pull.repository.name
    check_repository(by, name, "read")
    if comment.author_id != by.user_id and not can_repository(by, name, "write"):
        raise PermissionDenied("Only who wrote a comment and writers of the repository resolve it.")
    comment.resolved_at = clock.now() if resolved else None
    comment.resolved_by_id = by.user_id if resolved else None
    with transaction.atomic():
        comment.save(update_fields=["resolved_at", "resolved_by"])
        verb = "resolve_comment" if resolved else "unresolve_comment"
        record_pull_act(comment.pull, verb, by=by, comment=comment.pk)


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
    """Write into the audit log what somebody did to a pull request, or nobody, where it follows from another act."""
    record_audit(by=by, verb=verb, object=f"{pull.repository.name}#{pull.number}", branch=pull.source, detail=detail)


def announce_pull(pull: PullRequest, event: str, **details: Any) -> None:
    """Tell the repository's webhooks what happened to a pull request."""
    names = ("number", "title", "state", "draft", "source", "target")
    facts = {**{name: getattr(pull, name) for name in names}, "head": pull.head_sha, "author": pull.author.username}
    announce_event(repository=pull.repository, event=event, payload={"pull_request": facts, **details})


def check_body(body: str) -> None:
    """Refuse a text that is too long."""
    if len(body) > MAX_BODY:
        raise InvalidInput("The text is too long.", errors={"body": [f"At most {MAX_BODY} characters."]})


def _list_files(pull: PullRequest) -> set[str]:
    return {file.path for file in queries.list_changes(pull).files}


def _check_anchor(pull: PullRequest, anchor: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the anchor as it is stored, and what stands there now: the line, or the transaction that the row is of."""
    if {"path", "line"} <= set(anchor) <= {"path", "line", "side"}:
        side = anchor.get("side", "head")
        if side in ("head", "base") and type(anchor["line"]) is int and isinstance(anchor["path"], str):
            place = {"path": anchor["path"], "line": anchor["line"], "side": side}
            return place, find_line(pull, place) or ""
    if {"dataset"} <= set(anchor) <= {"dataset", "key", "column"}:
        number = read_count(str(anchor["dataset"]))
        row = pull.datasets.filter(dataset_id=number).first() if number is not None else None
        row = row or pull.datasets.filter(path=str(anchor["dataset"])).first()
        if row is None:
            raise InvalidInput(
                f"The pull request has no dataset {anchor['dataset']}.", errors={"anchor": ["Unknown dataset."]}
            )
        place = {"dataset": row.path, "key": anchor.get("key"), "column": anchor.get("column")}
        return place, row.after_id or ""
    raise InvalidInput(
        "The anchor is neither {path, line, side} nor {dataset, key, column}.",
        errors={"anchor": ["side is head or base, line a number."]},
    )
