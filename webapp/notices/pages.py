"""What the inbox shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.notices.queries import inbox
from webapp.notices.queries.inbox import VIEWS, InboxFilter
from webapp.notices.rules.facts import Reason

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.notices.models import Notification

AT_ONCE = 50


@dataclass(frozen=True)
class InboxPage:
    """Context of the inbox."""

    nav: str
    notifications: list[Notification]
    filters: InboxFilter
    views: tuple[str, ...]
    reasons: list[Reason]
    unread: int
    following: int | None
    """Number of the last one shown, where there are more: the next page begins behind it."""


def read_inbox(principal: Principal, filters: InboxFilter, *, before: int | None) -> InboxPage:
    """Return a page of the inbox; it begins behind the notification of a number, or with the newest."""
    rows = inbox.list_notifications(principal, filters)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    shown = list(rows[: AT_ONCE + 1])
    return InboxPage(
        nav="inbox",
        notifications=shown[:AT_ONCE],
        filters=filters,
        views=tuple(VIEWS),
        reasons=list(Reason),
        unread=inbox.count_unread(principal),
        following=shown[AT_ONCE - 1].pk if len(shown) > AT_ONCE else None,
    )
