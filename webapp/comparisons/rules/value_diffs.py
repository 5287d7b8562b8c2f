"""What differs inside one value: words of a text, lines of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jobs.parsing import load_json
from webapp.git.sequences import list_runs

MOST_WORDS = 2_000
"""Of one end; a text of more is shown as a whole that changed, since finding its words takes their number squared."""
MOST_LINES = 2_000
CONTEXT = 3
"""Lines that are shown around those that differ."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Piece:
    """A part of a text, and whether the other end lacks it."""

    text: str
    is_changed: bool


@dataclass(frozen=True)
class DocumentLine:
    """A line of a JSON document: of both ends, or of one of them. A gap stands for lines of both that are left out."""

    kind: Literal["same", "removed", "added", "gap"]
    text: str


def diff_words(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces, alike and different ones in turn."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return [Piece(before, is_changed=True)], [Piece(after, is_changed=True)]
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for is_equal, start, end, from_, to in list_runs(old, new):
        for pieces, words in ((sides[0], old[start:end]), (sides[1], new[from_:to])):
            if words:
                pieces.append(Piece("".join(words), is_changed=not is_equal))
    return sides


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
            lines += [
                *_tell("removed", old[run.old_start : run.old_end]),
                *_tell("added", new[run.new_start : run.new_end]),
            ]
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
    return [*_tell("same", lines[:head]), DocumentLine("gap", ""), *_tell("same", lines[end:])]


def _write_lines(document: Any) -> list[str]:
    if document is None:
        return []
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True).split("\n")


def _tell(kind: Literal["same", "removed", "added"], lines: Sequence[str]) -> list[DocumentLine]:
    return [DocumentLine(kind, line) for line in lines]
