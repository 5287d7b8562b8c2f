"""The catalog against PyIceberg's own SQL catalog, the same client and work in turn in one run.

    make bench-catalog         or    python -m tests.bench.catalog [--repeat 40]

Ours answers over HTTP with authentication, rights and the branch lens; the peer is a library call into SQLite in this
process, so its numbers are a floor and not a goal. Iceberg's reference server and Nessie are the peers of a later step.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from tests.factories.builds import running_stack

ROW = pa.table({"id": pa.array([1], pa.int64())})


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=40)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        with running_stack(home) as stack:
            uri = f"http://127.0.0.1:{stack.port}/iceberg"
            ours = RestCatalog("ours", uri=uri, token=stack.token)
            branch = RestCatalog("branch", uri=uri, token=stack.token, **{"header.X-PLTR-Branch": "bench"})
            peer = SqlCatalog("peer", uri=f"sqlite:///{folder}/peer.db", warehouse=f"file://{folder}/peer")
            report({"ours": ours, "on a branch": branch, "SqlCatalog": peer}, repeat)


def report(catalogs: dict[str, Catalog], repeat: int) -> None:
    """Measure every work on every catalog, interleaved, and print medians with ratios to the peer."""
    for name, catalog in catalogs.items():
        if name != "on a branch":
            catalog.create_namespace("bench")
        catalog.create_table(f"bench.{key(name)}", ROW.schema)
    works: dict[str, Callable[[str, Catalog, int], object]] = {
        "load a table": lambda name, catalog, _n: catalog.load_table(f"bench.{key(name)}"),
        "append a row": lambda name, catalog, _n: catalog.load_table(f"bench.{key(name)}").append(ROW),
        "create a table": lambda name, catalog, n: catalog.create_table(f"bench.{key(name)}{n}", ROW.schema),
        "list tables": lambda _name, catalog, _n: catalog.list_tables("bench"),
    }
    print(f"{'work':<16}" + "".join(f"{name:>16}" for name in catalogs) + f"{'ours / peer':>14}{'branch / ours':>15}")
    for work, run in works.items():
        seconds: dict[str, list[float]] = {name: [] for name in catalogs}
        for n in range(repeat):
            for name, catalog in catalogs.items():
                start = time.perf_counter()
                run(name, catalog, n)
                seconds[name].append(time.perf_counter() - start)
        median = {name: statistics.median(values) * 1000 for name, values in seconds.items()}
        line = f"{work:<16}" + "".join(f"{value:>13.2f} ms" for value in median.values())
        print(line + f"{median['ours'] / median['SqlCatalog']:>14.2f}{median['on a branch'] / median['ours']:>15.2f}")


def key(name: str) -> str:
    """A table name for a column of the report."""
    return "t_" + name.replace(" ", "_")


if __name__ == "__main__":
    main()
