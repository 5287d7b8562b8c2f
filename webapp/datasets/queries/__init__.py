"""Look-ups of datasets, branches and transactions.

Modules:
    details: answers of the REST API that are more than one row.
    history: what the Branches and History tabs show.
    preview: a page of a dataset's rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet

from webapp.accounts import permissions
from webapp.catalog import queries as catalog_queries
from webapp.catalog.rules.pointers import Pointer
from webapp.core import names
from webapp.core.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from webapp.core.filters import ListFilter, offer
from webapp.core.numbers import read_count
from webapp.core.prepared import Prepared
from webapp.datasets import ports
from webapp.datasets.models import KEPT_PREFIX, Dataset, DatasetBranch, DeletedBranch, Transaction
from webapp.datasets.rules import ancestry
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.core.principals import Principal

INTERNAL_PREFIX = "_"
STAGING_PREFIX = "_job/"
"""What the names of staging branches start with; people's names never start with an underscore."""
SHORTEST_ID = 6
_BRANCHES = Prepared(
    lambda dataset, name: DatasetBranch.objects.filter(dataset=dataset, name=name).select_related(
        "transaction__parent", "parent"
    ),
    int,
    str,
)


def get_dataset(
    principal: Principal, path_or_id: str | int, *, action: str = "read", branch: str | None = None
) -> Dataset:
    """Return the dataset that the reader may use so; one that they may not see is not found."""
    dataset = find_dataset(path_or_id)
    if dataset is None:
        message = f"There is no dataset {path_or_id}, or you may not see it."
        raise NotFound(message)
    permissions.check_dataset(principal, dataset.path, action, branch, identifier=path_or_id)
    return dataset


def find_dataset(path: str | int) -> Dataset | None:
    """Return the dataset of this path or id, without asking who wants it."""
    number = path if isinstance(path, int) else read_count(path)
    if number is not None:
        return Dataset.objects.filter(pk=number).first()
    return Dataset.objects.filter(path=path).first()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFilter(ListFilter):
    """Which datasets are wanted."""

    path: str = offer("path", words="exactly this one", on_page=False)
    q: str = offer(words="words in path or description")
    folder: str = offer(in_api=False)


ALL = DatasetFilter()


def list_datasets(principal: Principal, filters: DatasetFilter = ALL) -> QuerySet[Dataset]:
    """Return the datasets that the reader sees, by path."""
    datasets = Dataset.objects.filter(path_is_visible(principal), **filters.lookups)
    if filters.folder:
        datasets = datasets.filter(path__startswith=f"/{filters.folder.strip('/')}/")
    for word in filters.q.split():
        datasets = datasets.filter(Q(path__icontains=word) | Q(description__icontains=word))
    return datasets.order_by("path")


def list_with_jobspec(paths: Iterable[str]) -> set[str]:
    """Return those of these dataset paths that a JobSpec on master makes: their icons are blue, others' gray."""
    return ports.list_with_jobspec(paths=list(paths))


def list_datasets_in(folders: Iterable[str]) -> QuerySet[Dataset]:
    """Return the datasets in some top folders, without asking who wants them."""
    return Dataset.objects.filter(path_in_folders(folders))


def path_is_visible(principal: Principal) -> Q:
    """Return the condition that the reader may see a dataset: by the rights on its top folder."""
    folders = permissions.visible_folders(principal)
    return Q() if folders is None else path_in_folders(sorted(folders))


def path_in_folders(folders: Iterable[str]) -> Q:
    """Return the condition that a dataset is in one of these top folders."""
    return Q(folder__in=[folder.lower() for folder in folders])


def get_branch(dataset: Dataset, name: str) -> DatasetBranch:
    """Return the dataset's branch of this name."""
    branch = find_branch(dataset, name)
    if branch is None:
        message = f"{dataset.path} has no branch {name}."
        raise NotFound(message)
    return branch


def find_branch(dataset: Dataset, name: str) -> DatasetBranch | None:
    """Return the dataset's branch of this name, or None."""
    branch = _BRANCHES.first(dataset.pk, name)
    if branch is not None:
        branch.dataset = dataset
    return branch


def get_transaction(dataset: Dataset, transaction: str) -> Transaction:
    """Return the dataset's transaction of this id, whole or its first characters as pages show it."""
    is_long_enough = len(transaction) >= SHORTEST_ID
    rows = list(dataset.transactions.filter(pk__startswith=transaction)[:2]) if is_long_enough else []
    if len(rows) != 1:
        message = f"{dataset.path} has no transaction {transaction}."
        raise NotFound(message)
    return rows[0]


