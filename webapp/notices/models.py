"""Notifications, their mails, what people watch, and where they want to be told what.

The release before knows none of these tables and may remove what they point to: no key is held by the database.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.conf import settings
from django.db import models
from django.urls import reverse

from webapp.core import clock
from webapp.core.moves import Moves, StateField
from webapp.dispatch.leases import Leases
from webapp.notices.rules.facts import CHANNEL_CHOICES, FACT_CHOICES, REVIEW, Reason
from webapp.notices.rules.states import MailState, NotificationState

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object

_ABOUT: dict[str, Any] = {"on_delete": models.CASCADE, "related_name": "+", "db_constraint": False}


class NotificationRows(Moves["Notification"]):
    """Notifications."""


class Notification(models.Model):
    """A fact that one person is told, written with the fact. What it says is looked up when it is read."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications", db_constraint=False
    )
    reason = models.CharField(max_length=20, choices=Reason.choices())
    fact = models.CharField(max_length=20, choices=FACT_CHOICES)
    state = StateField(max_length=10, default=NotificationState.UNREAD)
    actor = models.CharField(max_length=150, blank=True)
    """Who did it; empty where it came by itself."""
    repository = models.ForeignKey("repositories.Repository", null=True, **_ABOUT)
    """Who may not see it any more is not told either."""
    dataset = models.ForeignKey("datasets.Dataset", null=True, **_ABOUT)
    pull = models.ForeignKey("pulls.PullRequest", null=True, **_ABOUT)
    comment = models.ForeignKey("pulls.Comment", null=True, **_ABOUT)
    review = models.ForeignKey("pulls.Review", null=True, **_ABOUT)
    build = models.ForeignKey("builds.Build", null=True, **_ABOUT)
    created_at = models.DateTimeField(default=clock.now)

    objects = NotificationRows.as_manager()

    class Meta(TypedModelMeta):
        indexes: ClassVar = [
            models.Index(fields=["user", "state", "-id"], name="notification_of_user"),
            models.Index(fields=["state", "created_at"], name="notification_by_age"),
        ]
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.fact} for {self.user_id}: {self.reason}"

    def get_absolute_url(self) -> str:
        """Return the address of what it is about; of the inbox where that is gone."""
        if self.pull is not None:
            place = [self.pull.repository.name, self.pull.number]
            if self.fact == REVIEW and self.dataset is not None:
                return f"{reverse('pull-data', args=place)}?{urlencode({'dataset': self.dataset.path}, safe='/')}"
            page = reverse("pull", args=place)
            return f"{page}#comment-{self.comment_id}" if self.comment_id else page
        if self.build is not None:
            return reverse("build", args=[self.build.pk])
        return reverse("dataset", args=[self.dataset.path[1:]]) + "?tab=schema" if self.dataset else reverse("inbox")


class MailRows(Leases["Mail"]):
    """Mails. One that waits may wait until a time, one that is sent is its worker's until then."""

    lease = timedelta(seconds=90)
    until = "due_at"
    waits = MailState.WAITING
    runs = MailState.SENDING


class Mail(models.Model):
    """A notification that also goes out by mail. Its text is made when it is sent, of what its reader may see then."""

    notification = models.OneToOneField(
        Notification, on_delete=models.CASCADE, related_name="mail", db_constraint=False
    )
    state = StateField(max_length=10, default=MailState.WAITING)
    attempt = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    """Until when a worker has it; of one that waits, when it is tried again."""
    rung_at = models.DateTimeField(default=clock.now)
    reason = models.CharField(max_length=300, blank=True)
    """Why it was not taken."""
    finished_at = models.DateTimeField(null=True)

    objects = MailRows.as_manager()

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["state", "rung_at"], name="mail_by_state")]
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"mail of {self.notification_id}: {self.state}"


class Watch(models.Model):
    """Somebody wants to be told what happens to a repository or a dataset."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, **_ABOUT)
    repository = models.ForeignKey("repositories.Repository", null=True, **_ABOUT)
    dataset = models.ForeignKey("datasets.Dataset", null=True, **_ABOUT)
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        verbose_name_plural = "watches"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "user"], name="watch_repository_once"),
            models.UniqueConstraint(fields=["dataset", "user"], name="watch_dataset_once"),
            models.CheckConstraint(
                condition=models.Q(repository=None, dataset__isnull=False)
                | models.Q(repository__isnull=False, dataset=None),
                name="watch_of_one_thing",
            ),
        ]
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.user_id} watches {self.repository_id or self.dataset_id}"


class Preference(models.Model):
    """Where somebody wants to be told for one reason, where that is not the reason's own channel."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, **_ABOUT)
    reason = models.CharField(max_length=20, choices=Reason.choices())
    channel = models.CharField(max_length=10, choices=CHANNEL_CHOICES)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "reason"], name="preference_once")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.reason} by {self.channel}"


class MailAddress(models.Model):
    """Where somebody's mails go. Apart from the address of the account, by which commits are known as theirs."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_address", db_constraint=False
    )
    address = models.EmailField()

    def __str__(self) -> str:
        return self.address


class PullStanding(models.Model):
    """Whether a pull request was stale or mergeable when it was last looked at, so that what becomes so is told once."""

    pull = models.OneToOneField("pulls.PullRequest", **_ABOUT)
    is_stale = models.BooleanField(default=False)
    is_mergeable = models.BooleanField(default=False)
    asked_at = models.DateTimeField(null=True, default=clock.now)
    """Since when it is to be looked at again; None where nothing has happened since."""

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["asked_at"], name="standing_asked")]

    def __str__(self) -> str:
        return f"{self.pull_id}: stale {self.is_stale}, mergeable {self.is_mergeable}"
