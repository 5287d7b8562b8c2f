"""Code differences as plain values: files, hunks and lines, with the changed words and syntax colours marked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from typing import Literal as OneOf

import pygit2
from pygit2.enums import DeltaStatus, FileMode
from pygments.lexers import find_lexer_class_for_filename

from webapp.core.budgets import spending
from webapp.core.characters import HIDDEN, describe, fold, has_hidden, list_hidden, look_alike
from webapp.core.helpers import OutOfTime, call_helper
from webapp.core.sequences import list_runs
from webapp.git.paths import decode_path
from webapp.git.texts import TextForm, decode, is_binary, read_form

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webapp.core.budgets import Budget

__all__ = [
    "MAX_COLOUR_BYTES",
    "FileDiff",
    "Hunk",
    "Line",
    "Span",
    "colour_lines",
    "decorate",
    "diff_texts",
    "file_diff_of_patch",
    "limit_lines",
    "long_file_diff",
]

LineKind = OneOf["context", "added", "deleted"]
FileStatus = OneOf["added", "deleted", "modified", "renamed", "copied", "retyped"]

# Colouring reads whole files; beyond these sizes a diff is shown plain.
MAX_COLOUR_BYTES = 400_000
MAX_LINE = 2_000
MAX_FILE_LINES = 20_000
_MARK_SHARE = 0.5
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_STATUSES: dict[DeltaStatus, FileStatus] = {
    DeltaStatus.ADDED: "added",
    DeltaStatus.DELETED: "deleted",
    DeltaStatus.MODIFIED: "modified",
    DeltaStatus.RENAMED: "renamed",
    DeltaStatus.COPIED: "copied",
    DeltaStatus.TYPECHANGE: "retyped",
}


_UTF8 = read_form(b"")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line: its text, the class of its syntax colour, and whether the change is here."""

    text: str
    token: str = ""
    marked: bool = False
    is_alike: bool = False
    """Whether the other side looks the same here, so that its characters must be drawn."""


class LineMark(NamedTuple):
    """A changed part of a line."""

    start: int
    end: int
    is_alike: bool = False
    """Whether both sides look the same here."""


