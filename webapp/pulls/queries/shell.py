"""What the frame of every page counts, in few and small queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.models import Folder
from webapp.builds.models import Build
from webapp.datasets import queries as datasets
from webapp.pulls.models import PullRequest
from webapp.pulls.queries import waiting
from webapp.pulls.rules import states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.accounts.rules.principals import Principal


def count_waiting(principal: Principal) -> int:
    """Count the reviews that the reader could give and their newest builds that failed."""
    return len(waiting.list_review_ids(principal)) + len(waiting.list_failed_builds(principal))


def count_repository(principal: Principal, name: str) -> Mapping[str, int]:
    """Count datasets, open pull requests and unfinished builds of a repository."""
    folders = Folder.objects.filter(repository=name).values_list("name", flat=True)
    return {
        "datasets": sum(datasets.list_datasets(principal, folder=folder).count() for folder in folders),
        "pulls": PullRequest.objects.filter(repository__name=name, state=states.OPEN).count(),
        "builds": Build.objects.filter(repository__name=name, state__in=["RESOLVING", "RUNNING"]).count(),
    }
