"""What the Branches and History tabs show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.db.models import Case, IntegerField, Q, When

from webapp.catalog import queries as catalog_queries
from webapp.catalog.rules import lens
from webapp.core.names import MASTER
from webapp.core.numbered import NumberedPage
from webapp.datasets import ports, queries
from webapp.datasets.models import Transaction
from webapp.datasets.queries.details import list_branches
from webapp.datasets.queries.transactions import find_line
from webapp.datasets.rules import ancestry, schemas
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.catalog.rules.pointers import Pointer
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, DatasetBranch

PAGE_SIZE = 50
MOST_TRACKERS = 6
MOST_IDS = 50
"""Of each kind."""


@dataclass(frozen=True)
class TreeRow:
    """A branch in the tree."""

    branch: DatasetBranch
    depth: int
    rails: Sequence[str]
    """What is drawn before the name, per level: pass, mid, end or nothing."""
    committed: Transaction | None
    is_writing: bool
    """Whether a transaction is open on it."""
    is_sharing: bool
    """Whether it was made off an open transaction of another branch."""
    ahead: int
    base: str | None
    """The transaction where it left its parent."""
    rows: int | None
    schema_id: int | None
    spec_id: int | None
    order_id: int | None
    pulls: Sequence[Any]
    """Open pull requests of the branch."""


@dataclass(frozen=True)
class FallbackRow:
    """A branch that the dataset does not have, so that it reads another one."""

    name: str
    pulls: Sequence[Any]
    """Open pull requests of the branch that change or affect the dataset."""


@dataclass(frozen=True)
class BranchTree:
    """A page of the tree, or of the branches in it whose names hold a text."""

    rows: Sequence[TreeRow]
    fallbacks: Sequence[FallbackRow]
    """The one that is asked for, and those of open pull requests; none where branches are chosen by a text."""
    q: str
    page: int
    total: int

    @property
    def has_more(self) -> bool:
        """Whether there is a next page."""
        return (self.page + 1) * PAGE_SIZE < self.total

    @property
    def shown_fallbacks(self) -> Sequence[FallbackRow]:
        """Return those that read by fallback below the last page, and none below the others."""
        return () if self.has_more else self.fallbacks

    @property
    def part(self) -> NumberedPage:
        """Which branches these are."""
        return NumberedPage(self.page + 1, PAGE_SIZE, self.total)


@dataclass(frozen=True)
class ProtectedId:
    """A schema, partition spec or sort order, and who tracks it."""

    anchor: str
    name: str
    parts: Sequence[schemas.SentencePart]
    trackers: Sequence[str]
    more: int
    """Further branches."""
    internal: int
    """Branches of open transactions and reviews."""
    is_protected: bool


@dataclass(frozen=True)
class SnapshotProtection:
    """What the branches of a table track and thereby protect."""

    rows: Sequence[ProtectedId]
    left_out: int
    """How many are not listed: of each kind come first those that a branch tracks, the newest first."""


@dataclass(frozen=True)
class HistoryEntry:
    """One transaction of a history."""

    transaction: Transaction
    changed: Any
    """What it changed, with `is_exact`, `inserted`, `deleted` and `updated`; None where nobody knows."""


@dataclass(frozen=True)
class HistoryGroup:
    """Transactions of one branch within a history."""

    branch: str
    is_own: bool
    """Of the branch whose history it is, not of one that it began on."""
    ahead: int | None
    """How many the branch has committed since it left others; None where it left none."""
    rows: Sequence[HistoryEntry]


@dataclass(frozen=True)
class History:
    """A page of what led to a branch, newest first."""

    groups: Sequence[HistoryGroup]
    shown: int
    total: int
    page: int
    has_more: bool


def list_names(dataset: Dataset) -> list[str]:
    """Return the branches in the order of the tree."""
    return [name for name, _ in _arrange(queries.list_parents(dataset))]


def read_tree(principal: Principal, dataset: Dataset, *, branch: str, q: str = "", page: int = 0) -> BranchTree:
    """Return a page of the branches in the order of the tree, each with what it adds to its parent.

    Those that a text chooses are drawn without rails: what connects them may not be among them.
    """
    parents = queries.list_parents(dataset)
    arranged = _arrange(parents)
    drawn = list(zip(arranged, ancestry.draw_rails(arranged), strict=True))
    if q:
        drawn = [((name, depth), ()) for (name, depth), _ in drawn if q.lower() in name.lower()]
    page = min(page, max(len(drawn) - 1, 0) // PAGE_SIZE)
    shown = drawn[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
    branches = {branch.name: branch for branch in list_branches(dataset).filter(name__in=[row[0][0] for row in shown])}
    forks = _find_forks([branch for branch in branches.values() if branch.name != MASTER])
    pulls = ports.list_open_pulls(principal=principal, dataset=dataset, branches=list(branches))
    rows = [
        _make_row(branches[name], depth, rails, *forks.get(branches[name].pk, (0, None)), pulls.get(name, ()))
        for (name, depth), rails in shown
    ]
    fallbacks = () if q else _list_fallbacks(principal, dataset, branch, parents)
    return BranchTree(rows=rows, fallbacks=fallbacks, q=q, page=page, total=len(drawn))


def _list_fallbacks(principal: Principal, dataset: Dataset, branch: str, names: Collection[str]) -> list[FallbackRow]:
    pulls: dict[str, list[Any]] = {} if branch in names else {branch: []}
    for pull in ports.list_concerning_pulls(principal=principal, dataset=dataset):
        if pull.source not in names:
            pulls.setdefault(pull.source, []).append(pull)
    return [FallbackRow(*row) for row in pulls.items()]


def _arrange(parents: Mapping[str, str | None]) -> list[tuple[str, int]]:
    """Return the branches in the order of the tree with their depth; those that only builds fill are leaves and left out."""
    arranged = ancestry.arrange_tree(parents, first=MASTER)
    return [(name, depth) for name, depth in arranged if not name.startswith(queries.INTERNAL_PREFIX)]


def _find_forks(branches: Sequence[DatasetBranch]) -> dict[int, tuple[int, str | None]]:
    """Find for each branch, by key, how many transactions it has had since it left its parent, and at which that was."""
    transactions = Transaction.objects.filter(state=TransactionState.COMMITTED, dataset_branch__in=branches)
    parents: dict[int, dict[str, str | None]] = {branch.pk: {} for branch in branches}
    for transaction, parent, owner in transactions.values_list("pk", "parent_id", "dataset_branch_id"):
        parents[owner][transaction] = parent
    forks: dict[int, tuple[int, str | None]] = {}
    for branch in branches:
        head = queries.committed_of(branch)
        ahead, base = 0, None if head is None else head.pk
        while base is not None and base in parents[branch.pk]:
            ahead, base = ahead + 1, parents[branch.pk][base]
        forks[branch.pk] = (ahead, base)
    return forks


def _make_row(
    branch: DatasetBranch, depth: int, rails: Sequence[str], ahead: int, base: str | None, pulls: Sequence[Any]
) -> TreeRow:
    latest = branch.transaction
    head = queries.committed_of(branch)
    is_open = latest is not None and latest.state == TransactionState.OPEN
    return TreeRow(
        branch=branch,
        depth=depth,
        rails=rails,
        committed=head,
        is_writing=is_open and latest is not None and latest.dataset_branch_id == branch.pk,
        is_sharing=is_open and latest is not None and latest.dataset_branch_id != branch.pk,
        ahead=ahead,
        base=base,
        rows=None if head is None else head.summary.get("rows"),
        schema_id=None if head is None else head.schema_id,
        spec_id=None if head is None else head.spec_id,
        order_id=None if head is None else head.order_id,
        pulls=pulls,
    )


def list_protected_ids(dataset: Dataset) -> SnapshotProtection:
    """Return the schemas, specs and sort orders of the table with the branches that track them."""
    metadata = catalog_queries.get_metadata(table=dataset.table)
    pointers = {
        branch: pointer
        for branch in (MASTER, *sorted(lens.branches_of(metadata)))
        for pointer in [lens.pointer(metadata, branch)]
        if pointer is not None and not queries.is_kept(branch)
    }
    names = schemas.name_fields(metadata["schemas"])
    ids: list[ProtectedId] = []
    for place, schema, trackers in _choose(metadata["schemas"], "schema", pointers):
        parts = schemas.describe_schema(schema, metadata["schemas"][:place])
        ids.append(_protected("schema", schema["schema-id"], parts, trackers))
    for _, spec, trackers in _choose(metadata["partition-specs"], "spec", pointers):
        parts = [schemas.SentencePart(schemas.describe_spec(spec, names))]
        ids.append(_protected("spec", spec["spec-id"], parts, trackers))
    for _, order, trackers in _choose(metadata["sort-orders"], "order", pointers):
        parts = [schemas.SentencePart(schemas.describe_order(order, names))]
        ids.append(_protected("order", order["order-id"], parts, trackers))
    total = sum(len(metadata[name]) for name in ("schemas", "partition-specs", "sort-orders"))
    return SnapshotProtection(ids, left_out=total - len(ids))


def _choose(
    items: Sequence[Mapping[str, Any]], kind: str, pointers: Mapping[str, Pointer]
) -> list[tuple[int, Mapping[str, Any], Sequence[str]]]:
    """Return what is shown of a history, each item with its place and who tracks it; of long ones the newest tracked."""
    trackers: dict[int, list[str]] = {}
    for branch, pointer in pointers.items():
        trackers.setdefault(getattr(pointer, f"{kind}_id"), []).append(branch)
    listed = [(place, item, trackers.get(item[f"{kind}-id"], [])) for place, item in enumerate(items)]
    preferred = sorted(listed, key=lambda row: (bool(row[2]), row[0]), reverse=True)
    return sorted(preferred[:MOST_IDS], key=lambda row: row[0])


def _protected(kind: str, number: int, parts: Sequence[schemas.SentencePart], trackers: Sequence[str]) -> ProtectedId:
    shown = [branch for branch in trackers if not branch.startswith(queries.INTERNAL_PREFIX)]
    return ProtectedId(
        anchor=f"{kind}-{number}",
        name=f"{kind.capitalize()} {number}",
        parts=parts,
        trackers=shown[:MOST_TRACKERS],
        more=len(shown[MOST_TRACKERS:]),
        internal=len(trackers) - len(shown),
        is_protected=bool(trackers),
    )


def read_history(dataset: Dataset, *, branch: str, aborted: bool, page: int) -> History:
    """Return what led to what the branch shows, in groups: its own transactions, then its parents' up to there."""
    segments = _list_segments(dataset, branch=branch)
    parts = [rows if aborted else rows.exclude(state=TransactionState.ABORTED) for rows in segments]
    counts = [rows.count() for rows in parts]
    total, start = sum(counts), page * PAGE_SIZE
    shown = _take(parts, counts, start)
    ahead = segments[0].filter(state=TransactionState.COMMITTED).count() if any(counts[1:]) else None
    return History(
        groups=_group(shown, branch, ahead),
        shown=len(shown),
        total=total,
        page=page,
        has_more=start + PAGE_SIZE < total,
    )


