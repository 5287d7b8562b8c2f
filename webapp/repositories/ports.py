"""What repositories ask the apps above them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.core.ports import Port

if TYPE_CHECKING:
    from webapp.repositories.models import Repository


@dataclass(frozen=True, slots=True)
class DataUse:
    """The bytes that the data of a repository takes."""

    used: int | None
    """None if nothing limits them, or an object store does not answer: then they are not measured."""
    allowed: int | None
    """None without a limit."""
    is_default: bool
    """Whether no administrator has set the limit."""


@Port
def find_data_use(*, repository: Repository) -> DataUse:  # noqa: ARG001 - a question
    """Return how much data a repository has, and how much it can have."""
    return DataUse(used=None, allowed=None, is_default=True)
