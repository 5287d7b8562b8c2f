"""From two ends of a table to what can differ between them: manifests, then files, then delete sets.

A manifest that both ends list cannot contribute, nor can a file that both list with the same deletes; so the cost of
a plan follows the change, not the table. Nothing here looks at ancestry or at partition specs: any two ends will do.

The result is one `DiffPlan`, which every executor reads: files that only one end lists, files that both list with
other deletes, and (on request) the files that both share, for questions about the whole table.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from jobs.engine.errors import UnsupportedTableError
from jobs.engine.plan.columns import pair_columns
from jobs.engine.plan.diff_rules import DiffRules, bind_keys
from jobs.engine.plan.sizes import estimate_decoded_bytes
from jobs.engine.read.live_files import POSITIONS, LiveFile, ShiftedFile
from jobs.engine.read.metadata import open_io, read_entries, read_manifests, read_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO

    from jobs.engine.plan.columns import Pair
    from jobs.engine.plan.components import FileGroup
    from jobs.engine.read.fields import Schema
    from jobs.engine.read.metadata import LiveEntry, Manifest, TableMetadata
    from jobs.protocol import SideRef


@dataclass(frozen=True)
class End:
    """One end of the diff."""

    exists: bool
    metadata: TableMetadata | None
    snapshot_id: int | None
    schema: Schema | None


@dataclass(frozen=True)
class DiffPlan:
    """Both sides of a diff as one value."""

    before: End
    after: End
    rules: DiffRules
    left: tuple[LiveFile, ...]
    """Files that only `before` lists: their rows can have left."""
    came: tuple[LiveFile, ...]
    """Files that only `after` lists: their rows can have come."""
    shifted: tuple[ShiftedFile, ...]
    manifests_read: int
    manifests_shared: int
    shared_records: int
    """Rows in files that both ends list with the same deletes, before those deletes."""
    shared_has_deletes: bool
    _shared: SharedFiles

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The columns of both ends, matched."""
        return self.rules.pairs

    def end(self, side: str) -> End:
        """Return one end, `b` or `a`."""
        return self.before if side == "b" else self.after

    def own_files(self, side: str) -> tuple[LiveFile, ...]:
        """Return the files that only one end lists."""
        return self.left if side == "b" else self.came

    def files_to_compare(self, side: str) -> tuple[LiveFile, ...]:
        """Return the files of one end whose rows the other may not have, with the deletes of that end."""
        return self.before_files if side == "b" else self.after_files

    @property
    def before_files(self) -> tuple[LiveFile, ...]:
        """Files whose rows can have left, with the deletes of `before`."""
        return (*self.left, *(file.before for file in self.shifted))

    @property
    def after_files(self) -> tuple[LiveFile, ...]:
        """Files whose rows can have come, with the deletes of `after`."""
        return (*self.came, *(file.after for file in self.shifted))

    @property
    def opened(self) -> list[LiveEntry]:
        """The data files that the diff has to open."""
        return [file.data for file in (*self.before_files, *self.came)]

    @property
    def bytes(self) -> int:
        """Compressed bytes of the data files that the diff has to open."""
        return sum(entry.size_in_bytes for entry in self.opened)

    @property
    def rows(self) -> int:
        """Rows in the files that only one end lists, and at most as many in the shifted ones as they hold."""
        return sum(entry.records for entry in self.opened)

    @property
    def files(self) -> int:
        return len(self.left) + len(self.came) + len(self.shifted)

    @property
    def is_empty(self) -> bool:
        return self.files == 0

    @property
    def sides_with_rows(self) -> tuple[str, ...]:
        """The ends that list any data: a new dataset's other end may lack even the columns."""
        return tuple(side for side in "ba" if self.own_files(side) or self.shifted or self.shared_records)

    def decoded_bytes(self, group: FileGroup) -> int:
        """Return about how much memory all rows of some files of both ends take."""
        ends = ((self.before, group.left), (self.after, group.came))
        return sum(
            estimate_decoded_bytes(end.schema, [file.data for file in files])
            for end, files in ends
            if end.schema is not None
        )

    def shared(self) -> tuple[LiveFile, ...]:
        """Return files that both ends list with the same deletes. It reads manifests that the plan did not need."""
        return self._shared.files


