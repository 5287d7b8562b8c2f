"""What is told to webhooks, how it is signed, and when a delivery that failed is tried again."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

PUSH, PULL_REQUEST, REVIEW, COMMENT, BUILD = "push", "pull_request", "review", "comment", "build"
EVENTS = (PUSH, PULL_REQUEST, REVIEW, COMMENT, BUILD)
MOST_TRIES = 6
FIRST_PAUSE = timedelta(seconds=10)


def sign(secret: str, body: bytes) -> str:
    """Return the signature of a body, as GitHub writes it: receivers compare it with their own."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def pause_after(tries: int) -> timedelta | None:
    """Return how long to wait after so many tries that failed; None where it is given up."""
    return None if tries >= MOST_TRIES else FIRST_PAUSE * 4 ** (tries - 1)


def is_taken(status: int) -> bool:
    """Whether the receiver has taken a delivery."""
    return 200 <= status < 300
