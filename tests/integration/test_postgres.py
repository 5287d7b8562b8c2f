"""The same suite on PostgreSQL: what passes on SQLite in this run passes there, in runs of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.catalog.conftest import start_server
from tests.contract.catalog.test_catalog_kill import kill_children_too
from tests.contract.catalog.test_catalog_writers import Size, check_histories, make_table, run_writers, tell
from tests.factories.builds import ROOT
from tests.factories.postgres import Postgres, find_programs, find_url, make_database, running_postgres
from tests.factories.tiers import further

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_programs() is None, reason="no PostgreSQL server: apt-get install postgresql"),
    pytest.mark.skipif(find_url() is not None, reason="this run is on PostgreSQL itself"),
]
CATALOG = "tests/integration/catalog"
FSCK = "tests/integration/core/test_fsck.py"
SUITE = (
    f"{CATALOG}/test_catalog_faults.py",
    "tests/integration/datasets/test_transactions.py",
    "tests/integration/core/test_databases.py",
    f"{FSCK}::test_a_clean_installation_is_clean",
    "tests/integration/core/test_old_statements.py",
    "tests/integration/builds/test_lock_order.py",
    "tests/integration/dispatch",
)
"""Where the two databases differ: statements of their own, locks, what a death leaves. The one of fsck asks all it has."""
LONG_GROUPS = {
    "tables at length": (
        CATALOG,
        f"--ignore={CATALOG}/test_catalog_object_store.py",
        FSCK,
        "tests/contract/catalog/test_catalog_kill.py",
        "tests/contract/catalog/test_catalog_pyiceberg.py",
        "tests/integration/datasets",
        "tests/contract/datasets",
    ),
    "builds at length": (
        "tests/integration/builds/test_crashes.py::test_worker_killed_is_noticed_and_the_job_tried_again",
        "tests/integration/builds/test_life.py",
        "tests/integration/builds/test_services.py",
        "tests/integration/builds/test_specs.py",
        "tests/integration/builds/test_uploads.py",
    ),
    "pull requests": ("tests/integration/pulls",),
    "long tier": (
        "tests/integration/pulls/test_loads.py",
        "tests/integration/pulls/test_queue_story.py",
        "tests/integration/pulls/test_restored.py",
        "tests/integration/pulls/test_sides.py",
        "tests/integration/core/test_rolling_upgrade.py::test_both_releases_serve_one_home",
        "tests/contract/catalog/test_catalog_kit.py",
        "tests/contract/catalog/test_catalog_pyiceberg.py::test_four_processes_lose_nothing[branches0]",
        *("-m", "soak"),
    ),
}
"""With options of pytest's, of which the last counts; what is of the long tier on SQLite, too, is asked for by name."""


@dataclass
class Run:
    """One run of pytest on a database of its own."""

    process: subprocess.Popen[bytes]
    output: Path

    def finish(self) -> str:
        """Wait for the end; what it said."""
        self.process.wait()
        return self.output.read_text()


@contextmanager
def start_runs(groups: Mapping[str, Sequence[str]], folder: Path) -> Iterator[dict[str, Run]]:
    """Run every group in a database of its own, and end what still runs."""
    with running_postgres() as server:
        started = {
            group: start_run(make_database(server.url, group.replace(" ", "_")), tests, folder / group)
            for group, tests in groups.items()
        }
        yield started
        for run in started.values():
            run.process.kill()
            run.process.wait()


def start_run(url: str, tests: Sequence[str], output: Path) -> Run:
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-m", "not soak", "-p", "no:cacheprovider", *tests],
            cwd=ROOT,
            # Runs share the machine: jobs get more time than a test of that limit would give them.
            env={**os.environ, "DATABASE_URL": url, "TEST_JOB_SECONDS": "20"},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    return Run(process, output)


def test_the_suite_passes_on_postgresql(tmp_path: Path) -> None:
    with start_runs({"suite": SUITE}, tmp_path) as started:
        check(started["suite"])


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_long_suite_passes_on_postgresql(tmp_path: Path) -> None:
    with start_runs(LONG_GROUPS, tmp_path) as started:
        for run in started.values():
            check(run)


def check(run: Run) -> None:
    said = run.finish()
    print(said[-200:])
    assert run.process.returncode == 0, said[-20_000:]


@further("integration/core/test_databases.py::test_a_database_that_is_away_is_a_503")
def test_a_database_that_is_restarted_under_load_loses_nothing(tmp_path: Path) -> None:
    with running_postgres() as database:
        server = start_server(tmp_path, DATABASE_URL=make_database(database.url, "restarted"))
        try:
            table = make_table(server)
            restarts = threading.Thread(target=restart, args=(database, 3))
            restarts.start()
            reports = run_writers(server, table, [None] * 3, Size(3, 25))
            restarts.join()
            tell("3 writers x 25 with 3 restarts of PostgreSQL", reports)
            assert {status for report in reports for status in report["statuses"]} <= {"200", "409", "503", "500"}
            check_histories(server, table, {None: [report["acknowledged"] for report in reports]})
        finally:
            kill_children_too(server.process)


def restart(database: Postgres, times: int) -> None:
    for _ in range(times):
        time.sleep(0.7)
        database.stop(signal.SIGQUIT)
        time.sleep(0.3)
        database.start()
