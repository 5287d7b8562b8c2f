"""Django's sessions in the database, which end after a time without a request, and at an age, as the settings say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession

from webapp.core import clock

BEGAN_AT = "began_at"
"""In a session: when somebody signed in, in seconds since 1970."""
OF_NOBODY = timedelta(hours=1)
"""So long a session without a user is kept: longer than anybody takes at a sign-in provider."""


def end_of(*, began_at: datetime, seen_at: datetime) -> datetime:
    """Return when a session ends that began and had its last request at these times."""
    idle = timedelta(hours=settings.TRIBUTARY_SESSION_IDLE_HOURS)
    return min(seen_at + idle, began_at + timedelta(hours=settings.TRIBUTARY_SESSION_HOURS))


class SessionStore(DatabaseStore):
    """Rows are removed at the end that the last request gave them; cookies live as long as a session at most can."""

    def get_expiry_date(self, **_options: Any) -> datetime:
        """Return until when the row holds, if no further request comes."""
        now = clock.shared_now()
        if SESSION_KEY not in self:
            return now + OF_NOBODY
        return end_of(began_at=self._began_at(now), seen_at=now)

    def get_expiry_age(self, **_options: Any) -> int:
        """Return for how many seconds a browser keeps the cookie."""
        now = clock.shared_now()
        if SESSION_KEY not in self:
            return int(OF_NOBODY.total_seconds())
        end = self._began_at(now) + timedelta(hours=settings.TRIBUTARY_SESSION_HOURS)
        return max(int((end - now).total_seconds()), 0)

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        """Return the row of a session that has not ended by the database's clock; Django asks that of the host."""
        rows = self.model.objects.filter(session_key=self.session_key, expire_date__gt=clock.statement_now())
        session = rows.first()
        if session is None:
            self._session_key = None
        return session

    def _began_at(self, now: datetime) -> datetime:
        """Return when it began; sessions of the release before do not say it."""
        return datetime.fromtimestamp(self[BEGAN_AT], UTC) if BEGAN_AT in self else now
