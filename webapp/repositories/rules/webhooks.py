"""What webhooks receive and in which shape, how it is signed, and when a delivery that failed is tried again."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

PUSH, PULL_REQUEST, REVIEW, COMMENT, BUILD = "push", "pull_request", "review", "comment", "build"
EVENTS = (PUSH, PULL_REQUEST, REVIEW, COMMENT, BUILD)
TRIBUTARY, SLACK, TEAMS = "tributary", "slack", "teams"
SHAPE_CHOICES = [
    (TRIBUTARY, "JSON with all facts"),
    (SLACK, "A message for Slack"),
    (TEAMS, "A card for Microsoft Teams"),
]
MOST_TEXT = 2500
"""Signs of a message: Slack takes 3,000 a section, after < and & were written out."""
MOST_TRIES = 6
FIRST_PAUSE = timedelta(seconds=10)


def write_message(shape: str, *, text: str, url: str) -> bytes:
    """Return a message as the incoming webhooks of Slack, or the workflows of Teams, take it.

    What people wrote is only text there: it calls no channel, and makes no link.
    """
    cut = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
    message = _write_slack(cut, url) if shape == SLACK else _write_card(cut, url)
    return json.dumps(message).encode()


def _write_slack(text: str, url: str) -> dict[str, Any]:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    button = {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": url}
    section = {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}, "accessory": button}
    return {"text": plain, "blocks": [section]}


def _write_card(text: str, url: str) -> dict[str, Any]:
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        # Not a TextBlock, whose text is Markdown.
        "body": [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text}]}],
        "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": url}],
    }
    return {
        "type": "message",
        "attachments": [
            {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
        ],
    }


def sign(secret: str, body: bytes) -> str:
    """Return the signature of a body, as GitHub writes it: receivers compare it with their own."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def pause_after(tries: int) -> timedelta | None:
    """Return how long to wait after so many tries that failed; None where it is given up."""
    return None if tries >= MOST_TRIES else FIRST_PAUSE * 4 ** (tries - 1)


def is_taken(status: int) -> bool:
    """Return whether the receiver has taken a delivery."""
    return 200 <= status < 300
