"""A Spark Connect server of a test session's own, as the supervisor starts it but without the sandbox."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.factories.builds import find_free_port, wait_until
from webapp.core import java, spark_server

TOKEN = "a-token-of-tests"


@contextmanager
def running_spark(folder: Path) -> Iterator[str]:
    """Start a server; yield its address."""
    found, problem = java.find_java()
    assert found is not None, problem
    (folder / "local").mkdir(parents=True)
    port = find_free_port()
    environment = {
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(spark_server.SPARK_HOME),
        "HOME": str(folder),
        "USER": "spark",
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
    }
    command = spark_server.make_command(java=found.program, folder=folder, port=port)
    with (folder / "spark.log").open("ab") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    address = f"sc://localhost:{port}/;token={TOKEN}"
    try:
        wait_until(lambda: _answers(port) or server.poll() is not None, seconds=120)
        assert server.poll() is None, (folder / "spark.log").read_text()[-2000:]
        yield address
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(port: int) -> bool:
    import socket

    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
