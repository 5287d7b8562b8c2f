"""The rules of one diff, bound to its columns: its key, what counts as equal, and which rows are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jobs.engine.plan.columns import comparable, find_pair
from jobs.engine.plan.rules import filter_columns, filter_pairs, filter_sql, is_near

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyiceberg.expressions import BooleanExpression

    from jobs.engine.plan.columns import Pair


@dataclass(frozen=True)
class DiffRules:
    """The columns of a diff and the rules that apply to them."""

    pairs: tuple[Pair, ...]
    named_keys: Mapping[str, Pair | None] = field(default_factory=dict)
    """What the rules name as key, in their order; None where there is no such column or field."""
    ignored: tuple[str, ...] = ()
    row_filter: BooleanExpression | None = None
    tolerances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def key_pairs(self) -> tuple[Pair, ...]:
        """The parts of the key in the order in which the rules name them: columns, and fields inside struct columns."""
        return tuple(pair for pair in self.named_keys.values() if pair is not None)

    @cached_property
    def value_pairs(self) -> tuple[Pair, ...]:
        """Compared columns that are not part of the key; a struct that holds a part of it may differ in others."""
        keys = {pair.index for pair in self.key_pairs if pair.outer is None}
        return tuple(pair for pair in self.pairs if pair.compared and pair.index not in keys)

    @cached_property
    def chosen_by(self) -> Mapping[str, Pair]:
        """The columns by which rows are chosen."""
        return filter_pairs(filter_columns(self.row_filter), self.pairs)

    def choose(self, rows: str, side: str, names: str = "*") -> str:
        """Return SQL of those of an end's rows that the filter chooses."""
        if self.row_filter is None:
            return rows
        return f"SELECT {names} FROM ({rows}) candidates WHERE {filter_sql(self.row_filter, self.chosen_by, side)}"

    def key_values(self, side: str) -> list[str]:
        """Return SQL of the key of one end, comparable with the other's."""
        values = []
        for pair in self.key_pairs:
            if pair.before is None or pair.after is None:
                values.append(pair.value(side))
                continue
            before, after = comparable(pair.before.type, pair.after.type, pair.value("b"), pair.value("a"))
            values.append(before if side == "b" else after)
        return values

    def tolerance(self, pair: Pair) -> Mapping[str, float]:
        """Return within what the values of a column count as equal; nothing where there is no such rule."""
        return next((limits for name, limits in self.tolerances.items() if name in pair.names), {})

    def differs(self, pair: Pair) -> str:
        """Return SQL that is true where the two values of a column are not the same."""
        assert pair.before is not None  # noqa: S101 - compared pairs have both
        assert pair.after is not None  # noqa: S101
        before, after = comparable(pair.before.type, pair.after.type, f"b{pair.index}", f"a{pair.index}")
        different = f"{before} IS DISTINCT FROM {after}"
        limits = self.tolerance(pair)
        if not limits or not pair.is_number:
            return f"({different})"
        near = is_near(pair, absolute=limits.get("absolute"), relative=limits.get("relative"))
        return f"({different} AND NOT coalesce({near}, false))"

    def unchanged_pairs(self, differing: Collection[int]) -> list[Pair]:
        """List the columns of one type that have equal values at both ends of every row that both have.

        `differing` are the indexes of those that have not.
        """
        return [
            pair
            for pair in self.pairs
            if pair.compared and pair.index not in differing and pair.is_one_type and not self.tolerance(pair)
        ]

    def describe_useless(self) -> list[str]:
        """Describe rules without effect, and columns that no rule makes comparable, in sentences."""
        names = {name for pair in self.pairs for name in pair.names}
        named = {"ignored column": self.ignored, "column with a tolerance": tuple(self.tolerances)}
        sentences = [
            f"The rules name {name!r} as {role}, but neither side has that column."
            for role, columns in named.items()
            for name in columns
            if name not in names
        ]
        for pair in self.pairs:
            if pair.unreadable:
                sentences.append(f"Column {pair.name!r} is not compared: this engine does not read its type.")
            elif pair.compared and self.tolerance(pair) and not pair.is_number:
                sentences.append(f"The tolerance of {pair.name!r} has no effect: it is not a number on both sides.")
        return sentences


def bind_keys(names: Iterable[str], pairs: tuple[Pair, ...]) -> dict[str, Pair | None]:
    """Return what the names of a key mean."""
    return {name: find_pair(name, pairs) for name in names}
