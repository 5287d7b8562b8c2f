"""Answers kept for repeated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.db import models

from webapp.core import clock

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class IdempotencyRecord(models.Model):
    """One POST with an Idempotency-Key: what was asked and what was answered."""

    user_id = models.BigIntegerField()
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64)
    """SHA-256 of method, path and body."""
    status = models.PositiveSmallIntegerField(default=0)
    """0 while the first request is still being worked on."""
    content_type = models.CharField(max_length=100, blank=True)
    location = models.CharField(max_length=500, blank=True)
    body = models.BinaryField(default=b"")
    holder = models.CharField(max_length=300, blank=True)
    """The process that works on it, while the status is 0."""
    effect = models.CharField(max_length=400, blank=True)
    """What was done, written in the transaction of the act: after a death it tells done from not done."""
    rights = models.CharField(max_length=64, blank=True, db_default="")
    """Digest of the user's rights when the answer was kept."""
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["user_id", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.key}"


class Heartbeat(models.Model):
    """When a part that has no port of its own was last alive."""

    part = models.CharField(max_length=60, primary_key=True)
    at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"{self.part} at {self.at:%H:%M:%S}"
