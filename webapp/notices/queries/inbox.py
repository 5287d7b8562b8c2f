"""Notifications that somebody may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.core.errors import InvalidInput, NotFound
from webapp.core.filters import ListFilter, offer
from webapp.core.prepared import Prepared
from webapp.notices.models import Notification
from webapp.notices.permissions import visible_by_roles, visible_notifications
from webapp.notices.rules.facts import Reason
from webapp.notices.rules.states import NotificationState

if TYPE_CHECKING:
    from django.db.models import Q, QuerySet

    from webapp.core.principals import Principal

UNREAD, ALL, DONE = "unread", "all", "done"
VIEWS = {
    UNREAD: (NotificationState.UNREAD,),
    ALL: (NotificationState.UNREAD, NotificationState.READ),
    DONE: (NotificationState.DONE,),
}
"""What the inbox shows → the states of that."""
MOST_COUNTED = 100
"""Nobody needs to know how many more are unread; pages say 99+."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFilter(ListFilter):
    """Which notifications are wanted."""

    state: str = offer(default=UNREAD, choices=tuple(VIEWS))
    reason: str = offer("reason", choices=tuple(Reason))


def list_notifications(principal: Principal, filters: InboxFilter) -> QuerySet[Notification]:
    """Return what somebody is told, the newest first.

    Raises:
        InvalidInput: a state or reason that there is not.

    """
    if filters.state not in VIEWS:
        message = f"state is one of {', '.join(VIEWS)}, not {filters.state!r}."
        raise InvalidInput(message, errors={"state": [message]})
    if filters.reason and filters.reason not in set(Reason):
        message = f"reason is one of {', '.join(Reason)}, not {filters.reason!r}."
        raise InvalidInput(message, errors={"reason": [message]})
    return _list_visible(principal).filter(state__in=VIEWS[filters.state], **filters.lookups)


def get_notification(principal: Principal, number: int) -> Notification:
    """Return one notification.

    Raises:
        NotFound: it is somebody else's, or they may not see any more what it is about.

    """
    notification = _list_visible(principal).filter(pk=number).first()
    if notification is None:
        message = f"You have no notification {number}."
        raise NotFound(message)
    return notification


def count_unread(principal: Principal) -> int:
    """Count what somebody has not read, no further than anybody reads."""
    return len((_UNREAD_OF_ADMINS if principal.is_admin else _UNREAD).all(principal.user_id))


def _list_unread(user_id: int, *conditions: Q) -> QuerySet[Notification, tuple[int]]:
    unread = Notification.objects.filter(*conditions, user_id=user_id, state=NotificationState.UNREAD)
    return unread.order_by().values_list("pk")[:MOST_COUNTED]


# Every page asks: making the statement took more than its answer, a fifth of the time of a small page.
_UNREAD_OF_ADMINS = Prepared(_list_unread, int)
_UNREAD = Prepared(lambda user_id: _list_unread(user_id, visible_by_roles(user_id)), int)


def _list_visible(principal: Principal) -> QuerySet[Notification]:
    rows = Notification.objects.filter(visible_notifications(principal), user_id=principal.user_id)
    return rows.select_related("repository", "dataset", "pull__repository", "comment", "review", "build").order_by(
        "-pk"
    )
