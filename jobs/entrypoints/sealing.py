"""Takes the files of a process that has ended out of everybody's reach, and records what they are. Standard library only.

Who may have written the files may still run: Spark's server writes for many jobs, under a user of its own. So folders are
frozen from the top, each before what is in it is looked at: from then on nobody can put, rename or remove anything there.
A file is frozen too, and then it must be a plain one that nobody holds open for writing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import signal
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jobs.entrypoints.folders import DEEPEST, FILE, FOLDER, opened, remove_folder
from jobs.whole_files import whole_file

PATIENCE_S = 5.0
"""Writers that were asked to end may take as long to close their files."""
MOST_PROBLEMS = 20
_CHUNK = 1024 * 1024
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass
class _Seal:
    """What was found, as it is written down."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_watched: bool = False
    """Whether somebody may hold files open for writing, and the kernel can say so."""
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE_S)


@dataclass
class _Lengths:
    """Adds up how long files are: one without content can be longer than any disk, and is read to its end all the same."""

    most: int | None
    total: int = 0

    def add(self, size: int) -> None:
        """Add a file that is about to be read."""
        self.total += size
        if self.most is not None and self.total > self.most:
            raise OSError(errno.EFBIG, f"its files are together longer than {self.most:,} bytes")


def seal(
    folders: Sequence[str], *, record: str, is_shared: bool = False, copies: bool = False, most_bytes: int | None = None
) -> None:
    """Freeze folders and write down what is in them.

    Args:
        folders: each lies in a folder that nobody but its owner writes, who gets everything in it.
        record: the file to write, JSON: `files` from the path to `size` in bytes, `sha256` and the kernel's `ctime_ns`, and `problems`, texts that
            name what is no plain file or could not be frozen.
        is_shared: a server that is still there has written in them, and may have files of theirs open.
        copies: put copies in the place of all folders and files first: who runs as this user, and has them open, can take
            back whatever is done to them.
        most_bytes: so long may all files be together; None for any length.

    """
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # somebody opens a file while it is looked at
    report, copied, read = _Seal(), _Lengths(most_bytes), _Lengths(most_bytes)
    for folder in folders:
        try:
            parent = os.path.dirname(folder)
            report.is_watched = is_shared and not copies and _grants_leases(parent)
            if copies or (is_shared and not report.is_watched):
                _replace_by_copy(folder, copied)
            with opened(folder, FOLDER) as descriptor:
                _seal_folder(descriptor, folder, os.stat(parent), report, read, depth=0)
        except OSError as error:
            report.problems.append(f"{folder} could not be sealed: {error.strerror}")
    _write(record, {"files": report.files, "problems": report.problems[:MOST_PROBLEMS]})


def _replace_by_copy(folder: str, lengths: _Lengths) -> None:
    parent, name = os.path.split(folder)
    old, new = f"{parent}/.{name}.old", f"{parent}/.{name}.new"
    os.mkdir(new, 0o700)
    try:
        with opened(folder, FOLDER) as source, opened(new, FOLDER) as target:
            _copy_folder(source, target, lengths, depth=0)
        os.rename(folder, old)
    except OSError:
        remove_folder(new)
        raise
    os.rename(new, folder)
    remove_folder(old)


def _copy_folder(source: int, target: int, lengths: _Lengths, *, depth: int) -> None:
    """Copy what is in a folder. Pipes are made anew, not read; links stay links. These, and depth, are reported afterwards."""
    if depth > DEEPEST:
        return
    for name in os.listdir(source):
        kind = stat.S_IFMT(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode)
        if kind == stat.S_IFDIR:
            os.mkdir(name, 0o700, dir_fd=target)
            with opened(name, FOLDER, dir_fd=source) as inner, opened(name, FOLDER, dir_fd=target) as copy:
                _copy_folder(inner, copy, lengths, depth=depth + 1)
        elif kind == stat.S_IFREG:
            with opened(name, FILE, dir_fd=source) as inner:
                _copy_file(inner, name, target, lengths)
        elif kind == stat.S_IFLNK:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        else:
            os.mkfifo(name, dir_fd=target)


def _copy_file(source: int, name: str, folder: int, lengths: _Lengths) -> None:
    about = os.fstat(source)
    if not stat.S_ISREG(about.st_mode):
        os.mkfifo(name, dir_fd=folder)
        return
    lengths.add(about.st_size)
    target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(os.dup(source), "rb") as content, os.fdopen(target, "wb") as copy:
        left = about.st_size  # no more: somebody may append to it as fast as it is copied
        while left and (chunk := content.read(min(left, _CHUNK))):
            copy.write(chunk)
            left -= len(chunk)
        copy.flush()
        os.fsync(copy.fileno())


def _seal_folder(
    descriptor: int, path: str, owner: os.stat_result, report: _Seal, lengths: _Lengths, *, depth: int
) -> None:
    if depth > DEEPEST:
        report.problems.append(f"{path} lies deeper than {DEEPEST} folders")
        return
    _freeze(descriptor, owner, 0o755)
    for name in sorted(os.listdir(descriptor)):
        below = f"{path}/{name}"
        kind = stat.S_IFMT(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
        if kind == stat.S_IFDIR:
            with opened(name, FOLDER, dir_fd=descriptor) as inner:
                _seal_folder(inner, below, owner, report, lengths, depth=depth + 1)
        elif kind == stat.S_IFREG:
            with opened(name, FILE, dir_fd=descriptor) as inner:
                _seal_file(inner, below, owner, report, lengths)
        else:
            report.problems.append(f"{below} is {_KINDS.get(kind, 'no file')}: only plain files can be committed")


def _seal_file(descriptor: int, path: str, owner: os.stat_result, report: _Seal, lengths: _Lengths) -> None:
    _freeze(descriptor, owner, 0o644)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        report.problems.append(f"{path} was exchanged while it was sealed")
    elif about.st_nlink > 1:
        report.problems.append(f"{path} has {about.st_nlink} names (hard links): only plain files can be committed")
    elif report.is_watched and _is_written(descriptor, until=report.deadline):
        report.problems.append(f"{path} is still held open for writing by another process")
    else:
        lengths.add(about.st_size)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        changed_at = os.fstat(descriptor).st_ctime_ns
        report.files[path] = {"size": about.st_size, "ctime_ns": changed_at, "sha256": digest}


def _freeze(descriptor: int, owner: os.stat_result, mode: int) -> None:
    if os.geteuid() == 0:  # others own it already, and in a user namespace their other groups have no number
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    os.fchmod(descriptor, mode)


def _grants_leases(folder: str) -> bool:
    """Return whether the kernel can tell who has files of this file system open; for one of a network it cannot."""
    probe = f"{folder}/.{os.getpid()}.probe"
    try:
        with opened(probe, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC) as descriptor:
            os.unlink(probe)
            return _take_lease(descriptor)
    except OSError:
        return False


def _is_written(descriptor: int, *, until: float) -> bool:
    """Return whether a process that had opened a frozen file can still write it: then the kernel grants no lease."""
    while not _take_lease(descriptor):
        if time.monotonic() > until:
            return True
        time.sleep(0.05)
    return False


def _take_lease(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def _write(record: str, content: dict[str, Any]) -> None:
    """Write a file, for the owner of its folder, whole or not at all; without it nothing of the job can be committed."""
    with suppress(OSError):
        owner = os.stat(os.path.dirname(record))
        with whole_file(record) as partial, open(partial, "x", encoding="utf-8") as file:
            _freeze(file.fileno(), owner, 0o600)
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
