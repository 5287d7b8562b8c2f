"""Properties of a table for people's eyes: what looks like a secret is not shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|token|credential|private|api[._-]?key|access[._-]?key|account[._-]?key|\bsas\b",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(
    r"://[^/\s:@]+:[^/\s@]+@"  # user and password in an address
    r"|\bA(KIA|SIA)[0-9A-Z]{16}\b"  # Amazon's access keys
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\."  # signed tokens
    r"|-----BEGIN "
    r"|[?&](sig|signature|x-amz-signature|x-amz-security-token)=",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Property:
    """One property of a table."""

    name: str
    value: str
    is_hidden: bool


def looks_secret(name: str, value: str) -> bool:
    """Return whether a property is better not shown: by its name, or by what its value looks like."""
    return bool(SECRET_NAME.search(name) or SECRET_VALUE.search(value))


def list_properties(properties: Mapping[str, str], *, without: str) -> list[Property]:
    """Return the properties by name but those that start with a prefix; the values of secrets are left out."""
    return [
        Property(name, "" if looks_secret(name, value) else value, is_hidden=looks_secret(name, value))
        for name, value in sorted(properties.items())
        if not name.startswith(without)
    ]
