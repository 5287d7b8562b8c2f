"""Files that two commits change in ways that Git cannot join: what each side has, and how somebody settles them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Literal, get_args

from webapp.git.entries import pair_entries, read_entries
from webapp.git.errors import BadChange
from webapp.git.objects import kind_of_mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from webapp.git.values import EntryKind

__all__ = [
    "TAKES",
    "Clash",
    "ConflictMarks",
    "ConflictedFile",
    "Resolution",
    "Segment",
    "SideVersion",
    "cut_ends",
    "read_marked",
    "settle",
    "split_entries",
]

Take = Literal["ours", "theirs", "both"]
TAKES: tuple[Take, ...] = get_args(Take)
GIT_MARK = 7
"""How many characters Git makes a mark of, where nobody asks for more."""
MOST_SPLIT = 32 * 1024
"""Characters of all clashes of a file that are told apart entry by entry: no rules are so long, and it takes time."""
_RUN = re.compile(rb"^(<+|=+|>+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SideVersion:
    """What one commit has at a path: the name of a blob or folder and its mode."""

    blob: str
    mode: int

    @property
    def kind(self) -> EntryKind:
        """Whether it is a file, a folder, a link or a submodule."""
        return kind_of_mode(self.mode)


@dataclass(frozen=True, slots=True)
class Clash:
    """Lines that both sides have changed, as each has them; a line keeps its end."""

    ours: str
    theirs: str


Segment = str | Clash
"""Lines on which both sides agree or that only one has changed, or lines on which they do not."""


@dataclass(frozen=True, slots=True)
class ConflictMarks:
    """How a text shows what clashes: marks longer than any that the text has of its own, with a name behind them."""

    size: int
    ours: str
    theirs: str

    @classmethod
    def fit(cls, texts: Iterable[bytes], *, ours: str, theirs: str) -> ConflictMarks:
        """Return marks that no line of these texts looks like."""
        longest = max((len(run) for text in texts for run in _RUN.findall(text)), default=0)
        return cls(max(GIT_MARK, longest + 1), ours, theirs)

    def write(self, segments: Iterable[Segment]) -> str:
        """Return a text with marks around what clashes."""
        return "".join(segment if isinstance(segment, str) else self._mark(segment) for segment in segments)

    def _mark(self, clash: Clash) -> str:
        end = "\r\n" if f"{clash.ours}{clash.theirs}".endswith("\r\n") else "\n"
        return (
            f"{'<' * self.size} {self.ours}{end}{_ended(clash.ours, end)}{'=' * self.size}{end}"
            f"{_ended(clash.theirs, end)}{'>' * self.size} {self.theirs}{end}"
        )

    def find_left(self, text: str) -> int | None:
        """Return the first line of a text that is still a mark."""
        marks = ("<" * self.size, ">" * self.size)
        return next((number for number, line in enumerate(text.split("\n"), 1) if line.startswith(marks)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictedFile:
    """A file that both sides have changed, or that one has changed and the other removed."""

    path: str
    ours: SideVersion | None
    """None where this side has no such file."""
    theirs: SideVersion | None
    segments: tuple[Segment, ...] = ()
    """Empty where it can only be taken as a whole: it is no text of both sides, or too long."""
    marks: ConflictMarks

    @property
    def is_ours(self) -> bool:
        """Whether our side has it."""
        return self.ours is not None

    @property
    def is_theirs(self) -> bool:
        """Whether the other side has it."""
        return self.theirs is not None

    @property
    def has_folder(self) -> bool:
        """Whether it is a folder on one side, so that only one of the two can stay."""
        return any(side is not None and side.kind == "folder" for side in (self.ours, self.theirs))

    @property
    def clashes(self) -> int:
        """How many places are to be settled."""
        return sum(isinstance(segment, Clash) for segment in self.segments)

    @property
    def marked(self) -> str:
        """The text with marks."""
        return self.marks.write(self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What somebody wants a file that conflicts to be: what a side has, of all or of each of its clashes, or this content."""

    path: str
    take: Take | None = None
    takes: tuple[Take, ...] = ()
    """Of a text: what is taken at each place that clashes, in their order."""
    content: bytes | None = None


