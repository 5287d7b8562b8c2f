"""What has happened in a pull request, as the Conversation tells it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Count, Max
from django.urls import reverse

from webapp.builds.models import Build
from webapp.builds.rules.states import BuildState
from webapp.comparisons.pages.rows import DiffTable, draw_picture
from webapp.comparisons.rules.row_keys import write_key
from webapp.core.errors import NotFound
from webapp.core.templatetags.ui import duration
from webapp.core.words import counted
from webapp.pulls.models import Comment, Review, TimelineEvent
from webapp.pulls.pages.head import Loaded
from webapp.pulls.pages.lines import word_build
from webapp.pulls.pages.publications import word_publication
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.places import PlaceReader, is_of_column, word_key
from webapp.pulls.queries.remarks import Remark, RemarkReader, make_remark
from webapp.pulls.queries.threads import list_threads
from webapp.pulls.queries.timeline import is_event_visible
from webapp.pulls.rules import states
from webapp.repositories.queries import list_commits, publications_of_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

_FIRST = {"opened": 0, "first-commits": 1, "first-build": 2}
"""What happened before it was opened, in that order."""
QUOTED_LINES = 10
"""Of code, in the Conversation: the last ones."""


@dataclass(frozen=True)
class Mark:
    """A label beside an entry."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class CommitLine:
    """A commit in an entry about a push."""

    sha: str
    subject: str
    url: str
    state: str
    note: str


@dataclass(frozen=True)
class Anchor:
    """What a comment is about."""

    text: str
    url: str
    dataset: bool
    where: str = ""


@dataclass(frozen=True)
class QuotedLine:
    """A line of code that a thread is about, as it was when that was begun."""

    number: int
    text: str


@dataclass(frozen=True)
class Quote:
    """What a thread is about, as it looked when that was begun: lines of code, or a row."""

    lines: tuple[QuotedLine, ...] = ()
    left_out: int = 0
    """How many lines stand before them that are not shown."""
    row: DiffTable | None = None


@dataclass(frozen=True)
class ConversationEntry:
    """One entry of the timeline; cards are what people wrote."""

    id: str
    at: datetime
    actor: str = ""
    text: str = ""
    card: str = ""
    icon: str = "dot-fill"
    badge: str = ""
    url: str = ""
    link: str = ""
    tail: str = ""
    note: str = ""
    body: str = ""
    labels: tuple[Mark, ...] = ()
    commits: tuple[CommitLine, ...] = ()
    anchor: Anchor | None = None
    remark: Remark | None = None
    """What a thread says, with its replies."""
    versions_url: str = ""
    """What the description said before; empty if it was not edited."""
    quote: Quote | None = None


@dataclass(frozen=True)
class Outline:
    """An entry that is known to be there, and is described when it is shown."""

    id: str
    at: datetime
    of: TimelineEvent | Review | ConversationEntry | int
    """What it tells of; a thread by the number of the comment that begins it. Some are described already."""


@dataclass(frozen=True)
class Timeline:
    """All that has happened, the oldest first, with the one who reads it."""

    principal: Principal
    loaded: Loaded
    reader: RemarkReader
    outlines: Sequence[Outline]
    seen: str
    """Of how many parts it was made, and which comment is the newest, so that a page can ask for others."""

    def __len__(self) -> int:
        return len(self.outlines)

    def describe(self, outlines: Iterable[Outline]) -> list[ConversationEntry]:
        """Return some of its entries, with what their reader may do about what people wrote."""
        shown = list(outlines)
        pull, parts = self.loaded.pull, [outline.of for outline in shown]
        threads = list_threads(pull).in_bulk([part for part in parts if isinstance(part, int)])
        places = PlaceReader.of(self.principal, [thread.anchor for thread in threads.values()])
        events = [part for part in parts if isinstance(part, TimelineEvent)]
        published = publications_of_commits(pull.repository, _list_pushed(events), branch=pull.source)
        said = _count_comments([part for part in parts if isinstance(part, Review)])
        entries = []
        for part in parts:
            if isinstance(part, TimelineEvent):
                entries.append(_describe_event(pull, part, published))
            elif isinstance(part, Review):
                entries.append(_describe_review(self.loaded, part, said.get(part.pk, 0)))
            elif isinstance(part, int):
                entries.append(_describe_thread(self.loaded, threads[part], self.reader, places))
            else:
                entries.append(part)
        return entries


def sum_up(pull: PullRequest) -> str:
    """Return what `Timeline.seen` would be."""
    comments = pull.comments.aggregate(count=Count("pk"), newest=Max("pk"))
    return f"{pull.events.count()}-{pull.reviews.count()}-{comments['count']}-{comments['newest'] or 0}"


