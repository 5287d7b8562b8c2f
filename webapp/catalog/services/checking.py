"""Whether every table can be read to its last file: pointer, metadata, branches, manifests, data files.

Nothing is cached here: what lies on the disk at this moment is looked at, not what this process has read before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.catalog.models import Table, View
from webapp.catalog.rules.errors import DamagedTable, Malformed, Unsupported
from webapp.catalog.rules.protection import find_lost
from webapp.catalog.rules.table_properties import LARGEST_NUMBER
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.metadata_files import store_of
from webapp.core.errors import AppError
from webapp.core.fsck import Finding, Note, look_apart
from webapp.core.numbers import read_count
from webapp.runtime import fork_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webapp.catalog.rules.iceberg import Metadata

UNREADABLE = (DamagedTable, Malformed, Unsupported)
"""How a manifest is refused that is the table's own fault; that none can be read at this moment is not."""
MOST_SECONDS = 600.0
"""For reading the manifests of one table."""
MOST_FINDINGS = 100
"""Of missing files of one table; who lost a folder need not read a million lines."""
BRING_BACK = (
    "Bring the file back from a backup, or register an earlier metadata file of the table with `overwrite`: "
    "POST /iceberg/v1/namespaces/…/register."
)

COUNT_ANEW = (
    "Roll the branch back to the snapshot before it, or write its rows as a new table (createOrReplace): what is only added "
    "to it goes on from the count that it states."
)


def check_tables() -> Iterator[Finding | Note]:
    """Find tables whose metadata, manifests or data files are missing or damaged; count files that nobody names."""
    walks = [_TableWalk(table) for table in Table.objects.select_related("namespace").order_by("pk")]
    with fork_server.at_hand():
        yield from look_apart(walks, _TableWalk.check)
    yield Note(what="tables", count=len(walks))
    yield Note(what="files that nobody names", count=sum(walk.unnamed for walk in walks))
    yield from look_apart(View.objects.select_related("namespace").order_by("pk"), _check_view)


