"""Writes files that appear under their name whole or not at all, and leaves nothing behind if that fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield the path of a file to write, next to `path`; it replaces `path` at the end of the block.

    If the block fails, as on a full disk, the file is removed and `path` stays as it was.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")
    try:
        yield partial
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: str | Path, content: str | bytes, *, mode: int | None = None, is_durable: bool = False) -> None:
    """Write a file whole or not at all.

    Args:
        path: the file, which is replaced if it exists.
        content: text is written as UTF-8.
        mode: the permissions of the file; by default those that the umask leaves.
        is_durable: whether the file must survive a power cut once this returns.

    """
    with whole_file(path) as partial:
        descriptor = os.open(partial, _NEW, 0o666 if mode is None else 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content.encode() if isinstance(content, str) else content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
    if is_durable:
        sync_folder(Path(path).parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
