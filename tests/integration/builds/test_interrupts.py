"""A Spark session whose job is gone ends, or its server does."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.entrypoints.sandbox import detect_mode
from tests.factories.builds import wait_until
from tests.factories.fork_server import Server
from webapp.builds.rules import profiles
from webapp.builds.services.interrupts import end_session
from webapp.dispatch import processes
from webapp.runtime.probes import find_free_port
from webapp.runtime.spark_folders import lent_spark, renew_spark
from webapp.runtime.supervisor import RENEWED

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(detect_mode() == "off", reason="this machine has no sandbox"),
]
SESSION = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def home(tmp_path: Path, settings: Any, fork_server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a fork server; sessions have three seconds to end."""
    settings.TRIBUTARY_HOME = tmp_path
    fork_server.serve(tmp_path)
    monkeypatch.setattr(profiles, "INTERRUPT", replace(profiles.INTERRUPT, wall_s=3))
    monkeypatch.setattr(processes, "BEAT_SECONDS", 0.5)
    return tmp_path


@pytest.fixture
def silent(settings: Any) -> Iterator[None]:
    """A server that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.SPARK_REMOTE = f"sc://127.0.0.1:{listener.getsockname()[1]}/;token=none"
        yield


@pytest.fixture
def spark(settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """What stands around the installation's own server, with a program that waits inside."""
    folder = Path(tempfile.mkdtemp(prefix="spark"))
    opener = folder / "spark.sock"
    program = ["--opener", str(opener), "--", sys.executable, "-c", "import sys; sys.stdin.read()"]
    command = [sys.executable, "-m", "jobs.entrypoints.sandbox", *program]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(opener.exists, seconds=30)
    settings.TRIBUTARY_SPARK_OPENER = str(opener)
    yield process
    process.communicate(timeout=30)  # it ends with its input
    shutil.rmtree(folder)


@pytest.mark.usefixtures("home", "silent")
def test_a_session_that_does_not_end_in_time_ends_with_its_server(
    spark: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    beats: list[str] = []
    with caplog.at_level(logging.ERROR):
        assert end_session(owner="job-7", session_id=SESSION, beat=lambda: beats.append("beat")) is False
    assert spark.wait(timeout=30) == RENEWED
    assert len(beats) >= 2  # before it starts, and while it is waited for
    assert b"the session of job-7 did not end (no end within 3 s)" in (spark.stderr.read() if spark.stderr else b"")
    assert "Spark session of job-7 did not end (no end within 3 s)" in caplog.text


@pytest.mark.usefixtures("home", "silent")
def test_a_session_on_a_server_elsewhere_that_does_not_end_is_told_of(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.TRIBUTARY_SPARK_OPENER = ""
    with caplog.at_level(logging.ERROR):
        assert end_session(owner="job-7", session_id=SESSION, beat=lambda: None) is False
    assert "not this installation's own: whoever runs it has to end what runs on it" in caplog.text


@pytest.mark.usefixtures("home")
def test_a_server_that_is_gone_has_no_session_to_end(spark: subprocess.Popen[bytes], settings: Any) -> None:
    settings.SPARK_REMOTE = f"sc://127.0.0.1:{find_free_port()}/;token=none"
    assert end_session(owner="job-7", session_id=SESSION, beat=lambda: None) is True
    assert spark.poll() is None


def test_who_has_a_server_on_loan_sees_that_it_ended_and_why(spark: subprocess.Popen[bytes]) -> None:
    with lent_spark(group="shop") as loan:
        assert not loan.is_lost
        renew_spark(why="something on it did not end")
        wait_until(lambda: loan.is_lost, seconds=30)
        assert loan.why_lost == "something on it did not end"
    assert spark.wait(timeout=30) == RENEWED


def test_of_a_server_that_was_killed_no_older_reason_is_given(spark: subprocess.Popen[bytes], settings: Any) -> None:
    Path(f"{settings.TRIBUTARY_SPARK_OPENER}.renewed").write_text("another one's")
    with lent_spark(group="shop") as loan:
        spark.kill()
        wait_until(lambda: loan.is_lost, seconds=30)
        assert loan.why_lost == ""
