"""`manage.py accept_repository`: go on with the copy of a repository that lies on this machine."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.core.errors import AppError
from webapp.repositories.models import Repository
from webapp.repositories.services import accept_copy


class Command(BaseCommand):
    """Makes a foreign or older copy the repository; nothing of it is changed, and no data is deleted."""

    help = "Go on with a repository's copy on this machine although it is older than the database, or another's."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("name", help="the repository")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Accept the copy and say what it lacks."""
        repository = Repository.objects.filter(name=options["name"]).first()
        if repository is None:
            msg = f"There is no repository {options['name']}."
            raise CommandError(msg)
        try:
            lost = accept_copy(repository=repository)
        except AppError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{repository.name}: {repository.path} is its copy from now on.")
        for branch in lost:
            self.stdout.write(f"  {branch} is not in it: the branch is gone, its data stays.")
