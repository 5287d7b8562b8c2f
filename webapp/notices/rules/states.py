"""Where a notification and its mail stand."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from webapp.core.states import State


class NotificationState(State):
    """What its reader has done with a notification."""

    UNREAD = "unread", "Unread", "open", "Counted in the head of every page."
    READ = "read", "Read", "ok", "Its reader has seen it, and keeps it in the inbox."
    DONE = "done", "Done", "fresh", "Its reader needs it no more; it is removed after a time."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[NotificationState, AbstractSet[NotificationState]]:
        """Return for each state those that may follow it."""
        return {
            cls.UNREAD: {cls.READ, cls.DONE},
            cls.READ: {cls.UNREAD, cls.DONE},
            cls.DONE: {cls.UNREAD, cls.READ},
        }


class MailState(State):
    """How far a mail came."""

    WAITING = "waiting", "Waiting", "wait", "A worker is to hand it to the mail server, perhaps once more."
    SENDING = "sending", "Sending", "run", "A worker hands it to the mail server."
    SENT = "sent", "Sent", "ok", "The mail server has taken it."
    GIVEN_UP = "given_up", "Given up", "bad", "The mail server refused it, or could not be reached; its reason says so."
    WITHDRAWN = "withdrawn", "Withdrawn", "void", "Its reader may not see any more what it says, or wants no mail."

    @classmethod
    @cache
    def transitions(cls) -> Mapping[MailState, AbstractSet[MailState]]:
        """Return for each state those that may follow it."""
        return {
            cls.WAITING: {cls.SENDING},
            cls.SENDING: {cls.WAITING, cls.SENT, cls.GIVEN_UP, cls.WITHDRAWN},
            cls.SENT: set(),
            cls.GIVEN_UP: set(),
            cls.WITHDRAWN: set(),
        }
