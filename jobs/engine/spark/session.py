"""The only place that opens a Spark session: Spark Connect, one session per job, the job's own catalog in it."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jobs.engine.read.catalog import BRANCH_HEADER, CATALOG
from jobs.protocol import JobManifest

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

PROGRESS_SECONDS = 2.0


class SparkUnavailable(RuntimeError):
    """There is no Spark server, or it does not answer."""


def session_url(remote: str, *, job_id: str, session_id: str | None) -> str:
    """Return the address of the job's own session; whoever knows it can interrupt the session."""
    url = remote if remote.endswith(("/", ";")) or "/;" in remote else f"{remote}/"
    url = url if url.endswith((";", "/;")) else f"{url};"
    url += f"user_id={quote(f'job-{job_id}')}"
    return f"{url};session_id={session_id}" if session_id else url


def open_session(manifest: JobManifest, say: Callable[[str], None], report: Callable[[int, int], None]) -> SparkSession:
    """Open the job's session and configure its catalog with the job's token and branch."""
    if manifest.spark_remote is None:
        raise SparkUnavailable("there is no Spark server here: Java 17 or 21 is needed for Spark transforms")
    session = connect(manifest.spark_remote, job_id=manifest.job_id, session_id=manifest.spark_session_id)
    name = f"spark.sql.catalog.{CATALOG}"
    settings = {
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "rest",
        f"{name}.uri": manifest.catalog_uri,
        f"{name}.rest.auth.type": "oauth2",
        f"{name}.token": manifest.token,
        f"{name}.oauth2-server-uri": f"{manifest.catalog_uri.rstrip('/')}/v1/oauth/tokens",
        f"{name}.token-refresh-enabled": "false",
        f"{name}.header.{BRANCH_HEADER}": manifest.branch,
        f"{name}.header.X-Iceberg-Access-Delegation": "vended-credentials",
        # every statement sees what the last one committed
        f"{name}.cache-enabled": "false",
        "spark.sql.defaultCatalog": CATALOG,
        "spark.sql.session.timeZone": "UTC",
    }
    configure(session, settings)
    session.registerProgressHandler(_Progress(say, report))
    return session


def configure(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Give a new session its settings, which is when the server is first asked."""
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    try:
        for key, value in settings.items():
            session.conf.set(key, value)
    except SparkConnectGrpcException as error:
        text = str(error)
        if "UNAVAILABLE" in text:
            raise SparkUnavailable("the Spark server does not answer; it may be starting") from None
        if "UNAUTHENTICATED" in text:
            raise SparkUnavailable("the Spark server refuses the installation's token") from None
        raise


def connect(remote: str, *, job_id: str, session_id: str | None) -> SparkSession:
    """Open a session that gives up within seconds when the server is gone."""
    # Spark logs every failed query with a JVM stack trace; the job's own error says it better
    logging.getLogger("SQLQueryContextLogger").disabled = True
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    # pyspark.sql.functions asks the environment whether it builds plans for a server or calls a JVM in this process
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(session_url(remote, job_id=job_id, session_id=session_id)).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=4, initial_backoff=200, max_backoff=2000)])
    return session


def find_python_memory(session: SparkSession) -> str:
    """Return what each process may map that runs Python functions, in the words of the server's option."""
    return session.conf.get("spark.executor.pyspark.memory", "memory") or "memory"


def interrupt_session(session: SparkSession) -> None:
    """End the queries that run."""
    _unless_gone(session.interruptAll)


def close_session(session: SparkSession) -> None:
    """Interrupt what still runs and release the session: a query outlives the client that asked for it."""
    for act in (session.interruptAll, session.stop):
        _unless_gone(act)


def _unless_gone(act: Callable[[], object]) -> None:
    import grpc
    from pyspark.errors import PySparkException

    with suppress(PySparkException, grpc.RpcError):
        act()  # else the server is gone or has closed the session: nothing is left to end


class _Progress:
    """Writes `progress 12 of 64 tasks`, at most every two seconds."""

    def __init__(self, say: Callable[[str], None], report: Callable[[int, int], None]) -> None:
        self._say = say
        self._report = report
        self._last = (0, 0)
        self._said_at = time.monotonic()

    def __call__(self, *, stages: Sequence[Any] | None = None, done: bool = False, **_more: Any) -> None:
        total = sum(stage.num_tasks for stage in stages or ())
        completed = sum(stage.num_completed_tasks for stage in stages or ())
        is_due = time.monotonic() - self._said_at >= PROGRESS_SECONDS
        if total and not done and is_due and (completed, total) != self._last:
            self._last, self._said_at = (completed, total), time.monotonic()
            self._say(f"progress {completed} of {total} tasks")
            self._report(completed, total)
