"""Datasets, and which of them somebody sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Q, QuerySet

from webapp.accounts import permissions
from webapp.core.errors import NotFound
from webapp.core.filters import ListFilter, offer
from webapp.core.names import MASTER
from webapp.core.numbers import read_count
from webapp.datasets import ports
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from webapp.core.principals import Principal


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
    data: str = offer(in_api=False)
    """any: also those that have data on other branches than master alone."""


ALL = DatasetFilter()


def list_datasets(principal: Principal, filters: DatasetFilter = ALL) -> QuerySet[Dataset]:
    """Return the datasets that the reader sees, by path."""
    datasets = Dataset.objects.filter(path_is_visible(principal), **filters.lookups)
    if filters.folder:
        datasets = datasets.filter(path__startswith=f"/{filters.folder.strip('/')}/")
    for word in filters.q.split():
        datasets = datasets.filter(Q(path__icontains=word) | Q(description__icontains=word))
    return datasets.order_by("path")


def is_listed() -> Q:
    """Return the condition that lists show a dataset: master has data of it, or nothing has written it yet.

    What only a branch has, or what a first build failed to make, is not for everybody.
    """
    on_master = DatasetBranch.objects.filter(dataset=OuterRef("pk"), name=MASTER, transaction__isnull=False)
    shown = on_master.exclude(transaction__state=TransactionState.OPEN, transaction__parent=None)
    return Exists(shown) | ~Exists(Transaction.objects.filter(dataset=OuterRef("pk")))


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
