"""Which files a table's metadata refers to, directly and through its manifests; and how a location is compared."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import load_file_io
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from webapp.catalog.rules.metadata import Metadata
from webapp.core.object_store import is_object_location, own_properties


class Unreadable(Exception):
    """Not all references can be found, so nothing may be called unreferenced."""


def spellings(location: str) -> set[str]:
    """The forms under which a location may be listed; too many only protect too much.

    Writers differ in slashes and schemes (`file:/a`, `file:///a`, `s3a://`), and in whether a percent sign is one.
    """
    parts = urlsplit(location)
    if parts.scheme in ("s3", "s3a", "s3n"):
        return {f"s3://{location.partition('://')[2]}"}
    path = location if not parts.scheme else location.partition(":")[2]
    path = "/" + path.lstrip("/")
    return {path, unquote(path)}


def list_references(metadata: Metadata, *, metadata_location: str, most_manifests: int) -> Iterator[str]:
    """Every file that the table needs, all branches and all of its history.

    Raises:
        Unreadable: a manifest is missing, damaged or of a form that is not known here.

    """
    yield metadata_location
    yield from (entry["metadata-file"] for entry in metadata["metadata-log"])
    for kind in ("statistics", "partition-statistics"):
        yield from (entry["statistics-path"] for entry in metadata.get(kind) or ())
    try:
        yield from _list_snapshots(TableMetadataUtil.parse_obj(dict(metadata)), most_manifests)
    except (OSError, ValueError, KeyError, TypeError, EOFError, ValidationError) as error:
        message = f"{type(error).__name__}: {error}"
        raise Unreadable(message) from error


def _list_snapshots(metadata: TableMetadata, most_manifests: int) -> Iterator[str]:
    properties = own_properties() if is_object_location(metadata.location) else {}
    io = load_file_io(properties, metadata.location)
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        if not snapshot.manifest_list:
            message = f"snapshot {snapshot.snapshot_id} has no manifest list"
            raise Unreadable(message)
        yield snapshot.manifest_list
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(io)}
        if len(manifests) > most_manifests:
            message = f"more than {most_manifests} manifests: remove orphan files with an engine"
            raise Unreadable(message)
    yield from manifests
    for manifest in manifests.values():
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            yield entry.data_file.file_path


def find_unreferenced(listed: Iterable[str], references: Iterable[str]) -> list[str]:
    """The listed locations that no reference means."""
    known: set[str] = set()
    for reference in references:
        known |= spellings(reference)
    return [location for location in listed if not spellings(location) & known]
