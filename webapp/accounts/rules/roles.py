"""Roles on a repository, from least to most."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a member may do; each includes the ones before it."""

    READER = "reader"
    WRITER = "writer"
    MAINTAINER = "maintainer"


ROLE_CHOICES = [
    (Role.READER, "Reader: sees code, data and pull requests, comments"),
    (Role.WRITER, "Writer: also commits, builds and writes data on unprotected branches, reviews"),
    (Role.MAINTAINER, "Maintainer: also members, rules, and data on master"),
]
NEEDED = {"read": Role.READER, "write": Role.WRITER, "maintain": Role.MAINTAINER}
_ORDER = list(Role)


def allows(role: Role | None, action: str) -> bool:
    """Return whether a role is enough for read, write or maintain."""
    return role is not None and _ORDER.index(role) >= _ORDER.index(NEEDED[action])
