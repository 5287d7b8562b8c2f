"""From the rows to compare to the table `changes`.

With a key that is one full outer join, which is exact as long as no key has two rows among them. With repeated keys the
net changes are computed and, where no touched key has two rows at either end, retagged as updates; else the diff stays
net and says which keys are in the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jobs.engine.compare.joined import join_rows, pair_rows
from jobs.engine.compare.keys import find_missing_keys, find_null_keys, find_repeats_after_join, find_repeats_after_net
from jobs.engine.compare.net import store_net_changes

if TYPE_CHECKING:
    from jobs.engine.compare.compared_rows import ComparedRows
    from jobs.engine.compare.keys import Trouble

_NET = "net"


@dataclass(frozen=True)
class Matching:
    """How the rows of both ends were matched, and what is wrong with the key."""

    mode: Literal["identifier", "net"]
    trouble: Trouble | None


def find_changes(rows: ComparedRows) -> Matching:
    """Fill the table `changes`."""
    rules = rows.comparison.rules
    missing = find_missing_keys(rows.comparison.plan)
    if not rows.views:
        store_net_changes(rows, "changes")
        return Matching("identifier" if rules.key_pairs else "net", None)
    if not rules.named_keys or missing is not None:
        store_net_changes(rows, "changes")
        return Matching("net", missing)
    trouble = _match_unique(rows) if join_rows(rows) else _match_repeated(rows)
    if trouble is not None:
        return Matching("net", trouble)
    return Matching("identifier", find_null_keys(rows.comparison.connection, rules.key_pairs))


def _match_unique(rows: ComparedRows) -> Trouble | None:
    """Judge what the join has found: only rows that it did not see can repeat a key."""
    trouble = find_repeats_after_join(rows)
    if trouble is not None:
        rows.comparison.connection.execute("DROP TABLE IF EXISTS changes")
        store_net_changes(rows, "changes")
    return trouble


def _match_repeated(rows: ComparedRows) -> Trouble | None:
    """Fill `changes` where some key has two of the rows to compare: they may be equal ones, which are no change."""
    connection = rows.comparison.connection
    store_net_changes(rows, _NET)
    trouble = find_repeats_after_net(rows)
    if trouble is None:
        deleted, inserted = (f"(SELECT * FROM {_NET} WHERE change = '{change}')" for change in ("deleted", "inserted"))
        pair_rows(rows, [(deleted, inserted)])
    else:
        connection.execute("DROP TABLE IF EXISTS changes")
        connection.execute(f"ALTER TABLE {_NET} RENAME TO changes")
    return trouble
