"""The app of Git repositories."""

from django.apps import AppConfig


class RepositoriesConfig(AppConfig):
    """Git repositories with branches, commits and protections."""

    name = "webapp.repositories"
    label = "repositories"

    def ready(self) -> None:
        """Register the sweep that announces what a crash lost."""
        from webapp.core.sweeps import register_sweep
        from webapp.repositories.services import sweep_settled_heads

        register_sweep(name="repository heads", every_seconds=3, run=sweep_settled_heads)