def list_transactions(dataset: Dataset, *, branch: str | None = None, aborted: bool = True) -> QuerySet[Transaction]:
    """Return transactions, newest first: those started on the branch, or on all that people know of."""
    transactions = dataset.transactions.exclude(branch_name__startswith=INTERNAL_PREFIX)
    if branch is not None:
        transactions = transactions.filter(branch_name=branch)
    if not aborted:
        transactions = transactions.exclude(state=TransactionState.ABORTED)
    return transactions.order_by("-started_at", "-number", "pk")


def list_transactions_made_on(
    *, branch: str, folder_paths: Iterable[str], folders: Iterable[str] = ()
) -> dict[str, Transaction]:
    """Return, of these dataset paths and top folders, those that have a committed transaction of the branch's own.

    With its newest one. A branch that only shares what it was made off has made nothing.
    """
    datasets = Dataset.objects.filter(Q(path__in=list(folder_paths)) | path_in_folders(folders)).order_by()
    pointers = (
        DatasetBranch.objects.filter(name=branch, dataset__in=datasets)
        .select_related("dataset", "transaction__parent")
        .order_by("dataset__path")
    )
    heads = ((pointer, committed_of(pointer)) for pointer in pointers)
    return {
        pointer.dataset.path: committed
        for pointer, committed in heads
        if committed is not None and committed.dataset_branch_id == pointer.pk
    }


def list_history(branch: DatasetBranch) -> list[Transaction]:
    """Return the committed transactions that led to what the branch shows, newest first, across its parents."""
    rows = {row.pk: row for row in branch.dataset.transactions.filter(state=TransactionState.COMMITTED)}
    history: list[Transaction] = []
    current = committed_of(branch)
    while current is not None:
        history.append(current)
        current = rows.get(current.parent_id or "")
    return history


def list_history_ids(branch: DatasetBranch) -> set[str]:
    """Return the ids of the branch's history, with an open transaction at its end."""
    ids = {row.pk for row in list_history(branch)}
    return ids if branch.transaction_id is None else {*ids, branch.transaction_id}


def committed_of(branch: DatasetBranch) -> Transaction | None:
    """Return what readers of the branch see: its latest transaction, or the one an open one stands on."""
    latest = branch.transaction
    if latest is not None and latest.state == TransactionState.OPEN:
        return latest.parent
    return latest


def find_written_branch(dataset: Dataset) -> str:
    """Return the name of the branch that was committed to last, or an empty one where nobody has written."""
    branches = DatasetBranch.objects.filter(dataset=dataset, transaction__state=TransactionState.COMMITTED)
    return branches.order_by("-transaction__closed_at", "name").values_list("name", flat=True).first() or ""


def standing_of(branch: DatasetBranch) -> rules.Standing:
    """Return what the branch points to, for the rules."""
    latest = branch.transaction
    if latest is None:
        return rules.EMPTY
    return rules.Standing(transaction=latest.pk, state=latest.state)


def latest_committed(dataset: Dataset, branch: str) -> Transaction | None:
    """Return the newest committed transaction that readers of this very branch see; None without one."""
    pointer = find_branch(dataset, branch)
    return None if pointer is None else committed_of(pointer)


@dataclass(frozen=True)
class LineStep:
    """One committed transaction of a line."""

    pk: str
    parent: str | None
    type: str


def list_line(transaction: Transaction, *, branches: Collection[str]) -> list[LineStep]:
    """Return the committed transactions of these branches that led to this one, newest first, as far as they are theirs."""
    rows = Transaction.objects.filter(dataset=transaction.dataset_id, dataset_branch__name__in=branches)
    own = {
        pk: LineStep(pk, parent, type_)
        for pk, parent, type_ in rows.filter(state=TransactionState.COMMITTED).values_list("pk", "parent_id", "type")
    }
    line: list[LineStep] = []
    current: str | None = transaction.pk
    while current in own:
        line.append(own[current])
        current = line[-1].parent
    return line


def find_transaction(pk: str | None) -> Transaction | None:
    """Return the transaction of this whole id."""
    return Transaction.objects.filter(pk=pk).first()


def leads_to(older: str, newer: str) -> bool:
    """Return whether a transaction is another one of the same dataset, or came before it on its line."""
    rows = Transaction.objects.filter(dataset__transactions=older, state=TransactionState.COMMITTED)
    parents = dict(rows.values_list("pk", "parent_id"))
    current: str | None = newer
    while current is not None and current != older:
        current = parents.get(current)
    return current == older


def resolve_input(*, path: str, chain: Sequence[str]) -> tuple[str, Transaction] | None:
    """Return the first branch of the chain with a committed transaction, and that transaction.

    A branch without one does not count as existing: nothing could be read from it.
    """
    dataset = find_dataset(path)
    if dataset is None:
        return None
    return next(((name, shown) for name, shown in _walk_chain(dataset, chain) if shown is not None), None)


