"""SQL over branches of data, above comparisons and below pull requests."""

from django.apps import AppConfig


class SqlConfig(AppConfig):
    """Queries that people write, run in the sandbox."""

    name = "webapp.sql"
    label = "sql"

    def ready(self) -> None:
        """Register the sweeps."""
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep
        from webapp.sql import services

        register_stamps(*services.STAMPS)
        register_sweep(name="queries", every_seconds=3, run=services.sweep_queries)
        register_sweep(name="old queries", every_seconds=3600, run=services.prune_queries)
