"""The catalog against Iceberg's reference server and Nessie, in one run and in turn.

    make bench-catalog         or    python -m tests.bench.catalog [--quick] [--alone] [--installed] [--only PART ...]

Medians; a ratio says how many times as fast ours is. Ours answers with authentication, rights, the branch lens and durable
files, and records what changed in each dataset; the reference server has none of these, Nessie holds its versions in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.catalog import report, works
from tests.bench.catalog.client import BRANCH_HEADER, NAMESPACE, Contender
from tests.bench.catalog.crowd import run_crowd
from tests.bench.catalog.pages import run_pages
from tests.bench.catalog.servers import (
    NESSIE,
    REFERENCE,
    Missing,
    home_of,
    running_installed,
    running_nessie,
    running_ours,
    running_reference,
)
from tests.bench.catalog.sizes import print_sizes, run_sizes

QUICK = works.Effort(
    loads=20,
    commits=10,
    rounds=1,
    per_writer=5,
    per_crowd=5,
    crowd_reads=50,
    warm=400,
    histories=(1, 10, 50),
    sizes=(5, 20, 50),
    lists=(100, 300),
)
PARTS = ("histories", "tables", "together", "crowd", "branches", "pages", "sizes")
PEERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Contender]]] = {
    REFERENCE: running_reference,
    NESSIE: running_nessie,
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="a try of everything at a small size; its numbers say little"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--installed", action="store_true", help="the whole installation of `manage.py run`, not its web part alone"
    )
    parser.add_argument("--alone", action="store_true", help="without the other servers")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else works.Effort()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        ours = running.enter_context((running_installed if arguments.installed else running_ours)(folder))
        peers: list[Contender] = []
        for peer, start_peer in {} if arguments.alone else PEERS.items():
            try:
                peers.append(running.enter_context(start_peer(folder)))
            except Missing as error:
                print(f"Without {peer}: {error}")
        run([*ours, *peers], effort, frozenset(arguments.only))
        if "pages" in arguments.only:
            print("\nA page of a list (the tables are rows written into the database, for the time it takes)")
            report.print_pages(run_pages(ours[0], home_of(folder), effort))
        if "sizes" in arguments.only:
            print()
            print_sizes(run_sizes(*ours, effort))
    print(
        f"\n{time.monotonic() - start:.0f} s; load average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def run(contenders: list[Contender], effort: works.Effort, parts: frozenset[str]) -> None:
    """Do the same on every server and print it."""
    plain = [each for each in contenders if BRANCH_HEADER not in each.headers]
    for contender in plain:
        contender.connect().create_namespace(NAMESPACE)
    works.warm_up(contenders)
    results = works.run_histories(contenders, effort) if "histories" in parts else []
    slope: list[works.Result] = []
    if "tables" in parts:
        created, slope = works.run_tables(plain, effort)
        results += created
    if "together" in parts:
        results += [works.run_together(contenders, effort, one_table=each) for each in (False, True)]
    if "crowd" in parts:
        results += run_crowd([each for each in contenders if each.keeps_snapshots], effort)
    if "branches" in parts:
        slope += works.run_branches(contenders, effort)
    for rows in filter(None, (results, slope)):
        report.print_table(rows, contenders)
        print()


if __name__ == "__main__":
    main()
