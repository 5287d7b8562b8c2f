"""The files that a pull request changes, with their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from webapp.pulls.queries.pulls import find_base, list_changes
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.git.diff import FileDiff
    from webapp.pulls.models import PullRequest


class FileList(Sequence["FileDiff"]):
    """Files without colours; after a merge, those that it changed. The lines are read of those alone that a page shows."""

    def __init__(self, pull: PullRequest) -> None:
        self._pull = pull
        self._paths = [file.path for file in list_changes(pull).files]

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> FileDiff: ...
    @overload
    def __getitem__(self, index: slice) -> list[FileDiff]: ...
    def __getitem__(self, index: int | slice) -> FileDiff | list[FileDiff]:
        if isinstance(index, int):
            return self._read([self._paths[index]])[0]
        return self._read(self._paths[index])

    def _read(self, paths: list[str]) -> list[FileDiff]:
        pull = self._pull
        return repositories.compare(pull.repository, find_base(pull), pull.head_sha, paths=paths, coloured=False)
