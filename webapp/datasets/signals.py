"""What datasets announce and ask upwards. All are sent inside the atomic block; act on commit of the block."""

from django.dispatch import Signal

transaction_committed = Signal()
"""transaction: Transaction"""
transaction_aborted = Signal()
"""transaction: Transaction, reason: str"""
branch_removed = Signal()
"""dataset: Dataset, branch: str"""
git_chain_requested = Signal()
"""dataset_path: str, branch: str → tuple of the branch and its fallbacks in the owning repository, or None"""
jobspecs_requested = Signal()
"""paths: list of str → those of the datasets that a JobSpec on master makes"""
changes_requested = Signal()
"""transactions: sequence of Transaction → their ids with what each changed in rows, where somebody has counted"""
row_urls_requested = Signal()
"""dataset: Dataset, branch: str, rows: list of column → value → the addresses of the rows' histories, or nothing"""
