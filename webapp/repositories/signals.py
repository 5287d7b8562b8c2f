"""What repositories tell the apps above. All are sent inside the atomic block that records the fact.

Receivers change rows at once and do everything else in `transaction.on_commit`.
"""

from __future__ import annotations

from django.dispatch import Signal

repository_created = Signal()
"""repository: Repository, by: Principal."""

repository_deleted = Signal()
"""repository: Repository, by: Principal. Sent before the row goes."""

branch_created = Signal()
"""repository, branch: str, parent: str, head: str, by: Principal | None. Sent before commit_created of the same branch."""

commit_created = Signal()
"""repository, branch: str, before: str ("" for a new branch), after: str, by: Principal | None.

Two announcements of one branch may arrive in the other order than their commits; `queries.get_head` tells the truth.
`by` is None when the sweep repeats what a crash lost.
"""

branch_deleted = Signal()
"""repository, branch: str, head: str, data: "delete" | "keep", by: Principal | None."""

status_reported = Signal()
"""status: CommitStatus that is new or says something else."""

publication_finished = Signal()
"""publication: Publication that has become published or failed."""
