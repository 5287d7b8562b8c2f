"""Removes notifications for their age, so that inboxes do not grow for ever."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q

from webapp.core import clock
from webapp.notices.models import Notification
from webapp.notices.rules.states import NotificationState

KEPT_DONE = timedelta(days=30)
KEPT = timedelta(days=180)
AT_ONCE = 5_000


def remove_old() -> dict[str, int]:
    """Remove what was done a while ago, and all that is very old, with their mails; return how many where there were any."""
    now = clock.cautious_now()
    done = Q(state=NotificationState.DONE, created_at__lt=now - KEPT_DONE)
    old = Notification.objects.filter(done | Q(state__in=list(NotificationState), created_at__lt=now - KEPT))
    numbers = list(old.order_by().values_list("pk", flat=True)[:AT_ONCE])
    Notification.objects.filter(pk__in=numbers).delete()
    return {"notifications removed": len(numbers)} if numbers else {}
