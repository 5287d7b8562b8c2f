"""Commits, folders and files of one repository: found, read, and written before any branch points to them."""

from __future__ import annotations

import errno
import re
import stat
import zlib
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pygit2
from pygit2.enums import ConfigLevel, FileMode, ObjectType, RepositoryOpenFlag

from webapp.git.errors import BadChange, GitError, NotStored, UnknownPath, UnknownRef
from webapp.git.paths import decode_path, encode_path, find_entry
from webapp.git.texts import decode_as
from webapp.git.values import CommitInfo, EntryKind, Person, TreeEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

for _level in (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA):
    pygit2.settings.search_path[_level] = ""
# What was acknowledged survives a power cut: objects and refs reach the disk before a call returns.
pygit2.settings.enable_fsync_gitdir(True)

MAX_FILE_BYTES = 20 * 1024 * 1024
LOOSE_PIECE_BYTES = 64 * 1024
MOST_HEADER_BYTES = 64
"""Of a loose object: its kind and its size."""
FILE_MODES = frozenset({FileMode.BLOB, FileMode.BLOB_EXECUTABLE})
"""Of ordinary files: no links, no submodules."""
_KINDS: Mapping[int, EntryKind] = {
    FileMode.BLOB: "file",
    FileMode.BLOB_EXECUTABLE: "file",
    FileMode.LINK: "symlink",
    FileMode.COMMIT: "submodule",
    FileMode.TREE: "folder",
}

Files = dict[str, tuple[pygit2.Oid, FileMode]]
"""Every file of a commit by its path: its blob, and what kind of file it is."""