def find_committed_at(*, path: str, chain: Sequence[str], at: datetime) -> Transaction | None:
    """Return what readers of a chain of branches were shown at a moment; None where there was nothing."""
    dataset = find_dataset(path)
    if dataset is None:
        return None
    committed = dataset.transactions.filter(state=TransactionState.COMMITTED, closed_at__gt=at)
    parents = dict(committed.values_list("pk", "parent_id"))
    for _name, shown in _walk_chain(dataset, chain):
        current = shown.pk if shown else None
        while current in parents:
            current = parents[current]
        if current is not None:
            return find_transaction(current)
    return None


def resolve_view(dataset: Dataset, chain: Sequence[str]) -> tuple[str, Transaction | None] | None:
    """Return the first branch of the chain that clients would read, and the transaction that it shows.

    Other than for a build's inputs, a branch without a transaction counts where it has something of its own in the table:
    a client reads it as empty, and never what its parent has.
    """
    for name, shown in _walk_chain(dataset, chain):
        if shown is not None or catalog_queries.branch_pointer(table=dataset.table, branch=name) is not None:
            return name, shown
    return None


def _walk_chain(dataset: Dataset, chain: Sequence[str]) -> Iterator[tuple[str, Transaction | None]]:
    """Yield each branch of a chain in turn with its committed transaction; None where it has none, or is not there."""
    branches = {
        branch.name: branch
        for branch in dataset.branches.filter(name__in=list(chain)).select_related("transaction__parent")
    }
    for name in chain:
        yield name, committed_of(branches[name]) if name in branches else None


def list_parents(dataset: Dataset) -> dict[str, str | None]:
    """Return the ancestry record: every branch with its parent."""
    return dict(dataset.branches.values_list("name", "parent__name"))


def branch_ancestors(dataset: Dataset, branch: str) -> tuple[str, ...]:
    """Return parent, grandparent and so on of a branch."""
    return ancestry.list_ancestors(list_parents(dataset), branch)


def check_chain(*, path: str, chain: Sequence[str]) -> None:
    """Refuse a fallback chain that contradicts the ancestry of the dataset; one that is not there yet fits any."""
    dataset = find_dataset(path)
    if dataset is not None:
        ancestry.check_chain(dataset=path, chain=chain, parents=list_parents(dataset))


def get_fallback_chain(*, path: str, branch: str, parents: Mapping[str, str | None] | None = None) -> tuple[str, ...]:
    """Return the branches from which a reader of `branch` reads where it has nothing of its own, nearest first.

    The dataset's own ancestry where the branch exists on it; else Git's in the owning repository, then master.

    Args:
        path: the dataset, which need not be there.
        branch: who reads.
        parents: the ancestry record of the dataset, from one who asks for many branches.

    Raises:
        BadRequest: the dataset or the repository has the branch in another spelling.

    """
    if parents is None:
        dataset = find_dataset(path)
        parents = {} if dataset is None else list_parents(dataset)
    if branch in parents:
        return ancestry.list_ancestors(parents, branch)
    names.check_spelling(branch, parents)
    chain = ports.find_git_chain(path=path, branch=branch) or ()
    return tuple(name for name in dict.fromkeys((*chain, names.MASTER)) if name != branch)


def is_staging(branch: str) -> bool:
    """Return whether a table branch is one that a transaction is written through."""
    return branch.startswith(STAGING_PREFIX)


def is_kept(branch: str) -> bool:
    """Return whether a table branch is what keeps a deleted one's snapshot."""
    return branch.startswith(KEPT_PREFIX)


def list_deleted_branches(dataset: Dataset) -> QuerySet[DeletedBranch]:
    """Return the branches that can be brought back, the last deleted first."""
    return dataset.deleted_branches.filter(branch=None).select_related("transaction")


def list_deleted_in(*, folders: Iterable[str], branch: str) -> QuerySet[DeletedBranch]:
    """Return the deletions of a branch on all datasets of these top folders, also those under way."""
    rows = DeletedBranch.objects.filter(name=branch, dataset__in=list_datasets_in(folders))
    return rows.select_related("dataset", "transaction").order_by("dataset__path", "-deleted_at")


def get_deleted_branch(dataset: Dataset, number: int) -> DeletedBranch:
    """Return one of the branches that can be brought back."""
    branch = list_deleted_branches(dataset).filter(pk=number).first()
    if branch is None:
        message = f"{dataset.path} has no deleted branch {number} that could be restored."
        raise NotFound(message)
    return branch


def check_not_internal(branch: str) -> None:
    """Refuse a client a branch that only builds fill, such as the one of a review."""
    if branch.startswith(INTERNAL_PREFIX):
        message = f"Branch {branch} is internal: only builds read and write it."
        raise PermissionDenied(message, code="internal_branch")


