"""`manage.py collect_orphans`: removes files of tables that nothing refers to, as the sweeper does, now."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webapp.catalog.services.collector import collect_all
from webapp.core import clock
from webapp.runtime import fork_server


class Command(BaseCommand):
    """Goes through all tables once."""

    help = "Remove files of tables that nothing refers to any more."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--hours", type=float, help="only files older than that; TRIBUTARY_ORPHAN_HOURS by default")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Collect and say what was done."""
        hours = settings.TRIBUTARY_ORPHAN_HOURS if options["hours"] is None else options["hours"]
        if hours <= 0:
            msg = "Say how old a file must be, such as --hours 72: younger ones may belong to a writer at work."
            raise CommandError(msg)
        older_than = clock.now() - timedelta(hours=hours)
        verb = "would remove" if options["dry_run"] else "removed"
        with fork_server.at_hand():
            for name, orphans in collect_all(older_than=older_than, remove=not options["dry_run"]):
                if orphans.problem:
                    self.stdout.write(f"{name}: {orphans.problem}")
                elif orphans.locations:
                    self.stdout.write(f"{name}: {verb} {len(orphans.locations)} files, {orphans.size:,} bytes")
                for location in orphans.locations:
                    self.stdout.write(f"  {location}")
