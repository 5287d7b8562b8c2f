"""Pull requests, above everything else."""

from django.apps import AppConfig


class PullsConfig(AppConfig):
    """Connects pull requests to what the apps below announce."""

    name = "webapp.pulls"
    label = "pulls"

    def ready(self) -> None:
        """Connect the receivers, the sweeps and the checks."""
        from webapp.builds import ports as build_ports
        from webapp.builds.services import register_keeper as keep_uploads
        from webapp.builds.signals import build_finished, build_retried
        from webapp.comparisons.services.comparisons import register_keeper
        from webapp.core.fsck import register_check
        from webapp.datasets import ports
        from webapp.datasets.services import register_need
        from webapp.datasets.signals import transaction_committed
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep
        from webapp.pulls.queries.lists import list_concerning, list_open_of_branches
        from webapp.pulls.queries.specs import list_rebuilt_by
        from webapp.pulls.services import (
            attaching,
            checking,
            checks,
            loads,
            merging,
            needs,
            pulls,
            queueing,
            receivers,
            sides,
        )
        from webapp.pulls.signals import event_recorded, standing_moved
        from webapp.repositories import signals
        from webapp.sql.services import register_keeper as keep_queries
        from webapp.sql.signals import query_finished

        signals.commit_created.connect(receivers.follow_commit, dispatch_uid="pulls.follow_commit")
        signals.branch_deleted.connect(receivers.follow_deleted_branch, dispatch_uid="pulls.follow_deleted_branch")
        signals.publication_finished.connect(receivers.follow_publication, dispatch_uid="pulls.follow_publication")
        transaction_committed.connect(receivers.follow_transaction, dispatch_uid="pulls.follow_transaction")
        build_finished.connect(receivers.follow_build, dispatch_uid="pulls.follow_build")
        query_finished.connect(receivers.follow_query, dispatch_uid="pulls.follow_query")
        build_retried.connect(receivers.follow_retry, dispatch_uid="pulls.follow_retry")
        event_recorded.connect(receivers.follow_event, dispatch_uid="pulls.follow_event")
        standing_moved.connect(receivers.follow_standing, dispatch_uid="pulls.follow_standing")
        ports.list_concerning_pulls.answer = list_concerning
        build_ports.list_rebuilt_by.answer = list_rebuilt_by
        ports.list_open_pulls.answer = list_open_of_branches
        register_need(needs.list_needs)
        register_stamps(merging.STAMP, queueing.STAMP)
        register_keeper(attaching.list_shown)
        register_keeper(attaching.list_named)
        keep_uploads(loads.list_needed_uploads)
        keep_queries(checks.list_shown_queries)
        register_sweep(name="merges", every_seconds=5, run=merging.sweep_merges)
        register_sweep(name="merge queues", every_seconds=10, run=queueing.sweep_queues)
        register_sweep(name="branches of merge queues", every_seconds=60, run=queueing.sweep_branches)
        register_sweep(name="names of comparisons", every_seconds=30, run=pulls.sweep_names)
        register_sweep(name="checks of pull requests", every_seconds=30, run=checks.sweep_checks)
        register_sweep(name="base sides", every_seconds=60, run=sides.sweep_reviews)
        register_check(
            name="merges", promise="what landed is the merge of what was approved", run=checking.check_merges
        )
