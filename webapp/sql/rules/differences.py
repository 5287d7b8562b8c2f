"""How two results of one query stand to each other, in the words of the process that compares them."""

from __future__ import annotations

EQUAL, DIFFERENT, NOT_COMPARED = "equal", "different", "not_compared"
