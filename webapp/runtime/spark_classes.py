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
from dataclasses import replace
from typing import TYPE_CHECKING

from webapp.core.errors import Unavailable
from webapp.runtime.handed_over import write_secrets
from webapp.runtime.spark_server import JAR_PATH, SPARK_HOME, SparkServer

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.runtime.java import Java

MOST_SECONDS = 600


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
        partial = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(left, partial)
        partial.replace(target)
        for other in target.parent.glob(f"{target.name.partition('-')[0]}-*.jsa"):
            if other != target:
                other.unlink(missing_ok=True)
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)


def _train(server: SparkServer) -> None:
    clean = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    mark = server.secrets / "trained"
    remote = write_secrets(server.secrets, {"SPARK_REMOTE": server.remote})
    process = subprocess.Popen(server.command, env=clean | server.environment, start_new_session=True)
    try:
        warm_up = [sys.executable, "-m", "jobs.entrypoints.warm_up", str(mark)]
        subprocess.run(warm_up, env=clean | remote, check=True, timeout=MOST_SECONDS)
        process.terminate()
        process.wait(timeout=MOST_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"Spark could not be trained: {error}") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
