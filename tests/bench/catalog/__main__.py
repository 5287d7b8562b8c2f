"""The catalog against Iceberg's reference server and Nessie, in one run and in turn.

    make bench-catalog         or    python -m tests.bench.catalog [--quick]

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
from tests.bench.catalog.client import NAMESPACE, Contender
from tests.bench.catalog.servers import NESSIE, REFERENCE, Missing, running_nessie, running_ours, running_reference

QUICK = works.Effort(loads=20, commits=10, rounds=1, per_writer=5, histories=(1, 10, 50), sizes=(5, 20, 50))
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
    effort = QUICK if parser.parse_args().quick else works.Effort()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        ours = running.enter_context(running_ours(folder))
        peers: list[Contender] = []
        for peer, start_peer in PEERS.items():
            try:
                peers.append(running.enter_context(start_peer(folder)))
            except Missing as error:
                print(f"Without {peer}: {error}")
        run([*ours, *peers], effort)
    print(
        f"\n{time.monotonic() - start:.0f} s; load average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def run(contenders: list[Contender], effort: works.Effort) -> None:
    """Do everything and print it."""
    plain = [each for each in contenders if "x-pltr-branch" not in each.headers]
    for contender in plain:
        contender.connect().create_namespace(NAMESPACE)
    works.warm_up(contenders)
    results = works.run_histories(contenders, effort)
    created, beside_tables = works.run_tables(plain, effort)
    results += created
    results += [works.run_together(contenders, effort, one_table=each) for each in (False, True)]
    report.print_table(results, contenders)
    print()
    report.print_table([*beside_tables, *works.run_branches(contenders, effort)], contenders)


if __name__ == "__main__":
    main()
