"""Files of a `file:` warehouse, and of the prefixes beside it: durable before anything points to them, readable for the job processes of other users.

A file is written under a temporary name, synchronised, renamed and its folder synchronised; only then may the database's
pointer move.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from jobs import regular_files
from jobs.whole_files import sync_folder, write_whole
from webapp.catalog.rules.errors import DamagedTable, Malformed
from webapp.core.errors import Unavailable
from webapp.core.failures import FULL
from webapp.runtime.folders import remove_folder
from webapp.runtime.object_store import Absent, StoredObject

FOLDER_MODE = 0o755
# Processes of other users read the files, for instance to compare two versions; the umask has no say.
FILE_MODE = 0o644
# A job's sandbox shows the job these folders, and no other job's for writing; until the job has ended, when its keeper
# takes them over, they have no owner of their own, since the user of the job is chosen late.
OWN_MODE = 0o777
_PARTS = ("data", "metadata")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read(location: str) -> bytes:
    """Return the content of a file in a table's folder.

    Raises:
        Absent: it is not there, cannot be read, or is no regular file.

    """
    folder = location.rpartition("/metadata/")[0] or location.rpartition("/")[0]
    try:
        return _read_beneath(folder, location)
    except OSError as error:
        raise Absent(location) from error


def read_foreign(location: str, *, root: str, at_most: int) -> bytes:
    """Read what another writer left below a root, one byte more than `at_most` at most.

    Raises:
        Absent: it is not there or cannot be read.
        Malformed: it is no regular file, or a link leads to it.

    """
    try:
        return _read_beneath(root, location, at_most=at_most + 1)
    except regular_files.NotRegular as error:
        message = f"{location} is no regular file in the folder of its table"
        raise Malformed(message) from error
    except OSError as error:
        raise Absent(location) from error


def open_foreign(location: str, *, root: str) -> tuple[int, int]:
    """Open what another writer left below a folder; return its size, and its descriptor, which the caller closes.

    Raises:
        Absent: it is not there, cannot be read, is no regular file or outside of the folder.

    """
    try:
        descriptor = open_beneath(root, location)
    except OSError as error:
        raise Absent(location) from error
    return os.fstat(descriptor).st_size, descriptor


def open_beneath(root: str, location: str) -> int:
    """Open a file that any user may have put below a folder; return its descriptor.

    Raises:
        OSError: it is not there, cannot be read, is no regular file or outside of the folder.

    """
    folder = local_path(root)
    try:
        return regular_files.open_beneath(folder, os.path.relpath(_literal_path(location), folder))
    except FileNotFoundError:
        return regular_files.open_beneath(folder, os.path.relpath(local_path(location), folder))


def _read_beneath(root: str, location: str, *, at_most: int | None = None) -> bytes:
    with os.fdopen(open_beneath(root, location), "rb") as file:
        return file.read(-1 if at_most is None else at_most)


def write(location: str, content: bytes) -> None:
    """Write a new file of a table; when this returns, it survives a power cut."""
    path = local_path(location)
    with _explained():
        try:
            write_whole(path, content, mode=FILE_MODE, is_durable=True)
        except FileNotFoundError:
            make_table_folders(location.rpartition("/metadata/")[0])
            write_whole(path, content, mode=FILE_MODE, is_durable=True)


def delete(location: str) -> None:
    """Remove a file; an absent one is passed over."""
    local_path(location).unlink(missing_ok=True)


def delete_below(folder: str, locations: Iterable[str]) -> None:
    """Remove files that were found below a folder; a link that has taken the place of a folder since leads nowhere.

    Jobs write into these folders, and this process may remove anything.
    """
    root = local_path(folder)
    for location in locations:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            _remove_below(root, local_path(location).relative_to(root).parts, os.unlink)


def list_work_folders(location: str, *, older_than: datetime) -> list[Path]:
    """List folders beside a table's metadata in which nothing was added or removed since, those inside others first.

    No writer keeps files of the table there: processes list in them what Spark shall read for them.
    """
    root = local_path(location) / "metadata"
    folders = (Path(folder) for folder, _, _ in os.walk(root, topdown=False))
    return [path for path in folders if path != root and _is_older(path, older_than)]


def _is_older(path: Path, than: datetime) -> bool:
    try:
        return path.lstat().st_mtime < than.timestamp()
    except FileNotFoundError:
        return False  # it went away meanwhile


def remove_empty(location: str, folders: Iterable[Path]) -> None:
    """Remove those of some folders of a table that hold nothing."""
    root = local_path(location)
    for folder in folders:
        with suppress(OSError):
            _remove_below(root, folder.relative_to(root).parts, os.rmdir)


def _remove_below(root: Path, parts: tuple[str, ...], remove: Callable[..., None]) -> None:
    with _entered(root, parts[:-1]) as folder:
        remove(parts[-1], dir_fd=folder)


@contextmanager
def _entered(root: Path, parts: Iterable[str], *, make: bool = False) -> Iterator[int]:
    """Open a folder below another, with `make` also where it is missing; no link is followed.

    Raises:
        NotADirectoryError: a link, or what is no folder, is in the way.

    """
    descriptor = os.open(root, _FOLDER)
    try:
        for part in parts:
            is_new = make and _make_in(descriptor, part)
            try:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise NotADirectoryError(part) from error
                raise
            if is_new:
                os.fchmod(below, FOLDER_MODE)
                os.fsync(descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _make_in(descriptor: int, name: str) -> bool:
    try:
        os.mkdir(name, dir_fd=descriptor)
    except FileExistsError:
        return False
    return True


def remove_tree(location: str, *, root: str) -> None:
    """Remove a table's folder with everything in it; a link on the way there from the root leads nowhere.

    It goes under another name first: what is made in its place while it is removed stays.
    """
    folder, gone = local_path(location), f".removed-{secrets.token_hex(8)}"
    way = folder.parent.relative_to(local_path(root)).parts
    with suppress(FileNotFoundError, NotADirectoryError), _entered(local_path(root).resolve(), way) as above:
        os.rename(folder.name, gone, src_dir_fd=above, dst_dir_fd=above)
        remove_folder(gone, dir_fd=above)


def walk(location: str) -> Iterator[StoredObject]:
    """Yield every file below a location; links are passed over."""
    for folder, _, names in os.walk(local_path(location)):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # it went away meanwhile
            if not path.is_symlink():
                at = datetime.fromtimestamp(status.st_mtime, UTC)
                yield StoredObject(f"file://{quote(str(path))}", status.st_size, at)


def make_table_folders(location: str, *, root: str | None = None, metadata: str | None = None) -> None:
    """Make the folders of a table or view, for which the umask has no say: job processes of other users read in them.

    Args:
        location: the table's.
        root: below it others may have put anything, so no link is followed there.
        metadata: the folder of its metadata files, if it is not `metadata`.

    Raises:
        Malformed: a link, or what is no folder, is in the way.

    """
    folder = local_path(location)
    with _explained():
        if root is not None:
            _make_passable(local_path(root))
        parts = [folder / name for name in _PARTS]
        for part in parts if metadata is None else [*parts, local_path(metadata)]:
            if root is None:
                _make_passable(part)
            else:
                _make_below(root, part)
        sync_folder(folder)
        sync_folder(folder.parent)


def _make_below(root: str, folder: Path) -> None:
    with _no_links(), _entered(local_path(root), folder.relative_to(local_path(root)).parts, make=True):
        pass


def holds_files(location: str, *, root: str, but: str) -> bool:
    """Return whether there is anything but folders at a location or below it, links too.

    Args:
        location: the folder.
        root: one above it; no link in between is followed.
        but: a file that does not count.

    Raises:
        Malformed: a link, or what is no folder, is in the way.

    """
    parts = local_path(location).relative_to(local_path(root)).parts
    with _explained(), suppress(FileNotFoundError), _no_links(), _entered(local_path(root), parts) as folder:
        return _has_files(folder, but=local_path(but).name)
    return False


def _has_files(folder: int, *, but: str) -> bool:
    try:
        return any(
            {*names} - {but} or any(_is_link(name, here) for name in folders)
            for _, folders, names, here in os.fwalk(".", dir_fd=folder, onerror=_raise)
        )
    except FileNotFoundError:
        return True  # what is there is being removed at this moment


def _raise(error: OSError) -> None:
    raise error


def _is_link(name: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


@contextmanager
def _no_links() -> Iterator[None]:
    try:
        yield
    except NotADirectoryError as error:
        message = "A link, or what is no folder, is in the way to that location: name another one"
        raise Malformed(message) from error


def make_own_folders(location: str, name: str) -> list[Path]:
    """Make the folders of one job below a table's `data` and `metadata`; it alone writes there, and nowhere else."""
    folders = []
    with _explained():
        for part in _PARTS:
            above = local_path(location) / part
            _make_passable(above)
            above.chmod(FOLDER_MODE)  # earlier versions let every job write here
            folder = above / name
            with suppress(FileExistsError):
                folder.mkdir()
            _open_to_all(folder)
            folders.append(folder)
    return folders


