"""What the Catalog tab shows: the Iceberg table behind a dataset, with all of its branches."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.catalog import queries as catalog_queries
from webapp.catalog.rules import branch_properties, lens
from webapp.catalog.rules.metadata import ancestry, current_ids
from webapp.core.names import MASTER
from webapp.core.numbered import NumberedPage
from webapp.datasets import queries
from webapp.datasets.queries.history import PAGE_SIZE
from webapp.datasets.rules import properties, schemas, snapshot_graph, summaries
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from webapp.catalog.rules.iceberg import Metadata
    from webapp.catalog.rules.pointers import BranchState
    from webapp.datasets.models import Dataset, Transaction

BRANCH, TAG, OPEN, DELETED = "branch", "tag", "open", "deleted"
TRACKS, FOLLOWS, FALLS_BACK = "tracks", "follows", "falls-back"


@dataclass(frozen=True)
class RefMark:
    """A branch, a tag, the staging branch of an open transaction or what keeps a deleted branch, where it stands."""

    name: str
    kind: str


@dataclass(frozen=True)
class SnapshotRow:
    """A snapshot in the graph."""

    id: int
    node: snapshot_graph.SnapshotNode
    at: dt.datetime
    operation: str
    change: summaries.SnapshotChange
    schema_id: int | None
    refs: Sequence[RefMark]
    transaction: Transaction | None
    """The newest committed one that ended with it."""


@dataclass(frozen=True)
class SnapshotPage:
    """Some rows of the graph."""

    rows: Sequence[SnapshotRow]
    width: int
    page: int
    total: int
    has_more: bool
    is_one_branch: bool
    urls: Mapping[int, str]
    """For what branches and tags stand at: where the graph of all branches shows it."""

    @property
    def text(self) -> str:
        """Which snapshots these are."""
        return f"{NumberedPage(self.page + 1, PAGE_SIZE, self.total).text} snapshots"


@dataclass(frozen=True)
class Described:
    """A schema, partition spec or sort order in words."""

    id: int
    parts: Sequence[schemas.SentencePart]


@dataclass(frozen=True)
class BranchRow:
    """Where a branch stands on the table and what it tracks."""

    name: str
    kind: str
    reads: str
    """The branch whose state this is: itself, or the one it reads by fallback; empty where there is nothing to read."""
    head: int | None
    url: str
    """Where the graph shows the head."""
    at: dt.datetime | None
    rows: int | None
    files: int | None
    bytes: int | None
    schema: Described | None
    spec: Described | None
    order: Described | None


@dataclass(frozen=True)
class BranchPage:
    """Some of the branches."""

    rows: Sequence[BranchRow]
    page: int
    total: int
    has_more: bool
    internal: int
    """Branches of open transactions, of reviews and deleted ones, which are not listed."""

    @property
    def text(self) -> str:
        """Which branches these are."""
        return f"{NumberedPage(self.page + 1, PAGE_SIZE, self.total).text} branches"


@dataclass(frozen=True)
class TagRow:
    """A tag and the snapshot it keeps."""

    name: str
    head: int
    url: str
    """Where the graph shows it."""
    at: dt.datetime | None
    keeps: dt.timedelta | None
    """How long it lives; for ever where nothing is said."""


@dataclass(frozen=True)
class TablePanel:
    """The table as the catalog keeps it."""

    uuid: str
    location: str
    format_version: int
    metadata_location: str
    metadata_bytes: int
    updated_at: dt.datetime
    last_sequence_number: int
    graph: SnapshotPage
    branches: BranchPage
    tags: Sequence[TagRow]
    properties: Sequence[properties.Property]
    tracked_properties: int
    """Properties in which branches keep what they track; the branches' own rows say the same."""


