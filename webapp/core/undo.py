"""Messages that offer to take back what was just done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib import messages

from jobs.parsing import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.contrib.messages.storage.base import Message
    from django.http import HttpRequest

_PREFIX = "undo:"


@dataclass(frozen=True)
class Undo:
    """What a form posts to take an action back."""

    url: str
    fields: list[tuple[str, str]]


def offer_undo(request: HttpRequest, text: str, *, url: str, fields: Iterable[tuple[str, object]]) -> None:
    """Show a message with a button *Undo* on the next page."""
    sent = [(name, str(value)) for name, value in fields if value not in (None, "", False)]
    messages.success(request, text, extra_tags=_PREFIX + json.dumps([url, sent]))


def read_undo(message: Message) -> Undo | None:
    """Return what takes back the action that a message is about, if that is possible."""
    tags = message.extra_tags or ""
    if not tags.startswith(_PREFIX):
        return None
    url, fields = load_json(tags.removeprefix(_PREFIX))
    return Undo(url, [(name, value) for name, value in fields])
