"""Comparisons of any two ends of a dataset, above builds and below pull requests."""

from django.apps import AppConfig


class ComparisonsConfig(AppConfig):
    """Stored answers about history: row diffs, changelogs, who changed a row. Knows datasets, not pull requests."""

    name = "webapp.comparisons"
    label = "comparisons"

    def ready(self) -> None:
        """Answer the ports, and register the sweeps and the check."""
        from webapp.comparisons.pages import blame
        from webapp.comparisons.queries import ends
        from webapp.comparisons.services import checking, comparisons
        from webapp.core.fsck import register_check
        from webapp.datasets import ports
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep

        ports.list_changes.answer = ends.list_changes
        ports.list_keys.answer = ends.list_keys
        ports.list_row_urls.answer = blame.list_row_urls
        register_stamps(*comparisons.STAMPS)
        register_sweep(name="comparisons", every_seconds=3, run=comparisons.sweep_comparisons)
        register_sweep(name="old comparisons", every_seconds=3600, run=comparisons.prune_comparisons)
        register_check(
            name="diffs", promise="stored diffs can be read to their last row", run=checking.check_comparisons
        )
