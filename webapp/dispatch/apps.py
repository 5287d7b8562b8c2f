"""Leased work, once: claim, heartbeat, fence, retry and sweep, and processes in the sandbox."""

from django.apps import AppConfig


class DispatchConfig(AppConfig):
    """What workers, sandboxed processes and the sweep share; knows no domain."""

    name = "webapp.dispatch"
    label = "dispatch"

    def ready(self) -> None:
        """Register the sweep of stamps."""
        from webapp.core.models import Heartbeat
        from webapp.dispatch.stamps import Stamp, register_stamps, set_back_stamps
        from webapp.dispatch.sweeps import register_sweep

        register_sweep(name="stamps", every_seconds=5, run=set_back_stamps)
        register_stamps(Stamp(Heartbeat.objects.all, "at"))
