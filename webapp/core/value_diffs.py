"""What differs inside one value: words of a text, lines of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from jobs.parsing import load_json
from webapp.core.characters import look_alike
from webapp.core.sequences import list_runs

MOST_WORDS = 2_000
"""Of one end; a text of more is shown as a whole that changed, since finding its words takes their number squared."""
MOST_LINES = 2_000
CONTEXT = 3
"""Lines that are shown around those that differ."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class WordRun(NamedTuple):
    """Words that are equal at both ends, or that take each other's place."""

    before: str
    after: str
    is_equal: bool

    @property
    def is_alike(self) -> bool:
        """Whether its two texts differ and look the same."""
        return not self.is_equal and look_alike(self.before, self.after)


@dataclass(frozen=True)
class Piece:
    """A part of a text, and whether the other end lacks it."""

    text: str
    is_changed: bool
    is_alike: bool = False
    """Whether the other end has something there that looks the same."""


@dataclass(frozen=True)
class DocumentLine:
    """A line of a JSON document: of both ends, or of one of them. A gap stands for lines of both that are left out."""

    kind: Literal["same", "removed", "added", "gap"]
    pieces: Sequence[Piece]


def list_word_runs(before: str, after: str) -> list[WordRun]:
    """Split two texts into equal and different words, which alternate; texts of too many words are one run."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return [WordRun(before, after, before == after)]
    return [
        WordRun("".join(old[run.old_start : run.old_end]), "".join(new[run.new_start : run.new_end]), run.is_equal)
        for run in list_runs(old, new)
    ]


def diff_words(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces, alike and different ones in turn."""
    runs = list_word_runs(before, after)
    return (
        [Piece(run.before, not run.is_equal, run.is_alike) for run in runs if run.before],
        [Piece(run.after, not run.is_equal, run.is_alike) for run in runs if run.after],
    )


def read_document(value: Any) -> Any:
    """Return a list or an object, also one that a text holds as JSON; None where the value is none."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = load_json(value)
        except ValueError:
            return None
    return value if isinstance(value, dict | list) else None


def diff_documents(before: Any, after: Any) -> list[DocumentLine]:
    """Return the lines that differ between two documents, with a few around them; members are sorted by their names."""
    old, new = _write_lines(before), _write_lines(after)
    if max(len(old), len(new)) > MOST_LINES:
        return [*_tell("removed", old[:MOST_LINES]), *_tell("added", new[:MOST_LINES])]
    runs = list_runs(old, new)
    if all(run.is_equal for run in runs):
        return []
    lines: list[DocumentLine] = []
    for place, run in enumerate(runs):
        if not run.is_equal:
            lines += _tell_change(old[run.old_start : run.old_end], new[run.new_start : run.new_end])
            continue
        is_first, is_last = place == 0, place == len(runs) - 1
        same = old[run.old_start : run.old_end]
        lines += _shorten(same, head=0 if is_first else CONTEXT, tail=0 if is_last else CONTEXT)
    return lines


def _shorten(lines: list[str], *, head: int, tail: int) -> list[DocumentLine]:
    """Return the first and last of equal lines, with a gap for those between."""
    if len(lines) <= head + tail:
        return _tell("same", lines)
    end = len(lines) - tail
    return [*_tell("same", lines[:head]), DocumentLine("gap", ()), *_tell("same", lines[end:])]


def _write_lines(document: Any) -> list[str]:
    if document is None:
        return []
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True).split("\n")


def _tell(kind: Literal["same", "removed", "added"], lines: Sequence[str]) -> list[DocumentLine]:
    return [DocumentLine(kind, [Piece(line, is_changed=False)]) for line in lines]


def _tell_change(old: Sequence[str], new: Sequence[str]) -> Iterator[DocumentLine]:
    """Tell removed lines and then added ones; in those that look alike the words that differ are marked."""
    pairs = list(zip_longest(old, new))
    alike = [
        diff_words(before, after) if before is not None and after is not None and look_alike(before, after) else None
        for before, after in pairs
    ]
    sides: tuple[tuple[int, Literal["removed", "added"]], ...] = ((0, "removed"), (1, "added"))
    for side, kind in sides:
        for pair, pieces in zip(pairs, alike, strict=True):
            if pieces is not None:
                yield DocumentLine(kind, pieces[side])
            elif pair[side] is not None:
                yield from _tell(kind, [pair[side]])
