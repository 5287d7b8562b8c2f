"""Branches of a dataset: what they point to, what they come from, and those that were deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import QuerySet

from webapp.core import names
from webapp.core.errors import NotFound, PermissionDenied
from webapp.core.prepared import Prepared
from webapp.datasets import ports
from webapp.datasets.models import KEPT_PREFIX, Dataset, DatasetBranch, DeletedBranch, Transaction
from webapp.datasets.queries.datasets import find_dataset, list_datasets_in
from webapp.datasets.rules import ancestry
from webapp.datasets.rules import transactions as rules
from webapp.datasets.rules.transactions import TransactionState

INTERNAL_PREFIX = "_"
_BRANCHES = Prepared(
    lambda dataset, name: DatasetBranch.objects.filter(dataset=dataset, name=name).select_related(
        "transaction__parent", "parent"
    ),
    int,
    str,
)


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


def committed_of(branch: DatasetBranch) -> Transaction | None:
    """Return what readers of the branch see: its latest transaction, or the one an open one stands on."""
    latest = branch.transaction
    if latest is not None and latest.state == TransactionState.OPEN:
        return latest.parent
    return latest


def standing_of(branch: DatasetBranch) -> rules.Standing:
    """Return what the branch points to, for the rules."""
    latest = branch.transaction
    if latest is None:
        return rules.EMPTY
    return rules.Standing(transaction=latest.pk, state=latest.state)


def find_written_branch(dataset: Dataset) -> str:
    """Return the name of the branch that was committed to last, or an empty one where nobody has written."""
    branches = DatasetBranch.objects.filter(dataset=dataset, transaction__state=TransactionState.COMMITTED)
    return branches.order_by("-transaction__closed_at", "name").values_list("name", flat=True).first() or ""


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


def check_not_internal(branch: str) -> None:
    """Refuse a client a branch that only builds fill, such as the one of a review."""
    if branch.startswith(INTERNAL_PREFIX):
        message = f"Branch {branch} is internal: only builds read and write it."
        raise PermissionDenied(message, code="internal_branch")


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
