"""The app of notifications."""

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    """Connects notifications to what the apps below announce."""

    name = "webapp.notices"
    label = "notices"

    def ready(self) -> None:
        """Connect the receivers and the sweeps."""
        from datetime import timedelta

        from webapp.builds.signals import build_finished
        from webapp.datasets.signals import transaction_committed
        from webapp.dispatch.leases import list_stamps
        from webapp.dispatch.stamps import Stamp, register_stamps
        from webapp.dispatch.sweeps import register_sweep
        from webapp.notices import services
        from webapp.notices.models import Mail, PullStanding
        from webapp.notices.rules.mails import MOST_TRIES, pause_after
        from webapp.notices.services import following
        from webapp.pulls import signals
        from webapp.repositories.signals import status_reported

        signals.comment_written.connect(following.follow_comment, dispatch_uid="notices.follow_comment")
        signals.review_given.connect(following.follow_review, dispatch_uid="notices.follow_review")
        signals.reviewers_asked.connect(following.follow_request, dispatch_uid="notices.follow_request")
        signals.event_recorded.connect(following.follow_event, dispatch_uid="notices.follow_event")
        signals.dataset_joined.connect(following.follow_dataset, dispatch_uid="notices.follow_dataset")
        signals.standing_moved.connect(following.follow_standing, dispatch_uid="notices.follow_standing")
        status_reported.connect(following.follow_status, dispatch_uid="notices.follow_status")
        build_finished.connect(following.follow_build, dispatch_uid="notices.follow_build")
        transaction_committed.connect(following.follow_transaction, dispatch_uid="notices.follow_transaction")
        register_stamps(
            *list_stamps(Mail.objects.all),
            Stamp(Mail.objects.waiting, "due_at", pause_after(MOST_TRIES - 1) or timedelta()),
            Stamp(lambda: PullStanding.objects.exclude(asked_at=None), "asked_at"),
        )
        register_sweep(name="mails", every_seconds=5, run=services.sweep_mails)
        register_sweep(name="standings", every_seconds=10, run=services.sweep_standings)
        register_sweep(name="old notifications", every_seconds=3600, run=services.remove_old)
