"""Which files a table's metadata refers to, directly and through its manifests; and how a location is compared."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.storage.manifests import read_entries, read_manifest_list
from webapp.catalog.storage.reader import TableReader

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile


class Unreadable(Exception):
    """Not all references can be found, so nothing may be called unreferenced."""


def spellings(location: str) -> set[str]:
    """Return the forms under which a location may be listed; too many only protect too much.

    Writers differ in slashes and schemes (`file:/a`, `file:///a`, `s3a://`), and in whether a percent sign is one.
    """
    parts = urlsplit(location)
    if parts.scheme in ("s3", "s3a", "s3n"):
        return {f"s3://{location.partition('://')[2]}"}
    path = location if not parts.scheme else location.partition(":")[2]
    path = "/" + path.lstrip("/")
    return {path, unquote(path)}


def list_references(
    metadata: Metadata, reader: TableReader, *, metadata_location: str, most_manifests: int
) -> Iterator[str]:
    """Yield every file that the table needs, all branches and all of its history.

    Raises:
        Unreadable: there is more than is read here, or it is in a form that is not known here.
        DamagedTable: a manifest is missing or damaged.

    """
    yield metadata_location
    yield from (entry["metadata-file"] for entry in metadata["metadata-log"])
    yield from (entry["statistics-path"] for entry in (*metadata["statistics"], *metadata["partition-statistics"]))
    location = metadata["location"]
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata["snapshots"]:
        if not snapshot.get("manifest-list"):
            message = f"snapshot {snapshot['snapshot-id']} has no manifest list"
            raise Unreadable(message)
        yield snapshot["manifest-list"]
        listed = read_manifest_list(snapshot["manifest-list"], reader, table=location)
        manifests |= {manifest.manifest_path: manifest for manifest in listed}
        if len(manifests) > most_manifests:
            message = f"more than {most_manifests} manifests: remove orphan files with an engine"
            raise Unreadable(message)
    yield from manifests
    for manifest in manifests.values():
        for entry in read_entries(manifest, reader, table=location):
            yield entry.data_file.file_path


def find_unreferenced(listed: Iterable[str], references: Iterable[str]) -> list[str]:
    """List the locations that no reference means."""
    referenced: set[str] = set()
    for reference in references:
        referenced |= spellings(reference)
    return [location for location in listed if not spellings(location) & referenced]
