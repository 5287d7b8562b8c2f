"""`manage.py run`: the whole installation under one supervisor."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import socket
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.management import call_command, get_commands
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from webapp.core.errors import Conflict
from webapp.runtime import java, spark_server
from webapp.runtime.handed_over import make_folder, write_secrets
from webapp.runtime.home_lock import hold_home
from webapp.runtime.hosts import find_hosts
from webapp.runtime.object_store import is_object_location
from webapp.runtime.privileges import FILES_OF_OTHERS, NOTHING
from webapp.runtime.probes import (
    HTTP2_QUESTION,
    STATUS_QUESTION,
    Probe,
    find_free_port,
    is_http2,
    is_line,
    read_status,
)
from webapp.runtime.pulses import Pulse
from webapp.runtime.spark_classes import archive_path
from webapp.runtime.spark_server import SparkServer
from webapp.runtime.supervisor import Part, Supervisor, python
from webapp.runtime.workers import THREADS

BACKLOG = 1024
"""Connections that wait for the web part."""
MOST_HOME_BYTES = 107 - len("/run/fork.sock")
"""Of its path: the kernel takes so many for that of a socket."""
WEB_PAUSE = 2.0
"""Longest pause between failed starts of web in seconds."""
CELERY_OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-P", "threads")
PASSED_ON = ("PATH", "LANG", "LC_ALL", "HOME", "TZ", "JAVA_HOME", "SSL_CERT_FILE", "VIRTUAL_ENV")


class Command(BaseCommand):
    """Starts web, workers, sweeper, fork server and Spark; Ctrl-C stops them."""

    help = "Run Tributary."
    requires_system_checks: list[str] = []  # they load every page; a later start is to take seconds

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--role", choices=("all", "worker"), default="all", help="worker: everything but web, for a host of its own"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Prepare the home, then supervise until told to stop."""
        self.home = Path(settings.TRIBUTARY_HOME)
        _check_sockets_fit(self.home)
        self.run_folder = self.home / "run"
        self.logs = self.home / "logs"
        for folder in (self.run_folder, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            self.locks = hold_home(self.run_folder, role=options["role"])
        except Conflict as error:
            raise CommandError(error.detail) from None
        self.secrets = make_folder(self.home)
        try:
            self._prepare_and_supervise(options["role"])
        finally:
            shutil.rmtree(self.secrets, ignore_errors=True)

    def _prepare_and_supervise(self, role: str) -> None:
        if role == "worker":
            parts = [part for part in self._make_parts("", listener=None) if part.name not in ("web", "demo")]
            self._supervise(parts)
            return
        listener = self._open_listener()
        if _has_pending_migrations():
            call_command("migrate", interactive=False, verbosity=0)
        password_path = self.home / "admin-password"
        is_first_start = not password_path.exists()
        call_command("prepare_admin")
        # Shown once: terminals are recorded, and the file is there for its owner.
        show = is_first_start and password_path.exists() and not settings.TRIBUTARY_ADMIN_PASSWORD
        password = password_path.read_text().strip() if show else ""
        self._supervise(self._make_parts(password, listener=listener))

    def _supervise(self, parts: list[Part]) -> None:
        Supervisor(parts, status=self.run_folder / "parts.json", say=self._say).run()

    def _say(self, line: str) -> None:
        self.stdout.write(f"{time.strftime('%H:%M:%S')} {line}")
        self.stdout.flush()

    @staticmethod
    def _open_listener() -> socket.socket:
        """Open the web part's socket; it stays open while web starts anew, and nobody's connection is refused."""
        try:
            return socket.create_server(("127.0.0.1", settings.TRIBUTARY_PORT), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            msg = f"Port {settings.TRIBUTARY_PORT} is in use. Stop what uses it, or set TRIBUTARY_PORT to another."
            raise CommandError(msg) from None

    def _make_parts(self, password: str, *, listener: socket.socket | None) -> list[Part]:
        environment = dict(os.environ)
        environment["DJANGO_SETTINGS_MODULE"] = "webapp.config.settings"
        environment["PYTHONUNBUFFERED"] = "1"
        # The C library keeps eight heaps a processor, one a thread, and each stays as large as it ever was.
        environment.setdefault("MALLOC_ARENA_MAX", "2")
        # Compiling every module again would double the time of a later start.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        parts: list[Part] = []
        clean = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        spark = self._make_spark(environment, clean)
        files = {} if listener is None else {"--socket-fd": listener.fileno()}
        socket_path = self.run_folder / "fork.sock"
        fork_server = Probe(str(socket_path), STATUS_QUESTION, is_answer=is_line)
        parts.append(
            Part(
                name="web",
                command=python("-m", "webapp.config.web", *(f"{option}={number}" for option, number in files.items())),
                descriptors=tuple(files.values()),
                environment=environment,
                capabilities=NOTHING,
                log=self.logs / "web.log",
                # Not by its port, where silent connections may stand before the question.
                probe=Pulse(),
                on_ready=lambda: self._welcome(password),
                most_pause=WEB_PAUSE,
            )
        )
        parts.append(
            Part(
                name="fork-server",
                command=python("-m", "jobs.entrypoints.forkserver", "--socket", str(socket_path)),
                environment=clean,
                log=self.logs / "fork-server.log",
                probe=fork_server,
                is_ready=lambda: bool((read_status(fork_server.answer) or {}).get("ready")),
            )
        )
        for queue, threads in THREADS.items():
            parts.append(
                Part(
                    name=f"worker-{queue}",
                    command=[
                        *python("-m", "celery", "-A", "webapp.config", "worker", "-Q", queue, "-c", str(threads)),
                        *("-n", f"{queue}@%h", "-l", "warning", *CELERY_OPTIONS),
                    ],
                    environment=environment,
                    capabilities=FILES_OF_OTHERS,
                    log=self.logs / f"worker-{queue}.log",
                    probe=Pulse(),
                    waits_for=("web",),
                )
            )
        commands = get_commands()
        if "sweep" in commands:
            parts.append(
                Part(
                    name="sweep",
                    command=python("manage.py", "sweep"),
                    environment=environment,
                    capabilities=FILES_OF_OTHERS,
                    log=self.logs / "sweep.log",
                    probe=Pulse(),
                    waits_for=("web",),
                )
            )
        if settings.TRIBUTARY_DEMO and "load_demo" in commands:
            parts.append(
                Part(
                    name="demo",
                    command=python("manage.py", "load_demo"),
                    environment=environment,
                    capabilities=NOTHING,
                    log=self.logs / "demo.log",
                    waits_for=("web", "fork-server"),
                    once=True,
                )
            )
        return [*parts, *spark]

    def _make_spark(self, environment: dict[str, str], clean: dict[str, str]) -> list[Part]:
        """Make the embedded Spark server and what warms it up; its address goes into everybody's environment."""
        if settings.SPARK_REMOTE:
            return []
        runtime, seen = java.find_java()
        if runtime is None or not spark_server.JAR_PATH.exists():
            self._say(java.ADVICE + (f" Found: {', '.join(seen)}." if seen else ""))
            return []
        with_s3 = is_object_location(settings.TRIBUTARY_WAREHOUSE)
        if with_s3 and not spark_server.AWS_JAR_PATH.exists():
            call_command("fetch_jar", stdout=self.stdout)
        archive = archive_path(runtime, with_s3=with_s3)
        places = (settings.TRIBUTARY_WAREHOUSE, *settings.TRIBUTARY_LOCATIONS)
        server = SparkServer(
            java=runtime.program,
            folder=self.home / "spark",
            port=find_free_port(),
            token=secrets.token_urlsafe(24),
            secrets=self.secrets,
            tables=() if with_s3 else tuple(Path(unquote(urlsplit(place).path)) for place in places),
            with_s3=with_s3,
            java_options=settings.TRIBUTARY_SPARK_JAVA_OPTIONS,
            hosts=find_hosts([settings.TRIBUTARY_CATALOG_URI]),
            archive=archive if archive.exists() else None,
        )
        server.prepare()
        variables = server.client_environment
        environment |= write_secrets(self.secrets, {"SPARK_REMOTE": variables.pop("SPARK_REMOTE")})
        environment |= variables
        ready_mark = self.run_folder / "spark.ready"
        parts = [
            Part(
                name="spark",
                command=server.command,
                environment=clean | server.environment,
                log=self.logs / "spark.log",
                probe=Probe(("127.0.0.1", server.port), HTTP2_QUESTION, is_answer=is_http2),
                clean=(ready_mark,),
                # Beside the web part it would double the time to the first page.
                waits_for=("web",),
            ),
            Part(
                name="spark-warm-up",
                command=python("-m", "jobs.entrypoints.warm_up", str(ready_mark)),
                environment=clean | {"SPARK_REMOTE_FILE": environment["SPARK_REMOTE_FILE"]},
                log=self.logs / "spark.log",
                # Imports Spark's client while the server boots.
                waits_for=("web",),
                once=True,
                repeats_with=("spark",),
            ),
        ]
        if server.archive is None and os.access(archive.parent, os.W_OK):
            parts.append(
                Part(
                    name="spark-archive",
                    command=python("manage.py", "archive_spark"),
                    environment=environment,
                    log=self.logs / "spark-archive.log",
                    waits_for=("demo", "spark-warm-up"),
                    once=True,
                )
            )
        return parts

    def _welcome(self, password: str) -> None:
        self._say(f"Tributary is at {settings.TRIBUTARY_URL}")
        path = self.home / "admin-password"
        if password:
            self._say(f"Sign in as admin with {password} (kept in {path}).")
        else:
            self._say(f"Sign in as admin; the password is in {path}.")
        if settings.TRIBUTARY_DEMO:
            self._say(
                f"The demo's people ines, mira and olek have passwords of their own, in {self.home / 'demo-passwords'}."
            )
        sys.stdout.flush()


def _check_sockets_fit(home: Path) -> None:
    """Refuse a home below which no socket can lie."""
    size = len(os.fsencode(home))
    if size > MOST_HOME_BYTES:
        message = (
            f"TRIBUTARY_HOME is {home}, a path of {size} bytes. Sockets lie below it, and the system takes at most "
            f"{MOST_HOME_BYTES}: choose a shorter one."
        )
        raise CommandError(message)


def _has_pending_migrations() -> bool:
    """Return whether `migrate` would do anything; asking is much faster than letting it find out."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
