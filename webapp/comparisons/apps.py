"""Comparisons of any two ends of a dataset, above builds and below pull requests."""

from django.apps import AppConfig


class ComparisonsConfig(AppConfig):
    """Stored answers about history: row diffs, changelogs, who changed a row. Knows datasets, not pull requests."""

    name = "webapp.comparisons"
    label = "comparisons"

    def ready(self) -> None:
        """Connect the receivers, the sweeps and the check."""
        from webapp.comparisons.services import checking, comparisons, receivers
        from webapp.core.fsck import register_check
        from webapp.datasets.signals import changes_requested, row_urls_requested
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep

        changes_requested.connect(receivers.answer_changes, dispatch_uid="comparisons.answer_changes")
        row_urls_requested.connect(receivers.answer_row_urls, dispatch_uid="comparisons.answer_row_urls")
        register_stamps(*comparisons.STAMPS)
        register_sweep(name="comparisons", every_seconds=3, run=comparisons.sweep_comparisons)
        register_sweep(name="old comparisons", every_seconds=3600, run=comparisons.prune_comparisons)
        register_check(name="diffs", promise="stored diffs are there", run=checking.check_comparisons)
