"""Public ids of things that are not counted: transactions and jobs."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """Return a random id of 12 hexadecimal digits; the unique constraint of its column settles the rest."""
    return uuid.uuid4().hex[:12]
