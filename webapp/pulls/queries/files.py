"""The files that a pull request changes, with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.core.lazy_lists import LazyList
from webapp.git.diff import FileDiff
from webapp.pulls.queries.pulls import find_base, list_changes
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.pulls.models import PullRequest


class FileList(LazyList[str, FileDiff]):
    """Files of a pull request; after a merge, those that it changed. The lines are read of those alone that are looked at."""

    def __init__(self, pull: PullRequest) -> None:
        self._pull = pull
        super().__init__(sorted(file.path for file in list_changes(pull).files))

    def _load(self, places: Sequence[str]) -> list[FileDiff]:
        pull = self._pull
        return repositories.compare(pull.repository, find_base(pull), pull.head_sha, paths=places)