class Hidden(NamedTuple):
    """A character of a file that nobody sees, and where it is."""

    character: str
    """Its code point and name, such as `U+202E right-to-left override`."""
    side: OneOf["before", "after"]
    lines: list[int]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk with its numbers on both sides (None where a side has no such line)."""

    kind: LineKind
    old: int | None
    new: int | None
    text: str
    spans: tuple[Span, ...] = ()
    no_newline: bool = False
    end: OneOf["lf", "crlf", ""] = "lf"
    """How it ends; empty without a newline."""

    @property
    def sign(self) -> str:
        """Return the sign that a patch writes before the line."""
        return {"added": "+", "deleted": "-", "context": " "}[self.kind]

    @property
    def pieces(self) -> tuple[Span, ...]:
        """Return the spans, or the whole text as one where nothing was coloured."""
        return self.spans or (Span(self.text),)


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of lines around a change."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: str
    lines: tuple[Line, ...]

    @property
    def header(self) -> str:
        """Return the line that a patch writes above the hunk."""
        return f"@@ -{self.old_start},{self.old_count} +{self.new_start},{self.new_count} @@"

    @property
    def pairs(self) -> list[tuple[Line | None, Line | None]]:
        """Return the lines side by side: a run of deleted lines stands beside the added ones that follow it."""
        rows: list[tuple[Line | None, Line | None]] = []
        position = 0
        while position < len(self.lines):
            deleted = _run(self.lines, position, "deleted")
            added = _run(self.lines, position + deleted, "added")
            if not deleted and not added:
                rows.append((self.lines[position], self.lines[position]))
                position += 1
                continue
            left = self.lines[position : position + deleted]
            right = self.lines[position + deleted : position + deleted + added]
            rows.extend(zip_longest(left, right))
            position += deleted + added
        return rows


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What happened to one file."""

    path: str
    old_path: str
    status: FileStatus
    old_mode: int
    new_mode: int
    old_blob: str
    new_blob: str
    is_binary: bool
    additions: int
    deletions: int
    hunks: tuple[Hunk, ...]
    similarity: int = 100
    truncated: bool = False
    before: TextForm | None = None
    """How the text was stored; None where there was none, or one that is not compared."""
    after: TextForm | None = None

    @property
    def is_file(self) -> bool:
        """Return whether the new version is a text file: no link, no submodule, nothing binary."""
        return not self.is_binary and self.new_mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)

    @property
    def has_odd_ends(self) -> bool:
        """Return whether the line ends differ, within a side or between both."""
        ends = {form.line_ends for form in (self.before, self.after) if form is not None} - {"none"}
        return len(ends) > 1 or "mixed" in ends

    @property
    def forms(self) -> tuple[str, str]:
        """How the text was and is stored, in words; both empty where nothing about it is unusual."""
        forms = [form for form in (self.before, self.after) if form is not None]
        if not self.has_odd_ends and all(form.is_usual for form in forms):
            return "", ""
        return (self.before.words if self.before else ""), (self.after.words if self.after else "")

    @property
    def hidden(self) -> list[Hidden]:
        """List the characters of its lines that nobody sees, with the numbers of the lines, per side."""
        lines = [line for hunk in self.hunks for line in hunk.lines]
        after = [(line.new, line.text) for line in lines if line.new is not None]
        before = [(line.old, line.text) for line in lines if line.kind == "deleted" and line.old is not None]
        return [*_name_hidden(after, "after"), *_name_hidden(before, "before")]

    @property
    def line_count(self) -> int:
        """Count the lines of all hunks."""
        return sum(len(hunk.lines) for hunk in self.hunks)

    @property
    def mode_before(self) -> str | None:
        """Git's mode of the old file in octal, such as 100644; None without one."""
        return f"{self.old_mode:o}" if self.old_mode else None

    @property
    def mode_after(self) -> str | None:
        """Git's mode of the new file."""
        return f"{self.new_mode:o}" if self.new_mode else None

    @property
    def modes(self) -> tuple[str, str] | None:
        """The modes before and after of a file that became executable, a link, or the reverse."""
        before, after = self.mode_before, self.mode_after
        return (before, after) if before and after and before != after else None


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a comparison without its lines."""

    path: str
    old_path: str
    old_blob: str
    new_blob: str
    has_hidden: bool = False
    """Whether its name or an added line has characters that nobody sees."""


@dataclass(frozen=True, slots=True)
class CodeDiff:
    """All files of a comparison, and their lines added up."""

    files: tuple[ChangedFile, ...]
    additions: int
    deletions: int


def list_hidden_characters(text: str) -> list[Hidden]:
    """List the characters of a file that nobody sees."""
    return _name_hidden(list(enumerate(text.split("\n"), start=1)), "after")


def _name_hidden(lines: Sequence[tuple[int, str]], side: OneOf["before", "after"]) -> list[Hidden]:
    places_of = list_hidden(text for _, text in lines)
    return [
        Hidden(describe(character), side, [lines[place - 1][0] for place in places])
        for character, places in places_of.items()
    ]


def changed_file_of_delta(delta: pygit2.DiffDelta) -> ChangedFile:
    """Turn what Git says of one file of a comparison into a value."""
    return ChangedFile(
        path=decode_path(delta.new_file.raw_path),
        old_path=decode_path(delta.old_file.raw_path),
        old_blob=_zero(str(delta.old_file.id)),
        new_blob=_zero(str(delta.new_file.id)),
    )


def adds_hidden(patch: pygit2.Patch, new: bytes | None) -> bool:
    """Return whether an added line has characters that nobody sees, by the patch of a file and its new content."""
    if patch.delta.is_binary or not new or not has_hidden(new):
        return False
    form = read_form(new)
    lines = (line for hunk in patch.hunks for line in hunk.lines if line.origin == "+")
    return any(HIDDEN.search(form.decode(line.raw_content)) for line in lines)


def paths_of_delta(delta: pygit2.DiffDelta) -> set[str]:
    """Return the names of one file of a comparison: two where it moved."""
    return {decode_path(delta.new_file.raw_path), decode_path(delta.old_file.raw_path)}


def _zero(sha: str) -> str:
    return sha if sha.strip("0") else ""


def file_diff_of_patch(patch: pygit2.Patch, *, old: bytes | None, new: bytes | None) -> FileDiff:
    """Turn one patch of a comparison into a value.

    Args:
        patch: of one file.
        old: what it held before; None where it was no file.
        new: what it holds after.

    """
    delta = patch.delta
    _, additions, deletions = patch.line_stats
    binary = bool(delta.is_binary)
    before, after = (None if content is None or binary else read_form(content) for content in (old, new))
    hunks, truncated = ((), False) if binary else _hunks(patch, before, after)
    return replace(
        long_file_diff(delta),
        is_binary=binary,
        additions=additions,
        deletions=deletions,
        hunks=hunks,
        truncated=truncated,
        before=before,
        after=after,
    )


def diff_texts(path: str, *, old: bytes | None, new: bytes, old_path: str = "") -> FileDiff:
    """Return how a file differs from what no commit has yet, with colours; what was not there before is added."""
    before = old_path or path
    patch = pygit2.Patch.create_from(old or b"", new, old_as_path=before, new_as_path=path)
    file = replace(file_diff_of_patch(patch, old=old, new=new), path=path, old_path=before)
    if old is None:
        file = replace(file, status="added")
    elif before != path:
        file = replace(file, status="renamed")
    return decorate(file, old=old or b"", new=new)


def long_file_diff(delta: pygit2.DiffDelta) -> FileDiff:
    """Turn what Git says of a file that is too long to be compared by line into a value."""
    return FileDiff(
        path=decode_path(delta.new_file.raw_path),
        old_path=decode_path(delta.old_file.raw_path),
        status=_STATUSES.get(delta.status, "modified"),
        old_mode=_mode(delta.old_file.mode),
        new_mode=_mode(delta.new_file.mode),
        old_blob=_zero(str(delta.old_file.id)),
        new_blob=_zero(str(delta.new_file.id)),
        is_binary=False,
        additions=0,
        deletions=0,
        hunks=(),
        similarity=delta.similarity if delta.status == DeltaStatus.RENAMED else 100,
        truncated=True,
    )


def _mode(mode: FileMode | int) -> int:
    return int(mode)


def _hunks(patch: pygit2.Patch, before: TextForm | None, after: TextForm | None) -> tuple[tuple[Hunk, ...], bool]:
    hunks: list[Hunk] = []
    total = 0
    for raw in patch.hunks:
        # A hunk of a million lines is not read to find that it is too long: it has as many as its longer side, at least.
        if total + max(raw.old_lines, raw.new_lines) > MAX_FILE_LINES:
            return tuple(hunks), True
        lines = tuple(_lines(raw, before or _UTF8, after or _UTF8))
        total += len(lines)
        if total > MAX_FILE_LINES:
            return tuple(hunks), True
        heading = raw.header.rpartition("@@")[2].strip()
        hunks.append(Hunk(raw.old_start, raw.old_lines, raw.new_start, raw.new_lines, heading, lines))
    return tuple(hunks), False


def _lines(raw: pygit2.DiffHunk, before: TextForm, after: TextForm) -> Iterator[Line]:
    kinds: dict[str, LineKind] = {" ": "context", "+": "added", "-": "deleted"}
    pending: Line | None = None
    for item in raw.lines:
        if item.origin in "=<>":
            # "\ No newline at end of file" belongs to the line before it.
            if pending is not None:
                pending = replace(pending, no_newline=True, end="")
            continue
        if pending is not None:
            yield pending
        text = (before if item.origin == "-" else after).decode(item.raw_content).removesuffix("\n")
        is_crlf = text.endswith("\r") and item.raw_content.endswith(b"\n")
        pending = Line(
            kind=kinds[item.origin],
            old=item.old_lineno if item.old_lineno > 0 else None,
            new=item.new_lineno if item.new_lineno > 0 else None,
            text=text.removesuffix("\r") if is_crlf else text,
            end="crlf" if is_crlf else "lf",
        )
    if pending is not None:
        yield pending


def limit_lines(file: FileDiff, *, limit: int) -> FileDiff:
    """Keep the first lines of a file's hunks; the page offers the rest."""
    if file.line_count <= limit:
        return file
    hunks: list[Hunk] = []
    for hunk in file.hunks:
        room = limit - sum(len(other.lines) for other in hunks)
        if room <= 0:
            break
        hunks.append(replace(hunk, lines=hunk.lines[:room]))
    return replace(file, hunks=tuple(hunks), truncated=True)