def read_timeline(principal: Principal, loaded: Loaded, reader: RemarkReader) -> Timeline:
    """Return what has happened; what a page does not show costs next to nothing."""
    pull = loaded.pull
    seen = sum_up(pull)  # before the rest is read: a page asks once too often rather than once too seldom
    events = list(pull.events.all())
    opened = ConversationEntry(
        id="opened",
        at=pull.created_at,
        actor=pull.author.username,
        text="opened this pull request",
        card="opened",
        body=pull.body,
        versions_url=reverse("pull-versions", args=[pull.repository.name, pull.number])
        if any(event.kind == "described" for event in events)
        else "",
    )
    paths = {row.path for row in loaded.rows}
    own_merge = {event.data.get("commit") for event in events if event.kind == "merged"}
    outlines = [Outline(entry.id, entry.at, entry) for entry in (opened, *_describe_beginning(loaded, events))]
    outlines += [
        Outline(f"event-{event.pk}", event.at, event)
        for event in events
        if is_event_visible(event.kind, event.data, paths)
        # That its own merge moved the target is no news.
        and event.kind != "opened"
        and not (event.kind == "target_moved" and event.data.get("after") in own_merge)
    ]
    threads = pull.comments.filter(thread=None).values_list("pk", "created_at")
    outlines += [Outline(f"comment-{pk}", at, pk) for pk, at in threads]
    outlines += [
        Outline(f"review-{review.pk}", review.created_at, review) for review in pull.reviews.select_related("reviewer")
    ]
    outlines.sort(key=lambda outline: (outline.id != "opened", outline.at, _FIRST.get(outline.id, len(_FIRST))))
    return Timeline(principal, loaded, reader, outlines, seen)


def _count_comments(reviews: Sequence[Review]) -> dict[int | None, int]:
    """Count the comments that were submitted with each of these reviews."""
    return dict(Comment.objects.filter(review__in=reviews).order_by().values_list("review").annotate(Count("pk")))


def _list_pushed(events: Iterable[TimelineEvent]) -> list[str]:
    return [commit["sha"] for event in events for commit in event.data.get("commits", ())]


def _describe_first_commits(pull: PullRequest, head: str, base: str) -> list[ConversationEntry]:
    """Return an entry about the commits with which it was opened; none where Git has forgotten them since."""
    try:
        count = queries.count_apart(pull.repository, sha=head, base=base).ahead
        newest = list_commits(pull.repository, head, not_in=base, limit=queries.NAMED_COMMITS)
    except NotFound:
        return []
    if not newest:
        return []
    published = publications_of_commits(pull.repository, [commit.sha for commit in newest], branch=pull.source)
    entry = ConversationEntry("first-commits", pull.created_at, actor=pull.author.username)
    pushed = _describe_push(pull, entry, {"commits": queries.name_commits(newest), "count": count}, published)
    return [replace(pushed, text=f"opened it with {counted(count, 'commit')}")]


def _describe_beginning(loaded: Loaded, events: Iterable[TimelineEvent]) -> list[ConversationEntry]:
    """Return the commits with which it was opened, and the build that there was then: no event was recorded of them."""
    pull = loaded.pull
    opened = next((event.data for event in events if event.kind == "opened"), None)
    entries = _describe_first_commits(pull, opened["head"], opened["base"]) if opened else []
    build = (
        Build.objects.filter(
            repository=pull.repository, branch=pull.source, kind="run", finished_at__lt=pull.created_at
        )
        .exclude(trigger="review")
        .order_by("-pk")
        .first()
    )
    if build is not None and build.finished_at is not None:
        jobs = build.jobs.values_list("skipped", flat=True)
        data = {
            "build": build.pk,
            "state": build.state,
            "jobs": sum(not skipped for skipped in jobs),
            "fresh": sum(jobs),
            "seconds": (build.finished_at - build.created_at).total_seconds(),
            "reason": build.reason,
        }
        entries.append(_describe_build(ConversationEntry("first-build", pull.created_at), data, rebuilt=False))
    return entries


