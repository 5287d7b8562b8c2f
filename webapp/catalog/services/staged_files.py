"""The folders that a job writes in its tables, and the check of what it staged before anybody else sees it.

While a job runs nothing that it wrote is certain: it may exchange files that it has committed. When its process has ended and
its files are frozen, every manifest and file that its snapshots name is either one of those or one that the table had before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.locations import is_inside
from webapp.catalog import queries
from webapp.catalog.rules import lens
from webapp.catalog.rules.access import METADATA_PATH, own_paths
from webapp.catalog.rules.errors import DamagedTable, Invalid
from webapp.catalog.rules.iceberg import Metadata, Snapshot
from webapp.catalog.rules.metadata import ancestry, walk_back
from webapp.catalog.rules.pointers import Pointer
from webapp.catalog.rules.record_counts import RecordCounts, explain_summary
from webapp.catalog.storage import local_files
from webapp.runtime.object_store import delete, is_object_location, measure_objects, walk

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry, ManifestFile

    from webapp.catalog.storage.reader import TableReader

MOST_SECONDS = 120.0
"""For reading what a job has staged on one table."""
Sealed = Mapping[str, Mapping[str, Any]]
"""What is known of each frozen file, by its path; see jobs/entrypoints/sealing.py."""


def open_job_folders(*, table: str, folder: str) -> list[Path]:
    """Make the folders of that name below a table's `data` and `metadata`; none where its files are in an object store."""
    location = queries.get_location(table=table)
    return [] if is_object_location(location) else local_files.make_own_folders(location, folder)


def measure_job_objects(*, table: str, folder: str) -> int:
    """Return the bytes that a job has put into an object store for a table; of files its keeper knows more."""
    location = queries.get_location(table=table)
    return sum(map(measure_objects, _list_own(location, folder))) if is_object_location(location) else 0


def list_job_folders(*, table: str, folder: str) -> list[Path]:
    """Return the folders of that name below a table's `data` and `metadata`; none if its files are in an object store."""
    location = queries.get_location(table=table)
    return [] if is_object_location(location) else local_files.list_own_folders(location, folder)


def remove_job_files(*, table: str, folder: str) -> None:
    """Remove what an attempt of a job has written for a table; it must be certain that the attempt never commits."""
    location = queries.get_location(table=table)
    if is_object_location(location):
        delete([file.location for path in _list_own(location, folder) for file in walk(path)])
    else:
        local_files.remove_own_folders(location, folder)


def has_staged(*, table: str, folder: str) -> bool:
    """Return whether a snapshot of the table lists files that an attempt of a job has written."""
    metadata = queries.get_metadata(table=table)
    own = own_paths(metadata["location"], folder)[METADATA_PATH]
    return any(is_inside(str(snapshot.get("manifest-list")), own) for snapshot in metadata["snapshots"])


def _list_objects(location: str, folder: str) -> Sealed:
    return {file.location: {"size": file.size} for path in _list_own(location, folder) for file in walk(path)}


def _list_own(location: str, folder: str) -> list[str]:
    return list(own_paths(location, folder).values())


def close_job_folders(*, table: str, folder: str) -> None:
    """Remove those of a job's folders that it has left empty."""
    location = queries.get_location(table=table)
    if not is_object_location(location):
        local_files.remove_empty_own_folders(location, folder)


def check_staged(
    *, table: str, staging: str, folder: str, sealed: Sealed, stands_on: Collection[int | None] | None
) -> Pointer | None:
    """Check what a job has staged on a table; return where its staging branch points, None where it staged nothing.

    Args:
        table: the table.
        staging: the branch that it wrote.
        folder: the name of its folders.
        sealed: the files in them; those of an object store are not frozen, and are looked up there.
        stands_on: heads of branches, from whose history its own snapshots may go on; None where others stage there too.

    Raises:
        Invalid: something is named that the job may not name, or that is not there.

    """
    metadata = queries.get_metadata(table=table)
    pointer = lens.pointer(metadata, staging)
    if pointer is None:
        return None
    location = metadata["location"]
    check = _Check(table, location, folder, _list_objects(location, folder) if is_object_location(location) else sealed)
    own: list[Snapshot] = []
    base: Snapshot | None = None
    for snapshot in walk_back(metadata["snapshots"], pointer.snapshot_id):
        if not check.is_own_snapshot(snapshot):
            base = snapshot
            break
        own.append(snapshot)
    if base is not None and stands_on is not None and base["snapshot-id"] not in _list_histories(metadata, stands_on):
        message = f"The job staged snapshot {base['snapshot-id']} of {table}, which is no part of what it started from"
        raise Invalid(message, code="foreign_files")
    # Late: PyIceberg takes a second to import.
    from webapp.catalog.storage.reader import TableReader

    try:
        with TableReader(location, seconds=MOST_SECONDS) as reader:
            check.run(own, base, reader)
    except DamagedTable as error:
        # Not a state of the table that may pass: the job itself wrote this.
        raise Invalid(error.detail, code="foreign_files") from error
    return pointer


def _list_histories(metadata: Metadata, heads: Collection[int | None]) -> set[int]:
    return {snapshot["snapshot-id"] for head in heads for snapshot in ancestry(metadata, head)}


