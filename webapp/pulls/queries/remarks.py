"""Threads of comments beside what they are about, and which files and datasets a reader has viewed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from webapp.accounts.permissions import can_repository
from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs.pictures import TakenPicture, list_still_true
from webapp.core.prepared import Prepared
from webapp.datasets import queries as datasets
from webapp.datasets.permissions import see_keys
from webapp.pulls.models import PendingComment, Viewed
from webapp.pulls.queries.lines import BASE, HEAD, LinesNow, follow_lines
from webapp.pulls.queries.named import find_shown
from webapp.pulls.queries.pending import read_pending
from webapp.pulls.queries.places import PlaceReader, is_of_column, word_key
from webapp.pulls.queries.threads import read_threads_on_places
from webapp.pulls.rules.suggestions import Suggestion, list_suggestions

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.core.principals import Principal
    from webapp.git.diff import ChangedFile, FileDiff
    from webapp.pulls.models import Comment, PullDataset, PullRequest

NULL = "null"
UNKNOWN = -1
"""The schema of a transaction that is gone."""
GONE = "somebody"
"""Who deleted a comment and has no account any more."""
LineKey = tuple[str, int | None]
"""Side and number."""
_VIEWED = Prepared(
    lambda pull, user: Viewed.objects.filter(pull_id=pull, user_id=user).values_list("place", "content"), int, int
)


@dataclass(frozen=True)
class SuggestedChange:
    """What a comment suggests, beside the lines that it would change."""

    text: Suggestion
    old: Sequence[str]
    may_commit: bool
    """Whether the reader may commit it, as far as the comment goes: the pull request has to be open."""


@dataclass(frozen=True)
class Remark:
    """One comment, ready to draw."""

    id: int
    thread: int
    """The number of the comment that begins its thread."""
    author: str
    at: datetime
    body: str
    where: str
    """What it is about, in words."""
    quoted: str
    is_outdated: bool
    resolved_by: str
    may_resolve: bool
    repository: str
    pull: int
    """The number of the pull request."""
    edited_at: datetime | None
    deleted_by: str
    """Empty where it still says something."""
    may_edit: bool
    may_delete: bool
    suggestion: SuggestedChange | None = None
    replies: Sequence[Remark] = ()
    """In the order in which they were written; of a reply none. The reader's own that are pending come last."""
    is_pending: bool = False
    """Whether only its author sees it, until they submit their review."""

    @property
    def key(self) -> str:
        """What tells it from all others of a page: those that are pending are counted by themselves."""
        return f"pending-{self.id}" if self.is_pending else str(self.id)


@dataclass(frozen=True)
class RemarkReader:
    """Who looks at remarks, and what they may do with those of others."""

    user: int
    may_write: bool
    may_maintain: bool
    pending: Sequence[PendingComment] = ()
    """Those of their own review, the oldest first."""

    @classmethod
    def of(cls, principal: Principal, pull: PullRequest) -> RemarkReader:
        """Look up the rights of the reader, and their pending comments."""
        name = pull.repository.name
        may_write, may_maintain = (can_repository(principal, name, right) for right in ("write", "maintain"))
        return cls(principal.user_id, may_write, may_maintain, read_pending(principal, pull))

    def may_edit(self, comment: Comment) -> bool:
        """Return whether they may change what a comment says."""
        return comment.author_id == self.user and comment.deleted_at is None

    def may_delete(self, comment: Comment) -> bool:
        """Return whether they may take away what a comment says."""
        return (comment.author_id == self.user or self.may_maintain) and comment.deleted_at is None


@dataclass(frozen=True)
class FileTalk:
    """What was said of one file."""

    by_line: Mapping[LineKey, Sequence[Remark]]
    others: Sequence[Remark]
    """Of lines that say something else now, or that the diff does not show."""

    @property
    def threads(self) -> list[Remark]:
        """All of them."""
        return [*chain.from_iterable(self.by_line.values()), *self.others]


