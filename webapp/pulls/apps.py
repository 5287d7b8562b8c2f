"""Pull requests, above everything else."""

from django.apps import AppConfig


class PullsConfig(AppConfig):
    """Connects pull requests to what the apps below announce."""

    name = "webapp.pulls"
    label = "pulls"

    def ready(self) -> None:
        """Connect the receivers, the sweeps and the checks."""
        from webapp.builds.signals import build_finished, build_retried
        from webapp.core.fsck import register_check
        from webapp.core.stamps import register_stamps
        from webapp.core.sweeps import register_sweep
        from webapp.datasets.signals import changes_requested, row_urls_requested, transaction_committed
        from webapp.pulls.services import checking, comparisons, merging, pulls, receivers, sides
        from webapp.repositories import signals

        signals.commit_created.connect(receivers.follow_commit, dispatch_uid="pulls.follow_commit")
        signals.branch_deleted.connect(receivers.follow_deleted_branch, dispatch_uid="pulls.follow_deleted_branch")
        signals.publication_finished.connect(receivers.follow_publication, dispatch_uid="pulls.follow_publication")
        transaction_committed.connect(receivers.follow_transaction, dispatch_uid="pulls.follow_transaction")
        build_finished.connect(receivers.follow_build, dispatch_uid="pulls.follow_build")
        build_retried.connect(receivers.follow_retry, dispatch_uid="pulls.follow_retry")
        changes_requested.connect(receivers.answer_changes, dispatch_uid="pulls.answer_changes")
        row_urls_requested.connect(receivers.answer_row_urls, dispatch_uid="pulls.answer_row_urls")
        register_stamps(*comparisons.STAMPS, merging.STAMP)
        register_sweep(name="comparisons", every_seconds=3, run=comparisons.sweep_comparisons)
        register_sweep(name="merges", every_seconds=5, run=merging.sweep_merges)
        register_sweep(name="names of comparisons", every_seconds=30, run=pulls.sweep_names)
        register_sweep(name="base sides", every_seconds=60, run=sides.sweep_reviews)
        register_sweep(name="old comparisons", every_seconds=3600, run=comparisons.prune_comparisons)
        register_check(
            name="merges", promise="what landed is the merge of what was approved", run=checking.check_merges
        )
        register_check(name="diffs", promise="stored diffs are there", run=checking.check_comparisons)
