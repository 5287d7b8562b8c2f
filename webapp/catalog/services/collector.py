"""Collects what nothing refers to any more: files of writers that died, of commits whose outcome nobody could say, lists that
a killed process had made for Spark.

A file is removed when it lies in a table's folder, is older than any writer could still be at work on it, and neither the
current metadata nor anything that it leads to names it. Whatever cannot be read protects all of its table's files. Tables
that were dropped without purge are left alone: their files are kept for somebody to register them again.

One table is looked at once a day, in a thread of the sweeper, a few at a time. References from one table to the files of
another, which engines can make and should not, are not seen.
"""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection

from webapp.catalog.models import Table, View
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.metadata_files import store_of
from webapp.core import clock
from webapp.core.errors import AppError
from webapp.runtime.object_store import StoredObject

logger = logging.getLogger(__name__)
EVERY_S = 24 * 3600
TURN_S = 300
BUDGET_S = 30
MOST_FILES = 300_000
MOST_MANIFESTS = 20_000
MOST_SECONDS = 300.0
"""For reading the manifests of one table."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What was found of one table, and removed unless it was only asked for."""

    locations: tuple[str, ...] = ()
    size: int = 0
    problem: str = ""
    """Why nothing was removed although there may be something."""


def collect_table(table: Table, *, older_than: datetime, remove: bool = True) -> Collected:
    """Remove the orphans of one table."""
    # Late: PyIceberg takes a second to import, which the start of an installation need not wait for.
    from webapp.catalog.storage.reader import TableReader
    from webapp.catalog.storage.references import Unreadable, find_unreferenced, list_references

    # Listed before the pointer is read: what a commit adds meanwhile is either not listed or already referred to.
    listed = _list_old(table.location, older_than)
    if listed is None:
        return Collected(problem=f"more than {MOST_FILES} files: remove orphan files with an engine")
    # before their files go, which makes them look used
    folders = store_of(table.location).list_work_folders(table.location, older_than=older_than)
    table.refresh_from_db()
    try:
        metadata = metadata_files.read(table).metadata
        with TableReader(table.location, seconds=MOST_SECONDS) as reader:
            references = list_references(
                metadata, reader, metadata_location=table.metadata_location, most_manifests=MOST_MANIFESTS
            )
            orphans = set(find_unreferenced(listed, references))
    except (Unreadable, AppError) as error:
        return Collected(problem=str(error))
    collected = _remove(table.location, [listed[location] for location in sorted(orphans)], remove=remove)
    if remove:
        store_of(table.location).remove_empty(table.location, folders)
    return collected


def collect_view(view: View, *, older_than: datetime, remove: bool = True) -> Collected:
    """Remove metadata files that a view has left behind."""
    from webapp.catalog.storage.references import find_unreferenced

    listed = _list_old(view.location, older_than)
    if listed is None:
        return Collected(problem=f"more than {MOST_FILES} files")
    locations = View.objects.filter(location=view.location).values_list("metadata_location", flat=True)
    orphans = find_unreferenced(listed, locations)
    return _remove(view.location, [listed[location] for location in orphans], remove=remove)


def _list_old(location: str, older_than: datetime) -> dict[str, StoredObject] | None:
    files = list(islice(store_of(location).walk(location), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        return None
    return {file.location: file for file in files if file.changed_at < older_than}


def _remove(folder: str, orphans: list[StoredObject], *, remove: bool) -> Collected:
    locations = tuple(orphan.location for orphan in orphans)
    if remove and locations:
        store_of(folder).delete_below(folder, locations)
        logger.info(
            "%s: removed %s files that nothing refers to: %s", folder, len(locations), ", ".join(locations[:20])
        )
    return Collected(locations, sum(orphan.size for orphan in orphans))


def collect_all(*, older_than: datetime, remove: bool = True) -> Iterator[tuple[str, Collected]]:
    """Go through every table and view."""
    for table in Table.objects.select_related("namespace").order_by("pk"):
        yield str(table), collect_table(table, older_than=older_than, remove=remove)
    for view in View.objects.select_related("namespace").order_by("pk"):
        yield str(view), collect_view(view, older_than=older_than, remove=remove)


class Collector:
    """Takes the tables in turn; what it remembers is worthless to any other process."""

    def __init__(self) -> None:
        self._looked_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._started = time.monotonic()

    def start_turn(self) -> None:
        """Look at some tables beside the sweeper's loop, which must not wait. The start of an installation is spared."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if settings.TRIBUTARY_ORPHAN_HOURS and not is_busy and time.monotonic() - self._started > TURN_S:
            self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
            self._thread.start()

    def take_turn(self) -> int:
        """Look at tables that are due until the time is up; how many files were removed."""
        older_than = clock.cautious_now() - timedelta(hours=settings.TRIBUTARY_ORPHAN_HOURS)
        deadline = time.monotonic() + BUDGET_S
        removed = 0
        rows: list[Table | View] = [*Table.objects.order_by("pk"), *View.objects.order_by("pk")]
        for row in rows:
            if time.monotonic() > deadline:
                break
            if time.monotonic() - self._looked_at.get(row.location, float("-inf")) < EVERY_S:
                continue
            self._looked_at[row.location] = time.monotonic()
            orphans = (
                collect_table(row, older_than=older_than)
                if isinstance(row, Table)
                else collect_view(row, older_than=older_than)
            )
            removed += len(orphans.locations)
            if orphans.problem:
                logger.warning("%s: orphans are not known: %s", row.location, orphans.problem)
        return removed

    def _run(self) -> None:
        close_old_connections()
        try:
            self.take_turn()
        except (DatabaseError, AppError, OSError, Table.DoesNotExist):
            # A part was away, or a table was dropped under its hands; the next turn goes on after it.
            logger.exception("the collector gave up for this turn")
        finally:
            connection.close()
