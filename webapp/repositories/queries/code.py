"""Files, commits and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from webapp.accounts.queries import find_usernames
from webapp.core.lazy_lists import PinnedList
from webapp.git import landing, merges
from webapp.git.diff import CodeDiff, FileDiff, decorate
from webapp.repositories.errors import git_refusals
from webapp.repositories.queries.history import EVERY, count_ahead_behind, list_history
from webapp.repositories.queries.searches import make_match

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from webapp.git.conflicts import ConflictedFile
    from webapp.git.following import FollowedFile
    from webapp.git.repository import GitRepository
    from webapp.git.values import Blob, CommitInfo, EntryKind, Landing, MergePreview, PathEntry, TreeEntry
    from webapp.repositories.models import Repository
    from webapp.repositories.queries.searches import CommitFilter


def get_commit(repository: Repository, ref: str) -> CommitInfo:
    """Return the commit of a branch name or of a commit's name (7 digits or more)."""
    with git_refusals():
        git = repository.git
        return git.get_commit(git.resolve(ref))


def name_authors(commits: Iterable[CommitInfo]) -> list[CommitInfo]:
    """Return commits with authors under the user names by which all other pages know them, where they have an account."""
    listed = list(commits)
    usernames = find_usernames({commit.author.email for commit in listed})
    return [
        replace(commit, author=replace(commit.author, name=username))
        if (username := usernames.get(commit.author.email.strip().lower()))
        else commit
        for commit in listed
    ]


def list_commits(
    repository: Repository,
    ref: str,
    *,
    offset: int = 0,
    limit: int | None = 50,
    not_in: str | None = None,
    filters: CommitFilter = EVERY,
) -> list[CommitInfo]:
    """Return commits from a ref back in time, those that are wanted, or those that another ref has not."""
    with git_refusals():
        git = repository.git
        head, exclude = git.resolve(ref), git.resolve(not_in) if not_in else None
        if filters.path.strip("/"):
            walk = git.iterate_commits(head, path=filters.path.strip("/"), exclude=exclude)
            commits = filter(make_match(filters), walk)
            return list(islice(commits, offset, None if limit is None else offset + limit))
    return list_history(repository, head, exclude=exclude, offset=offset, limit=limit, filters=filters)


class LazyCommits(PinnedList["CommitInfo"]):
    """The commits of a ref as a sequence of which only what is asked for is read, newest first.

    Args:
        repository: whose.
        ref: where they begin.
        not_in: a ref; those that it has are left out.
        filters: which are wanted.

    """

    def __init__(
        self, repository: Repository, ref: str, *, not_in: str | None = None, filters: CommitFilter = EVERY
    ) -> None:
        self.repository, self.ref, self.not_in, self.filters = repository, ref, not_in, filters
        self.pins: list[str | None] = [ref, not_in]

    def pin(self, pins: list[str | None] | None) -> LazyCommits:
        """Return the commits of the heads that the refs had when the list was pinned, or have now."""
        if pins is None:
            with git_refusals():
                git = self.repository.git
                pins = [git.resolve(self.ref), git.resolve(self.not_in) if self.not_in else None]
        head, not_in = pins
        return LazyCommits(self.repository, str(head), not_in=not_in, filters=self.filters)

    def __getitem__(self, part: slice) -> list[CommitInfo]:
        start = part.start or 0
        limit = None if part.stop is None else part.stop - start
        return list_commits(
            self.repository, self.ref, not_in=self.not_in, filters=self.filters, offset=start, limit=limit
        )


def list_entries(repository: Repository, ref: str, path: str = "") -> list[TreeEntry]:
    """List a folder at a ref."""
    with git_refusals():
        git = repository.git
        return git.list_entries(git.resolve(ref), path.strip("/"))


def list_files(repository: Repository, ref: str) -> list[str]:
    """List the paths of all files at a ref."""
    with git_refusals():
        git = repository.git
        return git.list_files(git.resolve(ref))


def describe_paths(repository: Repository, sha: str, paths: Iterable[str]) -> dict[str, PathEntry]:
    """Return what is at some paths of a commit; those where nothing is are left out."""
    with git_refusals():
        return repository.git.describe_paths(sha, paths)


def read_blob(repository: Repository, ref: str, path: str) -> Blob:
    """Return a file at a ref with its kind and size."""
    with git_refusals():
        git = repository.git
        return git.read_blob(git.resolve(ref), path.strip("/"))


def find_submodule(repository: Repository, sha: str, path: str) -> str:
    """Return the commit that a submodule stands for; empty where a path has none."""
    with git_refusals():
        return repository.git.find_submodule(sha, path.strip("/"))


def read_file(repository: Repository, ref: str, path: str) -> bytes:
    """Return the content of a file at a ref."""
    return read_blob(repository, ref, path).content


def export_tree(repository: Repository, sha: str, folder: Path) -> list[str]:
    """Write the files of a commit into a folder, without links; return the paths that were left out."""
    with git_refusals():
        return repository.git.export(sha, folder)


def find_merge_base(repository: Repository, base: str, head: str) -> str | None:
    """Return the commit that two refs have in common."""
    with git_refusals():
        git = repository.git
        return git.merge_base(git.resolve(base), git.resolve(head))


def compare(
    repository: Repository,
    base: str,
    head: str,
    *,
    context: int = 3,
    ignore_whitespace: bool = False,
    paths: Collection[str] | None = None,
) -> list[FileDiff]:
    """Return what a head changed since it left the base (three dots), file by file, or some of the files."""
    with git_refusals():
        git = repository.git
        newer = git.resolve(head)
        older = git.merge_base(git.resolve(base), newer)
        return git.diff(older, newer, context=context, ignore_whitespace=ignore_whitespace, paths=paths)