@dataclass(frozen=True)
class CodeTalk:
    """What was said of code."""

    by_path: Mapping[str, FileTalk]
    """Of the files that are shown."""
    lost: Sequence[Remark]
    """Of files that the pull request does not change any more."""

    @property
    def threads(self) -> list[Remark]:
        """All of them."""
        return [*chain.from_iterable(talk.threads for talk in self.by_path.values()), *self.lost]


@dataclass(frozen=True)
class RowTalk:
    """What was said of one dataset."""

    by_row: Mapping[int, Sequence[Remark]]
    """By the number of the row, of those that are shown."""
    others: Sequence[Remark]

    @property
    def threads(self) -> list[Remark]:
        """All of them."""
        return [*chain.from_iterable(self.by_row.values()), *self.others]


@dataclass(frozen=True)
class ColumnTalk:
    """What was said of the columns of one dataset, each in all rows."""

    by_column: Mapping[str, Sequence[Remark]]
    """By the full name of the column, of those that are shown."""
    others: Sequence[Remark]
    """Of columns that are not, or not any more."""

    @property
    def threads(self) -> list[Remark]:
        """All of them."""
        return [*chain.from_iterable(self.by_column.values()), *self.others]


@dataclass(frozen=True)
class Viewing:
    """Whether a reader has viewed something, and how the page says so."""

    place: str
    content: str
    is_viewed: bool


def list_code_talk(
    pull: PullRequest,
    files: Sequence[FileDiff],
    principal: Principal,
    *,
    changed: Collection[str],
    is_base_shown: bool = True,
) -> CodeTalk:
    """Return what was said of code, by the files in which its lines are now.

    Args:
        pull: the pull request.
        files: those that are shown.
        principal: who reads.
        changed: the paths of all changed files.
        is_base_shown: whether their lines before are those of the base.

    """
    said: dict[str, list[tuple[Comment | PendingComment, LinesNow]]] = defaultdict(list)
    reader = RemarkReader.of(principal, pull)
    for comment in _list_threads(pull, reader):
        if comment.anchor and comment.anchor.get("path"):
            now = follow_lines(pull, comment)
            said[now.path].append((comment, now))
    sides = (BASE, HEAD) if is_base_shown else (HEAD,)
    by_path = {file.path: _make_talk(file, said[file.path], reader, sides) for file in files if file.path in said}
    lost = [
        make_remark(comment, reader, where=f"{now.path}, {now.words}", is_outdated=now.is_outdated)
        for path, comments in said.items()
        if path not in changed
        for comment, now in comments
    ]
    return CodeTalk(by_path, lost)


def place_row_talk(row: PullDataset, shown: Mapping[int, Mapping[str, Any]], principal: Principal) -> RowTalk:
    """Return what was said of a dataset beside its shown rows, given as their keys by number."""
    places = {write_key(key): number for number, key in shown.items() if key}
    reader = RemarkReader.of(principal, row.pull)
    by_row: dict[int, list[Remark]] = defaultdict(list)
    others: list[Remark] = []
    rows = PlaceReader(principal)
    said = [comment for comment in _list_threads(row.pull, reader) if _is_of_row(row, comment.anchor or {})]
    true = _find_still_true(row, [comment for comment in said if comment.quoted != (row.after_id or "")], principal)
    for comment in said:
        anchor = comment.anchor or {}
        key = anchor["key"] if isinstance(anchor.get("key"), Mapping) else {}
        number = places.get(write_key(key))
        words = [] if number is not None else word_key(rows.show(anchor) or {})
        where = " · ".join([*words, *([f"column {anchor['column']}"] if anchor.get("column") else [])])
        is_same = comment.quoted == (row.after_id or "") or comment in true
        remark = make_remark(comment, reader, where=where, is_outdated=not is_same)
        (others if number is None else by_row[number]).append(remark)
    return RowTalk(by_row, others)


