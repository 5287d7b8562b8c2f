"""Whether datasets, their branches and transactions agree with each other and with the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.catalog import queries as catalog_queries
from webapp.catalog import services as catalog
from webapp.catalog.models import Table
from webapp.catalog.rules import lens
from webapp.catalog.rules.errors import DamagedTable, NoSuchTable
from webapp.catalog.rules.pointers import Pointer
from webapp.catalog.rules.refs import TableRef, table_ref
from webapp.core.fsck import Finding, Note, look_apart
from webapp.datasets import queries
from webapp.datasets.models import KEPT_PREFIX, Dataset, DatasetBranch, Transaction
from webapp.datasets.rules import summaries
from webapp.datasets.rules.transactions import TransactionState
from webapp.datasets.services.recording import record_commit, register_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.catalog.rules.iceberg import Metadata
    from webapp.catalog.rules.pointers import BranchState

READS = 20
LOOK = "Look at the dataset's history; make the branch again from a transaction that is right."


def check_datasets() -> Iterator[Finding | Note]:
    """Find datasets without tables, branches that show something else than recorded, and broken lines of transactions."""
    yield from _check_tables()
    yield from _check_lines()
    unread: list[Dataset] = []
    yield from look_apart(Dataset.objects.order_by("pk"), partial(_check_dataset, unread=unread))
    yield Note(what="transactions", count=Transaction.objects.count())
    if unread:
        yield Note(what="datasets not checked, because their table cannot be read", count=len(unread))


def _check_dataset(dataset: Dataset, *, unread: list[Dataset]) -> Iterator[Finding]:
    try:
        state = _read_state(dataset)
    except NoSuchTable:
        yield _find_lost_table(dataset)
        return
    except DamagedTable:
        unread.append(dataset)  # the check of the tables names the damage
        return
    if state is not None:
        yield from _check_branches(state)
        yield from _check_staging(state)


@dataclass(frozen=True, slots=True)
class _State:
    """A dataset and its table at one moment."""

    dataset: Dataset
    metadata: Metadata
    branches: list[DatasetBranch]
    staging: set[str]
    """The staging branches of open transactions, and of aborted ones that the sweep is about to clean."""


def _read_state(dataset: Dataset) -> _State | None:
    """Read rows and metadata between two commits; None where writers leave no gap, who prove it sound by writing."""
    for _attempt in range(READS):
        before = catalog_queries.find_table(table_ref(dataset.table))
        state = _State(
            dataset,
            catalog_queries.get_metadata(table=dataset.table),
            list(dataset.branches.select_related("transaction__parent")),
            set(
                dataset.transactions.filter(Q(state=TransactionState.OPEN) | Q(leftover__isnull=False))
                .exclude(staging_branch="")
                .values_list("staging_branch", flat=True)
            ),
        )
        if before == catalog_queries.find_table(table_ref(dataset.table)):
            return state
    return None


def _find_lost_table(dataset: Dataset) -> Finding:
    return Finding(
        code="table_missing",
        object=dataset.path,
        problem=f"The catalog has no table {dataset.table}.",
        way_out="Restore the database from a backup, or register the table's newest metadata file under this name.",
    )


def _check_tables() -> Iterator[Finding]:
    tables = set(Dataset.objects.values_list("table", flat=True))
    for table in Table.objects.select_related("namespace").order_by("pk"):
        ref = TableRef(table.namespace.levels, table.name)
        if ref.is_dataset and ref.table not in tables:
            yield Finding(
                code="dataset_missing",
                object=ref.path,
                problem=f"The catalog has the table {ref.table} and no dataset stands for it.",
                way_out="Record the dataset of the table.",
                repair=partial(_adopt, ref.table),
            )


def _check_lines() -> Iterator[Finding]:
    """Check that transactions stand on committed ones of their dataset, and that branches point to open ones."""
    rows = Transaction.objects.select_related("parent", "dataset", "dataset_branch").order_by("pk")
    for row in rows.exclude(parent=None).iterator():
        if row.parent is not None and row.parent.dataset_id != row.dataset_id:
            yield _damaged_line(row, f"It stands on {row.parent.pk}, which is of another dataset.")
        elif row.parent is not None and row.parent.state != TransactionState.COMMITTED:
            yield _damaged_line(row, f"It stands on {row.parent.pk}, which is {row.parent.state}.")
        elif (
            row.parent is not None
            and row.dataset_branch_id is not None
            and row.parent.dataset_branch_id == row.dataset_branch_id
            and row.parent.number >= row.number
        ):
            yield _damaged_line(
                row, f"It is number {row.number} and stands on {row.parent.pk}, number {row.parent.number}."
            )
    for row in rows.filter(state=TransactionState.OPEN):
        if row.dataset_branch is None or row.dataset_branch.transaction_id != row.pk:
            yield _damaged_line(row, f"It is open, and branch {row.branch_name} does not point to it.")


def _damaged_line(row: Transaction, problem: str) -> Finding:
    return Finding(
        code="transaction_line", object=f"{row.dataset.path} transaction {row.pk}", problem=problem, way_out=LOOK
    )


def _check_branches(state: _State) -> Iterator[Finding]:
    dataset, metadata = state.dataset, state.metadata
    snapshots = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    for branch in state.branches:
        committed = queries.committed_of(branch)
        if committed is None:
            continue
        about = f"{dataset.path}@{branch.name}"
        if committed.snapshot_id is not None and committed.snapshot_id not in snapshots:
            yield Finding(
                code="snapshot_missing",
                object=about,
                problem=f"It shows transaction {committed.pk}, and the table lacks its snapshot {committed.snapshot_id}.",
                way_out="Register an earlier metadata file that has the snapshot, or set the branch to another one.",
            )
            continue
        yield from _check_place(dataset, branch, committed, lens.own_state(metadata, branch.name))


def _check_place(
    dataset: Dataset, branch: DatasetBranch, committed: Transaction, state: BranchState | None
) -> Iterator[Finding]:
    about = f"{dataset.path}@{branch.name}"
    if state is None and committed.dataset_branch_id == branch.pk:
        yield Finding(
            code="branch_ref_missing",
            object=about,
            problem=f"Transaction {committed.pk} was committed on it and the table has no such branch.",
            way_out="Make the branch in the table again, where the transaction ended.",
            repair=partial(
                catalog.create_branch, table=dataset.table, branch=branch.name, pointer=queries.pointer_of(committed)
            ),
        )
    elif state is not None and state.head != committed.snapshot_id:
        yield Finding(
            code="branch_differs",
            object=about,
            problem=f"The table shows snapshot {state.head}, transaction {committed.pk} ended with {committed.snapshot_id}.",
            way_out="Commit to the branch again, or roll it back to the transaction with an Iceberg client.",
        )
    elif state is not None and Pointer.of(state) != queries.pointer_of(committed):
        is_open = branch.transaction is not None and branch.transaction.is_open
        changes = ", ".join(summaries.list_changes(queries.pointer_of(committed), Pointer.of(state)))
        yield Finding(
            code="branch_ids_differ",
            object=about,
            problem=f"The table shows another {changes} than transaction {committed.pk} ended with.",
            way_out="Record what the table shows as a transaction of its own, when none is open.",
            repair=None if is_open else partial(_record, dataset, branch.name),
        )


def _check_staging(state: _State) -> Iterator[Finding]:
    """Find what jobs wrote and nobody will publish: it keeps files alive that nobody sees."""
    dataset, names = state.dataset, {branch.name for branch in state.branches}
    for branch in sorted(lens.branches_of(state.metadata) - state.staging - names):
        if queries.is_staging(branch):
            yield Finding(
                code="staging_orphaned",
                object=f"{dataset.path}@{branch}",
                problem="No open transaction is written through this staging branch.",
                way_out="Remove the staging branch.",
                repair=partial(catalog.drop_staging, tables=[dataset.table], staging=branch),
            )
        elif (
            queries.is_kept(branch)
            and not dataset.deleted_branches.filter(pk=branch.removeprefix(KEPT_PREFIX)).exists()
        ):
            yield Finding(
                code="kept_ref_orphaned",
                object=f"{dataset.path}@{branch}",
                problem="It keeps the snapshot of a deleted branch that cannot be restored any more.",
                way_out="Remove the ref.",
                repair=partial(catalog.drop_branch, tables=[dataset.table], branch=branch),
            )
        elif not branch.startswith(queries.INTERNAL_PREFIX):
            yield Finding(
                code="branch_unknown",
                object=f"{dataset.path}@{branch}",
                problem="The table has this branch and the dataset does not.",
                way_out="Record what the table shows, or remove the ref.",
                repair=partial(_record, dataset, branch),
            )


def _adopt(table: str) -> None:
    """Record the dataset of a table, with the branches that the table has."""
    dataset = register_dataset(table=table, by=None)
    branches = {branch.name for branch in dataset.branches.all()}
    for branch in sorted(lens.branches_of(catalog_queries.get_metadata(table=table)) - branches):
        if not branch.startswith(queries.INTERNAL_PREFIX):
            _record(dataset, branch)


def _record(dataset: Dataset, branch: str) -> None:
    """Make what the table shows on a branch a transaction of it."""
    metadata = catalog_queries.get_metadata(table=dataset.table)
    shown = lens.pointer(metadata, branch)
    if shown is not None:
        record_commit(table=dataset.table, branch=branch, before=None, after=shown, metadata=metadata, by=None)
