"""What builds ask the apps above them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.ports import Port

if TYPE_CHECKING:
    from collections.abc import Collection

    from webapp.repositories.models import Repository


@Port
def list_rebuilt_by(repository: Repository, branch: str) -> Collection[str] | None:  # noqa: ARG001 - a question
    """Return the datasets that a branch changes or that are made from such; None for a branch that changes none itself."""
    return None
