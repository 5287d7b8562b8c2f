"""The engine itself, and what needs nothing but DuckDB: the floor, and a script as somebody would write it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import duckdb

from jobs.engine.compare.file_rows import FileRows
from jobs.engine.compare.lineage import count_versions
from jobs.engine.plan.planner import plan_diff
from jobs.engine.write.artifact import ProgressReporter
from jobs.protocol import DiffRequest, write_message
from tests.bench.diff.cases import Moment
from tests.factories import engine as tables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.diff.cases import Case

ROW_IDS = "counts by row ids"


def run_ours(case: Case, folder: Path) -> None:
    moments: dict[str, Moment] = {}
    enter = ProgressReporter.enter

    def mark(progress: ProgressReporter, phase: str, **known: Any) -> None:
        moments[phase] = Moment.now()
        enter(progress, phase, **known)

    started = Moment.now()
    with patch.object(ProgressReporter, "enter", mark):
        summary = tables.diff(folder, case.before, case.after, key=case.key)
    for what, following in (("counts", "writing"), ("diff", "statistics"), ("ready", "ready")):
        case.note(what, *moments[following].since(started))
    found = [summary["updated"], summary["inserted"], summary["deleted"]]
    case.check("the engine", found, [case.updated, case.inserted, case.deleted])


def run_row_ids(case: Case, _folder: Path) -> None:
    """The counts by row ids alone, which a large diff of version 3 says first."""
    if not case.has_row_ids:
        return
    with case.timed(ROW_IDS), duckdb.connect(config={"threads": "2", "memory_limit": "512MiB"}) as connection:
        plan = plan_diff(before=case.before, after=case.after, key=case.key)
        found = count_versions(FileRows(connection, plan, {}))
    case.check(ROW_IDS, found, {"inserted": case.inserted, "deleted": case.deleted, "updated": case.updated})


def run_decode(case: Case, _folder: Path) -> None:
    """Read every column of the files that differ, with DuckDB, two threads."""
    opened = plan_diff(before=case.before, after=case.after).opened
    paths = [entry.path.removeprefix("file:").removeprefix("//") for entry in opened]
    with case.timed("decode"):
        connection = duckdb.connect(config={"threads": "2"})
        # files that keep row ids have two columns more
        source = f"read_parquet($1, union_by_name={case.has_row_ids})"
        connection.sql(f"SELECT * FROM {source}", params=[paths]).to_arrow_reader(100_000).read_all()


def run_script(case: Case, folder: Path) -> None:
    """What somebody would write by hand: one full outer join of both snapshots, all changed rows written."""
    if case.files is None:
        return
    target = folder / "script.parquet"
    with case.timed("script"):
        connection = duckdb.connect(config={"threads": "2", "memory_limit": "4GB"})
        described = connection.sql("DESCRIBE SELECT * FROM read_parquet($1)", params=[case.files[0]]).fetchall()
        names = [row[0] for row in described]
        keys = " AND ".join(f"b.{name} IS NOT DISTINCT FROM a.{name}" for name in case.key)
        differs = " OR ".join(f"b.{name} IS DISTINCT FROM a.{name}" for name in names)
        columns = ", ".join(f"b.{name} AS before_{name}, a.{name} AS after_{name}" for name in names)
        order = ", ".join(f"coalesce(b.{name}, a.{name})" for name in case.key)
        connection.execute(
            f"COPY (SELECT {columns} FROM read_parquet({case.files[0]!r}) b "
            f"FULL OUTER JOIN read_parquet({case.files[1]!r}) a ON {keys} WHERE {differs} ORDER BY {order}) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
        )


def peak_memory(case: Case, folder: Path) -> int:
    """MiB of a diff in a process of its own, imports included."""
    target = folder / f"peak-{abs(hash(case.name))}"
    target.mkdir()
    request = target / "request.json"
    result = str(target / "result.json")
    write_message(request, DiffRequest(case.before, case.after, str(target), result, key=case.key))
    code = (
        "import resource, subprocess, sys; "
        f"subprocess.run([sys.executable, '-m', 'jobs.entrypoints.diff', {str(request)!r}], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(found.stdout.split()[-1])  # above it the engine says who compares
