"""What programs of others said of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.repositories.models import CommitStatus

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.repositories.models import Repository


def list_statuses(repository: Repository, sha: str) -> QuerySet[CommitStatus]:
    """Select what was said of a commit, by name and dataset."""
    return CommitStatus.objects.filter(repository=repository, sha=sha).select_related("reported_by")


def is_ever_reported(repository: Repository, name: str) -> bool:
    """Return whether any commit of a repository has a status of this name."""
    return CommitStatus.objects.filter(repository=repository, name=name).exists()
