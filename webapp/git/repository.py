"""One bare repository. Nothing else in the project calls pygit2 or the git program on a repository's objects."""

from __future__ import annotations

import errno
import re
import resource
import shutil
import stat
import subprocess
import time
import zlib
from collections import defaultdict
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from itertools import islice, takewhile
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import pygit2
from pygit2.enums import ConfigLevel, DeltaStatus, DiffFind, DiffOption, FileMode, ObjectType, SortMode

from webapp.git.conflicts import (
    GIT_MARK,
    ConflictedFile,
    ConflictMarks,
    Resolution,
    SideVersion,
    cut_ends,
    read_marked,
    settle,
    split_entries,
)
from webapp.git.diff import (
    MAX_COLOUR_BYTES,
    ChangedFile,
    CodeDiff,
    FileDiff,
    changed_file_of_delta,
    file_diff_of_patch,
    long_file_diff,
)
from webapp.git.errors import (
    BadChange,
    BranchExists,
    CannotRebase,
    GitError,
    HeadMoved,
    MergeConflict,
    NothingChanged,
    NotStored,
    RefLocked,
    TooBig,
    UnknownPath,
    UnknownRef,
)
from webapp.git.identity import Identity, advance_identity, read_identity
from webapp.git.locks import UNCHANGED_SECONDS, Lease, find_locks, hold_lease, remove_leftovers, remove_stale_locks
from webapp.git.paths import check_path
from webapp.git.values import Blob, Change, CommitInfo, EntryKind, MergeMethod, MergePreview, Person, TreeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["GIT_ENVIRONMENT", "GitRepository", "is_full_sha", "limit_memory"]

# Git reads no configuration but the repository's own; nothing it runs may ask, page, or start a helper.
GIT_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "",
}
for _level in (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA):
    pygit2.settings.search_path[_level] = ""
# What was acknowledged survives a power cut: objects and refs reach the disk before a call returns.
pygit2.settings.enable_fsync_gitdir(True)

MAX_FILE_BYTES = 20 * 1024 * 1024
LOOSE_PIECE_BYTES = 64 * 1024
MOST_HEADER_BYTES = 64
"""Of a loose object: its kind and its size."""
MAX_COMMIT_BYTES = 100 * 1024 * 1024
MAX_CHANGES = 3000
MAX_EXPORT_BYTES = 500 * 1024 * 1024
MAX_EXPORT_FILES = 50_000
MAX_MESSAGE = 65_536
MAX_DIFF_FILES = 3000
MAX_DIFF_BYTES = 500 * 1024 * 1024
# Git compares by line, and takes a hundred bytes of memory for each, however short they are.
MAX_DIFFED_LINES = 1_000_000
# Of what Git merges or takes in, since some bytes of a pack may be a file of gigabytes.
GIT_MEMORY_BYTES = 2 * 1024**3
MERGE_SECONDS = 60
MOST_REBASED = 100
"""So many commits are made anew at once: each is a merge."""
FSCK_SECONDS = 1800
# Longer than it takes to be sure that a lock is a dead writer's.
LOCK_SECONDS = UNCHANGED_SECONDS + 1.5
# A file of which both sides have changed lines is shown, to choose of them, up to this size.
MAX_SETTLED_BYTES = 1_000_000
# A page shows the last commit of each entry of a folder; beyond this many commits it shows none.
LAST_COMMIT_DEPTH = 3000

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
_KINDS: Mapping[int, EntryKind] = {
    FileMode.BLOB: "file",
    FileMode.BLOB_EXECUTABLE: "file",
    FileMode.LINK: "symlink",
    FileMode.COMMIT: "submodule",
    FileMode.TREE: "folder",
}
_LOCK = re.compile(r"(?:failed to lock file|Unable to create) '([^']*\.lock)'")
_FILE_MODES = frozenset({FileMode.BLOB, FileMode.BLOB_EXECUTABLE})
_SHA = re.compile(r"[0-9a-f]{40}\Z")
_SHORT_SHA = re.compile(r"[0-9a-f]{7,40}\Z")


Stages = dict[int, SideVersion]
"""What a conflict consists of: of the base (1), of the target (2) and of the source (3)."""


def is_full_sha(text: str) -> bool:
    """Say whether a text is the whole name of a commit."""
    return _SHA.match(text) is not None


def limit_memory(process: int) -> None:
    """Limit what a program of Git, and whatever it starts, may hold in memory beside the files that it maps."""
    with suppress(ProcessLookupError):
        resource.prlimit(process, resource.RLIMIT_DATA, (GIT_MEMORY_BYTES, GIT_MEMORY_BYTES))


def _clean_identity(text: str, *, fallback: str) -> str:
    """Remove what would break a commit's header lines."""
    cleaned = re.sub(r"[<>\x00-\x1f\x7f]", " ", text).strip(" .,:;\"'")
    return cleaned or fallback


