"""Look-ups of datasets, branches and transactions.

Modules:
    datasets: datasets, and which of them somebody sees.
    branches: branches of a dataset: what they point to, what they come from, and those that were deleted.
    transactions: transactions, and the lines that they stand in.
    chains: what readers of a branch are shown: its own, or what it falls back to.
    staging: the staging branches through which open transactions are written.
    details: answers of the REST API that are more than one row.
    history: what the Branches and History tabs show.
    preview: a page of a dataset's rows.
"""

from webapp.datasets.queries.branches import (
    INTERNAL_PREFIX,
    branch_ancestors,
    check_chain,
    check_not_internal,
    committed_of,
    find_branch,
    find_written_branch,
    get_branch,
    get_deleted_branch,
    get_fallback_chain,
    is_kept,
    list_deleted_branches,
    list_deleted_in,
    list_parents,
    standing_of,
)
from webapp.datasets.queries.chains import find_committed_at, parse_view, resolve_input, resolve_view
from webapp.datasets.queries.datasets import (
    ALL,
    DatasetFilter,
    find_dataset,
    get_dataset,
    is_listed,
    list_datasets,
    list_datasets_in,
    list_with_jobspec,
    path_in_folders,
    path_is_visible,
)
from webapp.datasets.queries.staging import (
    STAGING_PREFIX,
    check_staging_use,
    get_table_chain,
    is_staging,
)
from webapp.datasets.queries.transactions import (
    LineStep,
    check_not_expired,
    check_usable_base,
    find_transaction,
    get_transaction,
    latest_committed,
    leads_to,
    list_history,
    list_history_ids,
    list_line,
    list_newest,
    list_schemas,
    list_transactions,
    list_transactions_made_on,
    pointer_of,
)

__all__ = [
    "ALL",
    "INTERNAL_PREFIX",
    "STAGING_PREFIX",
    "DatasetFilter",
    "LineStep",
    "branch_ancestors",
    "check_chain",
    "check_not_expired",
    "check_not_internal",
    "check_staging_use",
    "check_usable_base",
    "committed_of",
    "find_branch",
    "find_committed_at",
    "find_dataset",
    "find_transaction",
    "find_written_branch",
    "get_branch",
    "get_dataset",
    "get_deleted_branch",
    "get_fallback_chain",
    "get_table_chain",
    "get_transaction",
    "is_kept",
    "is_listed",
    "is_staging",
    "latest_committed",
    "leads_to",
    "list_datasets",
    "list_datasets_in",
    "list_deleted_branches",
    "list_deleted_in",
    "list_history",
    "list_history_ids",
    "list_line",
    "list_newest",
    "list_parents",
    "list_schemas",
    "list_transactions",
    "list_transactions_made_on",
    "list_with_jobspec",
    "parse_view",
    "path_in_folders",
    "path_is_visible",
    "pointer_of",
    "resolve_input",
    "resolve_view",
    "standing_of",
]