def decorate(file: FileDiff, *, old: bytes, new: bytes) -> FileDiff:
    """Add syntax colours and the marks of changed words to a file's lines; call it for the lines that are shown.

    Lines beyond the page's budget stay plain.
    """
    shown = [line for hunk in file.hunks for line in hunk.lines]
    before = _coloured(
        file.old_path, old, lines=max((line.old or 0 for line in shown if line.kind == "deleted"), default=0)
    )
    after = _coloured(file.path, new, lines=max((line.new or 0 for line in shown), default=0))
    with spending() as budget:
        hunks = tuple(
            replace(hunk, lines=_decorate_lines(hunk.lines, before, after, budget=budget)) for hunk in file.hunks
        )
    return replace(file, hunks=hunks)


def colour_lines(path: str, content: str) -> list[tuple[Span, ...]]:
    """Split a text into lines of coloured spans, by the language that the file name tells; plain without time for more."""
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    name = PurePosixPath(path).name
    plain: list[tuple[Span, ...]] = [(Span(line),) if line else () for line in lines]
    if not _has_lexer(name):
        return plain
    with spending() as budget:
        try:
            coloured = call_helper("webapp.git.colours", "colour", name, content, seconds=budget.left)
        except OutOfTime:
            return plain
        for number, pieces in enumerate(coloured[: len(plain)]):
            if len(pieces) > 1 and not budget.take_pieces(len(pieces)):
                break
            plain[number] = tuple(Span(text, token) for text, token in pieces)
    return plain


