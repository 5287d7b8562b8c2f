"""A server that was trained leaves an archive, and the next one loads its classes from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
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
    assert list(tmp_path.glob("train-*")) == []
    assert list(archive.parent.glob("local-*")) == [archive]

    server = SparkServer(
        java=found.program,
        folder=tmp_path / "spark",
        port=find_free_port(),
        token="t",
        secrets=tmp_path,
        archive=archive,
    )
    loaded, shared = count_classes(server, tmp_path / "log")
    assert shared > loaded / 2 > 100

    # a copy: servers of other tests have the archive's pages in their memory
    damaged = tmp_path / "damaged" / archive.name
    damaged.parent.mkdir()
    shutil.copyfile(archive, damaged)
    damage(damaged)
    loaded, shared = count_classes(replace(server, archive=damaged), tmp_path / "log")
    assert (loaded > 100, shared) == (True, 0), "it starts without the archive"


def damage(archive: Path) -> None:
    """Change bytes all over a file."""
    with archive.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for place in range(size // 40, size - 4096, size // 40):
            file.seek(place)
            file.write(os.urandom(4096))


def count_classes(server: SparkServer, log: Path) -> tuple[int, int]:
    """Start a server; return how many classes of Spark it has loaded, and how many of them from an archive."""
    server.prepare()
    command = server.command
    command.insert(command.index("--") + 2, "-Xlog:class+load:stdout")
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
    return len(loaded), sum(line.endswith("shared objects file (top)") for line in loaded)
