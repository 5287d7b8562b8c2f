"""The version of the database changes with every commit of anybody before it can be read, and with nothing else."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from webapp.accounts.models import Folder
from webapp.core.change_counter import ChangeCounter

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
ROWS = 200
WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for number in range(int(sys.argv[2])):
    connection.execute("UPDATE accounts_folder SET repository = ? WHERE name = 'counted'", [str(number)])
    print(number, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def counter() -> Iterator[ChangeCounter]:
    """A counter of the tests' database, where that has one."""
    counter = ChangeCounter()
    if connection.vendor != "sqlite":
        assert counter.read() is None
        pytest.skip("only SQLite tells its version")
    yield counter
    counter.close()


def run_elsewhere(call: Callable[[], Any]) -> None:
    """Run a call in a thread, and so over a connection, of its own."""

    def run() -> None:
        call()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_commits_change_it_and_nothing_else_does(counter: ChangeCounter) -> None:
    first = counter.read()
    assert first is not None
    list(Folder.objects.all())
    assert counter.read() == first
    Folder.objects.create(name="here")
    second = counter.read()
    assert second != first
    run_elsewhere(lambda: Folder.objects.create(name="elsewhere"))
    third = counter.read()
    assert third not in (first, second)
    with transaction.atomic():
        Folder.objects.create(name="never")
        assert counter.read() == third
        transaction.set_rollback(True)
    assert counter.read() == third


def test_another_process_is_heard_before_its_commit_is_acknowledged(counter: ChangeCounter) -> None:
    Folder.objects.create(name="counted")
    name = str(connection.settings_dict["NAME"])
    command = [sys.executable, "-c", WRITE, name, str(ROWS)]
    reader = sqlite3.connect(name, isolation_level=None)
    values: dict[Any, str] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        before = counter.read()
        for _line in process.stdout:
            version = counter.read()
            assert version != before
            before = version
            process.stdin.write("\n")
            # The next one commits meanwhile: what is read between two equal versions is what it was of that version.
            for _ in range(20):
                at = counter.read()
                (value,) = reader.execute("SELECT repository FROM accounts_folder WHERE name = 'counted'").fetchone()
                if counter.read() == at:
                    assert values.setdefault(at, value) == value
    reader.close()
    assert len(values) > ROWS // 10


def test_another_connection_has_other_versions(counter: ChangeCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    first = counter.read()
    counter.close()
    assert counter.read() != first
    second = counter.read()
    now = time.monotonic() + connection.settings_dict["CONN_MAX_AGE"]
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert counter.read() != second


def test_a_database_that_is_away_is_not_made(
    counter: ChangeCounter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "none.sqlite3"))
    assert counter.read() is None
    assert not list(tmp_path.iterdir())


def test_who_writes_is_not_waited_for(counter: ChangeCounter) -> None:
    assert counter.read() is not None
    writer = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert counter.read() is not None
    writer.execute("ROLLBACK")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert counter.read() is not None
    writer.close()
    assert time.monotonic() - began < 10
