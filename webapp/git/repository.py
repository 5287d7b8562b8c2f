"""One bare repository. Nothing else in the project calls pygit2 or the git program on a repository's objects."""

from __future__ import annotations

import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pygit2
from pygit2.enums import FileMode, SortMode

from webapp.git import compare, following, history
from webapp.git.changes import apply_changes, check_changes
from webapp.git.diff import MAX_COLOUR_BYTES, CodeDiff, FileDiff
from webapp.git.errors import (
    BadChange,
    BranchExists,
    GitError,
    HeadMoved,
    NothingChanged,
    NotStored,
    RefLocked,
    TooBig,
    UnknownPath,
    UnknownRef,
)
from webapp.git.identity import Identity, advance_identity, read_identity
from webapp.git.locks import UNCHANGED_SECONDS, Lease, find_locks, hold_lease, remove_leftovers, remove_stale_locks
from webapp.git.objects import MAX_FILE_BYTES, Objects, describe_commit, kind_of, name_of
from webapp.git.paths import check_path, find_entry
from webapp.git.program import run_git
from webapp.git.values import Blob, Change, CommitInfo, EntryKind, PathEntry, Person, TreeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from webapp.git.following import FollowedFile

MAX_EXPORT_BYTES = 500 * 1024 * 1024
MAX_EXPORT_FILES = 50_000
FSCK_SECONDS = 1800
# Longer than it takes to be sure that a lock is a dead writer's.
LOCK_SECONDS = UNCHANGED_SECONDS + 1.5

_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.fsync": "objects,derived-metadata,reference",
    "transfer.fsckObjects": "true",
    "receive.fsckObjects": "true",
    # Pull requests and transactions name commits for ever, also those of deleted branches.
    "gc.pruneExpire": "never",
    "gc.auto": "0",
    "receive.autogc": "false",
    "receive.denyDeleteCurrent": "refuse",
    "uploadpack.allowFilter": "true",
    "merge.renames": "true",
}
_LOCK = re.compile(r"(?:failed to lock file|Unable to create) '([^']*\.lock)'")
_SHA = re.compile(r"[0-9a-f]{40}\Z")
_SHORT_SHA = re.compile(r"[0-9a-f]{7,40}\Z")


def is_full_sha(text: str) -> bool:
    """Say whether a text is the whole name of a commit."""
    return _SHA.match(text) is not None


def _set_up(repo: pygit2.Repository) -> None:
    for name, value in _CONFIG.items():
        repo.config[name] = value


