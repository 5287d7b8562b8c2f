"""Commands that are killed: what they began ends with them. One that trains a Spark server waits for none that has ended."""

from __future__ import annotations

import os
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
from tests.integration.runtime.test_killed_commands import a_server
from webapp.runtime.spark_classes import make_archive
make_archive(Path(sys.argv[1]) / "classes.jsa", a_server(Path(sys.argv[1])))
"""
HAVE_FORK_SERVER = """
import time
import django
django.setup()
from webapp.runtime import fork_server
with fork_server.at_hand():
    time.sleep(600)
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


@pytest.mark.parametrize(
    ("program", "begun"),
    [(TRAIN, {"warm_up", "sleep"}), (HAVE_FORK_SERVER, {"forkserver"})],
    ids=["training", "fork server"],
)
def test_what_a_command_began_ends_with_it(tmp_path: Path, program: str, begun: set[str]) -> None:
    write_java(tmp_path, "exec sleep 600")
    environment = {**os.environ, "TRIBUTARY_HOME": str(tmp_path)}
    command = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, env=environment)
    try:
        wait_until(lambda: all(name in read_commands(command.pid) for name in begun), seconds=60)
        processes = list_descendants(command.pid)
    finally:
        command.kill()
        command.wait()
    wait_until(lambda: not any(process.lives for process in processes), seconds=30)


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
