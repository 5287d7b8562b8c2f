"""How much data the datasets of a repository may hold, all branches and what is not yet collected included."""

from __future__ import annotations

import time
from collections.abc import Iterable

from django.conf import settings
from django.db.models import Sum

from webapp.accounts.models import Folder
from webapp.builds.models import JobOutput
from webapp.catalog import queries as catalog
from webapp.core.errors import StorageFull
from webapp.runtime.room import describe_size

KEPT_S = 10.0
"""So long a size is believed: looking at every file of many tables takes a while."""
_sizes: dict[str, tuple[float, int]] = {}


def find_data_room(*, repository: str) -> int | None:
    """Return by how many bytes a repository's datasets may grow; None where nothing limits them.

    Raises:
        Unavailable: they lie in an object store that does not answer.
        StorageFull: they hold as much as they may; it names the repository and the way out.

    """
    allowed = settings.TRIBUTARY_REPOSITORY_DATA_BYTES
    if not allowed or not repository:
        return None
    size = _measure(repository)
    if size >= allowed:
        raise StorageFull(
            f"The datasets of repository {repository} hold {describe_size(size)}, and may hold {describe_size(allowed)}: "
            "delete branches or expire snapshots that nobody needs, or have an administrator raise "
            "TRIBUTARY_REPOSITORY_DATA_BYTES.",
            code="repository_full",
        )
    return allowed - size


def _measure_kept(folders: Iterable[str]) -> int:
    """Return what the files take that are kept of uploads on branches."""
    written = JobOutput.objects.filter(dataset__folder__in=[name.lower() for name in folders], job__kept__isnull=False)
    return written.aggregate(bytes=Sum("job__kept__bytes"))["bytes"] or 0


def _measure(repository: str) -> int:
    measured_at, size = _sizes.get(repository, (0.0, 0))
    if not measured_at or time.monotonic() - measured_at > KEPT_S:
        names = Folder.objects.filter(repository=repository).values_list("name", flat=True)
        size = sum(catalog.measure_namespace(namespace=name) for name in names) + _measure_kept(names)
        _sizes[repository] = time.monotonic(), size
    return size
