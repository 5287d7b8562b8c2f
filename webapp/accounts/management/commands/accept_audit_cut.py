"""`manage.py accept_audit_cut`: accept that the audit log lacks entries, as after a restore of the database."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.accounts.queries import get_user, principal_for_user
from webapp.accounts.services.audit import accept_cut
from webapp.core.errors import AppError


class Command(BaseCommand):
    """Writes an entry into the audit log, after which `fsck` no longer reports the cut."""

    help = "Accept that the audit log lacks entries that audit-head has seen, as after a restore of the database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("admin", help="user name of the administrator who accepts it")
        parser.add_argument("--reason", required=True, help="why entries are missing; kept in the audit log")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Accept the cut, or say why there is nothing to accept."""
        try:
            head = accept_cut(by=principal_for_user(get_user(options["admin"])), reason=options["reason"])
        except AppError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(
            f"The audit log may lack entries up to {head.position}. An entry records that you accept this."
        )