@dataclass(frozen=True)
class SharedFiles:
    """The carried-over files, read from their manifests only when somebody asks."""

    io: FileIO | None
    listed: tuple[LiveFile, ...]
    manifests: tuple[Manifest, ...]
    deletes: DeleteIndex

    @cached_property
    def files(self) -> tuple[LiveFile, ...]:
        entries = [entry for manifest in self.manifests for entry in _read(self.io, manifest)]
        return (*self.listed, *(LiveFile(entry, self.deletes.applying_to(entry)) for entry in entries))


class DeleteIndex:
    """The delete files of one end, looked up by the data file they apply to (the specification's scope rules)."""

    def __init__(self, entries: Iterable[LiveEntry], unpartitioned_specs: frozenset[int]) -> None:
        self._by_path: dict[str, list[LiveEntry]] = defaultdict(list)
        self._positions: dict[tuple[int, tuple[object, ...]], list[LiveEntry]] = defaultdict(list)
        self._equality: dict[tuple[int, tuple[object, ...]], list[LiveEntry]] = defaultdict(list)
        self._global: list[LiveEntry] = []
        self.entries = frozenset(entries)
        for entry in self.entries:
            self._add(entry, unpartitioned_specs)

    def _add(self, entry: LiveEntry, unpartitioned_specs: frozenset[int]) -> None:
        if entry.content == POSITIONS and entry.referenced is not None:
            self._by_path[entry.referenced].append(entry)
        elif entry.content == POSITIONS:
            self._positions[entry.spec_id, entry.partition].append(entry)
        elif entry.spec_id in unpartitioned_specs:
            self._global.append(entry)
        else:
            self._equality[entry.spec_id, entry.partition].append(entry)

    def applying_to(self, data: LiveEntry) -> frozenset[LiveEntry]:
        """Return position deletes of the same or a later commit, and equality deletes of a later one."""
        if not self.entries:
            return frozenset()
        place = (data.spec_id, data.partition)
        by_path = [entry for entry in self._by_path.get(data.path, ()) if entry.sequence >= data.sequence]
        vectors = [entry for entry in by_path if entry.offset is not None]
        # a deletion vector holds everything that older position delete files said about its data file
        positions = vectors or [
            *by_path,
            *(entry for entry in self._positions.get(place, ()) if entry.sequence >= data.sequence),
        ]
        equality = [*self._global, *self._equality.get(place, ())]
        return frozenset((*positions, *(entry for entry in equality if entry.sequence > data.sequence)))


def plan_diff(
    *,
    before: SideRef | None,
    after: SideRef | None,
    ignore: Sequence[str] = (),
    key: Sequence[str] = (),
    row_filter: BooleanExpression | None = None,
    tolerances: Mapping[str, Mapping[str, float]] | None = None,
    io_properties: Mapping[str, str] | None = None,
) -> DiffPlan:
    """Plan the diff of two ends. Reads metadata and manifests, no data file."""
    properties = io_properties or {}
    cache: dict[str, TableMetadata] = {}
    ends = [_end(ref, cache, properties) for ref in (before, after)]
    manifests = [_manifests(end, properties) for end in ends]
    io = next((open_io(end.metadata.location, properties) for end in ends if end.metadata is not None), None)
    same_table = len({end.metadata.uuid for end in ends if end.metadata is not None}) == 1
    pairs = pair_columns(ends[0].schema, ends[1].schema, key=tuple(key), ignore=tuple(ignore), by_id=same_table)
    rules = DiffRules(
        pairs=pairs,
        named_keys=bind_keys(key, pairs),
        ignored=tuple(ignore),
        row_filter=row_filter,
        tolerances=tolerances or {},
    )
    # where a compared column is another field at each end, even the rows of a shared file differ
    may_prune = all(pair.same_field for pair in pairs if pair.compared)
    # nor may a row of a shared file be chosen at one end alone
    may_prune &= all(pair.is_one_type for pair in rules.chosen_by.values())
    return _compare(ends[0], ends[1], manifests[0], manifests[1], rules=rules, io=io, may_prune=may_prune)


def plan_step(
    io: FileIO, metadata: TableMetadata, schema: Schema, *, before: int | None, after: int | None
) -> DiffPlan:
    """Plan the diff of two snapshots of one table, both read by one schema."""
    ends = [End(exists=True, metadata=metadata, snapshot_id=snapshot, schema=schema) for snapshot in (before, after)]
    manifests = [read_manifests(io, metadata, snapshot) for snapshot in (before, after)]
    rules = DiffRules(pair_columns(schema, schema))
    return _compare(ends[0], ends[1], manifests[0], manifests[1], rules=rules, io=io, may_prune=True)


