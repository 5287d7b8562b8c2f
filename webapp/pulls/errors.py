"""Errors that only pull requests have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webapp.core.errors import Conflict


class MergeBlocked(Conflict):
    """The pull request may not be merged now; carries every reason as {code, message}."""

    def __init__(self, blocked_by: Sequence[Mapping[str, str]]) -> None:
        reasons = " ".join(reason["message"] for reason in blocked_by)
        super().__init__(
            f"This pull request may not be merged: {reasons}", code="merge_blocked", blocked_by=list(blocked_by)
        )
