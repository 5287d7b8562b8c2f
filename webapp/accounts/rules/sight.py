"""What a reader may see of the rows of a dataset: all of its columns, or all but those that are hidden from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.protocol import fold_column


@dataclass(frozen=True)
class SensitiveRule:
    """What a repository says of a dataset of its own: the columns that not every reader may see, and who else may."""

    columns: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Whose people see the columns, beside the repository's maintainers."""
    repositories: tuple[str, ...] = ()
    """Other repositories whose code may read the columns."""


@dataclass(frozen=True)
class RowSight:
    """What one reader may see of the rows of one dataset. Whoever reads rows for somebody takes it, and shows no more."""

    hidden: frozenset[str] = field(default_factory=frozenset)
    """Names of columns as `fold` writes them."""

    @classmethod
    def without(cls, names: Iterable[str]) -> RowSight:
        """Return a sight from which these columns are hidden; of a field inside a struct, the whole column."""
        return cls(frozenset(map(fold_column, names)) | {fold_column(name).partition(".")[0] for name in names})

    def hides(self, *names: str | None) -> bool:
        """Return whether a column that has any of these names is hidden, or the column that a field is inside of."""
        return bool(self.hidden) and any(
            fold_column(name) in self.hidden or fold_column(name).partition(".")[0] in self.hidden
            for name in names
            if name
        )

    def pick_hidden(self, names: Iterable[str]) -> list[str]:
        """Return those of some columns that are hidden."""
        return [name for name in names if self.hides(name)]

    def mask(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with None in the place of what is hidden."""
        return {name: None if self.hides(name) else value for name, value in row.items()}


EVERYTHING = RowSight()
"""The sight of those from whom nothing is hidden."""
