"""The app of datasets; it hears from the catalog what clients did to tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:
    from webapp.catalog.rules.iceberg import Metadata
    from webapp.catalog.rules.pointers import BranchPlace, Pointer
    from webapp.core.principals import Principal


class DatasetsConfig(AppConfig):
    """Datasets, their branches and their transactions."""

    name = "webapp.datasets"
    label = "datasets"

    def ready(self) -> None:
        """Answer what the catalog asks, connect to what it tells, and have fsck look at datasets."""
        from webapp.catalog import ports
        from webapp.catalog import signals as catalog
        from webapp.core.fsck import register_check
        from webapp.datasets import queries, services
        from webapp.datasets.services import check_datasets, sweep_deleted_branches, sweep_leftovers
        from webapp.dispatch.sweeps import register_sweep

        ports.find_chain.answer = queries.get_table_chain
        ports.lock_tables.answer = services.lock_tables
        ports.check_commit.answer = services.check_commit
        ports.check_removal.answer = services.check_removal
        catalog.table_created.connect(register_table)
        catalog.table_committed.connect(record_commit)
        catalog.table_branch_removed.connect(forget_branch)
        catalog.table_dropped.connect(forget_table)
        catalog.table_renamed.connect(rename_table)
        catalog.table_repairing.connect(abort_open)
        register_sweep(name="deleted branches", every_seconds=10, run=sweep_deleted_branches)
        register_sweep(name="aborted transactions", every_seconds=30, run=sweep_leftovers)
        register_check(
            name="datasets",
            promise="branches show what their transactions ended with, one line each, one open transaction at most",
            run=check_datasets,
        )


def register_table(*, table: str, principal: Principal | None = None, **_kwargs: Any) -> None:
    """Make the dataset of a new table, with its root branch."""
    from webapp.datasets import services

    services.register_dataset(table=table, by=principal)


def record_commit(
    *,
    table: str,
    branch: str,
    before: Pointer | None,
    after: Pointer,
    metadata: Metadata,
    shared: tuple[str, ...],
    principal: Principal | None = None,
    **_kwargs: Any,
) -> None:
    """Record a commit as a transaction; a staging branch is part of one that is open, and what keeps deleted branches is none."""
    from webapp.datasets import queries, services

    if not queries.is_staging(branch) and not queries.is_kept(branch):
        services.record_commit(
            table=table, branch=branch, before=before, after=after, metadata=metadata, shared=shared, by=principal
        )


def forget_branch(
    *, table: str, branch: str, place: BranchPlace, principal: Principal | None = None, **_kwargs: Any
) -> None:
    """Drop the pointer of a branch that a client removed from the table."""
    from webapp.datasets import services

    services.forget_branch(table=table, branch=branch, place=place, by=principal)


def abort_open(*, table: str, principal: Principal | None = None, **_kwargs: Any) -> None:
    """Abort what is open on a table whose damaged metadata is being replaced."""
    from webapp.datasets import services

    reason = "The table's metadata was damaged and has been replaced."
    services.abort_open_transactions(table=table, reason=reason, by=principal)


def forget_table(*, table: str, principal: Principal | None = None, **_kwargs: Any) -> None:
    """Drop the dataset of a dropped table."""
    from webapp.datasets import services

    services.forget_dataset(table=table, by=principal)


def rename_table(*, table: str, new_table: str, **_kwargs: Any) -> None:
    """Follow a renamed table."""
    from webapp.datasets import services

    services.rename_dataset(table=table, to=new_table)
