"""`manage.py archive_spark`: makes later starts of the embedded Spark server twice as fast."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webapp.core.errors import Unavailable
from webapp.runtime import java
from webapp.runtime.folders import remove_folder
from webapp.runtime.object_store import is_object_location
from webapp.runtime.probes import find_free_port
from webapp.runtime.spark_classes import MOST_SECONDS, archive_path, make_archive
from webapp.runtime.spark_server import SparkServer

PATIENCE = 19
TRAINED_WITH = "-XX:TieredStopAtLevel=1"
"""Compiles little, since it ends before more would pay; an archive holds classes, which no compiler changes."""
PREFIX = "train-"
"""Short, since a socket lies below."""


class Command(BaseCommand):
    """Does nothing where the archive is there."""

    help = "Keep the classes that Spark loads, so that it starts in half the time."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Train a server beside all else, at the lowest priority."""
        runtime, _ = java.find_java()
        if runtime is None:
            raise CommandError(java.ADVICE)
        with_s3 = is_object_location(settings.TRIBUTARY_WAREHOUSE)
        target = archive_path(runtime, with_s3=with_s3)
        if target.exists():
            return
        os.nice(PATIENCE)
        _remove_leftovers(Path(settings.TRIBUTARY_HOME))
        with TemporaryDirectory(prefix=PREFIX, dir=settings.TRIBUTARY_HOME) as folder:
            server = SparkServer(
                java=runtime.program,
                folder=Path(folder) / "spark",
                port=find_free_port(),
                token=secrets.token_urlsafe(24),
                secrets=Path(folder),
                with_s3=with_s3,
                java_options=TRAINED_WITH,
            )
            try:
                make_archive(target, server)
            except Unavailable as error:
                # not a failure: the supervisor would repeat it for ever
                self.stderr.write(str(error))
            else:
                self.stdout.write("Spark will start in about half the time.")


def _remove_leftovers(home: Path) -> None:
    """Remove the folders of trainings that were killed: none takes so long."""
    before = time.time() - 2 * MOST_SECONDS
    for folder in home.glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):
            if folder.stat().st_mtime < before:
                remove_folder(folder)
