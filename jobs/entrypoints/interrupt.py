"""InterruptRequest -> nothing: ends a Spark session whose job is gone, with the queries that still run in it."""

from __future__ import annotations

from jobs.engine.spark.session import close_session, connect
from jobs.protocol import InterruptRequest, read_message


def main(manifest: str) -> int:
    """Open the session under its own address, interrupt it and close it for good."""
    request = read_message(InterruptRequest, manifest)
    session = connect(request.spark_remote, job_id=request.job_id, session_id=request.spark_session_id)
    close_session(session)
    return 0
