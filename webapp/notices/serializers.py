"""Shapes of notifications in the REST API."""

from __future__ import annotations

from typing import Any

from django.db.models import BigIntegerField
from rest_framework import serializers

from webapp.core.inputs import Number, Text
from webapp.core.serializers import NounSerializer, TextOrNull
from webapp.notices.models import Notification
from webapp.notices.rules.facts import CHANNEL_CHOICES, FACT_CHOICES, Reason
from webapp.notices.rules.states import NotificationState


class NotificationSerializer(NounSerializer):
    """A fact that the reader is told."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=NotificationState.choices())
    reason = serializers.ChoiceField(choices=Reason.choices(), help_text="why the reader is told")
    fact = serializers.ChoiceField(choices=FACT_CHOICES, help_text="what happened")
    by = TextOrNull(source="actor", help_text="who did it; null where it came by itself")
    repository = serializers.CharField(source="repository.name", default=None, allow_null=True)
    pull = serializers.IntegerField(source="pull.number", default=None, allow_null=True)
    comment = serializers.IntegerField(source="comment_id", allow_null=True)
    build = serializers.IntegerField(source="build_id", allow_null=True)
    dataset = serializers.CharField(source="dataset.path", default=None, allow_null=True)
    created_at = serializers.DateTimeField()
    url = serializers.SerializerMethodField(help_text="path of the page of what it is about")

    def get_url(self, notification: Notification) -> str:
        """Return the path of the page."""
        return notification.get_absolute_url()


class MarkSerializer(serializers.Serializer[Any]):
    """Which notifications are to be in which state."""

    state = serializers.ChoiceField(choices=NotificationState.choices())
    ids = serializers.ListField(
        child=Number(min_value=1, max_value=BigIntegerField.MAX_BIGINT),
        required=False,
        max_length=250,
        help_text="left out: all that are unread",
    )


class MarkedSerializer(NounSerializer):
    """How many notifications changed."""

    count = serializers.IntegerField()


class WatchSerializer(NounSerializer):
    """Whether the reader watches something."""

    watching = serializers.BooleanField()


class WishesSerializer(NounSerializer):
    """Where the reader is told what."""

    address = TextOrNull(help_text="where mails go; null: nowhere")
    channels = serializers.DictField(
        child=serializers.ChoiceField(choices=CHANNEL_CHOICES), help_text="reason → channel, of every reason"
    )
    is_mailing = serializers.BooleanField(help_text="whether this installation sends mails")


class WishesChangeSerializer(serializers.Serializer[Any]):
    """What is to change of it."""

    address = Text(required=False, allow_blank=True, help_text="empty: the address of the account")
    channels: Any = serializers.DictField(child=serializers.ChoiceField(choices=CHANNEL_CHOICES), required=False)
