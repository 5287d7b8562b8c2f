"""Plan scans on the server: choose the files of a snapshot by their manifests and attach the deletes that apply.

Planning is always completed at once, because it is cheap: a manifest list says how many files each manifest holds. A scan
of many files is answered with plan tasks, each of which reads a few manifests when it is fetched, so neither the server
nor the client ever holds more than a page. What is kept is only the question, in the database: any server can answer any
task, after a restart too.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from webapp.catalog.models import ScanPlan
from webapp.catalog.queries import load_table, locate
from webapp.catalog.rules.errors import NoSuchPlan, NoSuchPlanTask, Unsupported
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import snapshot_of
from webapp.catalog.rules.refs import TableRef
from webapp.catalog.rules.scan_choice import FileChoice
from webapp.catalog.rules.scan_deletes import ScanDeletes
from webapp.catalog.rules.scan_files import file_json
from webapp.catalog.rules.scans import ScanRequest, ScanTarget, find_target
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.manifests import read_entries, read_manifest_list
from webapp.catalog.storage.reader import TableReader
from webapp.core import clock
from webapp.core.principals import Principal

PAGE_FILES = 2_000
KEPT_FOR = timedelta(hours=1)
PRUNE_ONE_IN = 50


@dataclass(slots=True)
class Planned:
    """One answer of planning: files to read, and tasks that lead to more of them."""

    plan_id: str = ""
    file_scan_tasks: list[dict[str, Any]] = field(default_factory=list)
    delete_files: list[dict[str, Any]] = field(default_factory=list)
    plan_tasks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Page:
    """Some manifests of data files, or a part of the entries of a large one."""

    manifests: tuple[ManifestFile, ...]
    first: int = 0
    last: int | None = None


def plan_scan(*, ref: TableRef, request: ScanRequest, by: Principal) -> Planned:
    """Plan a scan of what the caller sees of a table.

    Raises:
        NoSuchTable: not there for this reader.

    """
    view = load_table(ref, by=by).metadata
    target = find_target(view, request)
    if secrets.randbelow(PRUNE_ONE_IN) == 0:
        ScanPlan.objects.filter(created_at__lt=clock.cautious_now() - KEPT_FOR).delete()
    with TableReader(view["location"]) as reader:
        planner = _ScanPlanner(view, target, request, reader)
        plan = ScanPlan.objects.create(
            table_id=locate(ref, by=by)[1].id,
            user_id=by.user_id,
            request=request.body,
            snapshot_ids=list(target.snapshot_ids),
            schema_id=target.schema_id,
            is_incremental=target.is_incremental,
        )
        return planner.answer(str(plan.id))


def fetch_plan(*, ref: TableRef, plan_id: str, by: Principal) -> Planned | None:
    """Return the answer of a plan once more; None where it was cancelled.

    Raises:
        NoSuchPlan: unknown, over, or somebody else's.

    """
    plan = _find(ref, plan_id, by=by)
    if plan is None:
        raise _no_such_plan(plan_id)
    if plan.is_cancelled:
        return None
    with _planner_of(ref, plan, by=by) as planner:
        if planner is None:
            raise _no_such_plan(plan_id)
        return planner.answer(plan_id)


def cancel_plan(*, ref: TableRef, plan_id: str, by: Principal) -> None:
    """Forget a plan; its tasks are not answered any more.

    Raises:
        NoSuchPlan: unknown, over, or somebody else's.

    """
    plan = _find(ref, plan_id, by=by)
    if plan is None:
        raise _no_such_plan(plan_id)
    ScanPlan.objects.filter(pk=plan.pk).update(is_cancelled=True, request={}, snapshot_ids=[])


def fetch_tasks(*, ref: TableRef, task: str, by: Principal) -> Planned:
    """Return the files behind a plan task.

    Raises:
        NoSuchPlanTask: unknown, or its plan is over, cancelled or somebody else's.

    """
    plan_id, _, number = task.partition(".")
    plan = _find(ref, plan_id, by=by)
    if plan is None or plan.is_cancelled:
        raise _no_such_task(task)
    with _planner_of(ref, plan, by=by) as planner:
        pages = [] if planner is None else planner.pages
        if planner is None or not number.isdecimal() or int(number) >= len(pages):
            raise _no_such_task(task)
        return planner.read(pages[int(number)])


def _find(ref: TableRef, plan_id: str, *, by: Principal) -> ScanPlan | None:
    _, row = locate(ref, by=by)
    try:
        number = UUID(plan_id)
    except ValueError:
        return None
    since = clock.cautious_now() - KEPT_FOR
    return ScanPlan.objects.filter(pk=number, table_id=row.id, user_id=by.user_id, created_at__gte=since).first()


@contextmanager
def _planner_of(ref: TableRef, plan: ScanPlan, *, by: Principal) -> Iterator[_ScanPlanner | None]:
    """Open the planner of a stored plan; None where a snapshot of it has expired."""
    metadata = metadata_files.read(locate(ref, by=by)[1]).metadata
    target = ScanTarget(tuple(plan.snapshot_ids), plan.schema_id, is_incremental=plan.is_incremental)
    if any(snapshot_of(metadata, number) is None for number in target.snapshot_ids):
        yield None
        return
    with TableReader(metadata["location"]) as reader:
        yield _ScanPlanner(metadata, target, ScanRequest.parse(plan.request), reader)


def _no_such_plan(plan_id: str) -> NoSuchPlan:
    return NoSuchPlan(f"No such plan: {plan_id}")


def _no_such_task(task: str) -> NoSuchPlanTask:
    return NoSuchPlanTask(f"No such plan task: {task}")


class _ScanPlanner:
    """The files of one scan, in pages."""

    def __init__(self, metadata: Metadata, target: ScanTarget, request: ScanRequest, reader: TableReader) -> None:
        self._reader = reader
        self._location: str = metadata["location"]
        self._target = target
        self._min_rows = request.min_rows
        self._choice = FileChoice(metadata, schema_id=target.schema_id, request=request)
        self._columns = self._choice.column_ids(request.stats_fields)
        manifests = [item for item in self._manifests(metadata) if self._choice.wants_manifest(item)]
        self._deletes = [item for item in manifests if item.content is ManifestContent.DELETES]
        self.pages = list(self._paged([item for item in manifests if item.content is ManifestContent.DATA]))

    def answer(self, plan_id: str) -> Planned:
        """Answer with all files where they fit on one page, else with the tasks by which they are fetched."""
        if len(self.pages) <= 1:
            planned = self.read(self.pages[0]) if self.pages else Planned()
            planned.plan_id = plan_id
            return planned
        return Planned(plan_id=plan_id, plan_tasks=[f"{plan_id}.{number}" for number in range(len(self.pages))])

    def read(self, page: _Page) -> Planned:
        """Read the files of a page with the deletes that apply to them."""
        entries = self._enough(self._entries(page))
        index = ScanDeletes(entries)
        for manifest in self._deletes:
            for entry in read_entries(manifest, self._reader, table=self._location):
                index.add(entry)
        planned = Planned()
        places: dict[int, int] = {}
        for entry in entries:
            task: dict[str, Any] = {
                "data-file": self._show(entry),
                "residual-filter": self._choice.residual_of(entry.data_file),
            }
            references = [self._place(planned, places, delete) for delete in index.find(entry)]
            if references:
                task["delete-file-references"] = references
            planned.file_scan_tasks.append(task)
        return planned

    def _place(self, planned: Planned, places: dict[int, int], delete: ManifestEntry) -> int:
        place = places.get(id(delete))
        if place is None:
            place = places[id(delete)] = len(planned.delete_files)
            planned.delete_files.append(self._show(delete))
        return place

    def _show(self, entry: ManifestEntry) -> dict[str, Any]:
        partition = self._choice.partition_fields(entry.data_file.spec_id)
        return file_json(entry, partition, columns=self._columns)

    def _entries(self, page: _Page) -> Iterator[ManifestEntry]:
        snapshot_ids = set(self._target.snapshot_ids)
        for manifest in page.manifests:
            for number, entry in enumerate(read_entries(manifest, self._reader, table=self._location)):
                if page.last is not None and number >= page.last:
                    break
                if number < page.first or not self._choice.wants_file(entry.data_file):
                    continue
                if self._target.is_incremental and not (
                    entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id in snapshot_ids
                ):
                    continue
                if entry.data_file.content is DataFileContent.DATA:
                    yield entry

    def _enough(self, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        """Return the entries, or only the first of them where the client needs no more rows than they surely have."""
        if self._min_rows is None or self._deletes or not self._choice.is_whole:
            return list(entries)
        first, rows = [], 0
        for entry in entries:
            first.append(entry)
            rows += entry.data_file.record_count
            if rows >= self._min_rows:
                break
        return first

    def _manifests(self, metadata: Metadata) -> Iterator[ManifestFile]:
        seen: set[str] = set()
        for number in self._target.snapshot_ids:
            snapshot = snapshot_of(metadata, number)
            if snapshot is None or "manifest-list" not in snapshot:
                message = f"Snapshot {number} has no manifest list; plan this scan on the client"
                raise Unsupported(message)
            for manifest in read_manifest_list(snapshot["manifest-list"], self._reader, table=self._location):
                if manifest.manifest_path in seen or not self._is_part(manifest):
                    continue
                seen.add(manifest.manifest_path)
                yield manifest

    def _is_part(self, manifest: ManifestFile) -> bool:
        if not self._target.is_incremental:
            return True
        return manifest.content is ManifestContent.DATA and manifest.added_snapshot_id in self._target.snapshot_ids

    def _paged(self, manifests: Sequence[ManifestFile]) -> Iterator[_Page]:
        """Yield pages of about equal size, the same ones whenever they are asked for."""
        group: list[ManifestFile] = []
        files = rows = 0
        for manifest in manifests:
            live = _live_files(manifest)
            if group and files + live > PAGE_FILES:
                yield _Page(tuple(group))
                group, files = [], 0
                if self._has_enough(rows):
                    return
            if live > PAGE_FILES:
                yield from (_Page((manifest,), first, first + PAGE_FILES) for first in range(0, live, PAGE_FILES))
                continue
            group.append(manifest)
            files += live
            rows += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        if group:
            yield _Page(tuple(group))

    def _has_enough(self, rows: int) -> bool:
        return self._min_rows is not None and rows >= self._min_rows and self._choice.is_whole and not self._deletes


def _live_files(manifest: ManifestFile) -> int:
    """Return how many files a manifest lists; old writers do not say, and then it is taken for one page."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
