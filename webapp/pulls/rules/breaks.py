"""Whose code reads columns that a merge takes away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webapp.builds.rules.columns import ColumnUse, SpecColumns, judge_column


@dataclass(frozen=True)
class GoneColumns:
    """Which of the columns that go a transform reads, as far as its code tells."""

    read: tuple[str, ...]
    """It asks for them by name."""
    named: tuple[str, ...]
    """Its code has their names, which may stand for something else."""
    is_known: bool
    """Whether nothing of it is unknown."""

    @property
    def is_empty(self) -> bool:
        """Whether it is not known to read any."""
        return not self.read and not self.named


def judge_gone(columns: Sequence[str], *, path: str, code: SpecColumns | None) -> GoneColumns:
    """Return which columns of a dataset, of those that go, a transform reads."""
    uses = {column: judge_column(column, path=path, code=code) for column in columns}

    def of(use: ColumnUse) -> tuple[str, ...]:
        return tuple(column for column in columns if uses[column] == use)

    return GoneColumns(of(ColumnUse.READ), of(ColumnUse.NAMED), not of(ColumnUse.NOT_KNOWN))
