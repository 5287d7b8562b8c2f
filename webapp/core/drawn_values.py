"""Values of data as HTML: null unlike an empty text, blanks and hidden characters drawn, long texts by what differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from django.utils.html import escape

from webapp.core.budgets import spending
from webapp.core.characters import draw_cell, draw_everything, fold
from webapp.core.value_diffs import diff_documents, diff_words, list_word_runs, read_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.core.value_diffs import DocumentLine, Piece, WordRun

LONG_TEXT = 80
"""Characters of a text that a cell shows whole."""
MINUS = "\N{MINUS SIGN}"
ARROW = '<span class="arrow" aria-hidden="true">→</span>'
_MOST_TITLE = 2_000
_AROUND = 24
"""Characters that a cell shows around the first difference of a long text."""
_CONTEXT = 200
"""Characters of equal text between differences that are not left out."""
_MOST_CHANGED = 2_000
"""Characters shown of one difference."""


def draw_value(cell: object, limit: int = LONG_TEXT) -> str:
    """Write a value as HTML: a page holds thousands of cells, and this is where their time goes."""
    if cell is None:
        return '<span class="null">null</span>'
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and not math.isfinite(cell):
        return "NaN" if math.isnan(cell) else ("∞" if cell > 0 else f"{MINUS}∞")
    if isinstance(cell, int | float):
        return str(cell).replace("-", MINUS, 1) if cell < 0 else str(cell)
    text = _text_of(cell)
    if text == "":
        return '<span class="null">empty</span>'
    if len(text) > limit:
        return f'<span title="{escape(text[:_MOST_TITLE])}">{draw_cell(text[:limit])}…</span>'
    return draw_cell(text)


def draw_beside(cell: object, other: object) -> str:
    """Write a value that is shown near another one: of a long text where they differ, and all that looks alike."""
    if not (_is_text(cell) and _is_text(other)):
        return draw_value(cell)
    text, beside = _text_of(cell), _text_of(other)
    is_long = max(len(text), len(beside)) > LONG_TEXT
    if not text or text == beside or not (is_long or _is_odd(text) or _is_odd(beside)):
        return draw_value(cell)
    pieces, _ = diff_words(text, beside)
    if len(text) <= LONG_TEXT:
        return draw_pieces(pieces)
    first = next((place for place, piece in enumerate(pieces) if piece.is_changed), None)
    if first is None:
        return draw_value(cell)
    before, middle = "".join(piece.text for piece in pieces[:first]), pieces[first]
    after = "".join(piece.text for piece in pieces[first + 1 :])
    shown = _draw_part(before[-_AROUND:]) + _clip(middle.text, LONG_TEXT, is_alike=middle.is_alike)
    shown += _draw_part(after[:_AROUND]) if len(middle.text) <= LONG_TEXT else ""
    is_cut = len(after) > _AROUND
    return f'<span title="{escape(text[:_MOST_TITLE])}">{"…" * (len(before) > _AROUND)}{shown}{"…" * is_cut}</span>'


def draw_change(before: object, after: object, delta: str = "") -> str:
    """Write both values of a changed cell: long texts and documents by what differs, with the rest behind a fold."""
    are_texts = _is_text(before) and _is_text(after)
    if are_texts and max(len(_text_of(before)), len(_text_of(after))) > LONG_TEXT:
        with spending() as budget:
            folded = _draw_long(before, after) if budget.left else ""
        if folded:
            return folded
    return f"<del>{draw_beside(before, after)}</del>{ARROW}<ins>{draw_beside(after, before)}</ins>{delta}"


def draw_pieces(pieces: Sequence[Piece], mark: str = "") -> str:
    """Write the pieces of a text, the changed ones in an element, and those that look alike with all of their characters."""
    last = len(pieces) - 1
    return "".join(
        _draw_piece(piece, mark, is_start=place == 0, is_end=place == last) for place, piece in enumerate(pieces)
    )


def draw_lines(lines: Sequence[DocumentLine]) -> str:
    """Write the lines of a document as items of a list."""
    words = {"removed": '<span class="sr">was </span>', "added": '<span class="sr">now </span>'}
    return "".join(
        f'<li class="within--{line.kind}">{words.get(line.kind, "")}'
        f'<span class="within__text">{"…" if line.kind == "gap" else draw_pieces(line.pieces)}</span></li>'
        for line in lines
    )


def _draw_piece(piece: Piece, mark: str, *, is_start: bool, is_end: bool) -> str:
    text = draw_everything(piece.text) if piece.is_alike else draw_cell(piece.text, is_start=is_start, is_end=is_end)
    return f"<{mark}>{text}</{mark}>" if mark and piece.is_changed else text


def _draw_long(old: object, new: object) -> str:
    """Return a fold with the first difference of two long values in its head, and all of them in it."""
    documents = [read_document(value) for value in (old, new)]
    runs = list_word_runs(_text_of(old), _text_of(new))
    changed = [place for place, run in enumerate(runs) if not run.is_equal]
    if not changed:
        return ""
    head = _draw_head(runs, changed[0])
    more = f' <span class="muted">+{len(changed) - 1} more</span>' if len(changed) > 1 else ""
    lines = diff_documents(*documents) if None not in documents else []
    # A document that was only written in another way differs in its text alone.
    body = f'<ul class="within__lines">{draw_lines(lines)}</ul>' if lines else f"<p>{_draw_runs(runs)}</p>"
    return f'<details class="within-cell"><summary>{head}{more}</summary>{body}</details>'


def _draw_head(runs: Sequence[WordRun], place: int) -> str:
    before = runs[place - 1].before[-_AROUND:] if place else ""
    after = runs[place + 1].before[:_AROUND] if place + 1 < len(runs) else ""
    is_begun = place > 1 or (place == 1 and len(runs[0].before) > _AROUND)
    has_rest = place + 2 < len(runs) or (place + 2 == len(runs) and len(runs[-1].before) > _AROUND)
    middle = _draw_run(runs[place], LONG_TEXT)
    return f"{'…' if is_begun else ''}{_draw_part(before)}{middle}{_draw_part(after)}{'…' if has_rest else ''}"


def _draw_runs(runs: Sequence[WordRun]) -> str:
    drawn = []
    for place, run in enumerate(runs):
        if not run.is_equal:
            drawn.append(_draw_run(run, _MOST_CHANGED))
            continue
        head = run.before if len(run.before) <= _CONTEXT else run.before[: _CONTEXT // 2] if place else ""
        tail = "" if head == run.before or place + 1 == len(runs) else run.before[-_CONTEXT // 2 :]
        drawn.append(_draw_part(head) + ("" if head == run.before else " … ") + _draw_part(tail))
    return "".join(drawn)


def _draw_run(run: WordRun, limit: int) -> str:
    sides = (("del", run.before), ("ins", run.after))
    return "".join(f"<{mark}>{_clip(text, limit, is_alike=run.is_alike)}</{mark}>" for mark, text in sides if text)


def _clip(text: str, limit: int, *, is_alike: bool) -> str:
    # Blanks at the ends are a part of the change.
    draw = draw_everything if is_alike else draw_cell
    return f"{draw(text[:limit])}{'…' if len(text) > limit else ''}"


def _draw_part(text: str) -> str:
    """Write a part of a text between others."""
    return draw_cell(text, is_start=False, is_end=False)


def _is_odd(text: str) -> bool:
    """Return whether a text can look like another one: all others are what they are folded to."""
    return fold(text) != text


def _is_text(cell: object) -> bool:
    return cell is not None and not isinstance(cell, bool | int | float)


def _text_of(cell: object) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Mapping):
        return "{" + ", ".join(f"{key}: {_text_of(item)}" for key, item in cell.items()) + "}"
    if isinstance(cell, Iterable) and not isinstance(cell, bytes):
        return "[" + ", ".join(_text_of(item) for item in cell) + "]"
    return "null" if cell is None else str(cell)
