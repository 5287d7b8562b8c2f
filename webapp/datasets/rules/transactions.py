"""What may happen to a transaction, and what a new one may stand on."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from webapp.core.errors import Conflict, InvalidInput
from webapp.core.states import State

if TYPE_CHECKING:
    from datetime import datetime


class TransactionState(State):
    """Where a transaction stands."""

    OPEN = "OPEN", "Open", "open", "Being written; readers see the one before it."
    COMMITTED = "COMMITTED", "Committed", "ok", "What readers of the branch see."
    ABORTED = "ABORTED", "Aborted", "abort", "Nothing of it is visible."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[TransactionState, AbstractSet[TransactionState]]:
        """Return for each state those that may follow it."""
        return {cls.OPEN: {cls.COMMITTED, cls.ABORTED}, cls.COMMITTED: set(), cls.ABORTED: set()}


SNAPSHOT, APPEND, UPDATE, DELETE = "SNAPSHOT", "APPEND", "UPDATE", "DELETE"
TYPE_CHOICES = [
    (SNAPSHOT, "Replaces what was there"),
    (APPEND, "Adds rows only"),
    (UPDATE, "Adds and rewrites rows, or changes schema, spec, order or properties alone"),
    (DELETE, "Removes rows only"),
]
TYPES = tuple(name for name, _ in TYPE_CHOICES)


@dataclass(frozen=True)
class Standing:
    """What a branch points to, as far as the rules need it."""

    transaction: str | None
    """The latest transaction, None on an empty branch."""
    state: TransactionState | None


EMPTY = Standing(transaction=None, state=None)


def check_transition(*, transaction: str, state: TransactionState, to: TransactionState) -> None:
    """Refuse to close what is closed: a transaction is committed or aborted once."""
    if state not in to.earlier:
        message = f"Transaction {transaction} is {state} and cannot become {to}."
        raise Conflict(message, code="transaction_closed", state=state)


def check_type(type_: str) -> str:
    """Return the type as it is written, or say which ones there are."""
    if type_ not in TYPES:
        message = f"A transaction's type is one of {', '.join(TYPES)}, not {type_!r}."
        raise InvalidInput(message, errors={"type": [message]})
    return type_


def check_may_open(*, dataset: str, branch: str, standing: Standing) -> None:
    """Refuse a second open transaction, also where a branch shares the open one of the branch it was made off."""
    if standing.state == TransactionState.OPEN:
        message = (
            f"Transaction {standing.transaction} is open on {dataset}, branch {branch}: "
            "nothing else is written there until it is committed or aborted."
        )
        raise Conflict(message, code="transaction_open", transaction=standing.transaction)


def type_of(operations: AbstractSet[str], *, is_replaced: bool) -> str:
    """Return the type of a transaction by what its snapshots did to rows; one without snapshots is an UPDATE."""
    if is_replaced:
        return SNAPSHOT
    return {frozenset({"append"}): APPEND, frozenset({"delete"}): DELETE}.get(frozenset(operations), UPDATE)


def true_type(stated: str, operations: AbstractSet[str], *, is_replaced: bool, keeps_rows: bool) -> str:
    """Return the type under which a transaction is recorded: what was stated at its start unless its snapshots differ.

    Args:
        stated: the type it was opened with.
        operations: what its snapshots did; none where nothing was written.
        is_replaced: whether it left the line of snapshots that was there.
        keeps_rows: whether rows of before are still there for certain, so that it replaced nothing.

    """
    fits = {
        SNAPSHOT: not keeps_rows,
        APPEND: not is_replaced and operations == {"append"},
        UPDATE: True,
        DELETE: not is_replaced and operations == {"delete"},
    }
    is_written = bool(operations) or is_replaced
    return type_of(operations, is_replaced=is_replaced) if is_written and not fits[stated] else stated


def not_before(moment: datetime, earlier: datetime | None) -> datetime:
    """Return a time for the next event of a branch: now, but never before the last one, whatever the clock does."""
    return max(moment, earlier) if earlier else moment