@dataclass(frozen=True, slots=True)
class _Check:
    """What one job may name in one table."""

    table: str
    location: str
    folder: str
    sealed: Sealed

    def is_own_snapshot(self, snapshot: Snapshot) -> bool:
        """Return whether the job has committed a snapshot: the catalog takes none from it that lies elsewhere."""
        return is_inside(str(snapshot.get("manifest-list")), own_paths(self.location, self.folder)[METADATA_PATH])

    def run(self, own: list[Snapshot], base: Snapshot | None, reader: TableReader) -> None:
        """Check the job's snapshots, which go on from `base`."""
        from webapp.catalog.storage.manifests import read_entries, read_manifest_list

        before = (
            {} if base is None else self._index(read_manifest_list(base["manifest-list"], reader, table=self.location))
        )
        lists: dict[int, Mapping[str, ManifestFile]] = {}
        manifests: dict[str, ManifestFile] = {}
        replaced: dict[str, ManifestFile] = {}
        for snapshot in own:
            self._check_own(snapshot["manifest-list"], "manifest list")
            listed = self._index(read_manifest_list(snapshot["manifest-list"], reader, table=self.location))
            replaced |= {path: manifest for path, manifest in before.items() if path not in listed}
            manifests |= listed
            lists[snapshot["snapshot-id"]] = listed
        taken_over: list[str] = []
        tally = _Tally({path: _count_listed(manifest) for path, manifest in before.items()})
        for path in manifests.keys() - before.keys():
            self._check_own(path, "manifest")
            for entry in read_entries(manifests[path], reader, table=self.location):
                tally.add(path, entry)
                named = entry.data_file.file_path
                if self._is_own(named):
                    self._check_own(named, "file", size=entry.data_file.file_size_in_bytes)
                else:
                    taken_over.append(named)
        if taken_over:
            # Whoever replaces a manifest repeats the files in it that stay.
            replaced_files = {entry.data_file.file_path for entry in self._list_entries(replaced, reader)}
            foreign = next((path for path in taken_over if path not in replaced_files), None)
            if foreign is not None:
                raise self._refuse(foreign, "file", "neither its own nor a file that the table had")
        self._check_counts(own, base, before, lists, tally)

    def _check_counts(
        self,
        own: Sequence[Snapshot],
        base: Snapshot | None,
        before: Collection[str],
        lists: Mapping[int, Collection[str]],
        tally: _Tally,
    ) -> None:
        """Refuse a snapshot that says of itself other counts than its manifests do: pages would repeat them."""
        since, earlier = {} if base is None else _summary_of(base), tally.sum(before)
        for snapshot in reversed(own):
            counts = tally.sum(lists[snapshot["snapshot-id"]])
            why = explain_summary(
                _summary_of(snapshot),
                since=since,
                before=earlier,
                after=counts,
                added=tally.added[snapshot["snapshot-id"]],
            )
            if why:
                message = (
                    f"The job staged snapshot {snapshot['snapshot-id']} of {self.table}, whose summary states {why}"
                )
                raise Invalid(message, code="count_differs")
            since, earlier = _summary_of(snapshot), counts

    def _list_entries(self, manifests: Mapping[str, ManifestFile], reader: TableReader) -> Iterator[Any]:
        from webapp.catalog.storage.manifests import read_entries

        for manifest in manifests.values():
            yield from read_entries(manifest, reader, table=self.location)

    @staticmethod
    def _index(manifests: list[ManifestFile]) -> dict[str, ManifestFile]:
        return {manifest.manifest_path: manifest for manifest in manifests}

    def _is_own(self, path: str) -> bool:
        return any(is_inside(path, own) for own in own_paths(self.location, self.folder).values())

    def _check_own(self, path: str, what: str, *, size: int | None = None) -> None:
        if not self._is_own(path):
            raise self._refuse(path, what, "neither its own nor one that the table had")
        from webapp.catalog.storage.references import spellings

        file = next((self.sealed[name] for name in spellings(path) if name in self.sealed), None)
        if file is None:
            raise self._refuse(path, what, "not there as a plain file")
        if size is not None and file["size"] != size:
            raise self._refuse(path, what, f"{file['size']} bytes long and not {size}")

    def _refuse(self, path: str, what: str, why: str) -> Invalid:
        return Invalid(f"The job staged the {what} {path} of {self.table}, which is {why}", code="foreign_files")


@dataclass(slots=True)
class _Tally:
    """The rows of manifests, by their paths."""

    counts: dict[str, RecordCounts]
    added: Counter[int] = field(default_factory=Counter)
    """Rows in data files that a snapshot has added."""

    def add(self, path: str, entry: ManifestEntry) -> None:
        """Count a live entry of a manifest."""
        from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

        file = entry.data_file
        is_data = file.content is DataFileContent.DATA
        rows = RecordCounts(file.record_count) if is_data else RecordCounts(deletes=file.record_count)
        self.counts[path] = self.counts.get(path, RecordCounts()) + rows
        if is_data and entry.status is ManifestEntryStatus.ADDED:
            self.added[entry.snapshot_id] += file.record_count

    def sum(self, paths: Collection[str]) -> RecordCounts:
        """Add up what some manifests have."""
        return sum((self.counts.get(path, RecordCounts()) for path in paths), RecordCounts())


def _count_listed(manifest: ManifestFile) -> RecordCounts:
    """Return what a manifest list says of a manifest; nothing where an old one does not say it."""
    from pyiceberg.manifest import ManifestContent

    rows = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
    return RecordCounts(rows) if manifest.content is ManifestContent.DATA else RecordCounts(deletes=rows)


def _summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.get("summary") or {}
