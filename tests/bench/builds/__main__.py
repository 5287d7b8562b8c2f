"""How long builds take on this machine, on a real installation, beside what they may take on an idle one.

    make bench-builds          or    python -m tests.bench.builds [--repeat 5] [--no-spark] [--jobs 100] [--only-jobs]

Every figure is POST to the end as a client of the REST API sees it. The ratio is measured : allowed, so below 1 is good.
Then one build of many tables beside dbt-duckdb and SQLMesh; only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.builds.hundred import Dbt, Ours, SqlMesh, compete, show
from tests.bench.builds.processor import adopt_orphans
from tests.factories.builds import HEAD, Stack, make_transform, running_stack
from tests.factories.supervised import supervised_stack

SPARK = """from transforms.api import transform
from transforms.tables import TableInput, TableOutput


@transform.spark.using(source=TableInput("/shop/raw"), output=TableOutput("/shop/spark"))
def sums(ctx, source, output):
    output.write_dataframe(source.dataframe().selectExpr("a", "a * 10 as tens"))
"""
CHAIN = 5


def measure(repeat: int, act: Callable[[], object]) -> float:
    """Return the median of some runs."""
    taken = []
    for _ in range(repeat):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def check(build: dict[str, object]) -> None:
    """Stop where a figure would be of something that failed."""
    if build["state"] != "COMPLETED":
        raise SystemExit(f"build {build['id']} ended {build['state']}: {build['reason']}")


def run(stack: Stack, repeat: int, *, spark: bool) -> list[tuple[str, float, float]]:
    """Return name, measured and allowed seconds."""
    stack.make_repository()
    stack.upload("/shop/raw", "a,b\n" + "\n".join(f"{number},x" for number in range(1000)))
    copy = "out.write_table(i0.arrow())"
    paths = ["/shop/raw", *(f"/shop/c{number}" for number in range(CHAIN))]
    source = HEAD + make_transform("light", inputs=["/shop/raw"], output="/shop/light", body=copy)
    source += "".join(
        make_transform(f"c{number}", inputs=[paths[number]], output=paths[number + 1], body=copy)
        for number in range(CHAIN)
    )
    files = {"pipelines/light.py": source, **({"pipelines/spark.py": SPARK} if spark else {})}
    published = measure(1, lambda: stack.commit(files))
    figures = [
        ("commit to published JobSpecs", published, 5.0),
        ("trivial light job", measure(repeat, lambda: check(stack.build("/shop/light", force=True))), 3.0),
        ("the same, all skipped", measure(repeat, lambda: check(stack.build("/shop/light"))), 1.0),
        (
            f"{CHAIN} light jobs one after the other",
            measure(repeat, lambda: check(stack.build(paths[-1], upstream=True, force=True))),
            3.0 * CHAIN,
        ),
        ("upload of 1,000 rows", measure(repeat, lambda: stack.upload("/shop/up", "a\n" + "1\n" * 1000)), 3.0),
    ]
    if spark:
        check(stack.build("/shop/spark", seconds=300))
        figures.append(
            ("trivial Spark job, warm", measure(repeat, lambda: check(stack.build("/shop/spark", force=True))), 8.0)
        )
    return figures


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--only-jobs", action="store_true", help="measure only the build of many tables")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-builds-") as folder:
        if not options.only_jobs:
            measure_alone(Path(folder) / "home", repeat=options.repeat, spark=not options.no_spark)
        adopt_orphans()
        with supervised_stack(Path(folder) / "many") as stack:
            ours = Ours(stack, options.jobs)
            peers = [
                Dbt("dbt-duckdb", Path(folder), options.jobs, schema="main"),
                SqlMesh("SQLMesh", Path(folder), options.jobs, schema="shop"),
            ]
            for kind, results in compete([ours, *peers], repeat=options.repeat).items():
                show(results, kind, jobs=options.jobs)


def measure_alone(home: Path, *, repeat: int, spark: bool) -> None:
    """Measure and print what has an allowed time of its own."""
    home.mkdir(mode=0o700)
    with running_stack(home, spark=spark) as stack:
        figures = run(stack, repeat, spark=spark)
    print(f"{'POST to the end, median':<40} {'seconds':>9} {'allowed':>9} {'ratio':>7}")
    for name, seconds, allowed in figures:
        print(f"{name:<40} {seconds:>9.2f} {allowed:>9.1f} {seconds / allowed:>7.2f}")


if __name__ == "__main__":
    main()