def _check_plain(path: Path) -> None:
    """Refuse to read what is there and no file, which may never end; what is absent is Git's matter."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))


def _set_up(repo: pygit2.Repository) -> None:
    for name, value in _CONFIG.items():
        repo.config[name] = value


class GitRepository:
    """A bare repository on disk."""

    def __init__(self, path: Path) -> None:
        """Open the repository at a folder."""
        self.path = path
        try:
            _check_plain(path / "config")
            self._repo = pygit2.Repository(str(path), pygit2.enums.RepositoryOpenFlag.BARE)
        except (pygit2.GitError, OSError) as error:
            msg = f"The repository {path.name} cannot be opened."
            raise GitError(msg) from error

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
        result = self._git(
            "fsck", "--strict", "--full", "--no-dangling", "--no-progress", seconds=FSCK_SECONDS, accept=None
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
                return str(self._commit(ref).id)
            except (KeyError, ValueError, pygit2.GitError, UnknownRef):
                pass
        msg = f"There is no branch or commit {ref}."
        raise UnknownRef(msg)

    def create_branch(self, name: str, sha: str) -> None:
        """Make a branch that points to a commit."""
        commit = self._commit(sha)

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
            result = self._git(
                "update-ref", "-d", "--end-of-options", f"refs/heads/{name}", expected, accept=(0, 1, 128), lease=lease
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
        commit = self._commit(sha)

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
        return _info(self._commit(sha))

    def commit_time(self, sha: str) -> int:
        """Return when a commit was made, in seconds since 1970: all that an order of many of them needs."""
        return int(self._commit(sha).commit_time)

    def has_commit(self, sha: str) -> bool:
        """Say whether a full name is a commit of this repository."""
        try:
            return is_full_sha(sha) and isinstance(self._repo.get(sha), pygit2.Commit)
        except (ValueError, pygit2.GitError):
            return False

    def iterate_commits(self, sha: str, *, path: str = "", exclude: str | None = None) -> Iterator[CommitInfo]:
        """Walk from a commit back in time; with a path, only commits that changed it."""
        walker = self._repo.walk(self._commit(sha).id, SortMode.TOPOLOGICAL | SortMode.TIME)
        if exclude is not None:
            walker.hide(self._commit(exclude).id)
        for commit in walker:
            if not path or self._changes_path(commit, path):
                yield _info(commit)

    def iterate_upwards(self, sha: str, *, exclude: Iterable[str] = ()) -> Iterator[CommitInfo]:
        """Walk to a commit, parents first, through what leads to none of the excluded ones."""
        try:
            walker = self._repo.walk(self._commit(sha).id, SortMode.TOPOLOGICAL | SortMode.REVERSE)
            for end in exclude:
                walker.hide(self._commit(end).id)
            for commit in walker:
                yield _info(commit)
        except (KeyError, pygit2.GitError) as error:
            msg = f"The history of {self.path.name} cannot be read: {error}"
            raise GitError(msg) from error

    def count_commits(self, sha: str, *, limit: int = 100_000) -> int:
        """Count the commits that lead to this one, up to a limit."""
        return _count_commits(self.path, str(self._commit(sha).id), limit)

    def ahead_behind(self, sha: str, base: str) -> tuple[int, int]:
        """Count the commits that only the first has, and those that only the base has."""
        try:
            ahead, behind = self._repo.ahead_behind(self._commit(sha).id, self._commit(base).id)
        except (KeyError, pygit2.GitError) as error:
            msg = f"The history of {sha[:7]} cannot be read: {error}"
            raise GitError(msg) from error
        return int(ahead), int(behind)

    def merge_base(self, sha: str, other: str) -> str | None:
        """Return the best common ancestor of two commits."""
        base = self._repo.merge_base(self._commit(sha).id, self._commit(other).id)
        return str(base) if base is not None else None

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Say whether one commit leads to the other (or is it)."""
        return ancestor == descendant or bool(
            self._repo.descendant_of(self._commit(descendant).id, self._commit(ancestor).id)
        )

    # Files

    def list_entries(self, sha: str, path: str = "") -> list[TreeEntry]:
        """List a folder: folders first, then files, each by name."""
        tree = self._object_at(sha, path)
        if not isinstance(tree, pygit2.Tree):
            msg = f"{path} is a file."
            raise UnknownPath(msg)
        entries = [self._entry(item, path) for item in tree]
        return sorted(entries, key=lambda entry: (entry.kind != "folder", entry.name.casefold(), entry.name))

    def list_files(self, sha: str, *, limit: int = 20_000) -> list[str]:
        """List the paths of all files of a commit, up to a limit."""
        paths: list[str] = []
        for path, item in self._walk_tree(self._commit(sha).tree, ""):
            if _kind(item) != "submodule":
                paths.append(path)
            if len(paths) >= limit:
                break
        return paths

    def find_kind(self, sha: str, path: str) -> EntryKind | None:
        """Return what is at a path, or None."""
        if not path:
            return "folder"
        try:
            return _kind(self._commit(sha).tree[path])
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def read_blob(self, sha: str, path: str, *, limit: int = MAX_FILE_BYTES) -> Blob:
        """Return a file; a symbolic link is its target as text and is never followed."""
        blob = self._object_at(sha, path)
        if not isinstance(blob, pygit2.Blob):
            msg = f"{path or '/'} is not a file."
            raise UnknownPath(msg)
        size = self._measure(blob.id)
        if size > limit:
            msg = f"{path} has {size} bytes, more than {limit}."
            raise TooBig(msg)
        kind = _KINDS.get(int(blob.filemode or 0), "file")
        self._check_whole(str(blob.id), limit=limit)
        return Blob(path=path, kind=kind, sha=str(blob.id), size=size, content=bytes(blob.data))

    def blob_size(self, sha: str, path: str) -> int:
        """Return the size of a file without reading it."""
        blob = self._object_at(sha, path)
        if not isinstance(blob, pygit2.Blob):
            msg = f"{path or '/'} is not a file."
            raise UnknownPath(msg)
        return self._measure(blob.id)

    def _measure(self, blob: pygit2.Oid) -> int:
        """Return the size of a blob by its header: what a few bytes unpack to is not unpacked to find out."""
        try:
            return int(self._repo.odb.read_header(blob)[1])
        except KeyError as error:
            msg = f"The file {blob} is missing."
            raise GitError(msg) from error

    def _check_whole(self, blob: str, *, limit: int) -> None:
        """Refuse a loose object whose file was cut: libgit2 waits for its end for ever, and lets no other thread go on."""
        try:
            rest = (self.path / "objects" / blob[:2] / blob[2:]).read_bytes()
        except OSError:
            return  # it is in a pack
        stream, length = zlib.decompressobj(), 0
        with suppress(zlib.error):  # libgit2 says so itself
            while not stream.eof and length <= limit + MOST_HEADER_BYTES:
                piece = stream.decompress(rest, LOOSE_PIECE_BYTES)
                rest = stream.unconsumed_tail
                length += len(piece)
                if not (piece or rest or stream.eof):
                    msg = f"The file {blob} is damaged."
                    raise GitError(msg)

    def read_to_colour(self, blob: str) -> bytes:
        """Return the content of a blob by its own name; empty where there is none, or where it is too long to be coloured."""
        if blob:
            self._check_whole(blob, limit=MAX_COLOUR_BYTES)
        git_object = self._repo.get(blob) if blob else None
        if not isinstance(git_object, pygit2.Blob) or self._measure(git_object.id) > MAX_COLOUR_BYTES:
            return b""
        return bytes(git_object.data)

    def last_commits(self, sha: str, path: str = "") -> dict[str, CommitInfo]:
        """Return, for each entry of a folder, the last commit that changed it."""
        return dict(_find_last_commits(self.path, str(self._commit(sha).id), path))

    def export(self, sha: str, folder: Path) -> list[str]:
        """Write the files of a commit into a folder; return the links and submodules that were left out."""
        left_out: list[str] = []
        files = self._list_exported(sha)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for path, item in files:
            kind = _kind(item)
            target = folder.joinpath(*path.split("/"))
            # Names that are no text look alike when they are made one.
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
        for path, item in self._walk_tree(self._commit(sha).tree, "", folders=True):
            files.append((path, item))
            size += self._measure(item.id) if isinstance(item, pygit2.Blob) else 0
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
        _check_size(files, message)
        tree = self._apply(parent, files)
        if tree == str(self._commit(parent).tree.id):
            msg = "The changes leave every file as it is."
            raise NothingChanged(msg)
        return self._write_commit(tree, (parent,), message, author, committer or author)

    def create_root_commit(
        self, *, branch: str, message: str, files: Mapping[str, bytes], author: Person
    ) -> CommitInfo:
        """Make the first commit of a branch in an empty repository."""
        index = pygit2.Index()
        with _storing():
            for path, content in files.items():
                index.add(pygit2.IndexEntry(check_path(path), self._repo.create_blob(content), FileMode.BLOB))
            tree = str(index.write_tree(self._repo))
        sha = self._write_commit(tree, (), message, author, author)
        self.create_branch(branch, sha)
        return self.get_commit(sha)

    def merge_state(self, *, source: str, target: str) -> MergePreview:
        """Say whether two commits merge cleanly, and into which tree."""
        base = self.merge_base(source, target)
        if base is None:
            # Git refuses to merge unrelated histories; a pull request says so like any conflict.
            return MergePreview(clean=False, conflicts=("(the two histories have no commit in common)",))
        ours, theirs = self._commit(target), self._commit(source)
        for older, newer in ((ours, theirs), (theirs, ours)):
            if base == str(older.id):  # it has nothing of its own, and Git need not be started to say so
                return MergePreview(clean=True, tree=str(newer.tree_id))
        try:
            tree, stages = self._merge_trees(source=source, target=target)
        except TooBig:
            return MergePreview(clean=False, conflicts=("(both change files that are too large to be merged)",))
        paths = tuple(stages) or tuple(self._find_marked(tree, target=target, source=source))
        return MergePreview(clean=not paths, conflicts=paths, tree=tree)

    def _merge_trees(self, *, source: str, target: str, mark: int = GIT_MARK) -> tuple[str, dict[str, Stages]]:
        """Merge two commits; return the tree, and what the base (1), the target (2) and the source (3) have of conflicts."""
        with NamedTemporaryFile(prefix="tributary-attributes-") if mark != GIT_MARK else nullcontext() as attributes:
            if attributes is not None:
                attributes.write(f"* conflict-marker-size={mark}\n".encode())
                attributes.flush()
            result = self._git(
                "-c",
                f"core.attributesFile={attributes.name if attributes is not None else '/dev/null'}",
                "merge-tree",
                "--write-tree",
                "-z",
                "--end-of-options",
                str(self._commit(target).id),
                str(self._commit(source).id),
                accept=(0, 1),
            )
        tree, *rest = result.stdout.split(b"\0")
        return tree.decode(), _read_stages(rest) if result.returncode else {}

    def read_conflicts(self, *, source: str, target: str) -> list[ConflictedFile]:
        """Return the files that keep two commits from being merged; what the target has is ours, of the source theirs.

        Raises:
            MergeConflict: none of it can be settled by choosing what files are to be; it says what keeps them apart.

        """
        state = self.merge_state(source=source, target=target)
        # Of a name that is no text nobody can say which file is meant.
        if state.conflicts and (not state.tree or any("\ufffd" in path for path in state.conflicts)):
            raise MergeConflict(state.conflicts)
        _tree, stages = self._merge_trees(source=source, target=target)
        sides = {
            path: stages.get(path) or self._find_sides(path, target=target, source=source) for path in state.conflicts
        }
        readable = {path: versions for path, versions in stages.items() if self._is_readable(versions)}
        texts = [self._read_version(version) for versions in readable.values() for version in versions.values()]
        marks = ConflictMarks.fit(texts, ours=target, theirs=source)
        tree, _ = self._merge_trees(source=source, target=target, mark=marks.size)
        return [
            self._describe_conflict(tree, path, versions, marks, is_readable=path in readable)
            for path, versions in sides.items()
        ]

    def _find_sides(self, path: str, *, target: str, source: str) -> Stages:
        versions = {}
        for stage, sha in ((2, target), (3, source)):
            with suppress(KeyError):
                entry = self._commit(sha).tree[path]
                versions[stage] = SideVersion(str(entry.id), int(entry.filemode or 0))
        return versions

    def _is_readable(self, versions: Stages) -> bool:
        """Say whether both sides have a text of which lines can be chosen."""
        return {2, 3} <= set(versions) and all(
            version.mode in _FILE_MODES
            and self._measure(pygit2.Oid(hex=version.blob)) <= MAX_SETTLED_BYTES
            and _is_text(self._read_version(version))
            for version in versions.values()
        )

    def _read_version(self, version: SideVersion) -> bytes:
        return bytes(self._repo[version.blob].data)

    def _describe_conflict(
        self, tree: str, path: str, versions: Stages, marks: ConflictMarks, *, is_readable: bool
    ) -> ConflictedFile:
        ours, theirs = versions.get(2), versions.get(3)
        file = ConflictedFile(path=path, ours=ours, theirs=theirs, marks=marks)
        if not is_readable or ours is None or theirs is None:
            return file
        try:
            merged = bytes(self._repo[tree][path].data).decode()
        except (KeyError, UnicodeDecodeError):
            return file
        segments = cut_ends(
            read_marked(merged, marks), ours=self._read_version(ours), theirs=self._read_version(theirs)
        )
        if path.endswith(".toml"):
            segments = split_entries(segments)
        has_clash = any(not isinstance(segment, str) for segment in segments)
        return replace(file, segments=segments) if has_clash else file

    def _find_marked(self, tree: str, *, target: str, source: str) -> Iterator[str]:
        """Find files in which Git left the marks of a conflict although it called the merge clean.

        Git 2.39 does so where one side renames a file to a place at which both sides add the same other one.
        """
        ours, theirs = self._commit(target), self._commit(source).tree
        mark = re.compile(rb"^<{7,} " + str(ours.id).encode(), re.MULTILINE)
        for delta in ours.tree.diff_to_tree(self._repo[tree]).deltas:
            path, merged = delta.new_file.path, delta.new_file.id
            if delta.status == DeltaStatus.DELETED or (path in theirs and theirs[path].id == merged):
                continue
            blob = self._repo.get(merged)
            if isinstance(blob, pygit2.Blob) and mark.search(blob.data):
                yield path

    def prepare_merge(
        self,
        *,
        source: str,
        target: str,
        method: MergeMethod,
        message: str,
        author: Person,
        committer: Person | None = None,
        resolutions: Iterable[Resolution] = (),
    ) -> str:
        """Make the merge commit of two commits without moving any branch; `move_branch` lands it.

        Raises:
            MergeConflict: it names the files that conflict and for which there is no resolution.
            BadChange: a resolution is of a file that does not conflict, or cannot be.

        """
        state = self.merge_state(source=source, target=target)
        settled = {resolution.path: resolution for resolution in resolutions}
        for path in settled:
            if path not in state.conflicts:
                raise BadChange(path, "this file does not conflict")
        open_paths = tuple(path for path in state.conflicts if path not in settled)
        if open_paths:
            raise MergeConflict(open_paths)
        tree = self._settle(state.tree, settled, source=source, target=target) if settled else state.tree
        merged = (str(self._commit(source).id),) if method == "merge" else ()
        # A source without a commit of its own brings data alone: its merge may have one parent.
        parents = tuple(dict.fromkeys((str(self._commit(target).id), *merged)))
        return self._write_commit(tree, parents, message, author, committer or author)

    def prepare_rebase(self, *, source: str, target: str, committer: Person) -> str:
        """Make the commits of a source anew on top of a target, without moving any branch; return the last one.

        Merges among them are left out, as is what changes nothing any more. The files are what a merge would make of
        them, or it is refused: what was settled in a merge is in none of the other commits.

        Raises:
            MergeConflict: the two conflict.
            CannotRebase: one of the commits does, they are too many, or what comes out is not what a merge would make.

        """
        state = self.merge_state(source=source, target=target)
        if state.conflicts:
            raise MergeConflict(state.conflicts)
        own = list(islice(self.iterate_upwards(source, exclude=[target]), MOST_REBASED + 1))
        if len(own) > MOST_REBASED:
            msg = f"More than {MOST_REBASED} commits are not rebased here. Merge, or rebase with Git."
            raise CannotRebase(msg)
        head = target
        for commit in own:
            if len(commit.parents) == 1:
                head = self._pick(commit, head, committer)
        if str(self._commit(head).tree.id) != state.tree:
            msg = "The commits one by one do not make the files that a merge makes: something was settled in a merge. Merge."
            raise CannotRebase(msg)
        return head

    def _pick(self, commit: CommitInfo, head: str, committer: Person) -> str:
        """Make a commit anew on top of a head; return that, where nothing is left of it."""
        onto = str(self._commit(head).tree.id)
        # What Git 2.39 merges with its limits are two commits, from where they parted: these are made for it.
        parted = self._write_commit(str(self._commit(commit.parents[0]).tree.id), (), "", committer, committer)
        ours, theirs = (self._write_commit(tree, (parted,), "", committer, committer) for tree in (onto, commit.tree))
        state = self.merge_state(source=theirs, target=ours)
        if state.conflicts:
            msg = f"{commit.short} ({commit.subject[:100]}) conflicts with what it would stand on. Merge instead."
            raise CannotRebase(msg)
        if state.tree == onto:
            return head
        return self._write_commit(
            state.tree, (head,), commit.message, commit.author, committer, authored_at=commit.authored_at
        )

    def _settle(self, merged: str, resolutions: Mapping[str, Resolution], *, source: str, target: str) -> str:
        """Return the tree of a merge in which each file that conflicts is what somebody wants it to be."""
        contents = [resolution.content or b"" for resolution in resolutions.values()]
        if max(map(len, contents)) > MAX_FILE_BYTES or sum(map(len, contents)) > MAX_COMMIT_BYTES:
            msg = f"A file has at most {MAX_FILE_BYTES} bytes, a commit {MAX_COMMIT_BYTES}."
            raise TooBig(msg)
        index = pygit2.Index()
        index.read_tree(self._repo[merged])
        files = {entry.path: (entry.id, entry.mode) for entry in index}
        for conflict in self.read_conflicts(source=source, target=target):
            becomes = settle(conflict, resolutions[conflict.path])
            _unused, mode = files.pop(conflict.path, (None, FileMode.BLOB))
            if isinstance(becomes, SideVersion):
                files[conflict.path] = (pygit2.Oid(hex=becomes.blob), FileMode(becomes.mode))
            elif becomes is not None:
                with _storing():
                    files[check_path(conflict.path)] = (
                        self._repo.create_blob(becomes),
                        mode if mode in _FILE_MODES else FileMode.BLOB,
                    )
        return self._write_tree(files)

    def prepare_revert(self, *, sha: str, target: str, message: str, author: Person) -> str:
        """Make a commit on top of another one that takes back what a commit brought to its first parent.

        No branch points to it yet. It is what Git's `revert --mainline 1` makes: the merge of the files of before with
        what was done since.

        Raises:
            MergeConflict: the same lines were changed since; it names the files.
            NothingChanged: nothing is left of what the commit brought.

        """
        before = self._commit(self._commit(sha).parent_ids[0])
        # Said otherwise than what lands: of the same second, it would be the commit with which it was reverted before.
        undone = self._write_commit(str(before.tree.id), (sha,), f"What was before {sha}", author, author)
        reverted = self.prepare_merge(source=undone, target=target, method="squash", message=message, author=author)
        if self.get_commit(reverted).tree == self.get_commit(target).tree:
            msg = f"Nothing is left of what {sha[:7]} brought."
            raise NothingChanged(msg)
        return reverted

    # Differences

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
        return _list_changes(self.path, base, head, ignore_whitespace=ignore_whitespace, paths=chosen)

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
        diff = self._diff(base, head, context=context, ignore_whitespace=ignore_whitespace)
        files = []
        for place, delta, _file in _find_changes(diff, paths):
            if self._is_long(delta):
                files.append(long_file_diff(delta))
            elif (patch := diff[place]) is not None:
                files.append(file_diff_of_patch(patch))
        return files

    # Inside

    def _diff(self, base: str | None, head: str, *, context: int, ignore_whitespace: bool) -> pygit2.Diff:
        options = DiffOption.IGNORE_WHITESPACE if ignore_whitespace else DiffOption.NORMAL
        tree = self._commit(head).tree
        if base is None:
            diff = tree.diff_to_tree(swap=True, flags=options, context_lines=context)
        else:
            diff = self._commit(base).tree.diff_to_tree(tree, flags=options, context_lines=context)
        # A file that was renamed is two until the files are read.
        self._check_diff(diff, most=2 * MAX_DIFF_FILES)
        diff.find_similar(flags=DiffFind.FIND_RENAMES)
        self._check_diff(diff, most=MAX_DIFF_FILES)
        return diff

    def _check_diff(self, diff: pygit2.Diff, *, most: int) -> None:
        if len(diff) > most:
            msg = f"The comparison touches {len(diff)} files, more than {MAX_DIFF_FILES}."
            raise TooBig(msg)
        size = sum(self._measure(blob) for delta in diff.deltas for blob in _blobs_of(delta))
        if size > MAX_DIFF_BYTES:
            msg = f"The files of the comparison have {size} bytes, more than {MAX_DIFF_BYTES}."
            raise TooBig(msg)

    def _is_long(self, delta: pygit2.DiffDelta) -> bool:
        """Say whether a file has more bytes or lines than are compared."""
        return any(self._has_much(blob) for blob in _blobs_of(delta))

    def _has_much(self, blob: pygit2.Oid) -> bool:
        size = self._measure(blob)
        return size > MAX_FILE_BYTES or (
            size > MAX_DIFFED_LINES and self._repo[blob].data.count(b"\n") > MAX_DIFFED_LINES
        )

    def _commit(self, sha: str) -> pygit2.Commit:
        try:
            commit = self._repo.get(sha)
        except (ValueError, pygit2.GitError):
            commit = None
        if not isinstance(commit, pygit2.Commit):
            msg = f"There is no commit {sha[:40]}."
            raise UnknownRef(msg)
        return commit

    def _object_at(self, sha: str, path: str) -> pygit2.Object:
        try:
            tree = self._commit(sha).tree
        except pygit2.GitError as error:
            msg = f"The files of {sha[:7]} cannot be read: {error}"
            raise GitError(msg) from error
        if not path:
            return tree
        try:
            return tree[path]
        except (KeyError, ValueError, pygit2.GitError) as error:
            msg = f"There is no {path} at {sha[:7]}."
            raise UnknownPath(msg) from error

    def _entry(self, item: pygit2.Object, folder: str) -> TreeEntry:
        name = _name(item)
        kind = _kind(item)
        size = self._measure(item.id) if isinstance(item, pygit2.Blob) else None
        return TreeEntry(name=name, path=f"{folder}/{name}" if folder else name, kind=kind, sha=str(item.id), size=size)

    def _walk_tree(self, tree: pygit2.Tree, prefix: str, *, folders: bool = False) -> Iterator[tuple[str, Any]]:
        for item in tree:
            path = f"{prefix}{_name(item)}"
            if isinstance(item, pygit2.Tree):
                if folders:
                    yield path, item
                yield from self._walk_tree(item, f"{path}/", folders=folders)
            else:
                yield path, item

    def _changes_path(self, commit: pygit2.Commit, path: str) -> bool:
        own = _id_at(commit, path)
        if not commit.parents:
            return own is not None
        return all(_id_at(parent, path) != own for parent in commit.parents)

    def _apply(self, head: str, changes: list[Change]) -> str:
        index = pygit2.Index()
        index.read_tree(self._commit(head).tree)
        files: dict[str, tuple[pygit2.Oid, FileMode]] = {entry.path: (entry.id, entry.mode) for entry in index}
        for change in changes:
            _apply_one(files, change, self._repo)
        return self._write_tree(files)

    def _write_tree(self, files: Mapping[str, tuple[pygit2.Oid, FileMode]]) -> str:
        _check_collisions(files)
        fresh = pygit2.Index()
        for path, (blob, mode) in files.items():
            fresh.add(pygit2.IndexEntry(path, blob, mode))
        with _storing():
            return str(fresh.write_tree(self._repo))

    def _write_commit(
        self,
        tree: str,
        parents: tuple[str, ...],
        message: str,
        author: Person,
        committer: Person,
        *,
        authored_at: datetime | None = None,
    ) -> str:
        now = datetime.now(UTC)  # noqa: TID251, RUF100 - Git stamps commits itself; a frozen clock would tie their order
        with _storing():
            commit = self._repo.create_commit(
                None,
                _signature(author, authored_at or now),
                _signature(committer, now),
                message.strip() + "\n",
                pygit2.Oid(hex=tree),
                [pygit2.Oid(hex=parent) for parent in parents],
            )
            # On a full disk libgit2 says of a commit that it was written, and it is not there.
            self._repo.odb.read(commit)
        return str(commit)

    def _git(
        self,
        *arguments: str,
        accept: tuple[int, ...] | None = (0,),
        seconds: int = MERGE_SECONDS,
        lease: Lease | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the program; `accept` = exit codes that are no error, None for all of them."""
        try:
            result = _run(
                ["git", "--git-dir", str(self.path), *arguments],
                seconds=seconds,
                pass_fds=() if lease is None else (lease.descriptor,),
            )
        except subprocess.TimeoutExpired as error:
            msg = f"git {arguments[0]} took longer than {seconds} s."
            raise GitError(msg) from error
        if result.returncode == 128 and b"ut of memory" in result.stderr:
            msg = f"git {arguments[0]} takes more than {GIT_MEMORY_BYTES} bytes of memory."
            raise TooBig(msg)
        if accept is not None and result.returncode not in accept:
            reason = result.stderr.decode("utf-8", "replace").strip()[:500]
            msg = f"git {arguments[0]} failed: {reason}"
            raise GitError(msg)
        return result


def _run(command: list[str], *, seconds: int, pass_fds: tuple[int, ...]) -> subprocess.CompletedProcess[bytes]:
    with subprocess.Popen(
        command,
        env=dict(GIT_ENVIRONMENT),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
    ) as process:
        limit_memory(process.pid)
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _blobs_of(delta: pygit2.DiffDelta) -> Iterator[pygit2.Oid]:
    """Yield both versions of a file, where they are blobs."""
    for side in (delta.old_file, delta.new_file):
        if side.mode not in (FileMode.UNREADABLE, FileMode.COMMIT):
            yield side.id


def _name(item: pygit2.Object) -> str:
    return bytes(item.raw_name or b"").decode("utf-8", "replace")


def _kind(item: pygit2.Object) -> EntryKind:
    return _KINDS.get(int(item.filemode or 0), "folder" if item.type == ObjectType.TREE else "file")


def _read_stages(items: list[bytes]) -> dict[str, Stages]:
    """Read what `merge-tree` says after the tree: versions of files that conflict, and then words about all files."""
    stages: dict[str, Stages] = defaultdict(dict)
    for item in takewhile(bool, items):
        facts, path = item.split(b"\t", 1)
        mode, blob, stage = facts.decode().split()
        stages[path.decode("utf-8", "replace")][int(stage)] = SideVersion(blob, int(mode, 8))
    if stages:
        return stages
    # Files that stand where Git would move others conflict, and are no versions of one file.
    words = iter(items[items.index(b"") + 1 :])
    for count in takewhile(bool, words):
        paths = [path.decode("utf-8", "replace") for path in islice(words, int(count))]
        if next(words).startswith(b"CONFLICT"):
            stages.update({path: {} for path in paths})
        next(words)
    return stages


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def _is_safe(path: str) -> bool:
    try:
        check_path(path)
    except BadChange:
        return False
    return True


def _id_at(commit: pygit2.Commit, path: str) -> pygit2.Oid | None:
    try:
        return commit.tree[path].id
    except KeyError:
        return None


def _ids_in_folder(commit: pygit2.Commit, path: str) -> dict[str, str]:
    try:
        tree = commit.tree[path] if path else commit.tree
    except KeyError:
        return {}
    return {_name(item): str(item.id) for item in tree} if isinstance(tree, pygit2.Tree) else {}


def _find_changes(
    diff: pygit2.Diff, paths: Collection[str] | None
) -> Iterator[tuple[int, pygit2.DiffDelta, ChangedFile]]:
    """Find what a comparison changes, or what of some files by their new or old names, each with its place in it."""
    for place, delta in enumerate(diff.deltas):
        file = changed_file_of_delta(delta)
        is_wanted = paths is None or file.path in paths or file.old_path in paths
        if is_wanted and delta.status != DeltaStatus.UNMODIFIED:
            yield place, delta, file


@lru_cache(maxsize=64)
def _list_changes(
    repository: Path, base: str | None, head: str, *, ignore_whitespace: bool, paths: frozenset[str] | None
) -> CodeDiff:
    """List changes; kept for the threads of pages, which share it: each tab of a pull request counts its files."""
    git = GitRepository(repository)
    diff = git._diff(base, head, context=0, ignore_whitespace=ignore_whitespace)
    changes = list(_find_changes(diff, paths))
    compared = [place for place, delta, _file in changes if not git._is_long(delta)]
    lines = [patch.line_stats for place in compared if (patch := diff[place]) is not None]
    return CodeDiff(
        files=tuple(file for _place, _delta, file in changes),
        additions=sum(line[1] for line in lines),
        deletions=sum(line[2] for line in lines),
    )


@lru_cache(maxsize=512)
def _count_commits(repository: Path, sha: str, limit: int) -> int:
    """Count commits; kept for the threads of pages, which share it: a commit never changes."""
    git = pygit2.Repository(str(repository), pygit2.enums.RepositoryOpenFlag.BARE)
    walker = git.walk(pygit2.Oid(hex=sha), SortMode.NONE)
    return sum(1 for _, _ in zip(range(limit), walker, strict=False))


@lru_cache(maxsize=512)
def _find_last_commits(repository: Path, sha: str, path: str) -> dict[str, CommitInfo]:
    """Find last commits; kept for the threads of pages, which share it: a commit never changes."""
    git = pygit2.Repository(str(repository), pygit2.enums.RepositoryOpenFlag.BARE)
    ids = _ids_in_folder(git[sha], path)
    open_names = set(ids)
    commits: dict[str, CommitInfo] = {}
    walker = git.walk(git[sha].id, SortMode.TOPOLOGICAL | SortMode.TIME)
    for _, commit in zip(range(LAST_COMMIT_DEPTH), walker, strict=False):
        if not open_names:
            break
        own = _ids_in_folder(commit, path)
        parents = [_ids_in_folder(parent, path) for parent in commit.parents]
        for name in list(open_names):
            if own.get(name) != ids[name] or any(parent.get(name) == own.get(name) for parent in parents):
                continue
            commits[name] = _info(commit)
            open_names.discard(name)
    return commits


def _moment(signature: pygit2.Signature) -> datetime:
    try:
        # By way of UTC, into which whoever shows it turns it.
        moment = datetime.fromtimestamp(signature.time, UTC)
        return moment.astimezone(timezone(timedelta(minutes=signature.offset)))
    except (ValueError, OverflowError, OSError):
        # A pushed commit may carry any number; the page must still open.
        return datetime.fromtimestamp(0, UTC)


def _text(raw: bytes) -> str:
    """Return what somebody wrote, where it is no text by marks; no database keeps a NUL."""
    return bytes(raw).decode("utf-8", "replace").replace("\0", "\ufffd")


def _person(signature: pygit2.Signature) -> Person:
    return Person(
        name=_text(signature.raw_name),
        email=_text(signature.raw_email),
    )


def _signature(person: Person, now: datetime) -> pygit2.Signature:
    return pygit2.Signature(
        _clean_identity(person.name, fallback="unknown"),
        _clean_identity(person.email, fallback="unknown@localhost"),
        int(now.timestamp()),
        (now.utcoffset() or timedelta()) // timedelta(minutes=1),
    )


def _info(commit: pygit2.Commit) -> CommitInfo:
    return CommitInfo(
        sha=str(commit.id),
        tree=str(commit.tree_id),
        parents=tuple(str(parent) for parent in commit.parent_ids),
        message=_text(commit.raw_message),
        author=_person(commit.author),
        authored_at=_moment(commit.author),
        committer=_person(commit.committer),
        committed_at=_moment(commit.committer),
    )


def _check_size(changes: list[Change], message: str) -> None:
    if not changes:
        raise BadChange("", "a commit needs at least one change")
    if not message.strip():
        raise BadChange("", "a commit needs a message")
    if "\0" in message:
        raise BadChange("", "a message has no NUL characters")
    if len(message) > MAX_MESSAGE or len(changes) > MAX_CHANGES:
        msg = f"A commit has at most {MAX_CHANGES} changes and {MAX_MESSAGE} characters of message."
        raise TooBig(msg)
    sizes = [len(change.content or b"") for change in changes]
    if max(sizes) > MAX_FILE_BYTES or sum(sizes) > MAX_COMMIT_BYTES:
        msg = f"A file has at most {MAX_FILE_BYTES} bytes, a commit {MAX_COMMIT_BYTES}."
        raise TooBig(msg)


@contextmanager
def _storing() -> Iterator[None]:
    """Say of objects that cannot be written that they are not stored: libgit2 then tells of an earlier error, if of any."""
    try:
        yield
    except (pygit2.GitError, KeyError, OSError) as error:
        raise NotStored from error


def _apply_one(files: dict[str, tuple[pygit2.Oid, FileMode]], change: Change, repo: pygit2.Repository) -> None:
    old = files.get(change.path)
    if change.delete or change.move_to is not None:
        if old is None:
            raise BadChange(change.path, "there is no such file")
        if change.delete and (change.content is not None or change.move_to is not None):
            raise BadChange(change.path, "a change deletes, moves or writes a file, not two of these")
        del files[change.path]
    if change.delete:
        return
    path = check_path(change.move_to if change.move_to is not None else change.path)
    if change.move_to is not None and path in files:
        raise BadChange(path, "there is a file already")
    if change.content is None:
        if old is None or change.move_to is None:
            raise BadChange(change.path, "a change needs content, 'delete' or 'move_to'")
        files[path] = old
        return
    if old is not None and old[1] not in {FileMode.BLOB, FileMode.BLOB_EXECUTABLE}:
        raise BadChange(change.path, "only ordinary files can be edited; this is a link or a submodule")
    with _storing():
        files[path] = (repo.create_blob(change.content), old[1] if old else FileMode.BLOB)


def _check_collisions(files: Mapping[str, object]) -> None:
    """Refuse a path that is a file and a folder at once, which Git's index would settle silently."""
    for path in files:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                raise BadChange(path, f"{parent} is a file, not a folder")
            parent = parent.rpartition("/")[0]
