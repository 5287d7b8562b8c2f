"""What every app stands on."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Health, sweeps, checks and the rest that belongs to no domain."""

    name = "webapp.core"
    label = "core"

    def ready(self) -> None:
        """Register the check of the database, and the sweep of stamps."""
        from webapp.core.checking import check_database
        from webapp.core.fsck import register_check
        from webapp.core.models import Heartbeat
        from webapp.core.stamps import Stamp, register_stamps, set_back_stamps
        from webapp.core.sweeps import register_sweep

        register_sweep(name="stamps", every_seconds=5, run=set_back_stamps)
        register_stamps(Stamp(Heartbeat.objects.all, "at"))

        register_check(
            name="database", promise="the database is whole and has all of its constraints", run=check_database
        )
