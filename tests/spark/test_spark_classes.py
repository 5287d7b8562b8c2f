"""A server that was trained leaves an archive, and the next one loads its classes from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.builds import ROOT, wait_until
from webapp.runtime import java
from webapp.runtime.probes import answers_tcp, find_free_port
from webapp.runtime.spark_classes import archive_path
from webapp.runtime.spark_server import SparkServer

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def test_next_server_loads_its_classes_from_the_archive(tmp_path: Path) -> None:
    found, _ = java.find_java()
    assert found is not None
    archive = archive_path(found, with_s3=False)
    archive.unlink(missing_ok=True)
    environment = {**os.environ, "TRIBUTARY_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "manage.py", "archive_spark"], cwd=ROOT, env=environment, check=True)
    assert list(tmp_path.glob("spark-training*")) == []
    assert list(archive.parent.glob("local-*")) == [archive]

    server = SparkServer(
        java=found.program,
        folder=tmp_path / "spark",
        port=find_free_port(),
        token="t",
        secrets=tmp_path,
        archive=archive,
    )
    server.prepare()
    command = server.command
    command.insert(command.index("--") + 2, "-Xlog:class+load:stdout")
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={"PATH": os.environ["PATH"]} | server.environment, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: answers_tcp("localhost", server.port), seconds=120)
    finally:
        process.terminate()
        process.wait(timeout=60)
    loaded = [line for line in log.read_text().splitlines() if " source: " in line and "org.apache.spark." in line]
    shared = [line for line in loaded if line.endswith("shared objects file (top)")]
    assert len(shared) > len(loaded) / 2 > 100
