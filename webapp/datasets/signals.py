"""What datasets announce. All are sent inside the atomic block; act on commit of the block."""

from django.dispatch import Signal

transaction_committed = Signal()
"""transaction: Transaction"""
transaction_aborted = Signal()
"""transaction: Transaction, reason: str"""
branch_removed = Signal()
"""dataset: Dataset, branch: str"""
