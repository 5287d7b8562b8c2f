"""Makes sure that the user admin exists and that its password can be read by the owner of the installation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webapp.accounts.services import prepare_admin


class Command(BaseCommand):
    """`manage.py prepare_admin`: safe to repeat."""

    help = "Make the user admin."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Make it, or take over a new TRIBUTARY_ADMIN_PASSWORD."""
        prepare_admin()