class _TableWalk:
    """One table on its way from the pointer to the data files."""

    def __init__(self, table: Table) -> None:
        self.name = str(table)
        self.table = table
        self.unnamed = 0

    def __str__(self) -> str:
        return self.name

    def check(self) -> Iterator[Finding]:
        # The pointer first, the files after it: what a commit adds meanwhile is only not named yet.
        self.table.refresh_from_db()
        try:
            metadata = metadata_files.read_anew(self.table.metadata_location).metadata
        except AppError as error:
            yield self._finding("metadata_damaged", self.table.metadata_location, error.detail, self._way_back())
            return
        if metadata["location"].rstrip("/") != self.table.location.rstrip("/"):
            problem = f"The metadata names {metadata['location']} as its folder, the catalog {self.table.location}."
            yield self._finding("location_differs", self.name, problem, BRING_BACK)
        for lost in find_lost(metadata):
            problem = f"It {lost.verb} {lost.what}, which the table does not have."
            yield self._finding("ref_damaged", f"{lost.kind} {lost.name}", problem, BRING_BACK)
        yield from self._check_files(metadata)

    def _check_files(self, metadata: Metadata) -> Iterator[Finding]:
        named: dict[str, int | None] = {}
        yield from self._read_manifests(metadata, named)
        listed = {item.location: item.size for item in store_of(self.table.location).walk(self.table.location)}
        yield from self._compare(named, listed)
        from webapp.catalog.storage.references import find_unreferenced

        locations = [self.table.metadata_location, *(entry["metadata-file"] for entry in metadata["metadata-log"])]
        statistics = (*metadata["statistics"], *metadata["partition-statistics"])
        locations += [entry["statistics-path"] for entry in statistics]
        self.unnamed = len(find_unreferenced(listed, [*named, *locations]))

    def _read_manifests(self, metadata: Metadata, named: dict[str, int | None]) -> Iterator[Finding]:
        """Fill in every file that snapshots name, with its size where the manifest says it."""
        # Late: PyIceberg takes a second to import, which no other command should pay for.
        from pyiceberg.manifest import DataFileContent

        from webapp.catalog.storage.manifests import read_entries, read_manifest_list
        from webapp.catalog.storage.reader import TableReader

        manifests, lists, rows = {}, {}, {}
        with TableReader(metadata["location"], seconds=MOST_SECONDS) as reader:
            for snapshot in metadata["snapshots"]:
                path = snapshot.get("manifest-list")
                if not path:
                    continue
                try:
                    listed = read_manifest_list(path, reader, table=metadata["location"])
                except UNREADABLE as error:
                    of = f"snapshot {snapshot['snapshot-id']}: {error.detail}"
                    yield self._finding("manifest_list_damaged", path, of, BRING_BACK)
                    continue
                named[path] = None
                manifests.update({manifest.manifest_path: manifest for manifest in listed})
                lists[snapshot["snapshot-id"]] = [manifest.manifest_path for manifest in listed]
            for path, manifest in manifests.items():
                try:
                    entries = list(read_entries(manifest, reader, table=metadata["location"]))
                except UNREADABLE as error:
                    yield self._finding("manifest_damaged", path, error.detail, BRING_BACK)
                    continue
                named[path] = None
                files = [entry.data_file for entry in entries]
                named.update({file.file_path: file.file_size_in_bytes for file in files})
                rows[path] = sum(file.record_count for file in files if file.content is DataFileContent.DATA)
        yield from self._compare_counts(metadata, lists, rows)

    def _compare_counts(
        self, metadata: Metadata, lists: Mapping[int, Sequence[str]], rows: Mapping[str, int]
    ) -> Iterator[Finding]:
        """Find snapshots whose summary, which pages show, states other rows than their manifests list.

        Args:
            metadata: the table's.
            lists: the manifests of each snapshot.
            rows: how many rows the data files of each manifest have; those that cannot be read are not there.

        """
        for snapshot in metadata["snapshots"]:
            manifests = lists.get(snapshot["snapshot-id"], ())
            stated = read_count((snapshot.get("summary") or {}).get("total-records", ""), most=LARGEST_NUMBER)
            if stated is None or not manifests or any(path not in rows for path in manifests):
                continue
            listed = sum(rows[path] for path in manifests)
            if stated != listed:
                problem = f"Its writer states {stated} rows in its data files; its manifests list {listed}."
                yield self._finding("count_differs", f"snapshot {snapshot['snapshot-id']}", problem, COUNT_ANEW)

    def _compare(self, named: Mapping[str, int | None], listed: Mapping[str, int]) -> Iterator[Finding]:
        from webapp.catalog.storage.references import spellings

        sizes = {spelling: size for location, size in listed.items() for spelling in spellings(location)}
        lost = 0
        for location, expected in named.items():
            size = next((sizes[spelling] for spelling in spellings(location) if spelling in sizes), None)
            if size is not None and (expected is None or size == expected):
                continue
            lost += 1
            if lost > MOST_FINDINGS:
                continue
            if size is None:
                yield self._finding("file_missing", location, "The table names it and it is not there.", BRING_BACK)
            else:
                problem = f"It has {size} bytes; its manifest says {expected}."
                yield self._finding("file_damaged", location, problem, BRING_BACK)
        if lost > MOST_FINDINGS:
            problem = f"{lost - MOST_FINDINGS} more files are missing or damaged."
            yield self._finding("files_missing", self.name, problem, BRING_BACK)

    def _way_back(self) -> str:
        """Name the newest earlier metadata file that can still be read."""
        folder = f"{self.table.location}/metadata"
        files = sorted(
            (item for item in store_of(folder).walk(folder) if item.location.endswith(".metadata.json")),
            key=lambda item: (item.changed_at, item.location),
            reverse=True,
        )
        for item in files:
            try:
                metadata_files.read_anew(item.location)
            except AppError:
                continue
            return (
                f"Register {item.location} for {self.name} with `overwrite`: POST /iceberg/v1/namespaces/…/register. "
                "That aborts what is open on the table."
            )
        return f"No earlier metadata file of {self.name} can be read: bring {folder} back from a backup."

    def _finding(self, code: str, about: str, problem: str, way_out: str) -> Finding:
        named = about if about.startswith(self.name) else f"{self.name} {about}"
        return Finding(code=code, object=named, problem=problem, way_out=way_out)


def _check_view(view: View) -> Iterator[Finding]:
    try:
        metadata_files.read_anew(view.metadata_location)
    except AppError:
        yield Finding(
            code="view_damaged",
            object=f"{view} {view.metadata_location}",
            problem="The metadata file of the view is missing or cannot be read.",
            way_out="Bring the file back from a backup, or drop the view and create it again.",
        )
