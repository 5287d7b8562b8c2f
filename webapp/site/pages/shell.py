"""What the frame of every page counts, and what other pages say of pull requests, in few and small queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.queries import list_folders
from webapp.builds.models import Build
from webapp.builds.rules.states import BUILD_UNFINISHED
from webapp.datasets import queries as datasets
from webapp.pulls.models import PullRequest
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Mapping


def count_repository(name: str) -> Mapping[str, int]:
    """Count datasets, open pull requests and unfinished builds of a repository, into which the page let the reader."""
    return {
        "datasets": datasets.list_datasets_in(list_folders(repository=name)).filter(datasets.is_listed()).count(),
        "pulls": PullRequest.objects.filter(repository__name=name, state=PullState.OPEN).count(),
        "builds": Build.objects.filter(repository__name=name, state__in=BUILD_UNFINISHED).count(),
    }


def find_open_pull(repository: str, branch: str) -> int | None:
    """Return the number of the newest open pull request of a branch, into which the page let the reader."""
    pulls = PullRequest.objects.filter(repository__name=repository, source=branch, state=PullState.OPEN)
    return pulls.order_by("-number").values_list("number", flat=True).first()
