"""Everything that writes datasets, their branches and transactions."""

from webapp.datasets.services.checking import check_datasets
from webapp.datasets.services.transactions import (
    abort_transaction,
    check_commit,
    check_nothing_open,
    commit_transactions,
    create_branch,
    create_dataset,
    delete_branch,
    delete_branch_in_folders,
    forget_branch,
    forget_dataset,
    get_or_create_dataset,
    open_transaction,
    record_commit,
    register_dataset,
    rename_dataset,
    start_transaction,
)

__all__ = [
    "abort_transaction",
    "check_commit",
    "check_datasets",
    "check_nothing_open",
    "commit_transactions",
    "create_branch",
    "create_dataset",
    "delete_branch",
    "delete_branch_in_folders",
    "forget_branch",
    "forget_dataset",
    "get_or_create_dataset",
    "open_transaction",
    "record_commit",
    "register_dataset",
    "rename_dataset",
    "start_transaction",
]
