"""Tables as answers show them: JSON made from the text of their metadata file, once for each view of it.

A metadata file never changes, so neither does what is kept here under its location. What is for one caller alone, such as
keys to the files, is no part of it; the properties that a caller is shown are part of what it is kept under.
"""

from collections.abc import Callable, Mapping

from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import with_legacy_fields
from webapp.catalog.storage.metadata_files import VERSIONS, MetadataFile, split_location
from webapp.core.byte_cache import ByteCache, Versions
from webapp.core.json_members import Pieces

CACHED_BYTES = 16 * 1024 * 1024
NO_PROPERTIES: Mapping[str, str] = {}
Key = tuple[str, str, bool, tuple[tuple[str, str], ...]]

_cache = ByteCache[Key, Pieces](
    CACHED_BYTES, lambda pieces: sum(map(len, pieces)), versions=Versions(lambda key: split_location(key[0]), VERSIONS)
)
"""By what it says, though most of it is the text of files that are kept anyway: no longer than these, or it would keep them."""


def render(
    file: MetadataFile,
    *,
    view: str,
    show: Callable[[], Metadata],
    only_referenced: bool = False,
    properties: Mapping[str, str] = NO_PROPERTIES,
) -> Pieces:
    """Render the JSON of a table as one view shows it, in pieces.

    Args:
        file: its metadata file.
        view: names the view; two views of a file that differ in anything differ in this.
        show: works the view out, where it is not known yet.
        only_referenced: leave out the snapshots that no branch and no tag is at.
        properties: shown besides the table's own.

    """
    key = (file.location, view, only_referenced, tuple(sorted(properties.items())))
    pieces = _cache.get(key)
    if pieces is None:
        metadata = select(show(), only_referenced=only_referenced, properties=properties)
        pieces = file.members.splice(with_legacy_fields(metadata))
        _cache.add(key, pieces)
    return pieces


def select(metadata: Metadata, *, only_referenced: bool, properties: Mapping[str, str]) -> Metadata:
    """Return what is shown of a view."""
    chosen = with_properties(metadata, properties)
    return _without_history(chosen) if only_referenced else chosen


def with_properties(metadata: Metadata, properties: Mapping[str, str]) -> Metadata:
    """Return the metadata with more properties, which its table does not have."""
    return {**metadata, "properties": {**metadata["properties"], **properties}} if properties else metadata


def forget_all() -> None:
    """Render everything anew; for tests."""
    _cache.clear()


def _without_history(metadata: Metadata) -> Metadata:
    heads = {ref["snapshot-id"] for ref in metadata["refs"].values()}
    snapshots = [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] in heads]
    return {**metadata, "snapshots": snapshots}
