"""The source branch of a pull request that is over: whether anything needs it."""

from __future__ import annotations

from django.db.models import Q

from webapp.pulls.models import PullRequest
from webapp.pulls.rules.states import PullState


def find_open_user(pull: PullRequest) -> PullRequest | None:
    """Return an open pull request from or into the source branch."""
    open_ones = PullRequest.objects.filter(repository=pull.repository, state=PullState.OPEN)
    return open_ones.filter(Q(source=pull.source) | Q(target=pull.source)).order_by("number").first()
