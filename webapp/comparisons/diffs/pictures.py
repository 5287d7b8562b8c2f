"""Small pictures of rows: what a row of a diff looked like, kept where somebody speaks of it.

A picture is JSON: `change`, and `cells`, each with the name of its column, its types at both ends (null where that end has
no such column), and the values. Long values are cut. Stored diffs go when the rows that they compare do; pictures stay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs.artifact import DiffColumn
from webapp.comparisons.diffs.rows import ValueDiff, read_rows_with
from webapp.comparisons.rules.row_keys import NULL, text_of
from webapp.core.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.rows import Row

MOST_CELLS = 8
MOST_TEXT = 200


@dataclass(frozen=True)
class TakenPicture:
    """A picture, and what it is of."""

    key: Mapping[str, Any]
    column: str | None
    content: Mapping[str, Any]


def take_picture(folder: Path, *, key: Mapping[str, Any], column: str | None) -> dict[str, Any] | None:
    """Return a picture of the changed row with this key, as a form or a program names it; None where there is none.

    It has the key, the column that is spoken of, and those that changed, as far as there is room.
    """
    return next((_draw(row, column) for row in _read_rows(folder, [key])), None)


def list_still_true(folder: Path, taken: Sequence[TakenPicture], sight: RowSight) -> list[bool]:
    """Return of each picture whether its row looks now as it did then, to a reader.

    What is hidden from them is not looked at: whether it has changed would say what it is.
    """
    rows = _read_rows(folder, [picture.key for picture in taken])
    by_key = {_key_of(_draw(row, None)): row for row in rows}
    now = [by_key.get(_key_of(picture.content)) for picture in taken]
    return [
        row is not None and _list_seen(_draw(row, picture.column), sight) == _list_seen(picture.content, sight)
        for picture, row in zip(taken, now, strict=True)
    ]


def mask_picture(picture: Mapping[str, Any], sight: RowSight) -> Mapping[str, Any]:
    """Return a picture without the values that are hidden from its reader; the cells that had them say so."""
    masked = {"before": None, "after": None, "delta": None, "is_hidden": True}
    cells = [{**cell, **masked} if sight.hides(cell["name"]) else cell for cell in picture["cells"]]
    return {**picture, "cells": cells}


def list_values(picture: Mapping[str, Any]) -> list[ValueDiff]:
    """Return the cells of a picture as those of a row of a diff."""
    return [
        ValueDiff(_make_column(cell), cell["before"], cell["after"], cell["state"], cell["delta"])
        for cell in picture["cells"]
    ]


def _read_rows(folder: Path, keys: Iterable[Mapping[str, Any]]) -> list[Row]:
    texts = [{name: _read_text(value) for name, value in key.items()} for key in keys]
    try:
        # whole rows: who looks at a picture may see more than who speaks of it, or less
        return read_rows_with(folder, EVERYTHING, texts)
    except AppError:
        return []  # the stored rows are gone, or damaged


def _draw(row: Row, column: str | None) -> dict[str, Any]:
    return {"change": row.change, "cells": [_keep(cell) for cell in _choose(row, column)]}


def _list_seen(picture: Mapping[str, Any], sight: RowSight) -> Sequence[Mapping[str, Any]]:
    cells: Sequence[Mapping[str, Any]] = mask_picture(picture, sight)["cells"]
    return cells


def _key_of(picture: Mapping[str, Any]) -> str:
    ends = ("name", "before", "after")
    return json.dumps([[cell[end] for end in ends] for cell in picture["cells"] if cell["is_key"]])


def _choose(row: Row, column: str | None) -> Sequence[ValueDiff]:
    keys = [cell for cell in row.cells if cell.column.is_key]
    others = [cell for cell in row.cells if not cell.column.is_key]
    # What is spoken of comes first, then what changed; sorting leaves equals in their order.
    others.sort(key=lambda cell: (cell.column.name != column, cell.state != "changed"))
    are_all = row.change != "updated"
    chosen = [cell for cell in others if are_all or cell.state == "changed" or cell.column.name == column]
    return [*keys, *chosen][: max(MOST_CELLS, len(keys) + 1)]


def _keep(cell: ValueDiff) -> dict[str, Any]:
    column = cell.column
    return {
        "name": column.name,
        "is_key": column.is_key,
        "before_type": column.before_type,
        "after_type": column.after_type,
        "state": cell.state,
        "before": _shorten(cell.before),
        "after": _shorten(cell.after),
        "delta": cell.delta,
    }


def _shorten(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
    return f"{text[:MOST_TEXT]}…" if isinstance(text, str) and len(text) > MOST_TEXT else text


def _make_column(cell: Mapping[str, Any]) -> DiffColumn:
    name, before, after = cell["name"], cell["before_type"], cell["after_type"]
    return DiffColumn(
        index=0,
        name=name,
        before_name=None if before is None else name,
        before_type=before,
        after_name=None if after is None else name,
        after_type=after,
        is_key=cell["is_key"],
        is_ignored=False,
        is_unreadable=False,
        is_hidden=cell.get("is_hidden", False),
    )


def _read_text(value: Any) -> str | None:
    """Return a value of a key as a text; forms send the word for NULL."""
    text = text_of(value)
    return None if text == NULL else text
