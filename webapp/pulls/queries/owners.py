"""Who owns what a pull request changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.db.models import Prefetch

from webapp.accounts.models import User
from webapp.comparisons.rules.dataset_rules import PIPELINE_FILE
from webapp.pulls.rules import states
from webapp.pulls.rules.owners import OwnedChange, match_owners, read_owners
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from webapp.pulls.models import PullDataset
    from webapp.repositories.models import Repository


def list_owned_changes(
    repository: Repository, *, base: str, rows: Iterable[PullDataset], files: Collection[str]
) -> list[OwnedChange]:
    """Return what is changed of what somebody owns, as pipeline.toml of the target's commit `base` says.

    Args:
        repository: whose file it is.
        base: the target's commit: a branch does not choose its own reviewers.
        rows: datasets of the pull request; those that are only downstream are nobody's business.
        files: paths of its changed files.

    """
    if repositories.find_kind(repository, base, PIPELINE_FILE) is None:
        return []
    owners = read_owners(repositories.read_file(repository, base, PIPELINE_FILE).decode("utf-8", "replace"))
    return match_owners(owners, [*(row.path for row in rows if row.change in states.CHANGED), *files])


def find_owners(changes: Iterable[OwnedChange]) -> dict[str, frozenset[str]]:
    """Return the names of all people behind the owners of each pattern, those of groups among them."""
    named = {change.pattern: change.owners for change in changes}
    groups = {group for owners in named.values() for group in owners.groups}
    rows = Group.objects.filter(name__in=groups).prefetch_related(Prefetch("user_set", User.objects.only("username")))
    members = {group.name: [user.username for user in group.user_set.all()] for group in rows} if groups else {}
    return {
        pattern: frozenset([*owners.people, *(name for group in owners.groups for name in members.get(group, ()))])
        for pattern, owners in named.items()
    }
