"""What a source branch has of its own: datasets that were built there, and files that were loaded there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.queries import list_folders
from webapp.builds import queries as builds
from webapp.datasets import queries as datasets
from webapp.pulls.models import PullDataset
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from webapp.datasets.models import Transaction
    from webapp.repositories.models import Repository


def list_own(
    *, repository: Repository, branches: Sequence[str], paths: Collection[str]
) -> tuple[dict[str, Transaction], dict[str, str]]:
    """Return the source's own newest transactions by path, and by path where and by whom data was loaded, not made.

    Of datasets that JobSpecs know the source's own; of all in the repository's folders what was loaded.

    Args:
        repository: whose folders they are.
        branches: the source, then those between it and the target, which its readers fall back to.
        paths: those that JobSpecs make or read.

    """
    folders = list_folders(repository=repository.name)
    own: dict[str, Transaction] = {}
    loaded: dict[str, str] = {}
    for place, branch in enumerate(branches):
        newest = datasets.list_transactions_made_on(branch=branch, folder_paths=paths, folders=folders)
        heads = {path: head for path, head in newest.items() if path not in own}
        by_hand = builds.find_loaded(heads=heads)
        loaded |= {path: f"on {branch} by {user}" for path, user in by_hand.items()}
        own |= {path: head for path, head in heads.items() if path in by_hand or (not place and path in paths)}
    return own, loaded


def list_files_to_land(repository: Repository, *, source: str, target: str) -> list[str]:
    """List the datasets that have files of the source's own which no merge has loaded on the target."""
    own, loaded = list_own(repository=repository, branches=[source], paths=())
    heads = {path: own[path] for path in loaded}
    return choose_to_land(repository, heads, source=source, target=target)


def choose_to_land(repository: Repository, heads: Mapping[str, Transaction], *, source: str, target: str) -> list[str]:
    """Return those of the datasets that were loaded on a source, by path, whose files no merge has loaded on the target."""
    uploads = builds.read_uploads(heads)
    paths = {heads[path].pk: path for path, of_branch in uploads.items() if of_branch.uploads}
    merged = PullDataset.objects.loading().filter(
        pull__repository=repository, pull__source=source, pull__target=target, pull__state=PullState.MERGED
    )
    landed = set(merged.filter(after__in=paths).values_list("after", flat=True))
    return sorted(path for pk, path in paths.items() if pk not in landed)
