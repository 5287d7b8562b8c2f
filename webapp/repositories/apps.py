"""The app of Git repositories."""

from datetime import timedelta

from django.apps import AppConfig


class RepositoriesConfig(AppConfig):
    """Git repositories with branches, commits and protections."""

    name = "webapp.repositories"
    label = "repositories"

    def ready(self) -> None:
        """Register the sweeps, for what a crash lost and what is due again, and tell webhooks of pushes."""
        from webapp.core.failures import register_failure
        from webapp.core.fsck import register_check
        from webapp.core.idempotency import register_undecided
        from webapp.dispatch.stamps import Stamp, register_stamps
        from webapp.dispatch.sweeps import register_sweep
        from webapp.repositories import signals
        from webapp.repositories.errors import explain_git_failure
        from webapp.repositories.models import BranchDeletion, Delivery, PendingMove
        from webapp.repositories.rules.webhooks import MOST_TRIES, pause_after
        from webapp.repositories.services import (
            check_repositories,
            check_repositories_part,
            is_move_undecided,
            sweep_commits,
            sweep_deletions,
            sweep_deliveries,
            sweep_leftovers,
            sweep_locks,
            sweep_moves,
            sweep_orphaned_commits,
            sweep_settled_heads,
        )
        from webapp.repositories.services.webhooks import follow_commit, follow_deleted_branch
        from webapp.runtime.health import register_part

        signals.commit_created.connect(follow_commit, dispatch_uid="repositories.follow_commit")
        signals.branch_deleted.connect(follow_deleted_branch, dispatch_uid="repositories.follow_deleted_branch")
        register_stamps(
            Stamp(BranchDeletion.objects.all, "created_at"),
            Stamp(PendingMove.objects.all, "at"),
            Stamp(lambda: Delivery.objects.exclude(due_at=None), "due_at", pause_after(MOST_TRIES - 1) or timedelta()),
        )
        register_undecided(is_move_undecided)
        register_failure(explain_git_failure)
        register_sweep(name="repository heads", every_seconds=3, run=sweep_settled_heads)
        register_sweep(name="commits", every_seconds=15, run=sweep_commits)
        register_sweep(name="orphaned commits", every_seconds=3600, run=sweep_orphaned_commits)
        register_sweep(name="repository locks", every_seconds=3, run=sweep_locks)
        register_sweep(name="unfinished objects", every_seconds=3600, run=sweep_leftovers)
        register_sweep(name="branch deletions", every_seconds=5, run=sweep_deletions)
        register_sweep(name="moves of refs", every_seconds=15, run=sweep_moves)
        register_sweep(name="webhooks", every_seconds=5, run=sweep_deliveries)
        register_part(check_repositories_part)
        register_check(
            name="repositories",
            promise="Git finds every object whole, every branch where it was announced, and every commit as its row says",
            run=check_repositories,
        )