def find_open_staging(*, staging_branch: str, table: str) -> Transaction | None:
    """Return the open transaction of a table that is written through this staging branch."""
    return (
        Transaction.objects.filter(staging_branch=staging_branch, dataset__table=table, state=TransactionState.OPEN)
        .select_related("dataset")
        .first()
    )


def get_table_chain(*, table: str, branch: str, by: Principal | None) -> tuple[str, ...] | None:
    """Return where a table branch reads from while it has nothing of its own; a staging branch from its target.

    None for a staging branch of no open transaction: nobody may use it any more.
    """
    if not is_staging(branch):
        if by is not None and by.job is None:
            check_not_internal(branch)
        return get_fallback_chain(path=names.dataset_path(*_split_table(table)), branch=branch)
    opened = find_open_staging(staging_branch=branch, table=table)
    if opened is None:
        return None
    _check_is_opener(opened, by)
    chain = get_fallback_chain(path=opened.dataset.path, branch=opened.branch_name)
    return (opened.branch_name, *chain)


def check_staging_use(*, table: str, branch: str, principal: Principal | None) -> Transaction:
    """Return the transaction of a staging branch; refuse all but who opened it to write there, and all once it is closed."""
    opened = find_open_staging(staging_branch=branch, table=table)
    if opened is None:
        message = f"No transaction is open on {table} with the staging branch {branch}."
        raise Conflict(message, code="transaction_closed")
    _check_is_opener(opened, principal)
    return opened


def _check_is_opener(opened: Transaction, principal: Principal | None) -> None:
    is_its_job = principal is not None and principal.job is not None and principal.job.branch == opened.staging_branch
    is_opener = principal is not None and principal.job is None and principal.username == opened.by
    if not (is_its_job or is_opener):
        message = f"Transaction {opened.pk} was opened by {opened.by}; only its opener uses its staging branch."
        raise PermissionDenied(message, code="not_the_opener")


def _split_table(table: str) -> tuple[list[str], str]:
    *levels, name = table.split(".")
    return levels, name


def check_usable_base(dataset: Dataset, transaction: Transaction) -> None:
    """Refuse an aborted transaction as the start of a branch: it has no data."""
    if transaction.state == TransactionState.ABORTED:
        message = (
            f"Transaction {transaction.pk} of {dataset.path} was aborted: there is no data to start a branch from."
        )
        raise Conflict(message, code="transaction_aborted")


def pointer_of(transaction: Transaction) -> Pointer:
    """Return the committed transaction's place in the table."""
    if transaction.schema_id is None or transaction.spec_id is None or transaction.order_id is None:
        message = f"Transaction {transaction.pk} is {transaction.state}: it has no data to point to."
        raise Conflict(message, code="not_committed")
    return Pointer(
        snapshot_id=transaction.snapshot_id,
        schema_id=transaction.schema_id,
        spec_id=transaction.spec_id,
        order_id=transaction.order_id,
    )


def check_not_expired(dataset: Dataset, transaction: Transaction, metadata: Mapping[str, Any]) -> None:
    """Refuse a transaction whose snapshot or ids maintenance has removed from the table."""
    parts = (
        transaction.snapshot_id is None
        or any(snapshot["snapshot-id"] == transaction.snapshot_id for snapshot in metadata["snapshots"]),
        any(schema["schema-id"] == transaction.schema_id for schema in metadata["schemas"]),
        any(spec["spec-id"] == transaction.spec_id for spec in metadata["partition-specs"]),
        any(order["order-id"] == transaction.order_id for order in metadata["sort-orders"]),
    )
    if not all(parts):
        message = f"The files of transaction {transaction.pk} of {dataset.path} are gone: its snapshot has expired."
        raise Conflict(message, code="expired", transaction=transaction.pk)


def parse_view(
    dataset: Dataset, *, branch: str | None = None, transaction: str | None = None
) -> tuple[str, Transaction | None]:
    """Return the branch and the transaction that a `?branch=` or `?transaction=` means; master without either."""
    if branch and transaction:
        message = "Give a branch or a transaction, not both."
        raise InvalidInput(message)
    if transaction:
        row = get_transaction(dataset, transaction)
        if row.state != TransactionState.COMMITTED:
            message = f"Transaction {row.pk} is {row.state}: only a committed one can be read."
            raise Conflict(message, code="not_committed", state=row.state)
        return row.branch_name, row
    name = branch or names.MASTER
    if find_branch(dataset, name) is None:
        names.check_branch_name(name)
    resolved = resolve_view(dataset, (name, *get_fallback_chain(path=dataset.path, branch=name)))
    return resolved if resolved is not None else (name, None)
