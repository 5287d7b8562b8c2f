"""A row that both sides have changed: what it was, what each made of it, and where they contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Values = Mapping[str, Any]
"""A row by the names of its columns."""


class Changer(StrEnum):
    """Who has changed a value."""

    NOBODY = "nobody"
    SOURCE = "source"
    TARGET = "target"
    ALIKE = "alike"
    """Both, to the same value."""
    CONFLICT = "conflict"
    """Both, to different ones."""


@dataclass(frozen=True)
class ThreeWayValue:
    """A value of a row before either side changed it, and after each has."""

    name: str
    base: Any
    source: Any
    target: Any
    side: Changer


@dataclass(frozen=True)
class ThreeWayRow:
    """A row that both sides have changed."""

    key: Values
    base: Values | None
    """None where both have added it."""
    source: Values | None
    """None where the source has removed it."""
    target: Values | None
    values: tuple[ThreeWayValue, ...]

    @property
    def conflicts(self) -> list[str]:
        """The columns in which they contradict each other; those that one has changed where the other removed the row."""
        return [value.name for value in self.values if value.side == Changer.CONFLICT]


def compare_three_ways(
    *,
    key: Values,
    columns: Sequence[str],
    base: Values | None,
    source: Values | None,
    target: Values | None,
    changed: tuple[frozenset[str], frozenset[str]],
) -> ThreeWayRow:
    """Say of each value who changed it.

    Args:
        key: of the row.
        columns: those to look at, beside the key.
        base: the row before either side changed it.
        source: the row as the source has it.
        target: the row as the target has it.
        changed: the columns that the source, and that the target has changed, by the review rules: a difference within a
            tolerance is none.

    """
    values = []
    for name in columns:
        old, ours, theirs = ((row or {}).get(name) for row in (base, source, target))
        is_ours, is_theirs = (
            name in own or (row is None) != (base is None) for own, row in zip(changed, (source, target), strict=True)
        )
        values.append(
            ThreeWayValue(name, old, ours, theirs, _judge(is_ours, is_theirs, (source, ours), (target, theirs)))
        )
    return ThreeWayRow(key, base, source, target, tuple(values))


def _judge(is_ours: bool, is_theirs: bool, ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> Changer:
    if is_ours and is_theirs:
        is_there = (ours[0] is None, theirs[0] is None)
        return Changer.ALIKE if is_there[0] == is_there[1] and ours[1] == theirs[1] else Changer.CONFLICT
    return Changer.SOURCE if is_ours else Changer.TARGET if is_theirs else Changer.NOBODY