def read_table(dataset: Dataset, *, branch: str, only: bool = False, page: int = 0, branch_page: int = 0) -> TablePanel:
    """Return the table behind a dataset.

    Args:
        dataset: the dataset, which the reader may see.
        branch: the branch whose history alone is shown with `only`.
        only: whether to show one branch's history instead of all.
        page: of the snapshots.
        branch_page: of the branches.

    """
    file = catalog_queries.get_file(table=dataset.table)
    metadata = file.metadata
    shown = properties.list_properties(metadata["properties"], without=branch_properties.PREFIX)
    graph = _read_graph(dataset, metadata, branch=branch if only else "", page=page)
    return TablePanel(
        uuid=metadata["table-uuid"],
        location=metadata["location"],
        format_version=metadata["format-version"],
        metadata_location=file.location,
        metadata_bytes=len(file.raw),
        updated_at=_time(metadata["last-updated-ms"]),
        last_sequence_number=metadata["last-sequence-number"],
        graph=graph,
        branches=_list_branches(dataset, metadata, graph.urls, page=branch_page),
        tags=_list_tags(metadata, graph.urls),
        properties=shown,
        tracked_properties=len(metadata["properties"]) - len(shown),
    )


def _read_graph(dataset: Dataset, metadata: Metadata, *, branch: str, page: int) -> SnapshotPage:
    heads = _list_heads(metadata)
    graph = whole = snapshot_graph.arrange(metadata["snapshots"], heads)
    if branch:
        line = list(reversed(ancestry(metadata, heads.get(branch))))
        graph = snapshot_graph.arrange(line, snapshot_graph.find_line_heads(whole, line))
    total = len(graph.snapshots)
    page = min(page, max(0, (total - 1) // PAGE_SIZE))
    nodes = graph.draw(page * PAGE_SIZE, (page + 1) * PAGE_SIZE)
    committed = _find_transactions(dataset, [node.snapshot["snapshot-id"] for node in nodes])
    marks = _mark_refs(metadata)
    return SnapshotPage(
        rows=[_make_row(node, marks, committed) for node in nodes],
        width=snapshot_graph.graph_width(nodes),
        page=page,
        total=total,
        has_more=(page + 1) * PAGE_SIZE < total,
        is_one_branch=bool(branch),
        urls={
            snapshot["snapshot-id"]: f"?tab=catalog&page={row // PAGE_SIZE}#snapshot-{snapshot['snapshot-id']}"
            for row, snapshot in enumerate(whole.snapshots)
            if snapshot["snapshot-id"] in marks
        },
    )


def _make_row(
    node: snapshot_graph.SnapshotNode, marks: Mapping[int, Sequence[RefMark]], committed: Mapping[int, Transaction]
) -> SnapshotRow:
    number = node.snapshot["snapshot-id"]
    return SnapshotRow(
        id=number,
        node=node,
        at=_time(node.snapshot["timestamp-ms"]),
        operation=(node.snapshot.get("summary") or {}).get("operation", "unknown"),
        change=summaries.describe_change(node.snapshot),
        schema_id=node.snapshot.get("schema-id"),
        refs=marks.get(number, ()),
        transaction=committed.get(number),
    )


def _list_heads(metadata: Metadata) -> dict[str, int]:
    """Return what refs point to: master first, then people's branches, those of open work, and tags."""

    def rank(item: tuple[str, Mapping[str, Any]]) -> tuple[int, str]:
        name, ref = item
        if name == branch_properties.MAIN_REF:
            return 0, name
        if ref["type"] == TAG:
            return 3, name
        return (2 if name.startswith(queries.INTERNAL_PREFIX) else 1), name

    return {
        branch_properties.branch_of_ref(name): ref["snapshot-id"]
        for name, ref in sorted(metadata["refs"].items(), key=rank)
    }


def _mark_refs(metadata: Metadata) -> dict[int, list[RefMark]]:
    marks: dict[int, list[RefMark]] = {}
    for name, head in _list_heads(metadata).items():
        ref = metadata["refs"][branch_properties.ref_of_branch(name)]
        marks.setdefault(head, []).append(RefMark(name, _kind_of_ref(name, ref["type"])))
    return marks


def _kind_of_ref(name: str, stated: str) -> str:
    if stated != BRANCH or not name.startswith(queries.INTERNAL_PREFIX):
        return stated
    return DELETED if queries.is_kept(name) else OPEN


def _find_transactions(dataset: Dataset, snapshots: Iterable[int]) -> dict[int, Transaction]:
    rows = dataset.transactions.filter(state=TransactionState.COMMITTED, snapshot_id__in=list(snapshots)).order_by(
        "closed_at"
    )
    return {row.snapshot_id: row for row in rows if row.snapshot_id is not None}


def _list_branches(dataset: Dataset, metadata: Metadata, urls: Mapping[int, str], *, page: int) -> BranchPage:
    parents = queries.list_parents(dataset)
    branches = set(parents) | lens.branches_of(metadata)
    internal = {name for name in branches if name.startswith(queries.INTERNAL_PREFIX)}
    names = [MASTER, *sorted(branches - internal - {MASTER})]
    page = min(page, (len(names) - 1) // PAGE_SIZE)
    describe = _Words(metadata)
    return BranchPage(
        rows=[
            _make_branch(dataset, metadata, name, parents, describe, urls)
            for name in names[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
        ],
        page=page,
        total=len(names),
        has_more=(page + 1) * PAGE_SIZE < len(names),
        internal=len(internal),
    )


def _make_branch(
    dataset: Dataset,
    metadata: Metadata,
    name: str,
    parents: Mapping[str, str | None],
    describe: _Words,
    urls: Mapping[int, str],
) -> BranchRow:
    own = lens.own_state(metadata, name)
    chain = () if own is not None else queries.get_fallback_chain(path=dataset.path, branch=name, parents=parents)
    source = lens.resolve(metadata, name, chain)
    reads, state = source if source is not None else ("", None)
    head = None if state is None else state.head
    snapshot = None if head is None else describe.snapshots.get(head)
    totals = None if snapshot is None else summaries.describe_change(snapshot)
    return BranchRow(
        name=name,
        kind=_kind_of(metadata, name, own),
        reads=reads,
        head=head,
        url="" if head is None else urls.get(head, ""),
        at=None if snapshot is None else _time(snapshot["timestamp-ms"]),
        rows=None if totals is None else totals.rows,
        files=None if totals is None else totals.files,
        bytes=None if totals is None else totals.bytes,
        schema=None if state is None else describe.schema(state.ids.schema_id),
        spec=None if state is None else describe.spec(state.ids.spec_id),
        order=None if state is None else describe.order(state.ids.order_id),
    )


def _kind_of(metadata: Metadata, name: str, own: BranchState | None) -> str:
    if own is None:
        return FALLS_BACK
    tracked = branch_properties.tracked_ids(metadata["properties"], name, default=current_ids(metadata))
    return FOLLOWS if tracked is None and name != MASTER else TRACKS


class _Words:
    """Schemas, specs and orders of a table in words, each made once."""

    def __init__(self, metadata: Metadata) -> None:
        self._items: Mapping[str, Sequence[Mapping[str, Any]]] = {
            "schema": metadata["schemas"],
            "spec": metadata["partition-specs"],
            "order": metadata["sort-orders"],
        }
        self._names = schemas.name_fields(metadata["schemas"])
        self._known: dict[tuple[str, int], Described] = {}
        self.snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}

    def schema(self, number: int) -> Described:
        """Say what a schema is."""
        return self._describe("schema", number)

    def spec(self, number: int) -> Described:
        """Say what a partition spec is."""
        return self._describe("spec", number)

    def order(self, number: int) -> Described:
        """Say what a sort order is."""
        return self._describe("order", number)

    def _describe(self, what: str, number: int) -> Described:
        if (what, number) not in self._known:
            self._known[what, number] = Described(number, self._words(what, number))
        return self._known[what, number]

    def _words(self, what: str, number: int) -> Sequence[schemas.SentencePart]:
        items = self._items[what]
        place = next((place for place, item in enumerate(items) if item[f"{what}-id"] == number), None)
        if place is None:
            return [schemas.SentencePart("not in the table any more")]
        if what == "schema":
            return schemas.describe_schema(items[place], items[:place])
        write = schemas.describe_spec if what == "spec" else schemas.describe_order
        return [schemas.SentencePart(write(items[place], self._names))]


def _list_tags(metadata: Metadata, urls: Mapping[int, str]) -> list[TagRow]:
    times = {snapshot["snapshot-id"]: snapshot["timestamp-ms"] for snapshot in metadata["snapshots"]}
    return [
        TagRow(
            name=name,
            head=ref["snapshot-id"],
            url=urls.get(ref["snapshot-id"], ""),
            at=_time(times[ref["snapshot-id"]]) if ref["snapshot-id"] in times else None,
            keeps=dt.timedelta(milliseconds=ref["max-ref-age-ms"]) if ref.get("max-ref-age-ms") else None,
        )
        for name, ref in sorted(metadata["refs"].items())
        if ref["type"] == TAG
    ]


def _time(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC)
