"""Builds, above repositories and datasets."""

from django.apps import AppConfig


class BuildsConfig(AppConfig):
    """Connects builds to what the apps below announce."""

    name = "webapp.builds"
    label = "builds"

    def ready(self) -> None:
        """Connect the receivers and the sweep."""
        from webapp.builds.services import receivers, sweeping
        from webapp.core.sweeps import register_sweep
        from webapp.datasets.signals import git_chain_requested
        from webapp.repositories.signals import branch_deleted, commit_created

        commit_created.connect(receivers.publish_commit, dispatch_uid="builds.publish_commit")
        branch_deleted.connect(receivers.delete_data, dispatch_uid="builds.delete_data")
        git_chain_requested.connect(receivers.answer_git_chain, dispatch_uid="builds.answer_git_chain")
        register_sweep(name="builds", every_seconds=2, run=sweeping.sweep_builds)
        register_sweep(name="build folders", every_seconds=3600, run=sweeping.sweep_folders)
