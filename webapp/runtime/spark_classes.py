"""An archive of Spark's classes, loaded and verified once, so that a later server starts in half the time.

The Java machine writes one when a server ends that was asked for one (`-XX:ArchiveClassesAtExit`). That takes a quarter of a
minute, too long for a Ctrl-C, so a second server is trained for it when nobody waits. An archive fits one Java and
one set of jars: its name says which, and Java itself ignores one that does not fit.
Source: JEP 350, dynamic class-data sharing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from jobs.whole_files import whole_file
from webapp.core.errors import Unavailable
from webapp.runtime.handed_over import write_secrets
from webapp.runtime.lifelines import die_with
from webapp.runtime.spark_server import JAR_PATH, SPARK_HOME, SparkServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from webapp.runtime.java import Java

MOST_SECONDS = 600
POLL_SECONDS = 0.1


def archive_path(java: Java, *, with_s3: bool) -> Path:
    """Return where the archive of this Java and these jars is, made or not: beside the jars, for every installation."""
    jars = SPARK_HOME / "jars"
    facts = [java.program.resolve(), java.major, with_s3, jars, jars.stat().st_mtime_ns, JAR_PATH.stat().st_mtime_ns]
    digest = hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:16]
    return JAR_PATH.with_name(f"{'s3' if with_s3 else 'local'}-{digest}.jsa")


def make_archive(target: Path, server: SparkServer) -> None:
    """Train a server with what jobs do, and keep what it loaded in place of older archives.

    Args:
        target: see `archive_path`.
        server: with a folder of its own, which is removed in the end.

    Raises:
        Unavailable: the server did not come up, or left no archive.

    """
    left = server.own / target.name
    server.prepare()
    try:
        _train(replace(server, archive_at_exit=left))
        if not left.exists():
            raise Unavailable("Java left no archive of Spark's classes; Spark starts as before, more slowly.")
        # a copy, so that it does not belong to the server's user; others may train at the same time
        with whole_file(target) as partial:
            shutil.copyfile(left, partial)
        for other in target.parent.glob(f"{target.name.partition('-')[0]}-*.jsa"):
            if other != target:
                other.unlink(missing_ok=True)
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)


def _train(server: SparkServer) -> None:
    clean = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    remote = write_secrets(server.secrets, {"SPARK_REMOTE": server.remote})
    warm_up = [sys.executable, "-m", "jobs.entrypoints.warm_up", str(server.secrets / "trained")]
    with (
        _started(server.command, clean | server.environment) as process,
        _started(warm_up, clean | remote) as client,
    ):
        _wait_for(client, process)
        process.terminate()
        try:
            process.wait(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Spark could not be trained: {error}") from error


@contextmanager
def _started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that ends with this process or with the block, whole."""
    parent = os.getpid()
    process = subprocess.Popen(
        command,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: die_with(parent),  # noqa: PLW1509 - who trains has one thread
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(client: subprocess.Popen[bytes], server: subprocess.Popen[bytes]) -> None:
    """Wait until the client has had the server do all that it is trained for.

    Raises:
        Unavailable: one of both has failed, or it takes too long.

    """
    end = time.monotonic() + MOST_SECONDS
    while client.poll() is None:
        if server.poll() is not None:
            raise Unavailable(f"Spark could not be trained: the server has ended with {server.returncode}; see above.")
        if time.monotonic() > end:
            raise Unavailable(f"Spark could not be trained within {MOST_SECONDS} seconds.")
        time.sleep(POLL_SECONDS)
    if client.returncode:
        raise Unavailable(f"Spark could not be trained: what uses it has ended with {client.returncode}; see above.")
