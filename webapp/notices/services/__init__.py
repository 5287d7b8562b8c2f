"""What is done about notifications.

Modules:
    telling: writes them, for everybody whom a fact is told.
    following: what the apps below state, and whom that is told.
    standings: pull requests that became stale or mergeable.
    marking: what readers do with them.
    wishing: what people watch, and where they want to be told what.
    mailing: hands them to the mail server.
    keeping: removes old ones.
"""

from webapp.notices.services.keeping import remove_old
from webapp.notices.services.mailing import send_mail, sweep_mails
from webapp.notices.services.marking import mark_notifications, mark_opened
from webapp.notices.services.standings import look_at, sweep_standings
from webapp.notices.services.wishing import set_wishes, watch_dataset, watch_repository

__all__ = [
    "look_at",
    "mark_notifications",
    "mark_opened",
    "remove_old",
    "send_mail",
    "set_wishes",
    "sweep_mails",
    "sweep_standings",
    "watch_dataset",
    "watch_repository",
]