def _is_of_row(row: PullDataset, anchor: Mapping[str, Any]) -> bool:
    return anchor.get("dataset") == row.path and not is_of_column(anchor)


def _find_still_true(
    row: PullDataset, comments: Iterable[Comment | PendingComment], principal: Principal
) -> set[Comment | PendingComment]:
    """Return those whose row still looks, by the comparison that they spoke of, as it did when they were written."""
    by_comparison: dict[str, list[Comment | PendingComment]] = defaultdict(list)
    for comment in comments:
        if comment.picture:
            by_comparison[comment.picture["compared"]].append(comment)
    true: set[Comment | PendingComment] = set()
    sight = see_keys(principal, row.path) if by_comparison else EVERYTHING
    for name, pictured in by_comparison.items():
        folder = find_shown(row, name).folder
        anchors = [comment.anchor or {} for comment in pictured]
        taken = [
            TakenPicture(anchor["key"], anchor.get("column"), comment.picture or {})
            for anchor, comment in zip(anchors, pictured, strict=True)
        ]
        still = list_still_true(folder, taken, sight) if folder else []
        true |= {comment for comment, is_true in zip(pictured, still, strict=False) if is_true}
    return true


def list_column_talk(
    pull: PullRequest, shown: Mapping[str, Collection[str]], rows: Iterable[PullDataset], principal: Principal
) -> dict[str, ColumnTalk]:
    """Return what was said of the columns of each dataset, by path.

    Args:
        pull: the pull request.
        shown: path of a dataset → the full names of its columns that are shown.
        rows: its datasets that the reader may see.
        principal: who reads.

    """
    reader = RemarkReader.of(principal, pull)
    said = [(comment.anchor or {}, comment) for comment in _list_threads(pull, reader)]
    said = [(anchor, comment) for anchor, comment in said if is_of_column(anchor)]
    after = {row.path: row.after_id or "" for row in rows}
    schemas = datasets.list_schemas({*after.values(), *(comment.quoted for _anchor, comment in said)}) if said else {}
    below: dict[str, dict[str, list[Remark]]] = {path: defaultdict(list) for path in after}
    others: dict[str, list[Remark]] = {path: [] for path in after}
    for anchor, comment in said:
        path, column = anchor["dataset"], anchor["column"]
        if path not in after:
            continue
        is_shown = column in shown.get(path, ())
        is_same = comment.quoted == after[path] or schemas.get(comment.quoted, UNKNOWN) == schemas.get(after[path])
        where = "" if is_shown else f"column {column}"
        remark = make_remark(comment, reader, where=where, is_outdated=not is_same)
        (below[path][column] if is_shown else others[path]).append(remark)
    return {path: ColumnTalk(below[path], others[path]) for path in after}


