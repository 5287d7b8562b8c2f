"""What the columns of an output are made of, as its job tells: the answer of a process that ran people's code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypedDict

from jobs.protocol import ColumnOrigin

MOST_NAMED = 10_000
"""Columns, with those they are made of; of an output with more nothing is kept."""
LONGEST_NAME = 400


class MadeOf(TypedDict):
    """What one column is made of."""

    column: str
    sources: dict[str, list[str]]
    """Path of an input → columns of that."""


def choose_sources(origins: Sequence[ColumnOrigin], *, inputs: Collection[str]) -> list[MadeOf]:
    """Return the reported columns that are made from the job's own inputs; none if they are too many to keep.

    Args:
        origins: what the job tells.
        inputs: the paths that it was given.

    """
    entries = [
        MadeOf(column=origin.column, sources={path: list(columns) for path, columns in sorted(origin.sources.items())})
        for origin in origins
        if set(origin.sources) <= set(inputs)
    ]
    names = [entry["column"] for entry in entries]
    names += [name for entry in entries for columns in entry["sources"].values() for name in columns]
    return entries if len(names) <= MOST_NAMED and all(len(name) <= LONGEST_NAME for name in names) else []