def _describe_thread(loaded: Loaded, comment: Comment, reader: RemarkReader, places: PlaceReader) -> ConversationEntry:
    remark = make_remark(comment, reader)
    if remark.deleted_by and not remark.replies:
        whose = "a comment" if remark.deleted_by == remark.author else f"a comment of {remark.author}"
        return ConversationEntry(
            f"comment-{comment.pk}", comment.created_at, remark.deleted_by, f"deleted {whose}", icon="trash"
        )
    picture = places.show_picture(comment)
    anchor = describe_anchor(loaded, places.show(comment.anchor) or {}, picture)
    return ConversationEntry(
        id=f"comment-{comment.pk}",
        at=comment.created_at,
        actor=remark.author,
        text="commented on" if anchor else "commented",
        card="comment",
        labels=(Mark(f"Resolved by {remark.resolved_by}", "ok"),) if remark.resolved_by else (),
        anchor=anchor,
        remark=remark,
        quote=_read_quote(loaded, comment, picture),
    )


def _read_quote(loaded: Loaded, comment: Comment, picture: Mapping[str, Any] | None) -> Quote | None:
    """Return what a thread is about; of rows only what its reader may see."""
    anchor = comment.anchor or {}
    if picture and any(row.path == anchor.get("dataset") for row in loaded.rows):
        return Quote(row=draw_picture(picture))
    if anchor.get("path") and comment.quoted:
        lines = comment.quoted.split("\n")
        first = int(anchor["line"]) - len(lines) + 1
        numbered = tuple(QuotedLine(first + place, line) for place, line in enumerate(lines))
        return Quote(lines=numbered[-QUOTED_LINES:], left_out=max(0, len(lines) - QUOTED_LINES))
    return None


def _find_row_url(loaded: Loaded, anchor: Mapping[str, Any], picture: Mapping[str, Any] | None) -> str:
    """Return where the dataset is shown that a comment is about, with the row where that is known to have changed."""
    url = loaded.find_data_url(anchor["dataset"])
    # A key with a hidden part names no row to this reader.
    if picture is None or any(cell["is_key"] and cell.get("is_hidden") for cell in picture["cells"]):
        return url
    default = next((row.compared for row in loaded.rows if row.path == anchor["dataset"]), "")
    compared = picture["compared"] if picture["compared"] not in (default, states.SINCE_REVIEW) else ""
    values = [
        cell["before"] if cell["state"] == "deleted" else cell["after"] for cell in picture["cells"] if cell["is_key"]
    ]
    query = {**({"compared": compared} if compared else {}), "row": write_key(values)}
    return f"{url}&{urlencode(query)}"


def describe_anchor(
    loaded: Loaded, anchor: Mapping[str, Any], picture: Mapping[str, Any] | None = None
) -> Anchor | None:
    """Return where the pull request shows what a comment is about; None where it is about all of it."""
    if anchor.get("dataset"):
        path = anchor["dataset"]
        words = ", ".join(word_key(anchor))
        where = " · ".join(part for part in (words, anchor.get("column") and f"column {anchor['column']}") if part)
        url = f"{loaded.url}/schema#{path}" if is_of_column(anchor) else _find_row_url(loaded, anchor, picture)
        return Anchor(path, url, dataset=True, where=where)
    if anchor.get("path"):
        lines = (str(anchor[name]) for name in ("start_line", "line") if name in anchor)
        text = f"{anchor['path']}:{'–'.join(lines)}"
        return Anchor(
            text, f"{loaded.url}/code?{urlencode({'path': anchor['path']})}#file-{anchor['path']}", dataset=False
        )
    return None


def _describe_review(loaded: Loaded, review: Review, comments: int) -> ConversationEntry:
    labels = (Mark("Void now", "bad"),) if review.voided_at else ()
    stands = review.verdict == states.APPROVE and not review.voided_at
    objection = loaded.facts.ineligible.get(review.reviewer.username) if stands else None
    if objection:
        labels = (Mark("Does not count", "bad"),)
    if comments:
        labels = (Mark(counted(comments, "comment")), *labels)
    words = {states.APPROVE: "approved", states.REJECT: "asked for changes to", states.COMMENT: "reviewed"}
    badge = {states.APPROVE: "ok", states.REJECT: "bad"}.get(review.verdict, "") if not review.voided_at else ""
    seen = review.seen or {}
    count = len(seen.get("transactions", {}))
    text = f"{words.get(review.verdict, review.verdict)} commit {str(seen.get('head', ''))[:7]}"
    if count:
        text += f" with {count} transaction{'s' if count != 1 else ''}"
    note = f"Void: {review.void_reason}." if review.voided_at and review.void_reason else ""
    if objection:
        note = f"Does not count: {review.reviewer.username} {objection.words}."
    elif stands and (commit := loaded.facts.co_authors.get(review.reviewer.username)):
        note = f"Named as co-author of {commit}."
    if review.body:
        return ConversationEntry(
            id=f"review-{review.pk}", at=review.created_at, actor=review.reviewer.username, text=text, card="review",
            badge=badge, body=review.body, labels=labels, note=note,
        )  # fmt: skip
    icon = {states.APPROVE: "check", states.REJECT: "x", states.COMMENT: "comment"}.get(review.verdict, "comment")
    return ConversationEntry(
        id=f"review-{review.pk}",
        at=review.created_at,
        actor=review.reviewer.username,
        text=text,
        icon=icon,
        badge=badge,
        labels=labels,
        note=note,
    )


