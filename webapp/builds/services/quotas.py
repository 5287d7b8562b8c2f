"""How much data the datasets of a repository may hold, all branches and what is not yet collected included."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import Sum

from webapp.accounts.models import Folder
from webapp.builds.models import JobOutput
from webapp.catalog import queries as catalog
from webapp.core.errors import StorageFull, Unavailable
from webapp.repositories.ports import DataUse
from webapp.runtime.object_store import is_object_location
from webapp.runtime.room import WAREHOUSE, describe_size, list_disks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.repositories.models import Repository

KEPT_S = 10.0
"""Minimum seconds for which a measured size is used: looking at every file of many tables takes a while."""
MEASURING_SHARE = 20
"""Measuring takes at most this part of the time: a twentieth."""
DEFAULT_SHARE = 2
"""The part of the warehouse's disk that a repository's data may take by default: half."""
_sizes: dict[str, tuple[float, int]] = {}
"""By repository: until when its size is used, in seconds of the monotonic clock, and the size."""


def find_data_room(*, repository: str, demand: int = 1) -> int | None:
    """Return by how many bytes a repository's datasets may grow; None where nothing limits them.

    Args:
        repository: its name.
        demand: the size of interest; nothing is measured if the disks show that there is more.

    Raises:
        Unavailable: they lie in an object store that does not answer.
        StorageFull: they hold as much as they may; it names the repository and the way out.

    """
    allowed = _find_allowed()
    if not allowed or not repository:
        return None
    used = _find_used()
    if used is not None and allowed - used >= demand:
        return allowed - used
    size = _measure(repository)
    if size >= allowed:
        raise StorageFull(
            f"The datasets of repository {repository} hold {describe_size(size)}, and may hold {describe_size(allowed)}: "
            "delete branches or expire snapshots that nobody needs, or have an administrator raise "
            "TRIBUTARY_REPOSITORY_DATA_BYTES.",
            code="repository_full",
        )
    return allowed - size


def find_data_use(*, repository: Repository) -> DataUse:
    """Return how much data a repository has, and how much it can have."""
    allowed = _find_allowed() or None
    used = None
    if allowed is not None:
        with suppress(Unavailable):
            used = _measure(repository.name)
    return DataUse(used=used, allowed=allowed, is_default=settings.TRIBUTARY_REPOSITORY_DATA_BYTES is None)


def _find_allowed() -> int | None:
    """Return the limit that is set, else the default share of the warehouse's disk; an object store has no default."""
    allowed: int | None = settings.TRIBUTARY_REPOSITORY_DATA_BYTES
    if allowed is not None or is_object_location(settings.TRIBUTARY_WAREHOUSE):
        return allowed
    return next(disk.size // DEFAULT_SHARE for disk in list_disks() if disk.holds == WAREHOUSE)


def _find_used() -> int | None:
    """Return what is in use on the disks, which is more than any repository holds; None if there is an object store."""
    if any(map(is_object_location, (settings.TRIBUTARY_WAREHOUSE, *settings.TRIBUTARY_LOCATIONS))):
        return None
    return sum({disk.device: disk.size - disk.free for disk in list_disks()}.values())


def _measure_kept(folders: Iterable[str]) -> int:
    """Return what the files take that are kept of uploads on branches."""
    written = JobOutput.objects.filter(dataset__folder__in=[name.lower() for name in folders], job__kept__isnull=False)
    return written.aggregate(bytes=Sum("job__kept__bytes"))["bytes"] or 0


def _measure(repository: str) -> int:
    used_until, size = _sizes.get(repository, (0.0, 0))
    began = time.monotonic()
    if began > used_until:
        names = Folder.objects.filter(repository=repository).values_list("name", flat=True)
        size = sum(catalog.measure_namespace(namespace=name) for name in names) + _measure_kept(names)
        ended = time.monotonic()
        _sizes[repository] = ended + max(KEPT_S, (ended - began) * MEASURING_SHARE), size
    return size
