"""The audit log's words and its chain: each entry's digest covers the one before it, a keyed digest covers the last."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALLOWED, REFUSED = "allowed", "refused"
OUTCOMES = (ALLOWED, REFUSED)
ANONYMOUS, SYSTEM = "anonymous", "system"
READS = (
    "read_preview",
    "read_rows",
    "read_statistics",
    "read_history",
    "read_changelog",
    "export_rows",
    "load_table",
    "load_credentials",
    "plan_scan",
)
"""Reads of rows, or of what opens them; counted per person, object and minute."""
HOURLY = ("clone", "read_code", "read_log")
"""Reads of code, through Git or otherwise, and of job logs; counted per person, repository and hour."""
ACCEPT_CUT = "accept_audit_cut"
"""An administrator accepts that the log lacks entries, as after a restore."""
FIELDS = (
    "id",
    "at",
    "actor",
    "job",
    "verb",
    "object",
    "branch",
    "outcome",
    "count",
    "detail",
    "position",
    "chain",
)
"""What REST and exports say of an entry, in this order."""


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The end of the chain as it was sealed: how many entries, the last one's digest, and a digest with the secret key."""

    position: int = 0
    chain: str = ""
    mac: str = ""

    @classmethod
    def of(cls, position: int, chain: str, *, key: str) -> ChainHead:
        """Return a head under a key."""
        return cls(position, chain, _mac(position, chain, key=key))

    def is_genuine(self, *, key: str) -> bool:
        """Return whether who made it had the key."""
        return hmac.compare_digest(self.mac, _mac(self.position, self.chain, key=key))


def _mac(position: int, chain: str, *, key: str) -> str:
    return hmac.new(f"audit head\0{key}".encode(), f"{position}:{chain}".encode(), hashlib.sha256).hexdigest()


def mac_of_gap(first: int, last: int, chain: str, *, key: str) -> str:
    """Return the keyed digest that tells entries removed for their age from those that were taken out."""
    return hmac.new(f"audit gap\0{key}".encode(), f"{first}:{last}:{chain}".encode(), hashlib.sha256).hexdigest()


def mac_of_cut(head: ChainHead, *, key: str) -> str:
    """Return the keyed digest by which an entry accepts that the log lacks all up to an earlier end of its chain."""
    return hmac.new(f"audit cut\0{key}".encode(), f"{head.position}:{head.chain}".encode(), hashlib.sha256).hexdigest()


def link(before: str, content: Mapping[str, Any]) -> str:
    """Return an entry's digest, over the one before it and all that the entry says."""
    text = json.dumps([before, content], default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def neutralize(text: str) -> str:
    """Return a text with control characters, line ends and marks of direction written out.

    A log is read in terminals and as lines: a name must not begin another line, color the screen or turn the text.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def neutralize_detail(value: Any) -> Any:
    """Return a detail with every text in it neutralized."""
    if isinstance(value, str):
        return neutralize(value)
    if isinstance(value, Mapping):
        return {neutralize(str(name)): neutralize_detail(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [neutralize_detail(part) for part in value]
    return value
