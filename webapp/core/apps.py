"""What every app stands on."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Errors, checks and the rest that belongs to no domain."""

    name = "webapp.core"
    label = "core"

    def ready(self) -> None:
        """Register the check of the database."""
        from webapp.core.checking import check_database
        from webapp.core.fsck import register_check

        register_check(
            name="database", promise="the database is whole and has all of its constraints", run=check_database
        )
