"""States of publications."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State

MOST_ERRORS = 200
"""So many of a publication are kept: they are shown wherever the commit is."""


class PublicationState(State):
    """Where the publication of a commit's JobSpecs stands."""

    PENDING = "pending", "Being published", "wait", "The commit's modules are being imported, or wait for it."
    PUBLISHED = "published", "Published", "ok", "The branch has the commit's JobSpecs."
    FAILED = "failed", "Not published", "bad", "The modules have errors; the branch keeps the JobSpecs that it had."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[PublicationState, AbstractSet[PublicationState]]:
        """Return for each state those that may follow it."""
        # A branch that comes to a commit again publishes it again.
        return {
            cls.PENDING: {cls.PENDING, cls.PUBLISHED, cls.FAILED},
            cls.PUBLISHED: {cls.PENDING},
            cls.FAILED: {cls.PENDING},
        }
