"""Previews of uncommitted code, above SQL, whose way of pinning and drawing rows they share."""

from django.apps import AppConfig


class PreviewsConfig(AppConfig):
    """Transforms run over samples, in the sandbox."""

    name = "webapp.previews"
    label = "previews"

    def ready(self) -> None:
        """Register the sweeps."""
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep
        from webapp.previews import services

        register_stamps(*services.STAMPS)
        register_sweep(name="previews", every_seconds=3, run=services.sweep_previews)
        register_sweep(name="old previews", every_seconds=3600, run=services.prune_previews)
