"""Whether every table can be read to its last file: pointer, metadata, branches, manifests, data files.

Nothing is cached here: what lies on the disk at this moment is looked at, not what this process has read before.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobs.locations import is_inside
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
from webapp.runtime.object_store import Absent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from webapp.catalog.rules.iceberg import Metadata

UNREADABLE = (DamagedTable, Malformed, Unsupported)
"""How a manifest is refused that is the table's own fault; that none can be read at this moment is not."""
MOST_SECONDS = 600.0
"""For reading the manifests of one table."""
MOST_FINDINGS = 100
"""Of missing files of one table; who lost a folder need not read a million lines."""
BRING_BACK = "Bring the file back from a backup"
REGISTERING = "That takes back later commits on all branches, and aborts open transactions of the table."
MAGIC = {"PARQUET": (b"PAR1", (b"PAR1", b"PARE")), "ORC": (b"ORC", ()), "AVRO": (b"Obj\x01", ())}
"""The first bytes of each format of data files, and what the last four can be; empty if they vary."""

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
        self.problems: list[Finding] = []
        """What is wrong with the files; the way out is the same for all."""
        self.lost: set[str] = set()
        """Files that are missing or damaged."""
        self.manifests: dict[int, list[str]] = {}
        """The manifests of each snapshot."""
        self.files: dict[str, list[str]] = {}
        """The data files of each manifest."""

    def __str__(self) -> str:
        return self.name

    def check(self) -> Iterator[Finding]:
        # The pointer first, the files after it: what a commit adds meanwhile is only not named yet.
        self.table.refresh_from_db()
        try:
            metadata = metadata_files.read_anew(self.table).metadata
        except DamagedTable as error:
            way_out = f"{metadata_files.describe_way_back(self.table)}. {REGISTERING}"
            yield self._finding("metadata_damaged", self.table.metadata_location, error.detail, way_out)
            return
        for lost in find_lost(metadata):
            problem = f"It {lost.verb} {lost.what}, which the table does not have."
            self.problems.append(self._finding("ref_damaged", f"{lost.kind} {lost.name}", problem))
        yield from self._check_files(metadata)

    def _check_files(self, metadata: Metadata) -> Iterator[Finding]:
        named: dict[str, tuple[int | None, str]] = {}
        yield from self._read_manifests(metadata, named)
        listed = {item.location: item.size for item in store_of(self.table.location).walk(self.table.location)}
        self._compare(named, listed)
        way_out = self._find_way_out(metadata) if self.problems else ""
        yield from (replace(finding, way_out=way_out) for finding in self.problems)
        from webapp.catalog.storage.references import find_unreferenced

        locations = [self.table.metadata_location, *(entry["metadata-file"] for entry in metadata["metadata-log"])]
        statistics = (*metadata["statistics"], *metadata["partition-statistics"])
        locations += [entry["statistics-path"] for entry in statistics]
        self.unnamed = len(find_unreferenced(listed, [*named, *locations]))

    def _read_manifests(self, metadata: Metadata, named: dict[str, tuple[int | None, str]]) -> Iterator[Finding]:
        """Fill in every file that snapshots name, with size and format where the manifest states them."""
        # Late: PyIceberg takes a second to import, which no other command should pay for.
        from pyiceberg.manifest import DataFileContent

        from webapp.catalog.storage.manifests import read_entries, read_manifest_list
        from webapp.catalog.storage.reader import TableReader

        manifests, rows = {}, {}
        with TableReader(metadata["location"], seconds=MOST_SECONDS) as reader:
            for snapshot in metadata["snapshots"]:
                path = snapshot.get("manifest-list")
                if not path:
                    continue
                self.manifests[snapshot["snapshot-id"]] = [path]
                try:
                    listed = read_manifest_list(path, reader, table=metadata["location"])
                except UNREADABLE as error:
                    of = f"snapshot {snapshot['snapshot-id']}: {error.detail}"
                    self.problems.append(self._finding("manifest_list_damaged", path, of))
                    self.lost.add(path)
                    continue
                named[path] = None, ""
                manifests.update({manifest.manifest_path: manifest for manifest in listed})
                self.manifests[snapshot["snapshot-id"]] += [manifest.manifest_path for manifest in listed]
            for path, manifest in manifests.items():
                try:
                    entries = list(read_entries(manifest, reader, table=metadata["location"]))
                except UNREADABLE as error:
                    self.problems.append(self._finding("manifest_damaged", path, error.detail))
                    self.lost.add(path)
                    continue
                named[path] = None, ""
                files = [entry.data_file for entry in entries]
                named.update({file.file_path: (file.file_size_in_bytes, _format_of(file)) for file in files})
                self.files[path] = [file.file_path for file in files]
                rows[path] = sum(file.record_count for file in files if file.content is DataFileContent.DATA)
        yield from self._compare_counts(metadata, rows)

    def _compare_counts(self, metadata: Metadata, rows: Mapping[str, int]) -> Iterator[Finding]:
        """Find snapshots whose summary, which pages show, states other rows than their manifests list.

        Args:
            metadata: the table's.
            rows: how many rows the data files of each manifest have; those that cannot be read are not there.

        """
        for snapshot in metadata["snapshots"]:
            manifests = self.manifests.get(snapshot["snapshot-id"], [])[1:]
            stated = read_count((snapshot.get("summary") or {}).get("total-records", ""), most=LARGEST_NUMBER)
            if stated is None or not manifests or any(path not in rows for path in manifests):
                continue
            listed = sum(rows[path] for path in manifests)
            if stated != listed:
                problem = f"Its writer states {stated} rows in its data files; its manifests list {listed}."
                yield self._finding("count_differs", f"snapshot {snapshot['snapshot-id']}", problem, COUNT_ANEW)

    def _compare(self, named: Mapping[str, tuple[int | None, str]], listed: Mapping[str, int]) -> None:
        """Note files that are missing, have another size than their manifest states, or are cut or overwritten."""
        from webapp.catalog.storage.references import spellings

        sizes = {spelling: (location, size) for location, size in listed.items() for spelling in spellings(location)}
        lost = 0
        for location, (expected, kind) in named.items():
            entry = next((sizes[spelling] for spelling in spellings(location) if spelling in sizes), None)
            problem = self._find_problem(location, entry, expected, kind)
            if not problem:
                continue
            lost += 1
            self.lost.add(location)
            if lost > MOST_FINDINGS:
                continue
            if entry is None:
                self.problems.append(self._finding("file_missing", location, problem))
            else:
                self.problems.append(self._finding("file_damaged", location, problem))
        if lost > MOST_FINDINGS:
            problem = f"{lost - MOST_FINDINGS} more files are missing or damaged."
            self.problems.append(self._finding("files_missing", self.name, problem))

    def _find_problem(self, named: str, entry: tuple[str, int] | None, expected: int | None, kind: str) -> str:
        if not is_inside(named, self.table.location):
            return "It is outside of the table's folder, where no reader opens it."
        if entry is None:
            return "The table names it and it is not there."
        location, size = entry
        if expected is not None and size != expected:
            return f"It has {size} bytes; its manifest says {expected}."
        return "" if self._has_magic(location, kind) else f"It does not begin and end like a file of format {kind}."

    def _has_magic(self, location: str, kind: str) -> bool:
        """Return whether a file on this host begins and ends as its format says; object stores check their own bytes."""
        if kind not in MAGIC:
            return True
        try:
            _, descriptor = store_of(location).open_foreign(location, root=self.table.location)
        except Absent:
            return False
        if descriptor is None:
            return True
        begin, ends = MAGIC[kind]
        with os.fdopen(descriptor, "rb") as file:
            is_begun = file.read(len(begin)) == begin
            file.seek(-min(4, file.seek(0, os.SEEK_END)), os.SEEK_END)
            return is_begun and (not ends or file.read(4) in ends)

    def _find_way_out(self, metadata: Metadata) -> str:
        """Name the newest earlier metadata file that needs nothing of what is missing."""
        broken = {
            number
            for number, paths in self.manifests.items()
            if self.lost.intersection(paths) or any(self.lost.intersection(self.files.get(path, ())) for path in paths)
        }
        # The files of other snapshots were removed when these expired.
        present = {item["snapshot-id"] for item in (*metadata["snapshots"], *metadata["refs"].values())}
        for file in metadata_files.list_earlier(self.table):
            snapshots = {snapshot["snapshot-id"] for snapshot in file.metadata["snapshots"]}
            if snapshots and not snapshots & broken and snapshots <= present and not any(find_lost(file.metadata)):
                return f"{BRING_BACK}, or {metadata_files.word_registration(file)}. {REGISTERING}"
        return f"{BRING_BACK}: every earlier metadata file needs it, too."

    def _finding(self, code: str, about: str, problem: str, way_out: str = BRING_BACK) -> Finding:
        named = about if about.startswith(self.name) else f"{self.name} {about}"
        return Finding(code=code, object=named, problem=problem, way_out=way_out)


def _format_of(file: Any) -> str:
    return str(getattr(file.file_format, "value", file.file_format)).upper()


def _check_view(view: View) -> Iterator[Finding]:
    try:
        metadata_files.read_anew(view)
    except AppError:
        yield Finding(
            code="view_damaged",
            object=f"{view} {view.metadata_location}",
            problem="The metadata file of the view is missing or cannot be read.",
            way_out="Bring the file back from a backup, or drop the view and create it again.",
        )
