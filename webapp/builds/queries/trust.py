"""Who could have written the code of a job: Spark's server works for one such group at a time."""

from __future__ import annotations

from webapp.repositories import permissions
from webapp.repositories import queries as repositories


def find_group(*, repository: str, branch: str) -> str:
    """Return the name of the group that may put code on a branch.

    All who may write a repository may move any of its branches but the protected ones, each of which takes the review
    that its protection asks for.
    """
    owner = repositories.repository_by_name(repository)
    protection = permissions.find_protection(owner, branch)
    return f"repository {owner.pk}, {'writers' if protection is None else f'protection {protection.pk}'}"
