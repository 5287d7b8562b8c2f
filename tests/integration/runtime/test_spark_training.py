"""Training a Spark server for its archive: it ends whole with who began it, and waits for no server that has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.builds import ROOT, wait_until
from tests.factories.supervised import list_descendants
from webapp.core.errors import Unavailable
from webapp.runtime.probes import find_free_port
from webapp.runtime.spark_classes import make_archive
from webapp.runtime.spark_server import SparkServer

pytestmark = pytest.mark.integration
TRAIN = """
import sys
from pathlib import Path
from tests.integration.runtime.test_spark_training import a_server
from webapp.runtime.spark_classes import make_archive
make_archive(Path(sys.argv[1]) / "classes.jsa", a_server(Path(sys.argv[1])))
"""


def a_server(folder: Path) -> SparkServer:
    """A server whose Java is a script."""
    return SparkServer(
        java=folder / "jdk" / "bin" / "java",
        folder=folder / "spark",
        port=find_free_port(),
        token="t",
        secrets=folder,
    )


def write_java(folder: Path, script: str) -> None:
    java = folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)


def test_a_training_ends_whole_with_who_began_it(tmp_path: Path) -> None:
    write_java(tmp_path, "exec sleep 600")
    trainer = subprocess.Popen([sys.executable, "-c", TRAIN, str(tmp_path)], cwd=ROOT)
    try:
        wait_until(lambda: all(name in read_commands(trainer.pid) for name in ("warm_up", "sleep")), seconds=60)
        begun = list_descendants(trainer.pid)
    finally:
        trainer.kill()
        trainer.wait()
    wait_until(lambda: not any(process.lives for process in begun), seconds=30)


def read_commands(pid: int) -> str:
    """The command lines of what runs below a process."""
    return "\n".join(process.command for process in list_descendants(pid))


def test_a_server_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    write_java(tmp_path, "exit 3")
    with pytest.raises(Unavailable, match="the server has ended with 3"):
        make_archive(tmp_path / "classes.jsa", a_server(tmp_path))


def test_a_home_below_which_no_socket_can_lie_is_refused_by_name(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 90)
    command = [sys.executable, "manage.py", "run"]
    done = subprocess.run(command, cwd=ROOT, env={"TRIBUTARY_HOME": str(home)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"TRIBUTARY_HOME is {home}, a path of {len(str(home))} bytes." in done.stderr
