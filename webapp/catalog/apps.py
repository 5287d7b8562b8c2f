"""The app of the catalog."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Namespaces, tables and views, and the files behind them."""

    name = "webapp.catalog"
    label = "catalog"

    def ready(self) -> None:
        """Answer what accounts ask, have the sweeper collect what nothing refers to, and fsck look at every table."""
        from webapp.accounts import ports
        from webapp.catalog import queries
        from webapp.catalog.services.checking import check_tables
        from webapp.catalog.services.collector import Collector
        from webapp.core.fsck import register_check
        from webapp.dispatch.sweeps import register_sweep

        ports.list_dropped_columns.answer = queries.list_dropped_columns
        register_sweep(name="orphans", every_seconds=60, run=Collector().start_turn)
        register_check(
            name="tables",
            promise="tables name only files that are there, of the right size and format, and every manifest can be read",
            run=check_tables,
        )