def _end(ref: SideRef | None, cache: dict[str, TableMetadata], properties: Mapping[str, str]) -> End:
    if ref is None:
        return End(exists=False, metadata=None, snapshot_id=None, schema=None)
    if ref.metadata_location not in cache:
        cache[ref.metadata_location] = read_metadata(ref.metadata_location, io_properties=properties)
    metadata = cache[ref.metadata_location]
    schema = metadata.schema(ref.schema_id, ref.snapshot_id)
    return End(exists=True, metadata=metadata, snapshot_id=ref.snapshot_id, schema=schema)


def _manifests(end: End, properties: Mapping[str, str]) -> tuple[Manifest, ...]:
    if end.metadata is None:
        return ()
    return read_manifests(open_io(end.metadata.location, properties), end.metadata, end.snapshot_id)


def _read(io: FileIO | None, manifest: Manifest) -> list[LiveEntry]:
    return [] if io is None else read_entries(io, manifest)


def _compare(
    before: End,
    after: End,
    before_manifests: tuple[Manifest, ...],
    after_manifests: tuple[Manifest, ...],
    *,
    rules: DiffRules,
    io: FileIO | None,
    may_prune: bool,
) -> DiffPlan:
    before_index = _delete_index(before, before_manifests, io)
    after_index = _delete_index(after, after_manifests, io)
    shared_paths = {m.path for m in before_manifests} & {m.path for m in after_manifests}
    if not may_prune or before_index.entries != after_index.entries:
        # a data manifest that both ends list may still hold files whose deletes differ
        shared_paths = set()
    skipped = tuple(
        m for m in before_manifests if m.path in shared_paths and not m.holds_deletes and m.rows is not None
    )
    skipped_paths = {manifest.path for manifest in skipped}
    sides = [
        _live_files([m for m in manifests if m.path not in skipped_paths], index, io)
        for manifests, index in ((before_manifests, before_index), (after_manifests, after_index))
    ]
    shared, shifted = _overlap(sides[0], sides[1], may_prune=may_prune)
    both = sides[0].keys() & sides[1].keys() if may_prune else set()
    _refuse_formats([*sides[0].values(), *sides[1].values()])
    read = {m.path for m in (*before_manifests, *after_manifests) if m.path not in skipped_paths}
    return DiffPlan(
        before=before,
        after=after,
        rules=rules,
        left=tuple(file for path, file in sides[0].items() if path not in both),
        came=tuple(file for path, file in sides[1].items() if path not in both),
        shifted=shifted,
        manifests_read=len(read),
        manifests_shared=len(skipped),
        shared_records=sum(file.data.records for file in shared) + sum(m.rows or 0 for m in skipped),
        shared_has_deletes=bool(before_index.entries),
        _shared=SharedFiles(io=io, listed=shared, manifests=skipped, deletes=before_index),
    )


def _overlap(
    before: Mapping[str, LiveFile], after: Mapping[str, LiveFile], *, may_prune: bool
) -> tuple[tuple[LiveFile, ...], tuple[ShiftedFile, ...]]:
    """Return files of both ends: those with the same deletes, and those with other ones."""
    if not may_prune:
        return (), ()
    pairs = [(file, after[path]) for path, file in before.items() if path in after]
    same = tuple(old for old, new in pairs if old.deletes == new.deletes)
    shifted = tuple(ShiftedFile(old, new) for old, new in pairs if old.deletes != new.deletes)
    return same, shifted


def _delete_index(end: End, manifests: tuple[Manifest, ...], io: FileIO | None) -> DeleteIndex:
    entries = [entry for manifest in manifests if manifest.holds_deletes for entry in _read(io, manifest)]
    specs = end.metadata.specs if end.metadata is not None else {}
    unpartitioned = frozenset(
        spec_id for spec_id, spec in specs.items() if all(f["transform"] == "void" for f in spec["fields"])
    )
    return DeleteIndex(entries, unpartitioned)


def _live_files(manifests: Iterable[Manifest], deletes: DeleteIndex, io: FileIO | None) -> dict[str, LiveFile]:
    entries = [entry for manifest in manifests if not manifest.holds_deletes for entry in _read(io, manifest)]
    return {entry.path: LiveFile(entry, deletes.applying_to(entry)) for entry in entries}


def _refuse_formats(files: Iterable[LiveFile]) -> None:
    for file in files:
        for entry in (file.data, *file.deletes):
            if entry.format not in {"parquet", "puffin"}:
                raise UnsupportedTableError(
                    f"{entry.path} is an {entry.format.upper()} file; row diffs read Parquet only."
                )
