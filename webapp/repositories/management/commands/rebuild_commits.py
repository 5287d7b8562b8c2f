"""`manage.py rebuild_commits`: write the rows of commits anew, from Git."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.core.errors import AppError
from webapp.core.words import counted
from webapp.repositories.models import Repository
from webapp.repositories.services import rebuild_commits


class Command(BaseCommand):
    """Replaces what the database says of commits by what Git says; nothing else is changed."""

    help = "Write the rows of all commits anew, from Git: of the repositories that are named, or of all."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("names", nargs="*", help="repositories; all of them by default")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Rebuild one repository after the other and say how many commits each has."""
        names = options["names"]
        repositories = Repository.objects.filter(name__in=names) if names else Repository.objects.all()
        if unknown := sorted(set(names) - {repository.name for repository in repositories}):
            msg = f"There is no repository {unknown[0]}."
            raise CommandError(msg)
        refused = [repository.name for repository in repositories if not self._rebuild(repository)]
        if refused:
            msg = f"Not rebuilt: {', '.join(refused)}."
            raise CommandError(msg)

    def _rebuild(self, repository: Repository) -> bool:
        try:
            count = rebuild_commits(repository=repository)
        except AppError as error:
            self.stderr.write(f"{repository.name}: {error.detail}")
            return False
        self.stdout.write(f"{repository.name}: {counted(count, 'commit')}")
        return True