def read_marked(text: str, marks: ConflictMarks) -> tuple[Segment, ...]:
    """Return what a text with marks is made of."""
    begin, middle, end = f"{'<' * marks.size} ", "=" * marks.size, f"{'>' * marks.size} "
    segments: list[Segment] = []
    agreed: list[str] = []
    sides: tuple[list[str], list[str]] = ([], [])
    into = agreed
    for line in _split_lines(text):
        if into is agreed and line.startswith(begin):
            segments += ["".join(agreed)] if agreed else []
            agreed.clear()
            into = sides[0]
        elif into is sides[0] and line.rstrip("\r\n") == middle:
            into = sides[1]
        elif into is sides[1] and line.startswith(end):
            segments.append(Clash("".join(sides[0]), "".join(sides[1])))
            sides = ([], [])
            into = agreed
        else:
            into.append(line)
    return (*segments, "".join(agreed)) if agreed else tuple(segments)


def cut_ends(segments: tuple[Segment, ...], *, ours: bytes, theirs: bytes) -> tuple[Segment, ...]:
    """Take the end off the last line again where a side has none: Git gives each line before a mark one."""
    if not segments or isinstance(segments[-1], str):
        return segments
    last = segments[-1]
    cut = Clash(
        last.ours if ours.endswith(b"\n") else last.ours.rstrip("\r\n"),
        last.theirs if theirs.endswith(b"\n") else last.theirs.rstrip("\r\n"),
    )
    return (*segments[:-1], cut)


def split_entries(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Split the clashes of a TOML file, so that each is about one entry."""
    segments = tuple(segments)
    clashes = [segment for segment in segments if isinstance(segment, Clash)]
    if sum(len(clash.ours) + len(clash.theirs) for clash in clashes) > MOST_SPLIT:
        return segments
    split: list[Segment] = []
    for segment in segments:
        for piece in [segment] if isinstance(segment, str) else _split_clash(segment):
            if split and isinstance(piece, str) and isinstance(split[-1], str):
                split[-1] += piece
            else:
                split.append(piece)
    return tuple(split)


def _split_clash(clash: Clash) -> list[Segment]:
    ours, theirs = read_entries(clash.ours), read_entries(clash.theirs)
    if ours is None or theirs is None:
        return [clash]
    return [
        our_lines if our_lines == their_lines else Clash(our_lines, their_lines)
        for our_lines, their_lines in pair_entries(ours, theirs)
    ]


def settle(file: ConflictedFile, resolution: Resolution) -> bytes | SideVersion | None:
    """Return what a file becomes: new content, what a side has of it, or None where it goes.

    Raises:
        BadChange: the resolution says nothing or two things, both of a file that is no text, leaves marks in it, or does
            not say once for each place what is taken.

    """
    if sum([resolution.content is not None, resolution.take is not None, bool(resolution.takes)]) != 1:
        raise BadChange(
            file.path, "say what becomes of it: a side is taken, or one for each place, or it has this content"
        )
    if resolution.takes and len(resolution.takes) != file.clashes:
        chosen = f"{len(resolution.takes)} of {file.clashes}"
        raise BadChange(file.path, f"say for each place that conflicts what is taken, not for {chosen}")
    if resolution.content is not None:
        line = file.marks.find_left(resolution.content.decode("utf-8", "replace")) if file.segments else None
        if line is not None:
            raise BadChange(file.path, f"line {line} still is a mark of the conflict")
        return resolution.content
    if file.segments:
        takes = resolution.takes or repeat(resolution.take)
        return "".join(_take(file.segments, iter(takes))).encode()
    if resolution.take == "both":
        raise BadChange(file.path, "both cannot be taken: it is no text on both sides")
    return file.ours if resolution.take == "ours" else file.theirs


def _take(segments: Sequence[Segment], takes: Iterator[Take | None]) -> Iterator[str]:
    for segment in segments:
        if isinstance(segment, str):
            yield segment
        elif (take := next(takes)) == "both":
            yield _ended(segment.ours, "\n") + segment.theirs
        else:
            yield segment.ours if take == "ours" else segment.theirs


def _ended(text: str, end: str) -> str:
    return text if not text or text.endswith("\n") else text + end


def _split_lines(text: str) -> list[str]:
    """Return lines with their ends as Git knows them: a form feed ends none."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