class Objects:
    """The objects of a bare repository."""

    def __init__(self, path: Path) -> None:
        """Open the repository at a folder."""
        self.path = path
        try:
            _check_plain(path / "config")
            self.store = pygit2.Repository(str(path), RepositoryOpenFlag.BARE)
        except (pygit2.GitError, OSError) as error:
            msg = f"The repository {path.name} cannot be opened."
            raise GitError(msg) from error

    # Commits

    def find_commit(self, sha: str) -> pygit2.Commit:
        """Return the commit of a name; seven digits of it do.

        Raises:
            UnknownRef: there is none.

        """
        try:
            commit = self.store.get(sha)
        except (ValueError, pygit2.GitError):
            commit = None
        if not isinstance(commit, pygit2.Commit):
            msg = f"There is no commit {sha[:40]}."
            raise UnknownRef(msg)
        return commit

    def write_commit(
        self,
        tree: str,
        parents: tuple[str, ...],
        message: str,
        author: Person,
        committer: Person,
        *,
        authored_at: datetime | None = None,
        committed_at: datetime | None = None,
    ) -> str:
        """Write a commit that no branch points to yet; return its hash."""
        now = committed_at or datetime.now(UTC)  # noqa: TID251, RUF100 - Git stamps commits itself; a frozen clock would tie their order
        with storing():
            commit = self.store.create_commit(
                None,
                _signature(author, authored_at or now),
                _signature(committer, now),
                message.strip() + "\n",
                pygit2.Oid(hex=tree),
                [pygit2.Oid(hex=parent) for parent in parents],
            )
            # On a full disk libgit2 says of a commit that it was written, and it is not there.
            self.store.odb.read(commit)
        return str(commit)

    def find_tree(self, sha: str) -> pygit2.Tree:
        """Return a tree by its own name or by that of its commit.

        Raises:
            UnknownRef: there is none.

        """
        tree = self.store.get(sha)
        return tree if isinstance(tree, pygit2.Tree) else self.find_commit(sha).tree

    # Files

    def find_object(self, sha: str, path: str) -> pygit2.Object:
        """Return the folder, file, link or submodule at a path of a commit.

        Raises:
            UnknownPath: there is nothing.

        """
        try:
            tree = self.find_commit(sha).tree
        except pygit2.GitError as error:
            msg = f"The files of {sha[:7]} cannot be read: {error}"
            raise GitError(msg) from error
        if not path:
            return tree
        try:
            return find_entry(tree, path)
        except (KeyError, pygit2.GitError) as error:
            msg = f"There is no {path} at {sha[:7]}."
            raise UnknownPath(msg) from error

    def describe_entry(self, item: pygit2.Object, folder: str) -> TreeEntry:
        """Say what something in a folder is."""
        name = name_of(item)
        kind = kind_of(item)
        size = self.measure(item.id) if isinstance(item, pygit2.Blob) else None
        return TreeEntry(name=name, path=f"{folder}/{name}" if folder else name, kind=kind, sha=str(item.id), size=size)

    def walk_tree(self, tree: pygit2.Tree, prefix: str = "", *, folders: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield everything below a folder with its path, the folders themselves only where they are asked for."""
        for item in tree:
            path = f"{prefix}{name_of(item)}"
            if isinstance(item, pygit2.Tree):
                if folders:
                    yield path, item
                yield from self.walk_tree(item, f"{path}/", folders=folders)
            else:
                yield path, item

    def measure(self, blob: pygit2.Oid) -> int:
        """Return the size of a blob by its header: what a few bytes unpack to is not unpacked to find out."""
        try:
            return int(self.store.odb.read_header(blob)[1])
        except KeyError as error:
            msg = f"The file {blob} is missing."
            raise GitError(msg) from error

    def check_whole(self, blob: str, *, limit: int) -> None:
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

    def list_all(self, tree: pygit2.Tree) -> Files:
        """Return every file below a folder."""
        index = pygit2.Index()
        index.read_tree(tree)
        return {decode_path(entry.path): (entry.id, entry.mode) for entry in index}

    def create_blob(self, content: bytes) -> pygit2.Oid:
        """Write the content of a file."""
        with storing():
            return self.store.create_blob(content)

    def write_tree(self, files: Files) -> str:
        """Write the folder of these files; return its hash."""
        _check_collisions(files)
        fresh = pygit2.Index()
        for path, (blob, mode) in files.items():
            fresh.add(pygit2.IndexEntry(encode_path(path), blob, mode))
        with storing():
            return str(fresh.write_tree(self.store))


def _check_plain(path: Path) -> None:
    """Refuse to read what is there and no file, which may never end; what is absent is Git's matter."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))


def name_of(item: pygit2.Object) -> str:
    """Return the name of something in a folder as text."""
    return decode_path(bytes(item.raw_name or b""))


def kind_of(item: pygit2.Object) -> EntryKind:
    """Say whether something is a file, a folder, a link or a submodule."""
    return "folder" if item.type == ObjectType.TREE else kind_of_mode(int(item.filemode or 0))


def kind_of_mode(mode: int) -> EntryKind:
    """Return what an entry of this mode is."""
    return _KINDS.get(mode, "file")


@contextmanager
def storing() -> Iterator[None]:
    """Say of objects that cannot be written that they are not stored: libgit2 then tells of an earlier error, if of any."""
    try:
        yield
    except (pygit2.GitError, KeyError, OSError) as error:
        raise NotStored from error


def _check_collisions(files: Mapping[str, object]) -> None:
    """Refuse a path that is a file and a folder at once, which Git's index would settle silently."""
    for path in files:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                raise BadChange(path, f"{parent} is a file, not a folder")
            parent = parent.rpartition("/")[0]


def describe_commit(commit: pygit2.Commit) -> CommitInfo:
    """Return what a commit says of itself, whatever its writer put there."""
    encoding = commit.message_encoding or ""
    return CommitInfo(
        sha=str(commit.id),
        tree=str(commit.tree_id),
        parents=tuple(str(parent) for parent in commit.parent_ids),
        message=_text(commit.raw_message, encoding),
        author=_person(commit.author, encoding),
        authored_at=_moment(commit.author),
        committer=_person(commit.committer, encoding),
        committed_at=_moment(commit.committer),
    )


def _moment(signature: pygit2.Signature) -> datetime:
    try:
        # By way of UTC, into which whoever shows it turns it.
        moment = datetime.fromtimestamp(signature.time, UTC)
        return moment.astimezone(timezone(timedelta(minutes=signature.offset)))
    except (ValueError, OverflowError, OSError):
        # A pushed commit may carry any number; the page must still open.
        return datetime.fromtimestamp(0, UTC)


def _text(raw: bytes, encoding: str) -> str:
    """Return what somebody wrote, in the encoding that the commit names; no database keeps a NUL."""
    return decode_as(bytes(raw), encoding).replace("\0", "\ufffd")


def _person(signature: pygit2.Signature, encoding: str) -> Person:
    return Person(name=_text(signature.raw_name, encoding), email=_text(signature.raw_email, encoding))


def _signature(person: Person, now: datetime) -> pygit2.Signature:
    return pygit2.Signature(
        _clean_identity(person.name, fallback="unknown"),
        _clean_identity(person.email, fallback="unknown@localhost"),
        int(now.timestamp()),
        (now.utcoffset() or timedelta()) // timedelta(minutes=1),
    )


def _clean_identity(text: str, *, fallback: str) -> str:
    """Remove what would break a commit's header lines."""
    cleaned = re.sub(r"[<>\x00-\x1f\x7f]", " ", text).strip(" .,:;\"'")
    return cleaned or fallback