def count_history(dataset: Dataset, *, branch: str) -> int:
    """Return how many transactions the branch's history has: as many as its tab lists, aborted ones too."""
    return sum(rows.count() for rows in _list_segments(dataset, branch=branch))


def list_line(dataset: Dataset, *, branch: str) -> QuerySet[Transaction]:
    """Return the transactions that led to what a branch shows, newest first: its own, then its parents' up to there.

    Of a branch that has nothing of its own those of the branch that it reads.
    """
    pointer = queries.find_branch(dataset, branch)
    if pointer is None or pointer.transaction is None:
        branch = queries.parse_view(dataset, branch=branch)[0]
    parts = _list_parts(dataset, branch=branch)
    if not parts:
        return dataset.transactions.none()
    # By segment first: between branches neither numbers nor clocks give an order.
    segment = Case(*(When(part, then=place) for place, part in enumerate(parts)), output_field=IntegerField())
    line = dataset.transactions.filter(reduce(or_, parts)).annotate(segment=segment)
    return line.select_related("parent").order_by("segment", "-number")


def _list_segments(dataset: Dataset, *, branch: str) -> list[QuerySet[Transaction]]:
    """Return the transactions of a branch and those of its parents up to where it began: a query for each, newest first."""
    rows = dataset.transactions.select_related("parent").order_by("-number")
    return [rows.filter(part) for part in _list_parts(dataset, branch=branch)]


