"""Row diffs against their peers, interleaved in one run, so that only ratios inside one line mean anything.

    make bench-diff            or    python -m tests.bench.diff [--rows 1000000] [--repeat 3] [--no-large] [--no-spark]

Every group of lines is one table: the same change written copy-on-write (scattered over all files in one commit or in
four, or clustered in one file), with position deletes, or with deletion vectors. Peers: *decode*, reading the differing
files and nothing else, the floor; *script*, a plain DuckDB full outer join over both whole snapshots that writes all
changed rows; *procedure*, Iceberg's `create_changelog_view` with updates, and *join*, a full outer join, both in a warm
Spark; in processes with packages of their own *datacompy*'s report, *SQLMesh*'s `table_diff` and *Recce*'s
`value_diff`, the latter two over DuckDB. "counts" is when the counts are known, "diff" when all changed rows are
stored, "ready" when the column statistics of both whole tables are; all of them from the first step on, engine start
included. "counts by row ids" are those that large diffs of version 3 say before they compare. Seconds are medians; the
processor's own seconds stand beside them, which other work on the machine changes less (a peer's are those of its
process). The tables have a tenth of `--rows`, `--rows`, and last, asked once, five and ten times as many, which SQLMesh
and Recce are spared. The slope is the time of one and the same change to a table of ten times the rows. Every result is
checked against the counts that the change was made with.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.diff.cases import FILES, copy_on_write, flights, merge_on_read, slope
from tests.bench.diff.contestants import ROW_IDS, peak_memory, run_decode, run_ours, run_row_ids, run_script
from tests.bench.diff.peers.processes import PACKAGES, PROCESS_PEERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.diff.cases import Case

    Contestant = Callable[[Case, Path], None]

OURS = {"counts", "diff", "ready", ROW_IDS}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.diff", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-large", action="store_true", help="leave out five and ten times the rows")
    parser.add_argument("--no-spark", action="store_true", help="leave out the peers in Spark")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-diff-"))
    try:
        run(root, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run(root: Path, options: Any) -> None:
    """Make the tables, let the contestants race, and report."""
    cases = make_cases(root, options.rows)
    simple: list[Contestant] = [run_ours, run_row_ids, run_decode, run_script]
    in_spark: list[Contestant] = []
    if not options.no_spark:
        from tests.bench.diff.peers.spark import SparkPeers

        peers = SparkPeers(root)
        in_spark = [peers.run_procedure, peers.run_join]
        cases += [peers.write_version_3(options.rows, mode) for mode in ("copy-on-write", "merge-on-read")]
    race(cases, [*simple, *(peer.run for peer in PROCESS_PEERS), *in_spark], root, options.repeat)
    slopes = [slope(root, rows) for rows in (options.rows // 10, options.rows)]
    race(slopes, [run_ours], root, 5)
    if not options.no_large:
        largest = [copy_on_write(root, options.rows * 10, clustered=clustered) for clustered in (True, False)]
        race(largest, [*simple, PROCESS_PEERS[0].run, *in_spark], root, 1)
        large = [
            copy_on_write(root, options.rows * 5, clustered=False),
            copy_on_write(root, options.rows * 10, clustered=False, share=0.1),
        ]
        race(large, simple, root, 1)
        cases += [*largest, *large]
    report(cases, {case.name: peak_memory(case, root) for case in cases}, slopes, options)


def make_cases(root: Path, rows: int) -> list[Case]:
    """The tables to compare."""
    return [
        flights(root),
        copy_on_write(root, rows // 10, clustered=False),
        copy_on_write(root, rows // 10, clustered=True),
        copy_on_write(root, rows, clustered=False),
        copy_on_write(root, rows, clustered=False, commits=4),
        copy_on_write(root, rows, clustered=True),
        merge_on_read(root, rows, vectors=False),
        merge_on_read(root, rows, vectors=True),
    ]


def race(cases: list[Case], contestants: list[Contestant], root: Path, repeat: int) -> None:
    """Let all run in turn, so that what else the machine does slows all of them."""
    for _ in range(repeat):
        for case in cases:
            for contestant in contestants:
                contestant(case, root)


def report(cases: list[Case], memory: dict[str, int], slopes: list[Case], options: Any) -> None:
    """Seconds, and ratios within the same table."""
    print(f"10 columns in {FILES} files unless said; medians of {options.repeat}, first call in brackets")
    print("| table, rows | contestant | seconds | processor's | diff / it | by processor |")
    print("|---|---|---|---|---|---|")
    for case in cases:
        for peer in case.spent:
            print(f"| {case.name} | {peer} | {_cells(case, peer)} |")
        print(f"| {case.name} | peak MiB of ours | {memory[case.name]} | | | |")
    ends = [case.usual("diff") for case in slopes]
    said = " and ".join(f"{seconds:.3f} s ({processor:.3f} s)" for seconds, processor in ends)
    ratios = " ".join(f"{large / small:.2f}x" for small, large in zip(*ends, strict=True))
    print(f"slope: the same change in ten times the rows, {said}: {ratios}, by seconds and by processor's seconds")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    missing = "" if PACKAGES.exists() else "; datacompy, SQLMesh and Recce are not installed"
    print(f"this process with all contestants: {own} MiB{missing}; the procedure refuses tables with delete files")


def _cells(case: Case, peer: str) -> str:
    seconds, processor = case.usual(peer)
    taken = f"{seconds:.3f} ({case.spent[peer][0][0]:.3f}) | {processor:.3f}"
    if peer in OURS:
        return f"{taken} | | "
    ours = case.usual("diff")
    return f"{taken} | {ours[0] / seconds:.2f} | {ours[1] / processor:.2f}"


if __name__ == "__main__":
    main()
