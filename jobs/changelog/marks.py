"""With which keys a changelog was made: it says so itself, in the metadata of its columns.

Arrow and Spark keep the metadata of a column whatever happens to the others, and when it gets another name; polars and
pandas know none, and who makes a changelog by hand gives none. Nothing in the rows tells the two apart, so changes that
say nothing have the keys of one of those that the job has read and whose key columns they still have; others have any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobs.changelog import errors
from jobs.changelog.keys import Key, names_of
from jobs.changelog.plan import TYPE
from jobs.parsing import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

ReadKeys = Sequence[Sequence[Key] | None]
"""The keys of each changelog that a job has read; None for net changes, to which any key may be applied."""
Marks = dict[str, dict[str, Any]]
"""Column → its metadata, of the columns that have any."""
MADE_WITH = "changelog.keys"
"""Of the column of change types: the paths of the keys, as JSON."""
NAMED = "changelog.column"
"""Of the column of a key: its name when the changelog was made."""


def make_marks(keys: Sequence[Key] | None) -> Marks:
    """Return the metadata of a changelog with these keys; none for net changes."""
    if keys is None:
        return {}
    columns = {key.column: {NAMED: key.column} for key in keys}
    return {**columns, TYPE: {MADE_WITH: json.dumps([key.path for key in keys])}}


def mark_schema(schema: pa.Schema, marks: Marks) -> pa.Schema:
    """Add metadata to the fields of a schema."""
    return pa.schema(
        [
            field.with_metadata({**(field.metadata or {}), **marks[field.name]}) if field.name in marks else field
            for field in schema
        ]
    )


def read_marks(schema: pa.Schema) -> Marks:
    """Return the metadata that Arrow data have."""
    return {
        field.name: {
            key.decode(errors="replace"): value.decode(errors="replace") for key, value in field.metadata.items()
        }
        for field in schema
        if field.metadata
    }


def check_keys(
    keys: Sequence[Key], marks: Mapping[str, Mapping[str, Any]], *, columns: Sequence[str], read: ReadKeys = ()
) -> None:
    """Refuse other keys than those with which a changelog says that it was made.

    One that says nothing, of these `columns`, has to have those of one in `read`: the changelogs it may come from.
    """
    text = marks.get(TYPE, {}).get(MADE_WITH)
    if text is None:
        _check_unmarked(keys, columns, read)
        return
    paths = [tuple(path) for path in load_json(text)]
    names = {name: {name, *(column for column, mark in marks.items() if mark.get(NAMED) == name)} for name, *_ in paths}
    is_same = len(paths) == len({key.path for key in keys}) and all(
        any(key.column in names[name] and key.path[1:] == tuple(rest) for key in keys) for name, *rest in paths
    )
    if not is_same:
        raise errors.other_keys([key.name for key in keys], [".".join(path) for path in paths])


def _check_unmarked(keys: Sequence[Key], columns: Sequence[str], read: ReadKeys) -> None:
    possible = [candidate for candidate in read if candidate is None or all(key.column in columns for key in candidate)]
    keyed = [candidate for candidate in possible if candidate is not None]
    paths = {key.path for key in keys}
    if len(keyed) < len(possible) or any({key.path for key in candidate} == paths for candidate in keyed):
        return
    if keyed:
        raise errors.keys_of_none_read(names_of(keys), [names_of(candidate) for candidate in keyed])
