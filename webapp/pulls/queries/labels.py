"""Labels of a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count

from webapp.core.errors import NotFound
from webapp.pulls.models import Label

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.repositories.models import Repository


def list_labels(repository: Repository) -> QuerySet[Label]:
    """Select the labels of a repository by name, each with the number of pull requests that have it."""
    return Label.objects.filter(repository=repository).annotate(pull_count=Count("pulls"))


def get_label(repository: Repository, name: str) -> Label:
    """Return one label of a repository.

    Raises:
        NotFound: it has no such label.

    """
    label = Label.objects.filter(repository=repository, name=name).first()
    if label is None:
        raise NotFound(f"{repository.name} has no label {name}.")
    return label
