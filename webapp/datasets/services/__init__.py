"""Everything that writes datasets, their branches and transactions.

Modules:
    transactions: transactions and branches, as people and jobs ask for them.
    recording: what every writer records, clients of the catalog included.
    deletions: branches deleted, and brought back.
    removals: snapshots that clients may not remove.
    checking: what `manage.py fsck` asks of datasets.
"""

from webapp.datasets.services.checking import check_datasets
from webapp.datasets.services.deletions import (
    carry_out_deletions,
    delete_branch,
    forget_branch,
    intend_deletions,
    remove_branches,
    restore_branch,
    sweep_deleted_branches,
)
from webapp.datasets.services.recording import lock, lock_paths, lock_tables, record_commit, register_dataset
from webapp.datasets.services.removals import check_removal, register_need
from webapp.datasets.services.transactions import (
    abort_by_hand,
    abort_open_transactions,
    abort_transaction,
    check_commit,
    check_nothing_open,
    commit_by_hand,
    commit_transactions,
    create_branch,
    create_dataset,
    forget_dataset,
    get_or_create_dataset,
    open_transaction,
    rename_dataset,
    set_parent,
    start_transaction,
    sweep_leftovers,
)

__all__ = [
    "abort_by_hand",
    "abort_open_transactions",
    "abort_transaction",
    "carry_out_deletions",
    "check_commit",
    "check_datasets",
    "check_nothing_open",
    "check_removal",
    "commit_by_hand",
    "commit_transactions",
    "create_branch",
    "create_dataset",
    "delete_branch",
    "forget_branch",
    "forget_dataset",
    "get_or_create_dataset",
    "intend_deletions",
    "lock",
    "lock_paths",
    "lock_tables",
    "open_transaction",
    "record_commit",
    "register_dataset",
    "register_need",
    "remove_branches",
    "rename_dataset",
    "restore_branch",
    "set_parent",
    "start_transaction",
    "sweep_deleted_branches",
    "sweep_leftovers",
]
