"""What accounts ask the apps above them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.ports import Port

if TYPE_CHECKING:
    from collections.abc import Collection


@Port
def list_dropped_columns(*, path: str) -> Collection[str]:  # noqa: ARG001 - a question
    """Return every name of the columns that a dataset had once, or has on another branch, and that master lacks."""
    return ()
