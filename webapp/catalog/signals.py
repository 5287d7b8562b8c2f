"""What the catalog tells the layers above.

All are sent inside the atomic block that moves the table's pointer: a receiver's rows and the pointer change together or
not at all.
"""

from django.dispatch import Signal

# A table came into being (table, branch, principal).
table_created = Signal()
# A branch of a table changed (table, branch, before: Pointer | None, after: Pointer, metadata, shared, principal); `metadata` is
# the table's as it is now, and `shared` names what changed of all branches at once, such as properties.
table_committed = Signal()
# A client removed a branch from a table (table, branch, place: Place, where it stood, principal).
table_branch_removed = Signal()
# A table is gone (table, principal).
table_dropped = Signal()
# A table has another name (table, new_table, principal).
table_renamed = Signal()
# A table whose metadata is damaged is about to get other metadata (table, principal): what is open on it cannot go on.
table_repairing = Signal()
