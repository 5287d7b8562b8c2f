"""The same suite on PostgreSQL: what passes on SQLite in this run passes there, in runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.factories.builds import ROOT
from tests.factories.postgres import find_programs, find_url, make_database, running_postgres

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_programs() is None, reason="no PostgreSQL server: apt-get install postgresql"),
    pytest.mark.skipif(find_url() is not None, reason="this run is on PostgreSQL itself"),
]
GROUPS = {
    "tables": (
        "tests/integration/catalog",
        "tests/contract/catalog/test_catalog_pyiceberg.py",
        "tests/contract/catalog/test_catalog_kill.py",
        "tests/integration/datasets",
        "tests/contract/datasets",
        "tests/integration/core/test_databases.py",
    ),
    "builds": (
        "tests/integration/builds/test_services.py",
        "tests/integration/builds/test_specs.py",
        "tests/integration/builds/test_life.py",
        "tests/integration/builds/test_uploads.py",
        "tests/integration/builds/test_crashes.py::test_worker_killed_is_noticed_and_the_job_tried_again",
        "tests/integration/pulls",
        "tests/integration/repositories/test_services.py",
        "tests/integration/accounts",
    ),
}


@dataclass
class Run:
    """One run of pytest on a database of its own."""

    process: subprocess.Popen[bytes]
    output: Path

    def finish(self) -> str:
        """Wait for the end; what it said."""
        self.process.wait()
        return self.output.read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """All groups at once: most of the time they wait for processes of theirs."""
    folder = tmp_path_factory.mktemp("postgres")
    with running_postgres() as url:
        started = {group: start_run(make_database(url, group), group, folder / group) for group in GROUPS}
        yield started
        for run in started.values():
            run.process.kill()
            run.process.wait()


def start_run(url: str, group: str, output: Path) -> Run:
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *GROUPS[group], "-q", "-m", "not soak", "-p", "no:cacheprovider"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    return Run(process, output)


@pytest.mark.parametrize("group", GROUPS)
def test_the_suite_passes_on_postgresql(runs: dict[str, Run], group: str) -> None:
    said = runs[group].finish()
    print(said[-200:])
    assert runs[group].process.returncode == 0, said[-20_000:]