def list_changes(repository: Repository, base: str, head: str, *, ignore_whitespace: bool = False) -> CodeDiff:
    """Return which files a head changed since it left the base (three dots), without their lines."""
    with git_refusals():
        git = repository.git
        newer = git.resolve(head)
        older = git.merge_base(git.resolve(base), newer)
        return git.list_changes(older, newer, ignore_whitespace=ignore_whitespace)


def list_changed_paths(repository: Repository, base: str, head: str) -> frozenset[str]:
    """Return the paths that a head changed since it left the base (three dots): of a file that moved both."""
    with git_refusals():
        git = repository.git
        newer = git.resolve(head)
        return git.list_changed_paths(git.merge_base(git.resolve(base), newer), newer)


def list_changes_between(
    repository: Repository,
    older: str,
    newer: str,
    *,
    ignore_whitespace: bool = False,
    paths: Collection[str] | None = None,
) -> CodeDiff:
    """Return which files differ between two commits, or which of some, without their lines."""
    with git_refusals():
        return repository.git.list_changes(older, newer, ignore_whitespace=ignore_whitespace, paths=paths)


def follow_file(repository: Repository, older: str, newer: str, path: str) -> FollowedFile | None:
    """Return what became of a file of an older commit; None if the newer one does not have it."""
    with git_refusals():
        return repository.git.follow_file(older, newer, path)


def compare_commits(
    repository: Repository,
    older: str,
    newer: str,
    *,
    ignore_whitespace: bool = False,
    paths: Collection[str] | None = None,
) -> list[FileDiff]:
    """Return how two commits differ, wherever their histories parted, file by file, or some of the files."""
    with git_refusals():
        git = repository.git
        return git.diff(older, newer, ignore_whitespace=ignore_whitespace, paths=paths)


def diff_commit(
    repository: Repository,
    sha: str,
    *,
    context: int = 3,
    ignore_whitespace: bool = False,
    paths: Collection[str] | None = None,
) -> list[FileDiff]:
    """Return what one commit changed against its first parent, or some of the files."""
    with git_refusals():
        git = repository.git
        older, newer = _find_parent(git, sha)
        return git.diff(older, newer, context=context, ignore_whitespace=ignore_whitespace, paths=paths)


def list_commit_changes(repository: Repository, sha: str, *, ignore_whitespace: bool = False) -> CodeDiff:
    """Return which files one commit changed against its first parent, without their lines."""
    with git_refusals():
        git = repository.git
        older, newer = _find_parent(git, sha)
        return git.list_changes(older, newer, ignore_whitespace=ignore_whitespace)


def _find_parent(git: GitRepository, sha: str) -> tuple[str | None, str]:
    """Return the first parent of a commit, and the commit."""
    commit = git.get_commit(git.resolve(sha))
    return (commit.parents[0] if commit.parents else None), commit.sha


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOverview:
    """How two refs lie to each other."""

    base_sha: str
    head_sha: str
    merge_base: str | None
    ahead: int
    behind: int
    commits: list[CommitInfo]


def compare_overview(repository: Repository, base: str, head: str, *, limit: int = 250) -> CompareOverview:
    """Return where two refs parted and the commits that only the head has, newest first."""
    with git_refusals():
        git = repository.git
        base_sha, head_sha = git.resolve(base), git.resolve(head)
        merge_base = git.merge_base(base_sha, head_sha)
    ahead, behind = count_ahead_behind(repository, [head_sha], base_sha)[head_sha]
    return CompareOverview(
        base_sha=base_sha,
        head_sha=head_sha,
        merge_base=merge_base,
        ahead=ahead,
        behind=behind,
        commits=list_history(repository, head_sha, exclude=base_sha, limit=limit),
    )


def find_kind(repository: Repository, sha: str, path: str) -> EntryKind | None:
    """Return what a commit has at a path, or None."""
    with git_refusals():
        return repository.git.find_kind(sha, path.strip("/"))


def list_conflicts(repository: Repository, *, source_sha: str, target_sha: str) -> list[ConflictedFile]:
    """Return the files that keep two commits from being merged; what the target has is ours.

    Raises:
        Conflict: they cannot be settled by choosing what files are to be, with the reason.

    """
    with git_refusals():
        return merges.read_conflicts(repository.git, source=source_sha, target=target_sha)


def merge_state(repository: Repository, source_sha: str, target_sha: str) -> MergePreview:
    """Say whether a commit merges cleanly into another."""
    with git_refusals():
        return merges.preview_merge(repository.git, source=source_sha, target=target_sha)


def find_landing(repository: Repository, *, source_sha: str, target_sha: str, shown_from: str | None = None) -> Landing:
    """Return what a merge would change on its target, and which of it a comparison with `shown_from` does not show.

    By default that is the merge base which every comparison of the two commits uses.
    """
    with git_refusals():
        return landing.find_landing(repository.git, source=source_sha, target=target_sha, shown_from=shown_from)


def decorate_files(repository: Repository, files: Iterable[FileDiff]) -> list[FileDiff]:
    """Add colours and marks to the lines of files; call it for the lines that are shown, since it takes long."""
    git = repository.git
    with git_refusals():
        return [
            decorate(file, old=git.read_to_colour(file.old_blob), new=git.read_to_colour(file.new_blob))
            if file.hunks
            else file
            for file in files
        ]