@lru_cache(maxsize=1024)
def _has_lexer(name: str) -> bool:
    """Keep what was found: Pygments compares a file's name with the patterns of some five hundred languages."""
    return find_lexer_class_for_filename(name) is not None


def _coloured(path: str, content: bytes, *, lines: int) -> list[tuple[Span, ...]]:
    if len(content) > MAX_COLOUR_BYTES or is_binary(content) or not lines:
        return []
    text = decode(content).replace("\r\n", "\n")
    return colour_lines(path, "".join(f"{line}\n" for line in text.split("\n", lines)[:lines]))


def _decorate_lines(
    lines: Sequence[Line], before: list[tuple[Span, ...]], after: list[tuple[Span, ...]], *, budget: Budget
) -> tuple[Line, ...]:
    marks = _word_marks(lines, budget)
    decorated = []
    for position, line in enumerate(lines):
        number, side = (line.old, before) if line.kind == "deleted" else (line.new, after)
        spans = side[number - 1] if number is not None and number <= len(side) else ()
        if "".join(span.text for span in spans) != line.text:
            # A lexer may change the text it reads; then the plain line is the honest one.
            spans = (Span(line.text),) if line.text else ()
        decorated.append(replace(line, spans=tuple(_split_by_marks(spans, marks.get(position, [])))))
    return tuple(decorated)


def _word_marks(lines: Sequence[Line], budget: Budget) -> dict[int, list[LineMark]]:
    """Find the parts that differ, in lines that look alike and in runs of deleted lines followed by as many added ones."""
    marks: dict[int, list[LineMark]] = {}
    position = 0
    while position < len(lines):
        deleted = _run(lines, position, "deleted")
        added = _run(lines, position + deleted, "added")
        for old, new in _pair_lines(lines, position, deleted, added):
            if not budget.left:
                return marks
            pair = _marks_of_pair(lines[old].text, lines[new].text)
            if pair is not None and budget.take_pieces(2 * (len(pair[0]) + len(pair[1]))):
                marks[old], marks[new] = pair
        position += max(deleted + added, 1)
    return marks


def _pair_lines(lines: Sequence[Line], start: int, deleted: int, added: int) -> Iterator[tuple[int, int]]:
    """Pair the places of deleted and added lines: each with the next that looks alike, others in order if as many."""
    alike: dict[str, list[int]] = {}
    middle = start + deleted
    if not deleted or not added:
        return
    for new in range(middle + added - 1, middle - 1, -1):
        alike.setdefault(fold(lines[new].text), []).append(new)
    for old in range(start, middle):
        places = alike.get(fold(lines[old].text))
        if places:
            yield old, places.pop()
        elif deleted == added:
            yield old, old + deleted


def _run(lines: Sequence[Line], start: int, kind: LineKind) -> int:
    end = start
    while end < len(lines) and lines[end].kind == kind:
        end += 1
    return end - start


def _marks_of_pair(old: str, new: str) -> tuple[list[LineMark], list[LineMark]] | None:
    if max(len(old), len(new)) > MAX_LINE:
        return None
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    runs = list_runs(before, after)
    equal = sum(run.old_end - run.old_start for run in runs if run.is_equal)
    if 2 * equal < _MARK_SHARE * (len(before) + len(after)) and not look_alike(old, new):
        # Two different lines: marking nearly everything says nothing.
        return None
    old_places, new_places = _places(before), _places(after)
    left, right = [], []
    for run in runs:
        if run.is_equal:
            continue
        left_end, right_end = old_places[run.old_end], new_places[run.new_end]
        left_start, right_start = old_places[run.old_start], new_places[run.new_start]
        is_alike = look_alike(old[left_start:left_end], new[right_start:right_end])
        left.append(LineMark(left_start, left_end, is_alike))
        right.append(LineMark(right_start, right_end, is_alike))
    return [mark for mark in left if mark.end > mark.start], [mark for mark in right if mark.end > mark.start]


def _places(words: Sequence[str]) -> list[int]:
    """Return the place in the line at which each word starts, and the line's end."""
    return [*accumulate((len(word) for word in words), initial=0)]


def _split_by_marks(spans: Sequence[Span], marks: Sequence[LineMark]) -> Iterator[Span]:
    """Split spans at the ends of marks, which are in order and do not overlap."""
    if not marks:
        yield from spans
        return
    # Whether the text is marked changes at each cut.
    cuts = [cut for mark in marks for cut in mark[:2]]
    passed = place = 0
    for span in spans:
        start, end = place, place + len(span.text)
        while place < end:
            while passed < len(cuts) and cuts[passed] <= place:
                passed += 1
            until = min(end, cuts[passed]) if passed < len(cuts) else end
            is_marked = passed % 2 == 1
            is_alike = is_marked and marks[passed // 2].is_alike
            yield Span(span.text[place - start : until - start], span.token, is_marked, is_alike)
            place = until
