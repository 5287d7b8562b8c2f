"""What the catalog asks the apps above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.ports import Port

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from webapp.core.principals import Principal


@Port
def find_chain(*, table: str, branch: str, by: Principal | None) -> tuple[str, ...] | None:  # noqa: ARG001 - a question
    """Return where a branch without anything of its own on a table reads from; None where nobody may use it."""
    return None


@Port
def lock_tables(*, tables: Sequence[str]) -> None:
    """Lock what belongs to tables, before the commit that moves them."""


@Port
def check_commit(*, table: str, branch: str, by: Principal | None) -> None:
    """Refuse a commit that something is in the way of, such as an open transaction.

    Called in the atomic block of the commit.

    Raises:
        Conflict: it names what is in the way.

    """


@Port
def check_removal(*, table: str, snapshots: Collection[int], by: Principal | None) -> None:
    """Refuse to remove snapshots that something above the catalog still needs.

    Called in the atomic block of the commit, after it has moved its branches, and only if it removes snapshots.

    Raises:
        Invalid: it names a snapshot and what needs it.

    """
