"""Work that somebody asks for and one process in the sandbox does: queries, previews, comparisons. What came of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models.functions import Now

from webapp.core import clock

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class AskedWork(models.Model):
    """How far a piece of it came, and which worker has it (`webapp.dispatch.leases`)."""

    error = models.TextField(blank=True)
    code = models.CharField(max_length=30, blank=True)
    """Why it failed, for programs."""
    attempt = models.PositiveIntegerField(default=0)
    """Fences: what an earlier attempt still does has no effect."""
    lost = models.PositiveIntegerField(default=0, db_default=0)
    """How often the worker or a part died under it since it was last asked for."""
    lease_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    rung_at = models.DateTimeField(default=clock.now, db_default=Now())
    """When a worker was last rung for it."""
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta(TypedModelMeta):
        abstract = True