def _list_parts(dataset: Dataset, *, branch: str) -> list[Q]:
    """Return which transactions are the branch's own, which of its parent's it began with, and so on."""
    pointer = queries.find_branch(dataset, branch)
    if pointer is None:
        return []
    part = Q(dataset_branch=pointer.pk, branch_name=pointer.name)
    before = pointer.transaction
    reached: dict[Q, float] = {part: math.inf}
    parts: list[Q] = []
    while True:
        parts.append(part)
        # One that was aborted may have stood on less than the branch began with at last.
        lasting = dataset.transactions.filter(part).exclude(state=TransactionState.ABORTED)
        oldest = lasting.select_related("parent").order_by("number").first()
        before = before if oldest is None else oldest.parent
        line = None if before is None else find_line(before)
        if before is None or line is None or before.number <= reached.get(line, -1):
            return parts
        reached[line] = before.number
        part = line & Q(number__lte=before.number)


def _take(segments: Sequence[QuerySet[Transaction]], counts: Sequence[int], start: int) -> list[Transaction]:
    """Return a page of the segments one after the other."""
    shown: list[Transaction] = []
    for rows, count in zip(segments, counts, strict=True):
        missing = PAGE_SIZE - len(shown)
        if missing and start < count:
            shown += rows[start : start + missing]
        start = max(0, start - count)
    return shown


def _group(shown: Sequence[Transaction], branch: str, ahead: int | None) -> list[HistoryGroup]:
    """Group transactions by branch; `ahead`: how many the branch has committed since it left others, where it did."""
    changes = ports.list_changes(shown)
    rows: dict[str, list[HistoryEntry]] = {}
    for row in shown:
        rows.setdefault(row.branch_name, []).append(HistoryEntry(row, changes.get(row.pk)))
    return [
        HistoryGroup(name, is_own=name == branch, ahead=ahead if name == branch else None, rows=entries)
        for name, entries in rows.items()
    ]