def write_key(key: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return a key with its values as texts, so that a number and what a form sends for it are equal."""
    return frozenset((str(name), NULL if value is None else str(value)) for name, value in key.items())


def read_viewed(pull: PullRequest, contents: Mapping[str, str], principal: Principal) -> dict[str, Viewing]:
    """Return for each place whether the reader has viewed what is there now."""
    marks = dict(_VIEWED.all(pull.pk, principal.user_id))
    return {place: Viewing(place, content, marks.get(place) == content) for place, content in contents.items()}


def content_of_file(file: FileDiff | ChangedFile) -> str:
    """Name what there is to see of a file."""
    return f"{file.old_blob}:{file.new_blob}"


def content_of_dataset(row: PullDataset) -> str:
    """Name what there is to see of a dataset."""
    return f"{row.before_id or ''}:{row.after_id or ''}"


def _make_talk(
    file: FileDiff,
    comments: Iterable[tuple[Comment | PendingComment, LinesNow]],
    reader: RemarkReader,
    sides: Collection[str],
) -> FileTalk:
    shown = {
        (side, number)
        for hunk in file.hunks
        for line in hunk.lines
        for side, number in ((BASE, line.old), (HEAD, line.new))
        if side in sides
    }
    by_line: dict[LineKey, list[Remark]] = defaultdict(list)
    others = []
    for comment, now in comments:
        remark = make_remark(comment, reader, where=now.words, is_outdated=now.is_outdated)
        if not now.is_outdated and all((now.side, number) in shown for number in range(now.first, now.last + 1)):
            by_line[now.side, now.last].append(remark)
        else:
            others.append(remark)
    return FileTalk(by_line, others)


def make_remark(
    comment: Comment | PendingComment,
    reader: RemarkReader,
    *,
    where: str = "",
    is_outdated: bool = False,
    thread: Comment | None = None,
) -> Remark:
    """Return a comment as its reader sees it, with its replies where it begins a thread; `thread` is that of a reply."""
    if isinstance(comment, PendingComment):
        return _make_pending(comment, where=where, is_outdated=is_outdated)
    is_own, is_deleted = comment.author_id == reader.user, comment.deleted_at is not None
    thread = thread or comment
    return Remark(
        id=comment.pk,
        thread=comment.thread_id or comment.pk,
        author=comment.author.username,
        at=comment.created_at,
        body=comment.body,
        where=where,
        quoted=comment.quoted,
        is_outdated=is_outdated,
        resolved_by=comment.resolved_by.username if comment.resolved_by is not None else "",
        may_resolve=reader.may_write or is_own,
        repository=comment.pull.repository.name,
        pull=comment.pull.number,
        edited_at=comment.edited_at if not is_deleted else None,
        deleted_by=comment.deleted_by.username if comment.deleted_by is not None else GONE if is_deleted else "",
        may_edit=reader.may_edit(comment),
        may_delete=reader.may_delete(comment),
        suggestion=_read_suggestion(
            comment, thread, may_commit=reader.may_write and not is_outdated and thread.resolved_at is None
        ),
        replies=[
            make_remark(reply, reader, is_outdated=is_outdated, thread=comment)
            for reply in (_list_replies(comment, reader) if comment.thread_id is None else ())
        ],
    )


def _list_threads(pull: PullRequest, reader: RemarkReader) -> list[Comment | PendingComment]:
    """Return what stands on places: the threads, and what the reader has pending."""
    return [*read_threads_on_places(pull), *reader.pending]


def _list_replies(comment: Comment, reader: RemarkReader) -> list[Comment | PendingComment]:
    return [*comment.replies.all(), *(pending for pending in reader.pending if pending.thread_id == comment.pk)]


def _make_pending(comment: PendingComment, *, where: str, is_outdated: bool) -> Remark:
    """Return a comment of the reader's own pending review: it cannot be resolved, answered or committed before it is submitted."""
    place: Comment | PendingComment = comment.thread or comment
    return Remark(
        id=comment.pk,
        thread=comment.thread_id or comment.pk,
        author=comment.author.username,
        at=comment.created_at,
        body=comment.body,
        where=where,
        quoted=comment.quoted,
        is_outdated=is_outdated,
        resolved_by="",
        may_resolve=False,
        repository=comment.pull.repository.name,
        pull=comment.pull.number,
        edited_at=None,
        deleted_by="",
        may_edit=True,
        may_delete=True,
        suggestion=_read_suggestion(comment, place, may_commit=False),
        is_pending=True,
    )


def _read_suggestion(
    comment: Comment | PendingComment, place: Comment | PendingComment, *, may_commit: bool
) -> SuggestedChange | None:
    """Return the change that a comment on code of the head suggests; None where it suggests none."""
    anchor, suggested = place.anchor or {}, list_suggestions(comment.body)
    if not suggested or not anchor.get("path") or anchor.get("side") != HEAD:
        return None
    return SuggestedChange(suggested[0], place.quoted.split("\n"), may_commit)
