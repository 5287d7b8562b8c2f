"""What readers do with their notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from webapp.accounts.services import record_audit
from webapp.core.errors import InvalidInput
from webapp.notices.models import Notification
from webapp.notices.rules.states import NotificationState

if TYPE_CHECKING:
    from collections.abc import Collection

    from webapp.core.principals import Principal


def mark_notifications(*, by: Principal, state: str, numbers: Collection[int] | None = None) -> int:
    """Mark one's own notifications as unread, read or done; without numbers all that are unread. Return how many changed.

    Raises:
        InvalidInput: no such state.

    """
    to = next((candidate for candidate in NotificationState if candidate == state), None)
    if to is None:
        message = f"state is one of {', '.join(NotificationState)}, not {state!r}."
        raise InvalidInput(message, errors={"state": [message]})
    rows = Notification.objects.filter(user=by.user_id)
    rows = rows.filter(state=NotificationState.UNREAD) if numbers is None else rows.filter(pk__in=numbers)
    with transaction.atomic():
        count = rows.move(to=to)
        record_audit(by=by, verb="mark_notifications", object=by.username, detail={"state": state, "count": count})
    return count


def mark_opened(*, notification: Notification) -> None:
    """Mark what its reader has followed to its object as read."""
    Notification.objects.filter(pk=notification.pk).move(to=NotificationState.READ, was=NotificationState.UNREAD)