def _open_to_all(folder: Path) -> None:
    """Let every user write a folder; a link in its place, which a job may have put there, is refused."""
    descriptor = os.open(folder, _FOLDER)
    try:
        os.fchmod(descriptor, OWN_MODE)
    finally:
        os.close(descriptor)


def list_own_folders(location: str, name: str) -> list[Path]:
    """Return the folders of one job below a table's `data` and `metadata`, whether they are there or not."""
    return [local_path(location) / part / name for part in _PARTS]


def remove_own_folders(location: str, name: str) -> None:
    """Remove the folders of one job with everything in them; no link is followed."""
    for part in _PARTS:
        with suppress(FileNotFoundError, NotADirectoryError), _entered(local_path(location), [part]) as above:
            remove_folder(name, dir_fd=above)


def remove_empty_own_folders(location: str, name: str) -> None:
    """Remove those of a job's folders in which it has left nothing."""
    for folder in list_own_folders(location, name):
        with suppress(OSError):
            folder.rmdir()


def local_path(location: str) -> Path:
    """Return the path of a `file:` location."""
    parts = urlsplit(location)
    if parts.scheme not in ("file", ""):
        message = f"This catalog cannot reach {parts.scheme}: locations"
        raise DamagedTable(message)
    return Path(unquote(parts.path) if parts.scheme else location)


def _literal_path(location: str) -> Path:
    """Return the path of a `file:` location whose percent signs are part of the names, as Iceberg's writers have them."""
    parts = urlsplit(location)
    return Path(parts.path if parts.scheme == "file" else local_path(location))


def _make_passable(folder: Path) -> None:
    """Make a folder and what is missing above it, open for others to pass through whatever the umask."""
    if folder.is_dir():
        return
    _make_passable(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(FOLDER_MODE)


@contextmanager
def _explained() -> Iterator[None]:
    """Put a disk's refusals in our words. Nothing points to what was being written, so nothing was changed."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            message = "The location, or a part of it, is longer than the file system allows: name a shorter one"
            raise Malformed(message) from error
        if error.errno in FULL:
            message = "The warehouse is full and nothing was changed: free some space and try again"
        else:
            message = f"The warehouse cannot be written ({error.strerror or error}) and nothing was changed: try again"
        raise Unavailable(message, code="warehouse_refuses") from error
