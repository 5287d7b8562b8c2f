"""Places of a TOML file at which two sides differ, entry by entry: Git joins what stands in neighbouring lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jobs.parsing import load_toml
from webapp.core.sequences import list_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ENTRY = re.compile(r"""\s*("[^"\n]*"|'[^'\n]*'|[\w.-]+)\s*=""")
MOST_LINES = 40
"""Of one entry: each line more has all before it read again."""


class TomlEntry(NamedTuple):
    """A key with its value, and the comments and empty lines before it."""

    key: str
    """Empty of lines that have no entry behind them."""
    lines: str


def read_entries(text: str) -> list[TomlEntry] | None:
    """Return what these lines of a TOML file are made of; None where they are not whole entries of one table."""
    entries: list[TomlEntry] = []
    lines, key, count = "", "", 0
    for line in text.splitlines(keepends=True):
        lines += line
        if not key:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            beginning = _ENTRY.match(line)
            if beginning is None:
                return None
            key = beginning[1]
        count += 1
        if count > MOST_LINES:
            return None
        if _is_whole(lines):
            entries.append(TomlEntry(key, lines))
            lines, key, count = "", "", 0
    if key:
        return None
    return [*entries, TomlEntry("", lines)] if lines else entries


def pair_entries(ours: Sequence[TomlEntry], theirs: Sequence[TomlEntry]) -> Iterator[tuple[str, str]]:
    """Pair the lines of both sides by their keys, in an order that keeps that of each side; what one has not is empty."""
    runs = list_runs([entry.key for entry in ours], [entry.key for entry in theirs])
    for is_equal, our_start, our_end, their_start, their_end in runs:
        if is_equal:
            pairs = zip(ours[our_start:our_end], theirs[their_start:their_end], strict=True)
            yield from ((our_entry.lines, their_entry.lines) for our_entry, their_entry in pairs)
        else:
            yield from ((entry.lines, "") for entry in ours[our_start:our_end])
            yield from (("", entry.lines) for entry in theirs[their_start:their_end])


def find_table(text: str) -> str:
    """Return the last header of a table in a text, such as `[owners]`; empty where it has none."""
    lines = (line.strip() for line in reversed(text.splitlines()))
    return next((line for line in lines if line.startswith("[") and line.endswith("]")), "")


def name_entries(table: str, *sides: str) -> str:
    """Name a table and the first key that each side has in it: `[owners] "/nyc/clean"`; empty where there are neither."""
    keys = filter(None, (_find_key(side) for side in sides))
    return " ".join([table, ", ".join(dict.fromkeys(keys))]).strip()


def _find_key(text: str) -> str:
    beginnings = (_ENTRY.match(line) for line in text.splitlines())
    return next((beginning[1] for beginning in beginnings if beginning), "")


def _is_whole(lines: str) -> bool:
    try:
        load_toml(lines)
    except ValueError:
        return False
    return True
