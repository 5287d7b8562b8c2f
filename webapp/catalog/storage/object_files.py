"""Files of an `s3:` warehouse: an object is durable when the store has answered, and none is ever written twice."""

import logging
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from webapp.core.errors import Unavailable
from webapp.runtime import object_store

logger = logging.getLogger(__name__)

read = object_store.read
write = object_store.write_new
walk = object_store.walk


def read_foreign(location: str, *, root: str, at_most: int) -> bytes:
    """Read what another writer left there, and no more of it than asked for; `root` holds it by its name alone."""
    _ = root
    return object_store.read(location, at_most=at_most)


def open_foreign(location: str, *, root: str) -> tuple[int, None]:
    """Return the size of what another writer left in the warehouse; an object has no descriptor."""
    _ = root
    return object_store.find_size(location), None


def delete(location: str) -> None:
    """Remove an object that nothing points to; one that the store keeps now is the collector's."""
    try:
        object_store.delete([location])
    except Unavailable as error:
        logger.warning("%s stays for the collector: %s", location, error.detail)


def delete_below(folder: str, locations: Iterable[str]) -> None:
    """Remove objects that were found below a folder."""
    prefix = f"{folder.rstrip('/')}/"
    object_store.delete([location for location in locations if location.startswith(prefix)])


def remove_tree(location: str, *, root: str) -> None:
    """Remove everything below the location of a table that is dropped already; what stays is said in the log."""
    _ = root
    try:
        object_store.delete([item.location for item in object_store.walk(location)])
    except Unavailable as error:
        logger.warning("files of a dropped table stay below %s: %s", location, error.detail)


def list_work_folders(location: str, *, older_than: datetime) -> list[Path]:
    """Return nothing: an object store has no folders."""
    _ = location, older_than
    return []


def remove_empty(location: str, folders: Iterable[Path]) -> None:
    """Do nothing: an object store has no folders."""
    _ = location, folders


def make_table_folders(location: str, *, root: str | None = None, metadata: str | None = None) -> None:
    """Do nothing: an object store has no folders."""
    _ = location, root, metadata


def holds_files(location: str, *, root: str, but: str) -> bool:
    """Return whether there is anything below a location, but for one object."""
    _ = root
    return any(item.location != but for item in object_store.walk(location))
