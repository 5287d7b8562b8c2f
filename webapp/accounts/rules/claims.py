"""From the claims of an OpenID Connect provider to what an account takes over of them."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from webapp.core.names import find_disguise

MOST_GROUPS = 500
"""A claim with more is taken for a mistake: the first ones count."""
RESERVED = frozenset({"system", "anonymous"})
"""What the audit log calls the installation itself, and nobody known."""
FALLBACK = "user"
USERNAME_LENGTH = 100
"""Shorter than the column, so that a number fits behind it."""
_FOREIGN = re.compile(r"[^\w.+-]+")


class InvalidClaims(Exception):
    """The claims say nobody; says why."""


@dataclass(frozen=True)
class Profile:
    """Whom a provider vouches for, and what it says of them."""

    issuer: str
    subject: str
    username: str
    """The one they would like; others may have it."""
    email: str
    """Empty unless the provider has verified it."""
    first_name: str
    last_name: str
    groups: tuple[str, ...]
    is_admin: bool


def read_claims(
    claims: Mapping[str, Any],
    *,
    groups_claim: str,
    groups: Collection[str] = (),
    admin_group: str = "",
) -> Profile:
    """Read the claims of an ID token that was verified, and of the provider's user info.

    Args:
        claims: with `iss` and `sub`.
        groups_claim: the claim that lists groups, or a path to it such as `realm_access.roles`. None there: no groups.
        groups: the names of those that are taken over; none: all.
        admin_group: the group whose members are admins; empty: none.

    Raises:
        InvalidClaims: there is no subject.

    """
    issuer, subject = _text(claims.get("iss")), claims.get("sub")
    if not issuer or not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise InvalidClaims("The provider names no subject.")
    named = _read_groups(_find_claim(claims, groups_claim))
    first_name, last_name = _text(claims.get("given_name")), _text(claims.get("family_name"))
    if not first_name and not last_name:
        first_name, _, last_name = _text(claims.get("name")).partition(" ")
    if find_disguise(f"{first_name} {last_name}".strip()) is not None:
        first_name = last_name = ""
    email = _text(claims.get("email"), most=254) if claims.get("email_verified") is True else ""
    return Profile(
        issuer=issuer,
        subject=subject,
        username=_propose_username(claims, email),
        email=email if "@" in email else "",
        first_name=first_name[:150],
        last_name=last_name[:150],
        groups=tuple(name for name in named if not groups or name in groups),
        is_admin=bool(admin_group) and admin_group in named,
    )


def make_username(proposal: str, *, taken: Collection[str]) -> str:
    """Return a user name that nobody has: the proposal, or with the first free number behind it.

    Args:
        proposal: as `Profile.username`.
        taken: the user names that begin with it, in lower case.

    """
    if proposal.casefold() not in {*taken, *RESERVED}:
        return proposal
    return next(name for number in count(2) if (name := f"{proposal}-{number}").casefold() not in taken)


def is_protected(url: str) -> bool:
    """Return whether nobody on the way can read or change what goes to an address: TLS, or this machine's loopback."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.username or parts.password or any(character <= " " for character in url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the path to it; names may have points in them, as addresses do."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _read_groups(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = (name.strip(" ") for name in names if isinstance(name, str))
    # As they are: cleaned, one that looks like another group's would become it.
    return tuple(dict.fromkeys(name for name in texts if 0 < len(name) <= 150 and find_disguise(name) is None))[
        :MOST_GROUPS
    ]


def _text(value: Any, *, most: int = 400) -> str:
    """Return a text on one line; empty for whatever else it is."""
    if not isinstance(value, str):
        return ""
    printable = "".join(character if character.isprintable() else " " for character in value)
    return " ".join(printable.split())[:most]


def _propose_username(claims: Mapping[str, Any], email: str) -> str:
    texts = (_text(claims.get("preferred_username")), email, _text(claims.get("nickname")), _text(claims.get("name")))
    names = (_fold(text.partition("@")[0]) for text in texts)
    return next((name for name in names if name and find_disguise(name) is None), FALLBACK)


def _fold(text: str) -> str:
    """Return a text as a user name, in letters, digits and . _ + - only."""
    name = _FOREIGN.sub("-", unicodedata.normalize("NFKC", text).strip())
    return name[:USERNAME_LENGTH].strip("-.+_")