class GitRepository:
    """A bare repository on disk."""

    def __init__(self, path: Path) -> None:
        """Open the repository at a folder."""
        self.path = path
        self.objects = Objects(path)
        self._repo = self.objects.store

    @classmethod
    def init(cls, path: Path, *, branch: str) -> GitRepository:
        """Make an empty bare repository whose default branch has this name."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        repo = pygit2.init_repository(str(path), bare=True, initial_head=branch)
        _set_up(repo)
        for sample in (path / "hooks").glob("*"):
            sample.unlink()
        return cls(path)

    def remove(self) -> None:
        """Delete the repository from the disk."""
        shutil.rmtree(self.path)

    def read_identity(self) -> Identity | None:
        """Return what this copy says of itself: whose it is and how new."""
        return read_identity(self.path)

    def advance(self, *, uid: str, at_least: int) -> int:
        """Count a move in this copy, from now on one of the repository `uid`; return the number."""
        return advance_identity(self.path, uid=uid, at_least=at_least)

    def list_unset(self) -> list[str]:
        """Return the settings that guard the repository and are not what they were made."""
        return [
            name for name, value in _CONFIG.items() if name not in self._repo.config or self._repo.config[name] != value
        ]

    def restore_settings(self) -> None:
        """Set what guards the repository as a new one has it."""
        self._repo.config["core.bare"] = True
        _set_up(self._repo)

    def find_damage(self) -> str:
        """Have Git look at every object; return what it complains of, or nothing."""
        result = run_git(
            self.path, "fsck", "--strict", "--full", "--no-dangling", "--no-progress", seconds=FSCK_SECONDS, accept=None
        )
        return (
            "" if result.returncode == 0 else (result.stderr + result.stdout).decode("utf-8", "replace").strip()[:500]
        )

    # Branches

    @property
    def default_branch(self) -> str:
        """Return the branch that a clone checks out."""
        target = self._repo.lookup_reference("HEAD").target
        return str(target).removeprefix("refs/heads/")

    def list_heads(self) -> dict[str, str]:
        """Return the head commit of every branch, in the order of the names."""
        heads = {}
        for raw in sorted(self._repo.raw_listall_references()):
            if not raw.startswith(b"refs/heads/"):
                continue
            name = raw.decode("utf-8", "replace")
            try:
                heads[name.removeprefix("refs/heads/")] = str(self._repo.lookup_reference(name).resolve().target)
            except (KeyError, pygit2.GitError, ValueError, OSError):
                # Damaged, deleted by somebody else since it was listed, or not a name that this product could have made.
                continue
        return heads

    def list_tags(self) -> list[str]:
        """Return the names of all tags."""
        raw = (name for name in self._repo.raw_listall_references() if name.startswith(b"refs/tags/"))
        return sorted(name.decode("utf-8", "replace").removeprefix("refs/tags/") for name in raw)

    def find_head(self, branch: str) -> str | None:
        """Return the head of a branch, or None where there is no such branch."""
        try:
            return str(self._look_up(f"refs/heads/{branch}").resolve().target)
        except (
            KeyError,
            ValueError,
            pygit2.GitError,
        ):  # too long for a file or no text at all: such a name is invalid too
            return None

    def find_ref(self, ref: str) -> str | None:
        """Return what a ref with its full name points to, be it a commit or a tag's own object; None without such a ref."""
        try:
            return str(self._look_up(ref).target)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def _look_up(self, full: str) -> pygit2.Reference:
        """Return the ref of exactly this name: libgit2 takes refs/heads//master for refs/heads/master, and Git does not."""
        try:
            reference = self._repo.lookup_reference(full)
        except OSError as error:
            msg = f"{full} of {self.path.name} cannot be read."
            raise GitError(msg) from error
        if reference.name != full:
            raise KeyError(full)
        return reference

    def get_head(self, branch: str) -> str:
        """Return the head of a branch."""
        head = self.find_head(branch)
        if head is None:
            msg = f"There is no branch {branch}."
            raise UnknownRef(msg)
        return head

    def resolve(self, ref: str) -> str:
        """Return the commit that a branch name or a commit's name (7 digits or more) stands for."""
        head = self.find_head(ref)
        if head is not None:
            return head
        if _SHORT_SHA.match(ref):
            try:
                return str(self.objects.find_commit(ref).id)
            except (KeyError, ValueError, pygit2.GitError, UnknownRef):
                pass
        msg = f"There is no branch or commit {ref}."
        raise UnknownRef(msg)

    def create_branch(self, name: str, sha: str) -> None:
        """Make a branch that points to a commit."""
        commit = self.objects.find_commit(sha)

        def create(_lease: Lease) -> None:
            try:
                self._repo.references.create(f"refs/heads/{name}", commit.id, force=False)
            except (pygit2.AlreadyExistsError, ValueError, OSError, pygit2.GitError) as error:
                self._check_lock(str(error))
                if not self._is_taken(name):
                    raise NotStored from error
                msg = f"A branch {name} cannot be made: a branch of that name, or one that is a folder of it, exists."
                raise BranchExists(msg) from error

        self._move(create)

    def _is_taken(self, name: str) -> bool:
        """Return whether a branch of this name, one above it or one below it keeps it from being made."""
        heads = [ref.removeprefix("refs/heads/") for ref in self._repo.references if ref.startswith("refs/heads/")]
        return any(f"{name}/".startswith(f"{head}/") or head.startswith(f"{name}/") for head in heads)

    def delete_branch(self, name: str, *, expected: str) -> None:
        """Delete a branch that still points to the expected commit."""

        def delete(lease: Lease) -> None:
            result = run_git(
                self.path,
                "update-ref",
                "-d",
                "--end-of-options",
                f"refs/heads/{name}",
                expected,
                accept=(0, 1, 128),
                lease=lease,
            )
            if not result.returncode:
                return
            head = self.find_head(name)
            if head is None:
                msg = f"There is no branch {name}."
                raise UnknownRef(msg)
            self._check_lock(result.stderr.decode("utf-8", "replace"))
            if head == expected:
                raise NotStored
            raise HeadMoved(branch=name, head=head)

        self._move(delete)

    def move_branch(self, name: str, *, expected: str, sha: str) -> None:
        """Point a branch to another commit if it still points to the expected one."""
        full = f"refs/heads/{name}"
        commit = self.objects.find_commit(sha)

        def move(_lease: Lease) -> None:
            try:
                reference = self._look_up(full)
            except (KeyError, ValueError) as error:
                msg = f"There is no branch {name}."
                raise UnknownRef(msg) from error
            if str(reference.target) != expected:
                raise HeadMoved(branch=name, head=str(reference.target))
            try:
                # libgit2 compares with the value loaded above while it holds the lock of the ref.
                reference.set_target(commit.id)
            except (pygit2.GitError, ValueError, OSError) as error:
                self._check_lock(str(error))
                head = self.find_head(name)
                if head == expected:
                    raise NotStored from error
                raise HeadMoved(branch=name, head=head or "") from error

        self._move(move)

    def _move(self, act: Callable[[Lease], None]) -> None:
        """Move a ref; who finds it locked waits a little, and does not wait for the dead."""
        deadline: float | None = None
        while True:
            try:
                with hold_lease(self.path) as lease:
                    return act(lease)
            except RefLocked:
                # Outside the lease: it would be one of the living.
                has_removed = bool(self.remove_stale_locks())
                deadline = deadline or time.monotonic() + LOCK_SECONDS
                if not has_removed and time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _check_lock(self, refusal: str) -> None:
        """Tell a lock from what else makes Git and libgit2 refuse to move a ref."""
        lock = _LOCK.search(refusal)
        if lock is not None:
            raise RefLocked(lock[1].removeprefix(f"{self.path}/"))

    def find_locks(self) -> list[str]:
        """Return the names of all locks there are at this moment, of the living and the dead."""
        return find_locks(self.path)

    def remove_stale_locks(self) -> list[str]:
        """Remove the locks that dead writers left; return their names."""
        return remove_stale_locks(self.path)

    def remove_leftovers(self) -> int:
        """Remove unfinished objects that dead writers left; return how many."""
        return remove_leftovers(self.path)

    # Commits

    def get_commit(self, sha: str) -> CommitInfo:
        """Return one commit."""
        return describe_commit(self.objects.find_commit(sha))

    def commit_time(self, sha: str) -> int:
        """Return when a commit was made, in seconds since 1970: all that an order of many of them needs."""
        return int(self.objects.find_commit(sha).commit_time)

    def has_commit(self, sha: str) -> bool:
        """Say whether a full name is a commit of this repository."""
        try:
            return is_full_sha(sha) and isinstance(self._repo.get(sha), pygit2.Commit)
        except (ValueError, pygit2.GitError):
            return False

    def iterate_commits(self, sha: str, *, path: str = "", exclude: str | None = None) -> Iterator[CommitInfo]:
        """Walk from a commit back in time; with a path, only commits that changed it."""
        walker = self._repo.walk(self.objects.find_commit(sha).id, SortMode.TOPOLOGICAL | SortMode.TIME)
        if exclude is not None:
            walker.hide(self.objects.find_commit(exclude).id)
        for commit in walker:
            if not path or history.changes_path(commit, path):
                yield describe_commit(commit)

    def iterate_upwards(self, sha: str, *, exclude: Iterable[str] = ()) -> Iterator[CommitInfo]:
        """Walk to a commit, parents first, through what leads to none of the excluded ones."""
        try:
            walker = self._repo.walk(self.objects.find_commit(sha).id, SortMode.TOPOLOGICAL | SortMode.REVERSE)
            for end in exclude:
                walker.hide(self.objects.find_commit(end).id)
            for commit in walker:
                yield describe_commit(commit)
        except (KeyError, pygit2.GitError) as error:
            msg = f"The history of {self.path.name} cannot be read: {error}"
            raise GitError(msg) from error

    def count_commits(self, sha: str, *, limit: int = 100_000) -> int:
        """Count the commits that lead to this one, up to a limit."""
        return history.count_commits(self.path, str(self.objects.find_commit(sha).id), limit)

    def ahead_behind(self, sha: str, base: str) -> tuple[int, int]:
        """Count the commits that only the first has, and those that only the base has."""
        try:
            ahead, behind = self._repo.ahead_behind(self.objects.find_commit(sha).id, self.objects.find_commit(base).id)
        except (KeyError, pygit2.GitError) as error:
            msg = f"The history of {sha[:7]} cannot be read: {error}"
            raise GitError(msg) from error
        return int(ahead), int(behind)

    def merge_base(self, sha: str, other: str) -> str | None:
        """Return the best common ancestor of two commits."""
        base = self._repo.merge_base(self.objects.find_commit(sha).id, self.objects.find_commit(other).id)
        return str(base) if base is not None else None

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Say whether one commit leads to the other (or is it)."""
        return ancestor == descendant or bool(
            self._repo.descendant_of(self.objects.find_commit(descendant).id, self.objects.find_commit(ancestor).id)
        )

    # Files

    def list_entries(self, sha: str, path: str = "") -> list[TreeEntry]:
        """List a folder: folders first, then files, each by name."""
        tree = self.objects.find_object(sha, path)
        if not isinstance(tree, pygit2.Tree):
            msg = f"{path} is a file."
            raise UnknownPath(msg)
        entries = [self.objects.describe_entry(item, path) for item in tree]
        return sorted(entries, key=lambda entry: (entry.kind != "folder", entry.name.casefold(), entry.name))

    def list_files(self, sha: str, *, limit: int = 20_000) -> list[str]:
        """List the paths of all files of a commit, up to a limit."""
        paths: list[str] = []
        for path, item in self.objects.walk_tree(self.objects.find_commit(sha).tree):
            if kind_of(item) != "submodule":
                paths.append(path)
            if len(paths) >= limit:
                break
        return paths

    def find_kind(self, sha: str, path: str) -> EntryKind | None:
        """Return what is at a path, or None."""
        if not path:
            return "folder"
        try:
            return kind_of(find_entry(self.objects.find_commit(sha).tree, path))
        except (KeyError, pygit2.GitError):
            return None

    def describe_paths(self, sha: str, paths: Iterable[str]) -> dict[str, PathEntry]:
        """Return what is at some paths of a commit, `.` being its root; those where nothing is are left out."""
        root = self.objects.find_commit(sha).tree
        entries: dict[str, PathEntry] = {}
        # by folder: to go down from the root for each path takes a hundred times as long
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        for folder, inside in folders.items():
            try:
                tree = find_entry(root, folder) if folder else root
            except (KeyError, pygit2.GitError):
                continue
            for path in inside if isinstance(tree, pygit2.Tree) else ():
                try:
                    item = root if path == "." else find_entry(tree, path.rpartition("/")[2])
                except (KeyError, pygit2.GitError):
                    continue
                entries[path] = _describe_entry(item)
        return entries

    def read_blob(self, sha: str, path: str, *, limit: int = MAX_FILE_BYTES) -> Blob:
        """Return a file; a symbolic link is its target as text and is never followed."""
        blob = self.objects.find_object(sha, path)
        if not isinstance(blob, pygit2.Blob):
            msg = f"{path or '/'} is not a file."
            raise UnknownPath(msg)
        size = self.objects.measure(blob.id)
        if size > limit:
            msg = f"{path} has {size} bytes, more than {limit}."
            raise TooBig(msg)
        self.objects.check_whole(str(blob.id), limit=limit)
        return Blob(path=path, kind=kind_of(blob), sha=str(blob.id), size=size, content=bytes(blob.data))

    def find_submodule(self, sha: str, path: str) -> str:
        """Return the commit of another repository that a submodule stands for; empty where the path has none."""
        item = self.objects.find_object(sha, path)
        return str(item.id) if kind_of(item) == "submodule" else ""

    def blob_size(self, sha: str, path: str) -> int:
        """Return the size of a file without reading it."""
        blob = self.objects.find_object(sha, path)
        if not isinstance(blob, pygit2.Blob):
            msg = f"{path or '/'} is not a file."
            raise UnknownPath(msg)
        return self.objects.measure(blob.id)

    def read_to_colour(self, blob: str) -> bytes:
        """Return the content of a blob by its own name; empty where there is none, or where it is too long to be coloured."""
        if blob:
            self.objects.check_whole(blob, limit=MAX_COLOUR_BYTES)
        git_object = self._repo.get(blob) if blob else None
        if not isinstance(git_object, pygit2.Blob) or self.objects.measure(git_object.id) > MAX_COLOUR_BYTES:
            return b""
        return bytes(git_object.data)

    def last_commits(self, sha: str, path: str = "") -> dict[str, CommitInfo]:
        """Return, for each entry of a folder, the last commit that changed it."""
        return dict(history.find_last_commits(self.path, str(self.objects.find_commit(sha).id), path))

    def export(self, sha: str, folder: Path) -> list[str]:
        """Write the files of a commit into a folder; return the links and submodules that were left out."""
        left_out: list[str] = []
        files = self._list_exported(sha)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for path, item in files:
            kind = kind_of(item)
            target = folder.joinpath(*path.split("/"))
            # A file system can take two names for one.
            if kind in {"symlink", "submodule"} or not _is_safe(path) or target.exists():
                left_out.append(path)
            elif kind == "folder":
                target.mkdir()
                target.chmod(0o755)
            else:
                target.write_bytes(item.data)
                target.chmod(0o755 if item.filemode == FileMode.BLOB_EXECUTABLE else 0o644)
        return left_out

    def _list_exported(self, sha: str) -> list[tuple[str, Any]]:
        """List what an export writes, before it writes anything, and refuse what is too much."""
        files = []
        size = 0
        for path, item in self.objects.walk_tree(self.objects.find_commit(sha).tree, folders=True):
            files.append((path, item))
            size += self.objects.measure(item.id) if isinstance(item, pygit2.Blob) else 0
            if len(files) > MAX_EXPORT_FILES or size > MAX_EXPORT_BYTES:
                msg = f"The files of commit {sha[:7]} are too many or too large to be run."
                raise TooBig(msg)
        return files

    # Writing

    def commit_changes(
        self,
        *,
        branch: str,
        message: str,
        changes: Iterable[Change],
        author: Person,
        committer: Person | None = None,
        expected_head: str | None = None,
        intend: Callable[[str, str], None] | None = None,
    ) -> CommitInfo:
        """Commit changes of files on top of a branch, if it still points where the caller believed.

        Without an expected head the changes go on top of whatever the head is, as often as somebody else is faster.
        `intend` is called with the head and the commit before the branch moves from the one to the other.
        """
        changes = list(changes)
        for _ in range(1 if expected_head else 20):
            head = self.get_head(branch)
            if expected_head and head != expected_head:
                raise HeadMoved(branch=branch, head=head)
            sha = self.prepare_commit(parent=head, message=message, changes=changes, author=author, committer=committer)
            if intend is not None:
                intend(head, sha)
            try:
                self.move_branch(branch, expected=head, sha=sha)
            except HeadMoved:
                if expected_head:
                    raise
                continue
            return self.get_commit(sha)
        raise HeadMoved(branch=branch, head=self.get_head(branch))

    def prepare_commit(
        self,
        *,
        parent: str,
        message: str,
        changes: Iterable[Change],
        author: Person,
        committer: Person | None = None,
    ) -> str:
        """Make a commit of changed files that no branch points to yet; return its hash."""
        files = list(changes)
        check_changes(files, message)
        tree = apply_changes(self.objects, parent, files)
        if tree == str(self.objects.find_commit(parent).tree.id):
            msg = "The changes leave every file as it is."
            raise NothingChanged(msg)
        return self.objects.write_commit(tree, (parent,), message, author, committer or author)

    def create_root_commit(
        self, *, branch: str, message: str, files: Mapping[str, bytes], author: Person
    ) -> CommitInfo:
        """Make the first commit of a branch in an empty repository."""
        tree = self.objects.write_tree(
            {check_path(path): (self.objects.create_blob(content), FileMode.BLOB) for path, content in files.items()}
        )
        sha = self.objects.write_commit(tree, (), message, author, author)
        self.create_branch(branch, sha)
        return self.get_commit(sha)

    # Differences

    def list_changed_paths(self, base: str | None, head: str) -> frozenset[str]:
        """Return the paths at which two commits differ: of a file that moved both."""
        return compare.list_changed_paths(self.path, base, head)

    def list_changes(
        self,
        base: str | None,
        head: str,
        *,
        ignore_whitespace: bool = False,
        paths: Collection[str] | None = None,
    ) -> CodeDiff:
        """Return which files a comparison touches; what was found is kept, for commits never change."""
        chosen = None if paths is None else frozenset(paths)
        return compare.list_changes(self.path, base, head, ignore_whitespace=ignore_whitespace, paths=chosen)

    def follow_file(self, older: str, newer: str, path: str) -> FollowedFile | None:
        """Return what became of a file of an older commit; None if the newer one does not have it."""
        return following.follow_file(self.path, older, newer, path)

    def diff(
        self,
        base: str | None,
        head: str,
        *,
        context: int = 3,
        ignore_whitespace: bool = False,
        paths: Collection[str] | None = None,
    ) -> list[FileDiff]:
        """Compare two commits file by file, following renames; no base means an empty tree.

        With paths, only these files, by their new or old names, are read.
        """
        return compare.list_diffs(
            self.objects, base, head, context=context, ignore_whitespace=ignore_whitespace, paths=paths
        )


def _is_safe(path: str) -> bool:
    try:
        check_path(path)
    except BadChange:
        return False
    return True


def _describe_entry(item: pygit2.Object) -> PathEntry:
    if isinstance(item, pygit2.Tree):
        names = tuple(f"{name_of(entry)}/" if isinstance(entry, pygit2.Tree) else name_of(entry) for entry in item)
        return PathEntry(str(item.id), is_folder=True, names=names)
    return PathEntry(str(item.id), is_folder=False, is_program=item.filemode == FileMode.BLOB_EXECUTABLE)
