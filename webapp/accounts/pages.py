"""What people see of their own account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from webapp.accounts import permissions, queries
from webapp.core.numbered import CutList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.accounts.models import ProviderIdentity, RepositoryRole, User, UserSession

MOST_SESSIONS = 100
MOST_ROLES = 50


@dataclass(frozen=True)
class ProfilePage:
    """Context of the profile page."""

    person: User
    groups: Sequence[str]
    roles: CutList[RepositoryRole]
    identity: ProviderIdentity | None
    provider: str
    """Name of the sign-in provider; empty without one."""
    link: str
    """What lets this session link its account there."""
    has_password: bool
    """Whether they may sign in with one."""
    sessions: CutList[UserSession]
    session_key: str
    """Of the one that asks."""
    idle_hours: float
    most_hours: float


def read_profile(user: User, *, session_key: str, link: str) -> ProfilePage:
    """Return who somebody is here, and where they are signed in.

    Args:
        user: they themselves.
        session_key: of the session that asks.
        link: what lets that session link the account to the sign-in provider.

    """
    return ProfilePage(
        person=user,
        groups=queries.list_group_names(user_id=user.pk),
        roles=CutList.of(queries.list_roles(user_id=user.pk), MOST_ROLES),
        identity=queries.find_identity(user_id=user.pk),
        provider=settings.TRIBUTARY_OIDC_NAME,
        link=link,
        has_password=permissions.may_use_password(user),
        sessions=CutList.of(queries.list_sessions(user_id=user.pk), MOST_SESSIONS),
        session_key=session_key,
        idle_hours=settings.TRIBUTARY_SESSION_IDLE_HOURS,
        most_hours=settings.TRIBUTARY_SESSION_HOURS,
    )
