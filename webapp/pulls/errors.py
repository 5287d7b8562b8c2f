"""Errors that only pull requests have."""

from __future__ import annotations

from collections.abc import Sequence

from webapp.core.errors import Conflict
from webapp.pulls.rules.approvals import Blocker


class MergeBlocked(Conflict):
    """The pull request may not be merged now; carries every reason."""

    def __init__(self, blockers: Sequence[Blocker]) -> None:
        reasons = " ".join(blocker.message for blocker in blockers)
        super().__init__(
            f"This pull request may not be merged: {reasons}",
            code="merge_blocked",
            blocked_by=[blocker.as_json() for blocker in blockers],
        )
