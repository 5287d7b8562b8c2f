"""The app of users, tokens, roles and the audit log."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, tokens, roles and the audit log."""

    name = "webapp.accounts"
    label = "accounts"

    def ready(self) -> None:
        """Answer what core asks. Register the sealing of the audit log, what checks it, and what removes sessions that have ended."""
        from webapp.accounts.permissions import digest_rights
        from webapp.accounts.services.audit import seal_audit
        from webapp.accounts.services.checking import check_audit_chain
        from webapp.accounts.services.retention import remove_old_entries
        from webapp.accounts.services.sessions import STAMPS, remove_ended_sessions
        from webapp.core import idempotency
        from webapp.core.fsck import register_check
        from webapp.dispatch.stamps import register_stamps
        from webapp.dispatch.sweeps import register_sweep

        register_stamps(*STAMPS)
        idempotency.digest_rights.answer = digest_rights
        promise = "no audit entry is changed or gone, and the chain ends where it was sealed"
        register_check(name="audit", promise=promise, run=check_audit_chain)
        register_sweep(name="audit", every_seconds=2, run=seal_audit)
        register_sweep(name="audit retention", every_seconds=600, run=remove_old_entries)
        register_sweep(name="sessions", every_seconds=3600, run=remove_ended_sessions)
