"""The key of a changelog: columns, or fields inside struct columns.

Resolved once, by the schema by which every row is read, so that a field that was renamed or retyped on the way is still
the same key. Executors compute the value of each; a NULL struct has NULL fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.changelog import errors


@dataclass(frozen=True)
class Key:
    """One part of a key."""

    name: str
    """As it was asked for."""
    path: tuple[str, ...]
    """The name of a column, then those of the fields inside it."""

    @property
    def column(self) -> str:
        """The column that has to be read."""
        return self.path[0]


def resolve_keys(names: Sequence[str], paths: Mapping[str, tuple[Any, ...]]) -> tuple[Key, ...]:
    """Find what names mean, and refuse those that are none of the paths of a schema (see `engine.paths`)."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise errors.no_list(names)
    if not names:
        raise errors.no_columns()
    for name in names:
        if name not in paths:
            raise errors.unknown_column(name, paths)
    return tuple(Key(name, tuple(field.name for field in paths[name])) for name in names)


def names_of(keys: Iterable[Key]) -> list[str]:
    """Return the names by which whoever asked called the keys."""
    return [key.name for key in keys]
