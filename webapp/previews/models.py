"""Previews that were asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models

from webapp.core.moves import StateField
from webapp.dispatch.leases import Leases
from webapp.dispatch.models import AskedWork
from webapp.previews.rules.states import PreviewState

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class PreviewRows(Leases["CodePreview"]):
    """Previews."""

    lease = timedelta(seconds=15)
    waits = PreviewState.QUEUED
    runs = PreviewState.RUNNING


class CodePreview(AskedWork):
    """One run of the transforms of a file that is not committed, over the first rows of what they read."""

    repository = models.ForeignKey(
        "repositories.Repository", on_delete=models.CASCADE, related_name="previews", db_constraint=False
    )
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    branch = models.CharField(max_length=200)
    """As which inputs are read."""
    head = models.CharField(max_length=40)
    """The commit that was looked at while the files were changed."""
    file = models.CharField(max_length=2000)
    """Whose transforms are run."""
    drafts = models.JSONField(default=list)
    """The changed files: `path` in the commit, `target` and `text`; the one that the editor has open comes first."""
    commit_fields = models.JSONField(default=dict)
    """What the editor's form says of the commit to come: `message`, `details`, `target`, `branch`."""
    tables = models.JSONField(default=list)
    """What it has read: `path`, `branch`, `transaction`, the `masked` columns, `rows` and whether these are all."""
    state = StateField(max_length=10, default=PreviewState.QUEUED)
    step = models.CharField(max_length=100, blank=True)
    summary = models.JSONField(default=dict)
    """`outputs`, `skipped` and `problems`."""

    objects = PreviewRows.as_manager()

    class Meta(TypedModelMeta):
        indexes: ClassVar = [
            models.Index(fields=["repository", "by", "-created_at"], name="preview_of_person"),
            models.Index(fields=["state", "created_at"], name="preview_by_state"),
            models.Index(fields=["created_at"], name="preview_by_age"),
        ]

    def __str__(self) -> str:
        return f"preview {self.pk} of {self.file}"
