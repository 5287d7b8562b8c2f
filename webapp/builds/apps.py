"""Builds, above repositories and datasets."""

from django.apps import AppConfig


class BuildsConfig(AppConfig):
    """Connects builds to what the apps below announce."""

    name = "webapp.builds"
    label = "builds"

    def ready(self) -> None:
        """Connect the receivers, answer the ports, and register the sweeps and the checks."""
        from webapp.builds.pages.maker import describe_maker
        from webapp.builds.queries import chains
        from webapp.builds.services import (
            checking,
            deletions,
            health,
            needs,
            publication,
            queue,
            quotas,
            seals,
            sweeping,
        )
        from webapp.core.fsck import register_check
        from webapp.datasets import ports
        from webapp.datasets.services import register_need
        from webapp.datasets.signals import transaction_aborted, transaction_committed
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep
        from webapp.repositories import ports as repository_ports
        from webapp.repositories.signals import branch_deleted, commit_created, publication_finished
        from webapp.runtime.health import register_part

        commit_created.connect(publication.follow_commit, dispatch_uid="builds.follow_commit")
        branch_deleted.connect(deletions.follow_deleted_branch, dispatch_uid="builds.follow_deleted_branch")
        publication_finished.connect(queue.follow_publication, dispatch_uid="builds.follow_publication")
        for closed in (transaction_committed, transaction_aborted):
            closed.connect(queue.follow_closed_transaction, dispatch_uid="builds.follow_closed_transaction")
        ports.list_with_jobspec.answer = chains.list_with_jobspec
        ports.describe_maker.answer = describe_maker
        ports.find_git_chain.answer = chains.find_git_chain
        repository_ports.find_data_use.answer = quotas.find_data_use
        register_need(needs.list_needs)
        register_stamps(*sweeping.STAMPS)
        register_part(health.check_backlog)
        register_sweep(name="builds", every_seconds=2, run=sweeping.sweep_builds)
        register_sweep(name="inputs of JobSpecs", every_seconds=30, run=publication.write_missing_inputs)
        register_sweep(name="build folders", every_seconds=3600, run=sweeping.sweep_folders)
        register_check(
            name="publications",
            promise="each branch has the JobSpecs of its head, of commits that Git has",
            run=checking.check_publications,
        )
        register_check(
            name="builds",
            promise="what runs comes to an end, and holds no transaction after it",
            run=checking.check_builds,
        )
        register_check(
            name="kept files",
            promise="files that a merge can load again have the bytes that were kept",
            run=checking.check_kept_files,
        )
        register_check(
            name="sealed files",
            promise="files of jobs have not been touched since their job ended, or have the same bytes",
            run=seals.check_seals,
        )
