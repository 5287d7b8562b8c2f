"""What differs inside one value: words of a text, lines of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

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
    for tag, start, end, from_, to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for pieces, words in ((sides[0], old[start:end]), (sides[1], new[from_:to])):
            if words:
                pieces.append(Piece("".join(words), is_changed=tag != "equal"))
    return sides


def read_document(value: Any) -> Any:
    """Return a list or an object, also one that a text holds as JSON; None where the value is none."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict | list) else None


def diff_documents(before: Any, after: Any) -> list[DocumentLine]:
    """Return the lines that differ between two documents, with a few around them; members are sorted by their names."""
    old, new = _write_lines(before), _write_lines(after)
    if max(len(old), len(new)) > MOST_LINES:
        return [*_tell("removed", old[:MOST_LINES]), *_tell("added", new[:MOST_LINES])]
    lines: list[DocumentLine] = []
    shown = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if group[0][1] > shown:
            lines.append(DocumentLine("gap", ""))
        for tag, start, end, from_, to in group:
            if tag == "equal":
                lines += _tell("same", old[start:end])
            else:
                lines += [*_tell("removed", old[start:end]), *_tell("added", new[from_:to])]
        shown = group[-1][2]
    return [*lines, DocumentLine("gap", "")] if lines and shown < len(old) else lines


def _write_lines(document: Any) -> list[str]:
    if document is None:
        return []
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True).split("\n")


def _tell(kind: Literal["same", "removed", "added"], lines: Sequence[str]) -> list[DocumentLine]:
    return [DocumentLine(kind, line) for line in lines]