_PLAIN: dict[str, tuple[str, str]] = {
    "described": ("pencil", ""),
    "ready": ("eye", ""),
    "drafted": ("git-pull-request-draft", ""),
    "source_deleted": ("trash", "warn"),
    "source_restored": ("git-branch", ""),
    "closed": ("git-pull-request-closed", "bad"),
    "reopened": ("git-pull-request", "ok"),
}
"""Icon and badge of what is said in the words of its kind."""
_CHANGED = {
    "retitled": ("pencil", "changed the title from “{before}” to “{after}”"),
    "retargeted": ("git-branch", "changed the target from {before} to {after}"),
}


def _describe_event(pull: PullRequest, event: TimelineEvent, published: Any) -> ConversationEntry:
    data = event.data
    entry = ConversationEntry(f"event-{event.pk}", event.at, actor=event.actor)
    if event.kind in _PLAIN:
        icon, badge = _PLAIN[event.kind]
        return replace(entry, icon=icon, badge=badge, text=event.get_kind_display())
    if event.kind == "pushed":
        return _describe_push(pull, entry, data, published)
    if event.kind in ("built", "rebuilt"):
        return _describe_build(entry, data, rebuilt=event.kind == "rebuilt")
    if event.kind == "approval_void":
        return replace(
            entry, icon="circle-slash", badge="void", text=f"The approval of {data.get('reviewer', 'somebody')} became void",
            note=str(data.get("reason", "")),
        )  # fmt: skip
    if event.kind == "target_moved":
        text = f"{data.get('branch', pull.target)} moved from {str(data.get('before'))[:7]} to {str(data.get('after'))[:7]}"
        return replace(entry, icon="history", badge="warn", text=text)
    if event.kind in _SORTED:
        icon, describe = _SORTED[event.kind]
        return replace(entry, icon=icon, text=describe(data))
    if event.kind in _CHANGED:
        icon, words = _CHANGED[event.kind]
        return replace(entry, icon=icon, text=words.format(before=data.get("before"), after=data.get("after")))
    if event.kind in ("queued", "unqueued", "ejected"):
        return _describe_queued(entry, event.kind, data)
    if event.kind in _ACTS:
        return _ACTS[event.kind](pull, entry, data)
    if event.kind == "reverted":
        url = reverse("pull", args=[pull.repository.name, data["revert"]])
        text = f"was opened by {event.actor} to revert this"
        return replace(entry, actor="", icon="history", url=url, link=f"#{data['revert']}", text=text)
    return replace(entry, text=event.get_kind_display())


def _describe_verdict(pull: PullRequest, entry: ConversationEntry, data: dict[str, Any]) -> ConversationEntry:
    icon, badge, text = {
        states.ACCEPTED: ("check", "ok", "accepted the data of"),
        states.REJECTED: ("x", "bad", "rejected the data of"),
    }.get(data["verdict"], ("eye", "", "took back a verdict on the data of"))
    return replace(entry, icon=icon, badge=badge, text=text, anchor=_link_data(pull, data["path"]), note=data["reason"])


def _link_data(pull: PullRequest, path: str) -> Anchor:
    url = reverse("pull-data", args=[pull.repository.name, pull.number])
    return Anchor(path, f"{url}?{urlencode({'dataset': path}, safe='/')}", dataset=True)


def _describe_upload(pull: PullRequest, entry: ConversationEntry, data: dict[str, Any]) -> ConversationEntry:
    text = f"loaded {', '.join(data['files'])} on {pull.source}, into"
    return replace(entry, icon="upload", text=text, anchor=_link_data(pull, data["path"]))


def _describe_load(pull: PullRequest, entry: ConversationEntry, data: dict[str, Any]) -> ConversationEntry:
    files = ", ".join(data["files"]) or "what was loaded"
    text = (
        f"chose that merging loads {files} on {pull.target}, into"
        if data["load"]
        else f"chose that {files} stays on {pull.source}, in"
    )
    return replace(entry, icon="upload", text=text, anchor=_link_data(pull, data["path"]))


def _say_labels(data: dict[str, Any]) -> str:
    return _say_changed(data, "added", "removed", "the label ")


def _say_assignees(data: dict[str, Any]) -> str:
    return _say_changed(data, "assigned", "unassigned")


def _say_changed(data: dict[str, Any], add: str, remove: str, what: str = "") -> str:
    """Say what somebody added and took away, with the verbs for it."""
    parts = ((verb, ", ".join(data.get(name, ()))) for verb, name in ((add, "added"), (remove, "removed")))
    return " and ".join(f"{verb} {what}{names}" for verb, names in parts if names)


def _say_asked(data: dict[str, Any]) -> str:
    words = "Owners were asked for a review:" if data.get("owners") else "asked for a review by"
    return f"{words} {_list_names(data)}"


def _say_unasked(data: dict[str, Any]) -> str:
    return f"no more asks for a review by {_list_names(data)}"


def _list_names(data: dict[str, Any]) -> str:
    return ", ".join([*data.get("users", ()), *data.get("groups", ())])


_SORTED: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "labelled": ("tag", _say_labels),
    "assigned": ("person", _say_assignees),
    "review_asked": ("code-review", _say_asked),
    "review_unasked": ("code-review", _say_unasked),
}


def _describe_push(
    pull: PullRequest, entry: ConversationEntry, data: dict[str, Any], published: Any
) -> ConversationEntry:
    count = int(data.get("count") or len(data.get("commits", ())))
    commits = []
    for commit in data.get("commits", ()):
        state, note = word_publication(pull, commit["sha"], published.get(commit["sha"]))
        url = reverse("repository-commit", args=[pull.repository.name, commit["sha"]])
        commits.append(CommitLine(commit["sha"], commit["subject"], url, state, note))
    return replace(
        entry,
        icon="git-commit",
        text=_say_pushed(count, int(data.get("taken", 0)), pull.target),
        commits=tuple(commits),
        note=f"Of {count:,} commits the newest {len(commits)}." if count > len(commits) > 0 else "",
    )


def _say_pushed(count: int, taken: int, target: str) -> str:
    """Say what came to the source: own commits, and those that the target has."""
    own, of_target = counted(count, "commit"), counted(taken, "commit")
    if not taken:
        return f"pushed {own}"
    return f"pushed {own} and took {of_target} of {target}" if count else f"took {of_target} of {target}"


def _describe_build(entry: ConversationEntry, data: dict[str, Any], *, rebuilt: bool) -> ConversationEntry:
    state = BuildState[data["state"]]
    icon = {"ok": "check", "bad": "x"}.get(state.tone, "stop")
    badge = {"ok": "ok", "bad": "bad"}.get(state.tone, "void")
    where = " on the target" if rebuilt else ""
    seconds = data.get("seconds")
    text = f"{word_build(state)}{where}" + (f" in {duration(seconds)}" if seconds is not None else "")
    tail = (
        f"{data['jobs']} job{'s' if data['jobs'] != 1 else ''} run, {data.get('fresh', 0)} fresh"
        if "jobs" in data
        else ""
    )
    build = data.get("build")
    return replace(
        entry, actor="", icon=icon, badge=badge, url=reverse("build", args=[build]) if build else "", link=f"Build {build}",
        text=text, tail=tail, note=str(data.get("reason") or ""),
    )  # fmt: skip


def _describe_queued(entry: ConversationEntry, kind: str, data: dict[str, Any]) -> ConversationEntry:
    reason = str(data.get("reason", ""))
    if kind == "ejected":
        return replace(entry, icon="x", badge="bad", text="Ejected from the merge queue", note=reason)
    if kind == "unqueued":
        text = "took it out of the merge queue" if entry.actor else "Left the merge queue"
        return replace(entry, icon="git-merge", badge="void", text=text, note="" if entry.actor else reason)
    waits = "asked to merge it once nothing else blocks that" if data.get("waits") else "put it into the merge queue"
    return replace(entry, icon="git-merge", text=waits)


def _describe_merged(pull: PullRequest, entry: ConversationEntry, data: dict[str, Any]) -> ConversationEntry:
    bypassed = [blocker.get("message", "") for blocker in data.get("bypassed", ())]
    commit = str(data.get("commit", ""))
    return replace(
        entry, icon="git-merge", badge="done", text=f"merged this into {data.get('target', pull.target)} as {commit[:7]}",
        labels=(Mark("past the requirements", "bad"),) if bypassed else (),
        note=" ".join(bypassed),
    )  # fmt: skip


_ACTS: dict[str, Callable[[PullRequest, ConversationEntry, dict[str, Any]], ConversationEntry]] = {
    "merged": _describe_merged,
    "judged": _describe_verdict,
    "loaded": _describe_upload,
    "load_chosen": _describe_load,
}
